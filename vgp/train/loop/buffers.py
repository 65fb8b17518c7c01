"""Buffers that a forward pass changes, such as batch norm's running statistics, kept equal on all ranks.

Every microbatch of a step starts from the values before the step, and the step ends with one value made of what the
microbatches left, by the rule of each buffer (`Task.buffers`). So the values depend neither on which rank computed
which microbatch nor on how many ranks there are, and each rank can save its share of them.

A buffer that the first pass did not change is watched: where a later microbatch changes it, all ranks combine it.
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
from vgp.base.text.printable import listed
from vgp.train.loop.optimizers import matching_names, require_matches
from vgp.train.loop.order import Plan, assignment
from vgp.train.loop.weighting import RingSum, TreeSum
from vgp.train.processes.rank import Rank

#: Of batch norm. The counter moves by one in each microbatch that reaches its layer: it moves by one in a step.
_KNOWN = {"running_mean": "mean", "running_var": "mean", "num_batches_tracked": "counter"}
#: A buffer on a CPU up to this size is also compared by value: `buffer.data.fill_(1)` leaves no other trace.
_SMALL_BYTES = 1 << 14


@dataclass
class Place:
    """One buffer of the model, found by its owner at each look: `self.count = self.count + 1` makes a new tensor."""

    name: str
    owner: nn.Module
    leaf: str
    #: The tensor that checkpoints know; it stays the same object.
    tensor: Tensor
    #: The values before the step.
    start: Tensor
    #: `mean`, `sum`, `last`, `counter`; "" = no rule is known.
    rule: str = ""
    version: int = -1
    #: By microbatch, what this rank's left of it in this step.
    after: dict[int, Tensor] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        return not (self.tensor.is_floating_point() or self.tensor.is_complex())

    @property
    def saved(self) -> bool:
        """Whether it is part of the state."""
        return self.leaf not in self.owner._non_persistent_buffers_set

    def value(self) -> Tensor:
        current = self.owner._buffers.get(self.leaf)
        return self.tensor if current is None else current.detach()

    @torch.no_grad()
    def put(self, value: Tensor) -> None:
        if value is not self.tensor:
            self.tensor.copy_(value)
        self.owner._buffers[self.leaf] = self.tensor
        self.version = self.tensor._version

    def begin_step(self) -> None:
        """Of a watched one: a restored checkpoint, for example, has given it other values."""
        self.after.clear()
        if not _has_same_form(self.value(), self.tensor):
            return  # a cache that has grown, and that no checkpoint holds
        if self.version != self.tensor._version or self.owner._buffers.get(self.leaf) is not self.tensor:
            self.start = self.value().clone()
            self.put(self.start)

    def has_moved(self) -> bool:
        """Whether a forward pass has changed it; waits for no device unless something has touched it."""
        value = self.value()
        touched = self.owner._buffers.get(self.leaf) is not self.tensor or self.version != value._version
        small = value.device.type == "cpu" and value.nbytes <= _SMALL_BYTES
        return (touched or small) and not same(value, self.start)


def places(module: nn.Module) -> dict[str, Place]:
    """Every buffer by its name, once, with a copy of its values."""
    found: dict[int, Place] = {}
    for prefix, owner in module.named_modules():
        for leaf, tensor in owner._buffers.items():
            if tensor is not None and id(tensor) not in found:
                name = f"{prefix}.{leaf}" if prefix else leaf
                found[id(tensor)] = Place(name, owner, leaf, tensor, tensor.detach().clone())
    return {place.name: place for place in found.values()}


@contextmanager
def unchanged(module: nn.Module) -> Iterator[dict[str, Place]]:
    """Whatever is computed meanwhile, the buffers then have the values that they had; of another shape they stay."""
    before = places(module)
    try:
        yield before
    finally:
        for place in before.values():
            if _has_same_form(place.value(), place.start):
                place.put(place.start)


class MovingBuffers:
    """The buffers of a model in training, seen by one rank."""

    def __init__(self, module: nn.Module, before: Mapping[str, Place], moved: list[str], rules: Mapping[str, str],
                 plan: Plan, rank: Rank, total: RingSum | TreeSum, within_s: float):  # fmt: skip
        """
        Args:
            before: As `places` found them.
            moved: Those that a first pass on this rank has changed; the values are those of before again.
            rules: Of the task, by patterns of names.

        Raises:
            UserError: there is no rule for a buffer that has moved, or one that cannot be followed.
        """
        self.plan, self.rank, self.sum = plan, rank, total
        self.own = assignment(plan.microbatches, rank.world_size, rank.rank)
        #: Sentences about buffers that moved late and by no rule, for the log.
        self.warnings: list[str] = []
        self.warned: set[str] = set()
        require_matches("buffers", list(rules), before)
        for place in before.values():
            place.rule = next((rules[p] for p in rules if matching_names([place.name], [p])), _known_rule(place))
        _require_rules([place for place in before.values() if place.rule], whole_mean=True)
        everyone = rank.exchange(moved, within_s=within_s) if rank.world_size > 1 else [moved]
        _require_rules([before[name] for name in sorted(set().union(*everyone))], whole_mean=False)
        # What the first rank saw, in the first microbatch, is the same for every number of ranks.
        self.moving = [before[name] for name in everyone[0]]
        self.means = [place for place in self.moving if place.rule == "mean"]
        self.counters = [place for place in self.moving if place.rule == "counter"]
        self.others = [place for place in self.moving if place.rule in ("sum", "last")]
        ours = "vgp.networks."  # these move none
        self.watched = [place for name, place in before.items()
                        if name not in everyone[0] and not type(place.owner).__module__.startswith(ours)]  # fmt: skip

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
                place.owner._buffers[place.leaf] = place.tensor
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
                    raise UserError(_other_form(place))
                continue
            place.after[number] = place.value().clone()

    def end_step(self) -> None:
        if flat := [*self.means, *self.counters]:
            values = torch.split(self.sum.total(), [place.tensor.numel() for place in flat])
            for place, value in zip(flat, values, strict=True):
                shaped = value.view_as(place.tensor)
                place.put(place.start + shaped.round().to(place.tensor.dtype) if place.rule == "counter" else shaped)
        for place in [*self.others, *self._late()]:
            place.put(self._combined(place))
            place.start = place.tensor.clone()

    def _late(self) -> list[Place]:
        """Those watched that a microbatch of this step has changed on any rank."""
        if not self.watched:
            return []
        flags = torch.tensor([bool(place.after) for place in self.watched], dtype=torch.uint8)
        if self.rank.world_size > 1:
            dist.all_reduce(flags, dist.ReduceOp.MAX)
        return [place for place, flag in zip(self.watched, flags.tolist(), strict=True) if flag]

    def _combined(self, place: Place) -> Tensor:
        if place.rule == "last":
            return self._last(place)
        values = self._of_everyone(place)
        if not place.rule and all(same(value, values[0]) for value in values):
            return values[0]
        rule = place.rule or ("sum" if place.whole else "mean")
        if not place.rule:
            self._warn(place, rule)
        shares = [self.plan.share(number) for number in range(self.plan.microbatches)]
        return combined(rule, place.start, values, shares)

    def _last(self, place: Place) -> Tensor:
        """What the last microbatch of the step left, which the last rank has computed."""
        value = place.after.get(self.plan.microbatches - 1, place.start)
        if self.rank.world_size == 1:
            return value
        flat = _as_bytes(value).clone()
        dist.broadcast(flat, self.rank.world_size - 1)
        return flat.view(place.tensor.dtype).view(place.tensor.shape)

    def _of_everyone(self, place: Place) -> list[Tensor]:
        """The values after each microbatch of the step, in the order of these."""
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

    def _warn(self, place: Place, rule: str) -> None:
        if place.name not in self.warned:
            self.warned.add(place.name)
            what = {"sum": "what each microbatch added is added up", "mean": "it gets the mean of the microbatches"}
            self.warnings.append(
                f"warning: the buffer {place.name} changes for the first time after the first step, and the task names "
                f"no rule for it: {what[rule]} ({rule}). Write buffers = {{{place.name!r}: {rule!r}}} in the task to "
                "keep that, or another rule (mean, sum, last) and train again."
            )


def combined(rule: str, start: Tensor, values: list[Tensor], shares: list[float]) -> Tensor:
    """One value of those after each microbatch; computed in 64 bits, in this order."""
    whole = not (start.is_floating_point() or start.is_complex())
    wide = torch.int64 if whole else torch.promote_types(start.dtype, torch.float64)
    if rule == "mean":
        result = reduce(add, [value.to(wide) * share for value, share in zip(values, shares, strict=True)])
    elif rule == "sum":
        result = reduce(add, [value.to(wide) - start.to(wide) for value in values], start.to(wide))
    elif rule == "counter":
        moves = [(value - start).double() * share for value, share in zip(values, shares, strict=True)]
        result = start + reduce(add, moves).round().to(start.dtype)
    else:
        result = values[-1]
    return result > 0 if start.dtype == torch.bool else result.to(start.dtype)


def same(one: Tensor, other: Tensor) -> bool:
    """Whether both have the same bits; a nan is like itself."""
    return _has_same_form(one, other) and torch.equal(_as_bytes(one), _as_bytes(other))


def moved(before: Mapping[str, Place]) -> list[str]:
    """Names of those with other values. Raises UserError for one of another shape that is part of the state."""
    changed = [place for place in before.values() if not same(place.value(), place.start)]
    for place in changed:
        if place.saved and not _has_same_form(place.value(), place.start):
            raise UserError(_other_form(place))
    return [place.name for place in changed if _has_same_form(place.value(), place.start)]


def _known_rule(place: Place) -> str:
    """Of PyTorch's own modules, and of what is called as theirs."""
    hooks = place.owner._forward_pre_hooks.values()
    spectral = isinstance(place.owner, _SpectralNorm) or any(isinstance(hook, SpectralNorm) for hook in hooks)
    if spectral and place.leaf.endswith(("_u", "_v")):
        return "last"  # of the weights alone, so all microbatches agree
    rule = _KNOWN.get(place.leaf, "")
    return rule if place.whole == (rule == "counter") else ""


def _require_rules(chosen: list[Place], *, whole_mean: bool) -> None:
    if unsaved := [place.name for place in chosen if not whole_mean and not place.saved]:
        raise UserError(
            f"the forward pass changes these buffers, and no checkpoint would hold them: {listed(unsaved)}. A resumed "
            "run would go on otherwise than it began. Register them without persistent=False."
        )
    if means := [place for place in chosen if place.rule == "mean" and place.whole]:
        raise UserError(
            f"buffers: the rule of {listed([place.name for place in means])} is mean, but the values are "
            f"{means[0].tensor.dtype}, which have no mean. Name sum (what each microbatch added is added up) or last, "
            "or keep floats."
        )
    unknown = [place for place in chosen if not place.rule]
    if unknown and not whole_mean:
        example = ", ".join(f'"{place.name}": "{"sum" if place.whole else "mean"}"' for place in unknown[:4])
        raise UserError(
            f"the forward pass changes these buffers of the model: {listed([place.name for place in unknown])}. A step "
            "has several microbatches, on several GPUs, and nothing says how what they leave becomes one value.\n"
            f"Name a rule for each in the task, such as buffers = {{{example}}}:\n"
            "  sum   what each microbatch added is added up: counts, totals\n"
            "  mean  the mean over the rows of the step: running averages\n"
            "  last  what the last microbatch of the step left: flags, a counter of steps, a queue"
        )


def _other_form(place: Place) -> str:
    now = place.value()
    return (
        f"the forward pass changes the form of the buffer {place.name}, from {list(place.start.shape)} "
        f"{place.start.dtype} to {list(now.shape)} {now.dtype}: a checkpoint would not fit. Keep its shape and type."
    )


def _has_same_form(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype


def _as_bytes(value: Tensor) -> Tensor:
    return value.detach().contiguous().reshape(-1).view(torch.uint8)


def _wide(value: Tensor) -> Tensor:
    return value.to(torch.promote_types(value.dtype, torch.float32))
