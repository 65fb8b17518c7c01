"""Keeps buffers that a forward pass changes, such as batch norm's running statistics, equal on all ranks.

Every microbatch of a step starts from the values before the step. At its end, the rule of each buffer (`Task.buffers`)
combines the values after all microbatches. The values therefore do not depend on the number of ranks or on the
assignment of microbatches, and each rank can save its share of them.

If a later microbatch changes a buffer that the first pass did not change, all ranks combine it too.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from operator import add

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.utils.parametrizations import _SpectralNorm
from torch.nn.utils.spectral_norm import SpectralNorm

from vgp.base.exits import UserError
from vgp.base.text.printable import join_names
from vgp.train.loop.optimizers import matching_names, require_matches
from vgp.train.loop.sample_order import Plan, assignment
from vgp.train.loop.weighting import RingSum, TreeSum
from vgp.train.processes.rank import Rank

#: Rules for batch norm. The counter of a layer grows by one in each microbatch, and so by one in a step.
_KNOWN = {"running_mean": "mean", "running_var": "mean", "num_batches_tracked": "counter"}
#: A buffer on a CPU up to this size is also compared by value, because `buffer.data.fill_(1)` leaves no other trace.
_SMALL_BYTES = 1 << 14
#: The rules that keep the extreme value, element by element.
_EXTREMES = {"max": torch.maximum, "min": torch.minimum}


@dataclass
class BufferState:
    """A buffer of the model, looked up in its module each time: `self.count = self.count + 1` makes a new tensor."""

    name: str
    owner: nn.Module
    leaf: str
    #: The tensor that checkpoints save; always one object.
    tensor: Tensor
    #: The values before the step.
    start: Tensor
    #: A rule of the task, or `counter`; "" = unknown.
    rule: str = ""
    version: int = -1
    #: Further modules that hold the same tensor, with its name in each.
    sharers: list[tuple[nn.Module, str]] = field(default_factory=list)
    #: The values after each of this rank's microbatches in this step.
    after: dict[int, Tensor] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        return not (self.tensor.is_floating_point() or self.tensor.is_complex())

    @property
    def saved(self) -> bool:
        """Whether the state of the model includes the buffer."""
        return self.leaf not in self.owner._non_persistent_buffers_set

    def value(self) -> Tensor:
        """Returns the current values. Raises UserError if the modules that share the buffer hold different tensors."""
        current = self.owner._buffers.get(self.leaf)
        if any(sharer._buffers.get(leaf) is not current for sharer, leaf in self.sharers):
            raise UserError(
                f"the forward pass replaces the buffer {self.name} in one of the modules that share it, so they no "
                "longer share it. Change it in place, for example with copy_ or +=, or give each module its own."
            )
        return self.tensor if current is None else current.detach()

    @torch.no_grad()
    def put(self, value: Tensor) -> None:
        if value is not self.tensor:
            self.tensor.copy_(value)
        self.attach()
        self.version = self.tensor._version

    def attach(self) -> None:
        """Makes every module of the buffer hold the tensor that checkpoints save."""
        for owner, leaf in [(self.owner, self.leaf), *self.sharers]:
            owner._buffers[leaf] = self.tensor

    def begin_step(self) -> None:
        """Records the values of a watched buffer, which a restored checkpoint, for example, may have changed."""
        self.after.clear()
        if not _has_same_form(self.value(), self.tensor):
            return  # a cache that has grown, which no checkpoint holds
        if self.version != self.tensor._version or self.owner._buffers.get(self.leaf) is not self.tensor:
            self.start = self.value().clone()
            self.put(self.start)

    def has_moved(self) -> bool:
        """Whether a forward pass has changed the values; waits for a device only if the buffer was touched."""
        value = self.value()
        is_touched = self.owner._buffers.get(self.leaf) is not self.tensor or self.version != value._version
        is_small = value.device.type == "cpu" and value.nbytes <= _SMALL_BYTES
        return (is_touched or is_small) and not is_same(value, self.start)


def find_buffers(module: nn.Module) -> dict[str, BufferState]:
    """Returns every buffer by its name, once, with a copy of its values."""
    by_id: dict[int, BufferState] = {}
    for prefix, owner in module.named_modules():
        for leaf, tensor in owner._buffers.items():
            if tensor is not None and id(tensor) in by_id:
                by_id[id(tensor)].sharers.append((owner, leaf))
            elif tensor is not None:
                name = f"{prefix}.{leaf}" if prefix else leaf
                by_id[id(tensor)] = BufferState(name, owner, leaf, tensor, tensor.detach().clone())
    return {place.name: place for place in by_id.values()}


@contextmanager
def keep_buffers(module: nn.Module) -> Iterator[dict[str, BufferState]]:
    """Restores the values of all buffers after the block, except of buffers whose shape has changed."""
    before = find_buffers(module)
    try:
        yield before
    finally:
        for place in before.values():
            if _has_same_form(place.value(), place.start):
                place.put(place.start)


class MovingBuffers:
    """The buffers of a model in training, on one rank."""

    def __init__(self, module: nn.Module, before: Mapping[str, BufferState], moved: list[str], rules: Mapping[str, str],
                 plan: Plan, rank: Rank, total: RingSum | TreeSum, within_s: float):  # fmt: skip
        """
        Args:
            before: The buffers as `find_buffers` returns them.
            moved: Names of the buffers that a first pass on this rank has changed; their values are restored.
            rules: The task's rules, by patterns of names.

        Raises:
            UserError: a changed buffer has no rule, or a rule does not suit its buffer.
        """
        self.plan, self.rank, self.sum = plan, rank, total
        self.own = assignment(plan.microbatches, rank.world_size, rank.rank)
        #: Warnings for the log about buffers without a rule that changed after the first step.
        self.warnings: list[str] = []
        self.warned: set[str] = set()
        require_matches("buffers", list(rules), before)
        for place in before.values():
            place.rule = next((rules[p] for p in rules if matching_names([place.name], [p])), _known_rule(place))
        _require_rules([place for place in before.values() if place.rule], whole_mean=True)
        everyone = rank.exchange(moved, within_s=within_s) if rank.world_size > 1 else [moved]
        _require_rules([before[name] for name in sorted(set().union(*everyone))], whole_mean=False)
        # The first microbatch on rank 0 does not depend on the number of ranks.
        self.moving = [before[name] for name in everyone[0]]
        self.means = [place for place in self.moving if place.rule == "mean"]
        self.counters = [place for place in self.moving if place.rule == "counter"]
        self.others = [place for place in self.moving if place.rule not in ("mean", "counter")]
        unchanging = "vgp.networks."  # modules that change no buffers
        self.watched = [
            place
            for name, place in before.items()
            if name not in everyone[0] and not type(place.owner).__module__.startswith(unchanging)
        ]

    def begin_step(self) -> None:
        for place in self.moving:
            place.start = place.value().clone()
            place.after.clear()
        for place in self.watched:
            place.begin_step()

    @torch.no_grad()
    def begin_microbatch(self) -> None:
        if self.moving:
            for place in self.moving:
                place.attach()
            torch._foreach_copy_([place.tensor for place in self.moving], [place.start for place in self.moving])
        for place in self.watched:
            if place.after:
                place.put(place.start)

    def end_microbatch(self, number: int) -> None:
        if self.means or self.counters:
            values = [_wide(place.value()) for place in self.means]
            values += [(place.value() - place.start).float() for place in self.counters]
            self.sum.add(torch.cat([value.reshape(-1) for value in values]) * self.plan.share(number))
        for place in [*self.others, *(place for place in self.watched if place.has_moved())]:
            if not _has_same_form(place.value(), place.start):
                if place.saved:
                    raise UserError(_shape_changed_message(place))
                continue
            place.after[number] = place.value().clone()

    def end_step(self) -> None:
        if flat := [*self.means, *self.counters]:
            lengths = [place.tensor.numel() * (2 if place.tensor.is_complex() else 1) for place in flat]
            for place, value in zip(flat, torch.split(self.sum.total(), lengths), strict=True):
                is_complex = place.tensor.is_complex()
                shaped = (torch.view_as_complex(value.view(-1, 2)) if is_complex else value).view_as(place.tensor)
                place.put(place.start + shaped.round().to(place.tensor.dtype) if place.rule == "counter" else shaped)
        for place in [*self.others, *self._late()]:
            place.put(self._combine(place))
            place.start = place.tensor.clone()

    def _late(self) -> list[BufferState]:
        """Returns the watched buffers that a microbatch of this step has changed on any rank."""
        if not self.watched:
            return []
        flags = torch.tensor([bool(place.after) for place in self.watched], dtype=torch.uint8)
        if self.rank.world_size > 1:
            dist.all_reduce(flags, dist.ReduceOp.MAX)
        return [place for place, flag in zip(self.watched, flags.tolist(), strict=True) if flag]

    def _combine(self, place: BufferState) -> Tensor:
        if place.rule == "last":
            return self._last(place)
        values = self._of_everyone(place)
        if not place.rule and all(is_same(value, values[0]) for value in values):
            return values[0]
        rule = place.rule or ("sum" if place.whole else "mean")
        if not place.rule:
            self._warn(place, rule)
        shares = [self.plan.share(number) for number in range(self.plan.microbatches)]
        return combine_values(rule, place.start, values, shares)

    def _last(self, place: BufferState) -> Tensor:
        """Returns the values after the last microbatch of the step, which the last rank has computed."""
        value = place.after.get(self.plan.microbatches - 1, place.start)
        if self.rank.world_size == 1:
            return value
        flat = _as_bytes(value).clone()
        dist.broadcast(flat, self.rank.world_size - 1)
        return flat.view(place.tensor.dtype).view(place.tensor.shape)

    def _of_everyone(self, place: BufferState) -> list[Tensor]:
        """Returns the values after each microbatch of the step, of all ranks, in order."""
        own = [place.after.get(number, place.start) for number in self.own]
        size, world = self.rank.world_size, range(self.rank.world_size)
        if size == 1:
            return own
        counts = [len(assignment(self.plan.microbatches, size, rank)) for rank in world]
        flat = torch.stack([_as_bytes(value) for value in own + own[:1] * (max(counts) - len(own))])
        everyone = torch.empty(size * flat.numel(), dtype=torch.uint8, device=flat.device)
        dist.all_gather_single(everyone, flat.flatten())
        parts = everyone.view(size, max(counts), -1)
        rows = [parts[rank, number] for rank in world for number in range(counts[rank])]
        return [row.clone().view(place.tensor.dtype).view(place.tensor.shape) for row in rows]

    def _warn(self, place: BufferState, rule: str) -> None:
        if place.name not in self.warned:
            self.warned.add(place.name)
            effect = {
                "sum": "the changes of all microbatches are added up",
                "mean": "it becomes the microbatches' mean",
            }
            self.warnings.append(
                f"warning: the buffer {place.name} changes for the first time after the first step, and the task names "
                f"no rule for it, so {effect[rule]} ({rule}). Write buffers = {{{place.name!r}: {rule!r}}} in the task "
                "to keep that, or another rule (mean, sum, max, min, last) and train again."
            )


def combine_values(rule: str, start: Tensor, values: list[Tensor], shares: list[float]) -> Tensor:
    """Combines the values after each microbatch into one, in 64 bits and in the given order."""
    whole = not (start.is_floating_point() or start.is_complex())
    wide = torch.int64 if whole else torch.promote_types(start.dtype, torch.float64)
    if rule == "mean":
        result = reduce(add, [value.to(wide) * share for value, share in zip(values, shares, strict=True)])
    elif rule == "sum":
        result = reduce(add, [value.to(wide) - start.to(wide) for value in values], start.to(wide))
    elif rule == "counter":
        moves = [(value - start).double() * share for value, share in zip(values, shares, strict=True)]
        result = start + reduce(add, moves).round().to(start.dtype)
    elif rule in _EXTREMES:
        result = reduce(_EXTREMES[rule], values)
    else:
        result = values[-1]
    return result > 0 if start.dtype == torch.bool else result.to(start.dtype)


def is_same(a: Tensor, b: Tensor) -> bool:
    """Whether both tensors have equal shapes, dtypes and bits; equal nans count as equal."""
    return _has_same_form(a, b) and torch.equal(_as_bytes(a), _as_bytes(b))


def find_changed(before: Mapping[str, BufferState]) -> list[str]:
    """Returns the names of changed buffers. Raises UserError if one in the state has changed its shape or dtype."""
    changed = [place for place in before.values() if not is_same(place.value(), place.start)]
    for place in changed:
        if place.saved and not _has_same_form(place.value(), place.start):
            raise UserError(_shape_changed_message(place))
    return [place.name for place in changed if _has_same_form(place.value(), place.start)]


def _known_rule(place: BufferState) -> str:
    """Returns the rule for buffers of PyTorch's modules, and of others with their names; "" = unknown."""
    hooks = place.owner._forward_pre_hooks.values()
    spectral = isinstance(place.owner, _SpectralNorm) or any(isinstance(hook, SpectralNorm) for hook in hooks)
    if spectral and place.leaf.endswith(("_u", "_v")):
        return "last"  # depends on the weights alone, so all microbatches agree
    rule = _KNOWN.get(place.leaf, "")
    return rule if place.whole == (rule == "counter") else ""


def _require_rules(buffers: list[BufferState], *, whole_mean: bool) -> None:
    if unsaved := [place.name for place in buffers if not whole_mean and not place.saved]:
        raise UserError(
            "the forward pass changes these buffers, and no checkpoint would hold them: "
            f"{join_names(unsaved)}. A resumed "
            "run would give another result. Register them without persistent=False."
        )
    if means := [place for place in buffers if place.rule == "mean" and place.whole]:
        raise UserError(
            f"buffers: the rule of {join_names([place.name for place in means])} is mean, but the values are "
            f"{means[0].tensor.dtype}, which have no mean. Use another rule, or keep floats."
        )
    unknown = [place for place in buffers if not place.rule]
    if unknown and not whole_mean:
        example = ", ".join(f'"{place.name}": "{"sum" if place.whole else "mean"}"' for place in unknown[:4])
        raise UserError(
            "the forward pass changes these buffers of the model: "
            f"{join_names([place.name for place in unknown])}. A step "
            "has several microbatches on several GPUs, and no rule combines their values into one.\n"
            f"Name a rule for each in the task, such as buffers = {{{example}}}:\n"
            "  sum   adds up the changes of all microbatches: counts, totals\n"
            "  mean  the mean over the rows of the step: running averages\n"
            "  max   the largest value after any microbatch, min the smallest: ranges\n"
            "  last  the value after the last microbatch of the step: flags, a counter of steps, a queue"
        )


def _shape_changed_message(place: BufferState) -> str:
    now = place.value()
    return (
        f"the forward pass changes the form of the buffer {place.name}, from {list(place.start.shape)} "
        f"{place.start.dtype} to {list(now.shape)} {now.dtype}: a checkpoint would not fit. Keep its shape and type."
    )


def _has_same_form(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype


def _as_bytes(value: Tensor) -> Tensor:
    return value.detach().contiguous().reshape(-1).view(torch.uint8)


def _wide(value: Tensor) -> Tensor:
    """Returns the values as float32 or float64, complex numbers in a last dimension of 2."""
    value = torch.view_as_real(value) if value.is_complex() else value
    return value.to(torch.promote_types(value.dtype, torch.float32))
