"""The results of a check: findings, and one row for each group of identical machines."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from vgp.base.documents.bounded_text import FieldPath
from vgp.base.documents.document import Document
from vgp.base.documents.edits import Change
from vgp.check.container_facts import Service
from vgp.machines.catalog import prices
from vgp.machines.catalog.catalog import DEFAULT_REGION
from vgp.machines.catalog.prices import Price
from vgp.machines.placement import job_fields, plain
from vgp.machines.placement.combination import Combination, find_combination
from vgp.machines.placement.dearest import Held
from vgp.machines.placement.provisioning import STRATEGIES


@dataclass(frozen=True)
class Finding:
    """A problem with one field of one step, and the nearest working value."""

    rule: str
    severity: str
    file: str
    step: str
    field: str
    message: str
    suggestion: str
    path: FieldPath = dataclasses.field(default=(), compare=False)
    document: Document | None = dataclasses.field(default=None, compare=False, repr=False)
    #: Changes that apply the nearest working value; empty if there is none.
    changes: tuple[Change, ...] = dataclasses.field(default=(), compare=False, repr=False)

    @property
    def line(self) -> int:
        return self.document.line(self.path) if self.document else 1

    @property
    def cell(self) -> str:
        """Returns the position in a notebook: `cell 3, line 7`."""
        return self.document.cell(self.path) if self.document else ""

    def as_json(self) -> dict[str, str]:
        names = ("rule", "severity", "file", "step", "field", "message", "suggestion")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class RungRow:
    """A rung of a ladder. `rows` are its machines, one row for each group of identical machines."""

    name: str
    rows: tuple["StepRow", ...]
    #: Seconds that its jobs may run in total.
    timeout_s: float
    #: Seconds that its machines are held in the most expensive course of the ladder; None if that is unknown.
    held: Held | None = None
    #: Its size, if the step has several sizes; a run uses one of them.
    size: str = ""
    #: Provisioning of its machines, as in the plan.
    strategy: str = "standard"

    @property
    def usd_per_hour(self) -> float | None:
        """Returns $/hour of all its machines; None if a price is unknown."""
        hourly = [None if row.replicas is None else (row.usd_per_hour or 0) * row.replicas for row in self.rows]
        known = [usd for usd in hourly if usd is not None]
        priced = len(known) == len(self.rows) and all(row.usd_per_hour is not None for row in self.rows)
        return sum(known) if priced and self.rows else None

    @property
    def most_usd(self) -> float | None:
        """Returns its share of the most expensive course of the ladder."""
        if self.held is None or self.usd_per_hour is None:
            return None
        return self.held_usd_per_hour * self.held.both_s / 3600

    @property
    def held_usd_per_hour(self) -> float:
        """Returns $/hour of all its machines with boot disks; 0 if no price is known."""
        return sum((row.held_usd_per_hour or 0.0) * (row.replicas or 0) for row in self.rows)

    def as_json(self) -> dict[str, object]:
        hourly = None if self.usd_per_hour is None else round(self.usd_per_hour, 6)
        machines = [row.as_json() | {"region": row.region} for row in self.rows]
        return {
            "name": self.name, "machines": machines, "usd_per_hour": hourly, "timeout_s": self.timeout_s,
            "hours_of_dearest_way": self.held and self.held.jobs_s / 3600,
            "hours_of_handover": self.held and self.held.handover_s / 3600,
        }  # fmt: skip


@dataclass(frozen=True)
class StepRow:
    """A group of identical machines of a step. `usd_per_hour` is the price of one of them."""

    step: str
    machine_type: str | None
    accelerator_type: str | None
    accelerator_count: int
    replicas: int | None
    strategy: str
    usd_per_hour: float | None
    region: str | None = None
    timeout_s: float | None = None
    #: Maximum number of attempts: retries times rounds of trials. None: unknown.
    tries: int | None = 1
    #: Number of iterations of the loops around the step. None: known only at run time.
    turns: int | None = 1
    #: Other services that each attempt may use.
    services: tuple[Service, ...] = ()
    #: Whether the machines belong to a persistent resource, which has its quota already.
    is_persistent: bool = False
    #: Rungs of a step with a ladder, whose launcher is this row's machine; only one rung has machines at a time.
    rungs: tuple[RungRow, ...] = ()
    #: Maximum duration of the whole ladder.
    ladder_s: float | None = None
    #: Type and GB of each machine's boot disk; None if unknown, or if it is not billed.
    boot_disk: tuple[str, int] | None = None
    #: Region of the machine on which Google's launcher waits for the job; None without a launcher.
    launcher_region: str | None = None
    #: Whether the step has no limit but the 7 days of Vertex AI.
    is_endless: bool = False
    #: The price of a TPU slice, which `usd_per_hour` is taken from.
    tpu_price: Price | None = None

    @property
    def every(self) -> tuple["StepRow", ...]:
        """Returns the step's own row and the rows of its rungs."""
        return (self, *(row for rung in self.rungs for row in rung.rows))

    @property
    def count_text(self) -> str:
        """Returns the number of GPUs of each machine; "?" if it is known only at run time."""
        return str(self.accelerator_count or "?")

    @property
    def combination(self) -> Combination | None:
        """Returns the machine with its GPUs, if the catalog has both."""
        return find_combination(self.machine_type, self.accelerator_type, self.accelerator_count)

    @property
    def price(self) -> Price | None:
        """Returns the price behind `usd_per_hour`; None if there is none."""
        if self.tpu_price is not None:
            return self.tpu_price
        if self.usd_per_hour is None or self.combination is None:
            return None
        return self.combination.price(STRATEGIES.get(self.strategy, "standard"), self.region)

    @property
    def price_date(self) -> str | None:
        """Returns the date of the price; None without a price."""
        return self.price.date if self.price else None

    @property
    def disk_price(self) -> Price | None:
        """Returns the hourly price of one machine's boot disk; None without a price or a disk."""
        if self.boot_disk is None or self.usd_per_hour is None:
            return None
        return prices.boot_disk(*self.boot_disk, self.region or DEFAULT_REGION)

    @property
    def launcher_prices(self) -> tuple[Price, ...]:
        """Returns the hourly prices of the launcher's machine and of its boot disk; empty if either is unknown."""
        if self.launcher_region is None:
            return ()
        machine = plain.default()
        price = machine.price("standard", self.launcher_region)
        disk = prices.boot_disk(*job_fields.default_disk(machine.machine), self.launcher_region)
        return (price, disk) if price and disk else ()

    @property
    def held_usd_per_hour(self) -> float | None:
        """Returns $/hour of one machine with its boot disk; None if the machine has no price."""
        disk = self.disk_price
        return None if self.usd_per_hour is None else self.usd_per_hour + (disk.usd_per_hour if disk else 0.0)

    @property
    def max_usd(self) -> float | None:
        """Returns the maximum cost of all iterations; None if part of it is unknown."""
        return None if self.turns is None or self.max_usd_a_turn is None else self.max_usd_a_turn * self.turns

    @property
    def max_usd_a_turn(self) -> float | None:
        """Returns the maximum cost of one iteration: timeout x attempts x machines x price, services and the ladder
        included."""
        amounts = [self.machines_usd, self.launcher_usd, *(service.usd for service in self.services)]
        known = [amount for amount in amounts if amount is not None]
        climbed = [rung.most_usd for rung in self.rungs]
        if self.tries is None or len(known) < len(amounts) or None in climbed:
            return None
        return sum(known) * self.tries + sum(usd or 0.0 for usd in climbed)

    @property
    def machines_usd(self) -> float | None:
        """Returns the maximum cost of the machines of one attempt, with their boot disks."""
        if self.held_usd_per_hour is None or self.replicas is None or self.timeout_s is None:
            return None
        return self.held_usd_per_hour * self.replicas * self.timeout_s / 3600

    @property
    def launcher_usd_per_hour(self) -> float:
        """Returns $/hour of Google's launcher with its boot disk; 0 without a launcher or a price."""
        return sum(price.usd_per_hour for price in self.launcher_prices)

    @property
    def launcher_usd(self) -> float:
        """Returns the maximum cost of the launcher of one attempt while the job has machines."""
        return self.launcher_usd_per_hour * (self.timeout_s or 0.0) / 3600

    @property
    def not_known(self) -> str:
        """Returns the reason why `max_usd` is None; empty if it is known."""
        if self.machine_type is None:
            return "its machine is not known"
        if self.usd_per_hour is None:
            way = self.strategy.lower().replace("_", "-")
            gpus = f"{self.count_text} x {self.accelerator_type} on " if self.accelerator_type else ""
            return f"no price of {gpus}{self.machine_type} in {self.region or 'any region'}, {way}"
        parts = {
            "its number of machines": self.replicas, "its timeout": self.timeout_s,
            "its number of attempts": self.tries, "the number of iterations of its loop": self.turns,
        }  # fmt: skip
        reasons = [f"{what} is not known" for what, value in parts.items() if value is None]
        reasons += [f"rung {rung.name}: {_why_not(rung)}" for rung in self.rungs if rung.most_usd is None]
        return next(iter([*reasons, *(service.not_known for service in self.services if service.not_known)]), "")

    def as_json(self) -> dict[str, object]:
        names = ("step", "machine_type", "accelerator_type", "accelerator_count", "replicas", "strategy")
        price = None if self.usd_per_hour is None else round(self.usd_per_hour, 6)
        services = [service.as_json() for service in self.services]
        ladder = {"rungs": [rung.as_json() for rung in self.rungs], "ladder_s": self.ladder_s} if self.rungs else {}
        return {
            **{name: getattr(self, name) for name in names},
            "usd_per_hour": price,
            "price_date": self.price_date,
            "price_skus": list(self.price.skus) or None if self.price else None,
            "services": services,
            "boot_disk": self._disk_as_json(),
            "launcher_usd_per_hour": round(launcher, 6) if (launcher := self.launcher_usd_per_hour) else None,
            **ladder,
        }

    def _disk_as_json(self) -> dict[str, object] | None:
        price = self.disk_price
        if self.boot_disk is None or price is None:
            return None
        own = {"type": self.boot_disk[0], "gb": self.boot_disk[1], "usd_per_hour": round(price.usd_per_hour, 6)}
        return {**own, "at_most": price.at_most, "price_date": price.date, "price_skus": list(price.skus)}


def _why_not(rung: RungRow) -> str:
    """Returns the reason why the maximum cost of a rung is unknown."""
    return next((row.not_known for row in rung.rows if row.not_known), "another rung has no price")


def unknown_machine(step: str, strategy: str, regions: Sequence[str]) -> StepRow:
    """Returns the row of a step whose machines only the run knows; it is listed, and has no cost."""
    return StepRow(step, None, None, 0, None, strategy, None, regions[0] if regions else None)
