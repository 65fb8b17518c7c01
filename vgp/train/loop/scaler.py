"""The scale of a loss in float16: large, so that small gradients do not vanish, and lowered when large ones overflow.

The rules are those of `torch.amp.GradScaler` (Micikevicius et al., https://arxiv.org/abs/1710.03740, section 3.2), with
its values. What differs is who decides: here the norm of the whole gradient, which every rank has alike, so that all
skip the same steps; and the scale is a number that a checkpoint holds. It is a power of two: nothing is rounded by it.
"""

import math
from typing import Any

from torch import Tensor

_FIRST = 2.0**16
#: Steps without an overflow after which the scale doubles.
_INTERVAL = 2_000
#: A power of two whose inverse is a normal float32 too.
_MOST = 2.0**126


class Scaler:
    """The scale of the next step's loss, and what overflowed so far. A part of `Learner.state`."""

    def __init__(self) -> None:
        self.scale = _FIRST
        #: Steps since the scale was changed last, none of which overflowed.
        self.good = 0
        #: Steps that were skipped in all.
        self.skipped = 0

    def accepts(self, norm: float) -> bool:
        """Whether the step whose gradient has this norm is to be applied; changes the scale as it follows.

        A gradient that is not finite though the scale is 1 is no overflow of the scale: it is not skipped.
        """
        if math.isfinite(norm):
            self.good += 1
            if self.good == _INTERVAL:
                self.scale, self.good = min(2 * self.scale, _MOST), 0
            return True
        if self.scale <= 1:
            return True
        self.scale, self.good, self.skipped = self.scale / 2, 0, self.skipped + 1
        return False

    def tensors(self) -> dict[str, Tensor]:
        return {}

    def scalars(self) -> dict[str, Any]:
        return {"scale": self.scale, "good": self.good, "skipped": self.skipped}

    def restore(self, scalars: dict[str, Any]) -> None:
        """Raises ValueError if no scaler can have written them."""
        if scalars.keys() != self.scalars().keys():
            raise ValueError(f"its scaler has {', '.join(sorted(scalars)) or 'nothing'}")
        scale, good, skipped = (scalars[name] for name in ("scale", "good", "skipped"))
        if type(scale) is not float or not 1 <= scale <= _MOST or math.frexp(scale)[0] != 0.5:
            raise ValueError(f"its loss scale is {scale!r:.40}, no power of two")
        if type(good) is not int or not 0 <= good < _INTERVAL or type(skipped) is not int or skipped < 0:
            raise ValueError(f"its scaler counts {good!r:.40} steps, {skipped!r:.40} skipped")
        self.scale, self.good, self.skipped = scale, good, skipped
