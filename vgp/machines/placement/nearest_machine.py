"""The nearest that works: what a finding proposes instead of a wrong name or an impossible combination."""

import re
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

from vgp.base.text.nearest import MAX_NAME, counted, nearest
from vgp.machines.catalog import catalog
from vgp.machines.catalog.hardware import Accelerator, Machine, accelerator_key
from vgp.machines.placement import provisioning
from vgp.machines.placement.combination import Combination
from vgp.machines.placement.machine_rules import first_error
from vgp.machines.placement.search import Need, obtainable


@dataclass(frozen=True)
class Conditions:
    """Where and how a request gets its machine: what is proposed for it must be had there and so."""

    regions: tuple[str, ...] = ()
    #: The API's; empty: any.
    strategy: str = ""
    #: None: not known.
    is_reserved: bool | None = False
    serving: bool = False
    #: What a plain step can get; None: it is none, and names its machine itself.
    among: frozenset[Combination] | None = None

    def allow(self, near: Combination) -> bool:
        """Whether the machine and its GPUs are offered so."""
        found = list(provisioning.strategy(near, self.strategy, self.is_reserved)) if self.strategy else []
        if near.accelerator is not None:
            for where in self.regions:
                found += provisioning.region(near.machine, near.accelerator, where, serving=self.serving)
        return first_error(found) is None and (self.among is None or near in self.among)


@counted
def combination(
    machine: Machine | None, accelerator: Accelerator | None, count: int, *, as_of: date, region: str | None = None,
    conditions: Conditions | None = None,
) -> Combination | None:  # fmt: skip
    """The combination closest to the request that can be had: in the region if possible, else anywhere.

    The same accelerator counts most, then the count. With `conditions`, nothing that they do not allow.
    """
    for regions in ((region,), ()) if region else ((),):
        pool = [near for near, _ in obtainable(Need(as_of=as_of, regions=regions))]
        pool = [near for near in pool if conditions is None or conditions.allow(near)]
        living = _living(accelerator, count, as_of)
        if living is None:
            pool = [near for near in pool if near.machine == machine] or (pool if machine else [])
        if pool:
            return min(pool, key=lambda near: _distance(near, machine, living, count))
    return None


def accelerator_type(name: str) -> str | None:
    """The accelerator meant by a wrong name: by its short name first, then by spelling."""
    if len(name) > MAX_NAME:
        return None
    short, key = catalog.short_names(), accelerator_key(name)
    return short.get(key) or nearest(name, catalog.accelerators(), 0.7) or short.get(nearest(key, short, 0.5) or "")


class Elsewhere(NamedTuple):
    """A GPU that Vertex AI does not have, in words, and what comes near it there."""

    what: str
    near: str


def not_on_vertex(name: str) -> Elsewhere | None:
    """A real GPU that is none of Vertex AI's: a card for desktops, or one of other clouds."""
    key = re.sub(r"[^A-Z0-9]", "", name[:MAX_NAME].upper())
    for row in catalog.document("accelerators.json")["not_on_vertex"]:
        if re.fullmatch(row["pattern"], key):
            return Elsewhere(f"{name.strip()} is {row['what']}", row["near"])
    return None


def machine_type(name: str, has_gpu: bool) -> str | None:
    """The machine meant by a wrong name: same series and next size, or the GPU in its name, or the spelling."""
    return _machine_type(name.lower().strip(), has_gpu) if len(name) <= MAX_NAME else None


@counted
def _machine_type(text: str, has_gpu: bool) -> str | None:
    choices = [machine for machine in catalog.machines().values() if machine.choices or not has_gpu]
    numbers = [int(digits) for digits in re.findall(r"\d+", text)]
    series = [machine for machine in choices if machine.series == text.rsplit("-", 1)[0]]
    if series and numbers:
        return min(series, key=lambda machine: (abs(_size(machine) - numbers[-1]), _size(machine))).name
    for short in re.findall(r"[a-z]+[0-9]+", text):
        gpu = catalog.short_names().get(short.upper()) or catalog.short_names().get(short.upper()[:4])
        having = [machine for machine in choices if gpu and machine.accelerator == gpu]
        if having:
            return min(having, key=lambda machine: abs(machine.gpus - numbers[-1])).name
    return nearest(text, [machine.name for machine in choices], 0.6)


def _size(machine: Machine) -> int:
    return int(re.sub(r"\D", "", machine.name.rsplit("-", 1)[1]))


def _living(accelerator: Accelerator | None, count: int, as_of: date) -> Accelerator | None:
    """The accelerator, or the first of its successors that comes in this count when it is retired."""
    if accelerator is None or not accelerator.is_retired(as_of):
        return accelerator
    successors = [catalog.accelerators()[name] for name in accelerator.successors]
    alive = [successor for successor in successors if not successor.is_retired(as_of)]
    offered = [row for row in alive if any(obtainable(Need(as_of=as_of, accelerator=row, count=count)))]
    return next(iter(offered or alive), None)


def _distance(
    near: Combination, machine: Machine | None, accelerator: Accelerator | None, count: int
) -> tuple[float, ...]:
    # Too few GPUs is further away than too many by the same step: the job may not fit.
    return (
        near.accelerator != accelerator,
        abs(near.count - count) + (0.5 if near.count < count else 0),
        near.machine != machine,
        machine is not None and near.machine.series != machine.series,
        abs(near.vcpu - machine.vcpu) + abs(near.memory_gb - machine.memory_gb) / 8 if machine else 0,
        near.vcpu,
    )
