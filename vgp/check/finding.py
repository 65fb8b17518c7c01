"""What a check reports: findings, and a row for each set of equal machines."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from vgp.check.services import Service
from vgp.documents.document import Document
from vgp.documents.edits import Change
from vgp.documents.field_path import FieldPath
from vgp.placement.combination import Combination, known
from vgp.placement.provisioning import STRATEGIES


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

    def as_json(self) -> dict[str, str]:
        names = ("rule", "severity", "file", "step", "field", "message", "suggestion")
        return {name: getattr(self, name) for name in names}


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

    @property
    def combination(self) -> Combination | None:
        """The machine with its GPUs, where the catalog has both."""
        return known(self.machine_type, self.accelerator_type, self.accelerator_count)

    @property
    def price_date(self) -> str | None:
        """Of which day its price is; None where it has none."""
        if self.usd_per_hour is None or self.combination is None:
            return None
        price = self.combination.price(STRATEGIES.get(self.strategy, "standard"), self.region)
        return price.date if price else None

    @property
    def max_usd(self) -> float | None:
        """The most that all turns can cost; None where part of it is not known."""
        return None if self.turns is None or self.max_usd_a_turn is None else self.max_usd_a_turn * self.turns

    @property
    def max_usd_a_turn(self) -> float | None:
        """Timeout x tries x machines x price, and what every try may use of other services."""
        amounts = [self.machines_usd, *(service.usd for service in self.services)]
        known = [amount for amount in amounts if amount is not None]
        return sum(known) * self.tries if self.tries is not None and len(known) == len(amounts) else None

    @property
    def machines_usd(self) -> float | None:
        """The most that the machines of one try can cost."""
        if self.usd_per_hour is None or self.replicas is None or self.timeout_s is None:
            return None
        return self.usd_per_hour * self.replicas * self.timeout_s / 3600

    @property
    def not_known(self) -> str:
        """Why there is no `max_usd`; empty where there is one."""
        if self.machine_type is None:
            return "its machine is not known"
        if self.usd_per_hour is None:
            way = self.strategy.lower().replace("_", "-")
            gpus = f"{self.accelerator_count} x {self.accelerator_type} on " if self.accelerator_type else ""
            return f"no price of {gpus}{self.machine_type} in {self.region or 'any region'}, {way}"
        parts = {
            "how many machines it takes": self.replicas, "when it ends": self.timeout_s,
            "how many tries it has": self.tries, "how often its loop turns": self.turns,
        }  # fmt: skip
        reasons = [f"{what} is not known" for what, value in parts.items() if value is None]
        return next(iter([*reasons, *(service.not_known for service in self.services if service.not_known)]), "")

    def as_json(self) -> dict[str, object]:
        names = ("step", "machine_type", "accelerator_type", "accelerator_count", "replicas", "strategy")
        price = None if self.usd_per_hour is None else round(self.usd_per_hour, 6)
        services = [service.as_json() for service in self.services]
        return {
            **{name: getattr(self, name) for name in names},
            "usd_per_hour": price,
            "price_date": self.price_date,
            "services": services,
        }


def unknown_machine(step: str, strategy: str, regions: Sequence[str]) -> StepRow:
    """The row of a step of which only the run knows the machines: it counts for nothing, and is named."""
    return StepRow(step, None, None, 0, None, strategy, None, regions[0] if regions else None)
