"""What a check reports: findings, and a row for each set of equal machines."""

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
from vgp.machines.placement.combination import Combination, known
from vgp.machines.placement.dearest import Held
from vgp.machines.placement.provisioning import STRATEGIES


@dataclass(frozen=True)
class Finding:
    """What is wrong with one field of one step, and the nearest thing that works."""

    rule: str
    severity: str
    file: str
    step: str
    field: str
    message: str
    suggestion: str
    path: FieldPath = dataclasses.field(default=(), compare=False)
    document: Document | None = dataclasses.field(default=None, compare=False, repr=False)
    #: What would make the nearest that works of it; empty where nothing comes near, or is known.
    changes: tuple[Change, ...] = dataclasses.field(default=(), compare=False, repr=False)

    @property
    def line(self) -> int:
        return self.document.line(self.path) if self.document else 1

    @property
    def cell(self) -> str:
        """Where it stands in a notebook: cell 3, line 7."""
        return self.document.cell(self.path) if self.document else ""

    def as_json(self) -> dict[str, str]:
        names = ("rule", "severity", "file", "step", "field", "message", "suggestion")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class RungRow:
    """One rung of a ladder. `rows` are its machines: as many sets of equal ones as its job has."""

    name: str
    rows: tuple["StepRow", ...]
    #: How long its jobs may run together.
    timeout_s: float
    #: How long its machines are held in the dearest way up the ladder; None where that is not known.
    held: Held | None = None
    #: The size that it is of, where the step has several; a run takes one.
    size: str = ""
    #: How its machines are got, as its plan says.
    strategy: str = "standard"

    @property
    def usd_per_hour(self) -> float | None:
        """Of all its machines."""
        hourly = [None if row.replicas is None else (row.usd_per_hour or 0) * row.replicas for row in self.rows]
        known = [usd for usd in hourly if usd is not None]
        priced = len(known) == len(self.rows) and all(row.usd_per_hour is not None for row in self.rows)
        return sum(known) if priced and self.rows else None

    @property
    def most_usd(self) -> float | None:
        """Its part of the dearest way."""
        if self.held is None or self.usd_per_hour is None:
            return None
        return self.held_usd_per_hour * self.held.both_s / 3600

    @property
    def held_usd_per_hour(self) -> float:
        """Of all its machines with their boot disks; 0 where no price is known."""
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
    """One set of equal machines of a step. `usd_per_hour` is the price of one of them."""

    step: str
    machine_type: str | None
    accelerator_type: str | None
    accelerator_count: int
    replicas: int | None
    strategy: str
    usd_per_hour: float | None
    region: str | None = None
    timeout_s: float | None = None
    #: How often the timeout may begin anew: retries, and rounds of trials. None: not known.
    tries: int | None = 1
    #: How often the loops around the step turn. None: only the run knows.
    turns: int | None = 1
    #: What each try may use besides its machines.
    services: tuple[Service, ...] = ()
    #: Whether its machines are those of a persistent resource, which no quota is needed for any more.
    is_persistent: bool = False
    #: Of a step with a ladder, whose own machine climbs it: one rung has machines at a time.
    rungs: tuple[RungRow, ...] = ()
    #: How long the whole way up the ladder may take.
    ladder_s: float | None = None
    #: Type and GB of each machine's boot disk; None where it is not known, or counts for nothing.
    boot_disk: tuple[str, int] | None = None
    #: The region in which one of Google's launchers waits for its job, on a machine of its own; None where none does.
    launcher_region: str | None = None
    #: Whether nothing ends it before Vertex AI does, after 7 days.
    is_endless: bool = False
    #: Of a slice of TPUs: the price that `usd_per_hour` is of.
    tpu_price: Price | None = None

    @property
    def every(self) -> tuple["StepRow", ...]:
        """The machines of its own, and those of its rungs."""
        return (self, *(row for rung in self.rungs for row in rung.rows))

    @property
    def count_text(self) -> str:
        """How many GPUs each machine has; "?" where only the run knows."""
        return str(self.accelerator_count or "?")

    @property
    def combination(self) -> Combination | None:
        """The machine with its GPUs, where the catalog has both."""
        return known(self.machine_type, self.accelerator_type, self.accelerator_count)

    @property
    def price(self) -> Price | None:
        """The price that `usd_per_hour` is of; None where it has none."""
        if self.tpu_price is not None:
            return self.tpu_price
        if self.usd_per_hour is None or self.combination is None:
            return None
        return self.combination.price(STRATEGIES.get(self.strategy, "standard"), self.region)

    @property
    def price_date(self) -> str | None:
        """Of which day its price is; None where it has none."""
        return self.price.date if self.price else None

    @property
    def disk_price(self) -> Price | None:
        """Of an hour of the boot disk of one machine; None where it has no price, or the machine has none."""
        if self.boot_disk is None or self.usd_per_hour is None:
            return None
        return prices.boot_disk(*self.boot_disk, self.region or DEFAULT_REGION)

    @property
    def launcher_prices(self) -> tuple[Price, ...]:
        """Of an hour of the machine on which Google's launcher waits, and of its boot disk; empty without either."""
        if self.launcher_region is None:
            return ()
        machine = plain.default()
        price = machine.price("standard", self.launcher_region)
        disk = prices.boot_disk(*job_fields.default_disk(machine.machine), self.launcher_region)
        return (price, disk) if price and disk else ()

    @property
    def held_usd_per_hour(self) -> float | None:
        """Of one machine with its boot disk."""
        disk = self.disk_price
        return None if self.usd_per_hour is None else self.usd_per_hour + (disk.usd_per_hour if disk else 0.0)

    @property
    def max_usd(self) -> float | None:
        """The most that all turns can cost; None where part of it is not known."""
        return None if self.turns is None or self.max_usd_a_turn is None else self.max_usd_a_turn * self.turns

    @property
    def max_usd_a_turn(self) -> float | None:
        """Timeout x tries x machines x price, what every try may use besides, and the way up its ladder."""
        amounts = [self.machines_usd, self.launcher_usd, *(service.usd for service in self.services)]
        known = [amount for amount in amounts if amount is not None]
        climbed = [rung.most_usd for rung in self.rungs]
        if self.tries is None or len(known) < len(amounts) or None in climbed:
            return None
        return sum(known) * self.tries + sum(usd or 0.0 for usd in climbed)

    @property
    def machines_usd(self) -> float | None:
        """The most that the machines of one try can cost, with their boot disks."""
        if self.held_usd_per_hour is None or self.replicas is None or self.timeout_s is None:
            return None
        return self.held_usd_per_hour * self.replicas * self.timeout_s / 3600

    @property
    def launcher_usd_per_hour(self) -> float:
        """Of Google's launcher with its boot disk; 0 where none waits, or no price is known."""
        return sum(price.usd_per_hour for price in self.launcher_prices)

    @property
    def launcher_usd(self) -> float:
        """The most that the launcher of one try can cost while the job has its machines."""
        return self.launcher_usd_per_hour * (self.timeout_s or 0.0) / 3600

    @property
    def not_known(self) -> str:
        """Why there is no `max_usd`; empty where there is one."""
        if self.machine_type is None:
            return "its machine is not known"
        if self.usd_per_hour is None:
            way = self.strategy.lower().replace("_", "-")
            gpus = f"{self.count_text} x {self.accelerator_type} on " if self.accelerator_type else ""
            return f"no price of {gpus}{self.machine_type} in {self.region or 'any region'}, {way}"
        parts = {
            "how many machines it takes": self.replicas, "when it ends": self.timeout_s,
            "how many tries it has": self.tries, "how often its loop turns": self.turns,
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
    """Why nobody can say what a rung costs at most."""
    return next((row.not_known for row in rung.rows if row.not_known), "another rung has no price")


def unknown_machine(step: str, strategy: str, regions: Sequence[str]) -> StepRow:
    """The row of a step of which only the run knows the machines: it counts for nothing, and is named."""
    return StepRow(step, None, None, 0, None, strategy, None, regions[0] if regions else None)
