"""Numbers that have stopped being finite: in a gradient before it is applied, in a state before it is kept.

A nan in one gradient is a nan in every weight after one step, and clipping spreads it. So the norm of the whole
gradient is computed before each update; a state is looked at before it is validated, saved or exported.
"""

import math
import zlib
from collections.abc import Mapping, Sequence

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor

from vgp.base.documents.json_text import JsonObject
from vgp.train.checkpoint.state import own_share

_FIRST_SCALE = 2.0**16
#: Steps without an overflow after which the scale doubles.
_GROWTH_INTERVAL = 2_000
#: A power of two whose inverse is a normal float32 too.
_LARGEST_SCALE = 2.0**126


class Scaler:
    """The scale of a loss in float16: large, so small gradients do not vanish; lowered when large ones overflow.

    Its rules and values are those of `torch.amp.GradScaler` (Micikevicius et al., https://arxiv.org/abs/1710.03740,
    section 3.2). Here the norm of the whole gradient decides, which every rank has alike, so that all skip the same
    steps; and the scale is a number that a checkpoint holds (a part of `Learner.state`). It is a power of two, which
    rounds nothing.
    """

    def __init__(self) -> None:
        self.scale = _FIRST_SCALE
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
            if self.good == _GROWTH_INTERVAL:
                self.scale, self.good = min(2 * self.scale, _LARGEST_SCALE), 0
            return True
        if self.scale <= 1:
            return True
        self.scale, self.good, self.skipped = self.scale / 2, 0, self.skipped + 1
        return False

    def tensors(self) -> dict[str, Tensor]:
        return {}

    def scalars(self) -> JsonObject:
        return {"scale": self.scale, "good": self.good, "skipped": self.skipped}

    def restore(self, scalars: JsonObject) -> None:
        """Raises ValueError if no scaler can have written them."""
        if scalars.keys() != self.scalars().keys():
            raise ValueError(f"its scaler has {', '.join(sorted(scalars)) or 'nothing'}")
        scale, good, skipped = (scalars[name] for name in ("scale", "good", "skipped"))
        if type(scale) is not float or not 1 <= scale <= _LARGEST_SCALE or math.frexp(scale)[0] != 0.5:
            raise ValueError(f"its loss scale is {scale!r:.40}, no power of two")
        if type(good) is not int or not 0 <= good < _GROWTH_INTERVAL or type(skipped) is not int or skipped < 0:
            raise ValueError(f"its scaler counts {good!r:.40} steps, {skipped!r:.40} skipped")
        self.scale, self.good, self.skipped = scale, good, skipped


class GradientNorm:
    """Clips the gradient by its 2-norm over all parameters and ranks, and remembers the first that is not finite.

    Nothing here waits for an accelerator: there the first fault stays on the device until `first_fault` is called,
    and updates after it are lost anyway. On a CPU a fault is known before the update.
    """

    def __init__(self, parameters: Sequence[Tensor], clip_norm: float, *, at_once: bool | None = None):
        self.parameters, self.clip_norm = list(parameters), clip_norm
        self.sharded = any(isinstance(parameter, DTensor) for parameter in parameters)
        device = own_share(self.parameters[0]).device
        self.at_once = device.type == "cpu" if at_once is None else at_once
        #: The square of a gradient of 1e22 is beyond a float32, though the gradient is a number: an accelerator, which
        #: is not waited for, sums all squares in float64, a CPU those of a norm that is not finite.
        self.dtype = torch.float32 if self.at_once else torch.float64
        self.zero = torch.zeros((), dtype=self.dtype, device=device)
        self.fault = torch.full((), -1, dtype=torch.int64, device=device)
        """The first step whose gradient was not finite; -1 = none so far."""
        self.norms = torch.zeros(len(self.parameters), dtype=self.dtype, device=device)
        """This rank's part of each parameter's norm in that step."""
        #: The norm of the last step's whole gradient, before it was clipped: the same on every rank.
        self.total = self.zero
        #: Whether a fault is known without waiting.
        self.faulty = False

    def clip(self, step: int, scaler: Scaler | None = None, factor: float = 1.0) -> bool:
        """Clips the gradient of a step; whether it is to be applied, which is no where a scaled one has overflowed.

        Args:
            scaler: By whose scale the loss was multiplied: it is taken off the gradient first. Waits for the device.
            factor: By which a scaled gradient is multiplied then, such as the number of ranks over which it is a mean.
        """
        grads = {n: _values(p) for n, p in enumerate(self.parameters) if p.grad is not None}
        if scaler and grads:
            torch._foreach_mul_(list(grads.values()), factor / scaler.scale)
        norms = self._norms(grads, self.dtype)
        total = self._total(norms)
        if self.at_once and not math.isfinite(total):
            norms = self._norms(grads, torch.float64)
            total = self._total(norms)
        self.total = total
        if scaler and not scaler.accepts(float(total)):
            return False
        if self.clip_norm:
            torch._foreach_mul_(list(grads.values()), (self.clip_norm / (total + 1e-6)).clamp(max=1.0).float())
        self._remember(step, norms)
        return not self.faulty

    def _remember(self, step: int, norms: Tensor) -> None:
        """The step, if its gradient was the first that was not finite."""
        total = self.total
        if self.at_once and not self.faulty and not math.isfinite(total):
            self.fault, self.norms, self.faulty = self.fault.fill_(step), norms, True
        elif not self.at_once:
            first = ~total.isfinite() & (self.fault < 0)
            self.fault = torch.where(first, step, self.fault)
            self.norms = torch.where(first, norms, self.norms)

    def first_fault(self) -> int | None:
        """The first step whose gradient was not finite, the same on every rank; waits for the device."""
        step = int(self.fault)
        return step if step >= 0 else None

    def culprits(self) -> list[bool]:
        """For each parameter, whether what this rank holds of its gradient was not finite in that step."""
        return (~self.norms.isfinite()).tolist()

    def _norms(self, grads: Mapping[int, Tensor], dtype: torch.dtype) -> Tensor:
        if not grads:
            return torch.zeros_like(self.norms, dtype=dtype)
        computed = dict(zip(grads, torch._foreach_norm(list(grads.values()), 2, dtype), strict=True))
        device = self.zero.device
        return torch.stack([computed.get(n, self.zero).to(device, dtype) for n in range(len(self.parameters))])

    def _total(self, norms: Tensor) -> Tensor:
        if not self.sharded:
            total: Tensor = torch.linalg.vector_norm(norms)
            return total
        squares = norms.square().sum()
        dist.all_reduce(squares)
        return squares.sqrt()


def _values(parameter: Tensor) -> Tensor:
    """The memory of this rank's part of a gradient."""
    assert parameter.grad is not None
    if parameter.grad.is_sparse:
        parameter.grad = parameter.grad.coalesce()
        return parameter.grad.values()
    return own_share(parameter.grad)


def broken(tensors: Mapping[str, Tensor]) -> set[str]:
    """Names of the tensors of which this rank's part holds a nan, or an infinity.

    An optimizer may keep an infinity on purpose, such as the best value so far; a nan it may not.
    """
    parts = {name: own_share(tensor.detach()) for name, tensor in tensors.items() if tensor.is_floating_point()}
    # A norm is twenty times as fast as a look at every number; one that overflows is looked at.
    suspect = [name for name, norm in zip(parts, norms(list(parts.values())), strict=True) if not math.isfinite(norm)]
    return {name for name in suspect if _is_broken(parts[name], infinite=not name.startswith("optimizer/"))}


def norms(tensors: Sequence[Tensor]) -> list[float]:
    """The 2-norm of each, in float32."""
    if not tensors:
        return []
    values = torch._foreach_norm(list(tensors))
    device = max((value.device for value in values), key=lambda device: device.type != "cpu")  # waited for once
    result: list[float] = torch.stack([value.to(device, torch.float32) for value in values]).tolist()
    return result


def whole(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Those of which a rank holds all, and every rank the same."""
    return {n: t.detach() for n, t in tensors.items() if t.is_floating_point() and not isinstance(t, DTensor)}


def whole_numbers(tensors: Mapping[str, Tensor]) -> dict[str, float]:
    """A checksum of the bytes of each that holds no floats: counts, flags."""
    others = {n: t.detach() for n, t in tensors.items() if not t.is_floating_point() and not isinstance(t, DTensor)}
    return {
        n: float(zlib.crc32(t.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()))
        for n, t in others.items()
    }


def _is_broken(part: Tensor, *, infinite: bool) -> bool:
    return not bool(part.isfinite().all()) if infinite else bool(part.isnan().any())
