"""Finds values that are not finite: in a gradient before it is applied, in a state before it is saved.

A nan in one gradient becomes a nan in every weight after one step, because clipping spreads it. Training therefore
computes the norm of the whole gradient before each update, and checks the state before it is validated, saved or
exported.
"""

import math
import zlib
from collections.abc import Mapping, Sequence

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor

from vgp.base.documents.json_text import JsonObject
from vgp.train.checkpoint.training_state import own_share

_FIRST_SCALE = 2.0**16
#: Steps without an overflow after which the scale doubles.
_GROWTH_INTERVAL = 2_000
#: A power of two whose inverse is a normal float32 too.
_LARGEST_SCALE = 2.0**126


class Scaler:
    """The scale of a loss in float16: large, so that small gradients do not vanish; halved when large ones overflow.

    Its rules and values are those of `torch.amp.GradScaler` (Micikevicius et al., https://arxiv.org/abs/1710.03740,
    section 3.2). Here the norm of the whole gradient decides, so that all ranks skip the same steps. The scale is a
    power of two, which rounds nothing, and part of every checkpoint (`Learner.state`).
    """

    def __init__(self) -> None:
        self.scale = _FIRST_SCALE
        #: Steps without an overflow since the last change of the scale.
        self.good = 0
        #: Total number of skipped steps.
        self.skipped = 0

    def accepts(self, norm: float) -> bool:
        """Updates the scale, and returns whether to apply a step whose gradient has this norm.

        Accepts a gradient that is not finite at a scale of 1, because the scale did not cause it.
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
        """Restores the scalars of a checkpoint. Raises ValueError if they are implausible."""
        if scalars.keys() != self.scalars().keys():
            raise ValueError(f"its scaler has {', '.join(sorted(scalars)) or 'nothing'}")
        scale, good, skipped = (scalars[name] for name in ("scale", "good", "skipped"))
        if type(scale) is not float or not 1 <= scale <= _LARGEST_SCALE or math.frexp(scale)[0] != 0.5:
            raise ValueError(f"its loss scale is {scale!r:.40}, not a power of two")
        if type(good) is not int or not 0 <= good < _GROWTH_INTERVAL or type(skipped) is not int or skipped < 0:
            raise ValueError(f"its scaler counts {good!r:.40} steps, {skipped!r:.40} skipped")
        self.scale, self.good, self.skipped = scale, good, skipped


class GradientNorm:
    """Clips the gradient by its 2-norm over all parameters and ranks, and keeps the first step that is not finite.

    On an accelerator nothing waits: the first fault stays on the device until `first_fault` is called, and later
    updates are lost. On a CPU a fault is known before the update.
    """

    def __init__(self, parameters: Sequence[Tensor], clip_norm: float, *, at_once: bool | None = None):
        self.parameters, self.clip_norm = list(parameters), clip_norm
        self.sharded = any(isinstance(parameter, DTensor) for parameter in parameters)
        device = own_share(self.parameters[0]).device
        self.at_once = device.type == "cpu" if at_once is None else at_once
        #: The square of a finite gradient such as 1e22 overflows float32. An accelerator sums all squares in float64,
        #: to avoid a wait; a CPU repeats the sum in float64 if the norm is not finite.
        has_doubles = any(parameter.dtype == torch.float64 for parameter in self.parameters)
        self.dtype = torch.float32 if self.at_once and not has_doubles else torch.float64
        self.zero = torch.zeros((), dtype=self.dtype, device=device)
        #: The first step whose gradient was not finite; -1 = none so far.
        self.fault = torch.full((), -1, dtype=torch.int64, device=device)
        #: This rank's part of each parameter's norm in that step.
        self.norms = torch.zeros(len(self.parameters), dtype=self.dtype, device=device)
        #: The norm of the last step's whole gradient before clipping, equal on every rank.
        self.total = self.zero
        #: Whether a fault is known without waiting for the device.
        self.faulty = False

    def clip(self, step: int, scaler: Scaler | None = None, factor: float = 1.0) -> bool:
        """Clips the gradient of a step; returns whether to apply it (False if a scaled gradient has overflowed).

        Args:
            scaler: The scaler of the loss; its scale is removed from the gradient first. Waits for the device.
            factor: Multiplies a scaled gradient, for example by the number of ranks over which it is a mean.
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
        """Keeps the step and its norms if its gradient is the first that is not finite."""
        total = self.total
        if self.at_once and not self.faulty and not math.isfinite(total):
            self.fault, self.norms, self.faulty = self.fault.fill_(step), norms, True
        elif not self.at_once:
            first = ~total.isfinite() & (self.fault < 0)
            self.fault = torch.where(first, step, self.fault)
            self.norms = torch.where(first, norms, self.norms)

    def first_fault(self) -> int | None:
        """Returns the first step whose gradient was not finite, equal on every rank; waits for the device."""
        step = int(self.fault)
        return step if step >= 0 else None

    def culprits(self) -> list[bool]:
        """Returns for each parameter whether this rank's part of its gradient was not finite in that step."""
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


def find_broken(tensors: Mapping[str, Tensor]) -> set[str]:
    """Returns the names of tensors with a nan or an infinity in this rank's part.

    Infinities in an optimizer's state do not count: it may keep one on purpose, such as a best value so far.
    """
    parts = {name: own_share(tensor.detach()) for name, tensor in tensors.items() if tensor.is_floating_point()}
    # A norm is twenty times as fast as a check of every number, which only tensors with an infinite norm need.
    suspect = [name for name, norm in zip(parts, norms(list(parts.values())), strict=True) if not math.isfinite(norm)]
    return {name for name in suspect if _is_broken(parts[name], infinite=not name.startswith("optimizer/"))}


def norms(tensors: Sequence[Tensor]) -> list[float]:
    """Returns the 2-norm of each tensor, in float32."""
    if not tensors:
        return []
    values = torch._foreach_norm(list(tensors))
    device = max((value.device for value in values), key=lambda device: device.type != "cpu")  # so as to wait once
    result: list[float] = torch.stack([value.to(device, torch.float32) for value in values]).tolist()
    return result


def whole_floats(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns the floating-point tensors that every rank holds whole."""
    return {n: t.detach() for n, t in tensors.items() if t.is_floating_point() and not isinstance(t, DTensor)}


def checksum_integers(tensors: Mapping[str, Tensor]) -> dict[str, float]:
    """Returns a CRC-32 of each whole tensor without floats, such as counts and flags."""
    integers = {n: t.detach() for n, t in tensors.items() if not t.is_floating_point() and not isinstance(t, DTensor)}
    return {
        n: float(zlib.crc32(t.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()))
        for n, t in integers.items()
    }


def _is_broken(part: Tensor, *, infinite: bool) -> bool:
    return not bool(part.isfinite().all()) if infinite else bool(part.isnan().any())
