"""Findings and step rows: what a check reports, and the collector that the judges write to."""

import dataclasses
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from reprlib import Repr

from vgp.documents.budget import Exhausted, spend
from vgp.documents.document import Document, Path_, Unreadable, dotted
from vgp.documents.node import Node
from vgp.placement.combination import Combination, known
from vgp.placement.rules import Problem
from vgp.text.printable import clipped, one_line


@dataclass(frozen=True)
class Finding:
    rule: str
    severity: str
    file: str
    step: str
    field: str
    message: str
    suggestion: str
    path: Path_ = dataclasses.field(default=(), compare=False)
    document: Document | None = dataclasses.field(default=None, compare=False, repr=False)

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

    @property
    def combination(self) -> Combination | None:
        """The machine with its GPUs, where the catalog has both."""
        return known(self.machine_type, self.accelerator_type, self.accelerator_count)

    @property
    def max_usd(self) -> float | None:
        """The most that all turns can cost; None where part of it is not known."""
        return None if self.turns is None or self.max_usd_a_turn is None else self.max_usd_a_turn * self.turns

    @property
    def max_usd_a_turn(self) -> float | None:
        """Timeout x tries x machines x price."""
        if self.usd_per_hour is None or self.replicas is None or self.timeout_s is None or self.tries is None:
            return None
        return self.usd_per_hour * self.replicas * self.timeout_s * self.tries / 3600

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
        return next((f"{what} is not known" for what, value in parts.items() if value is None), "")

    def as_json(self) -> dict[str, object]:
        names = ("step", "machine_type", "accelerator_type", "accelerator_count", "replicas", "strategy")
        price = None if self.usd_per_hour is None else round(self.usd_per_hour, 6)
        return {**{name: getattr(self, name) for name in names}, "usd_per_hour": price}


def unknown_machine(step: str, strategy: str, regions: Sequence[str]) -> StepRow:
    """The row of a step of which only the run knows the machines: it counts for nothing, and is named."""
    return StepRow(step, None, None, 0, None, strategy, None, regions[0] if regions else None)


@dataclass
class Judgement:
    """Collects the findings of one document. The options are those of `pipelines check`."""

    document: Document
    as_of: date
    regions: Sequence[str] = ()
    strategy: str | None = None
    findings: list[Finding] = dataclasses.field(default_factory=list)
    steps: list[StepRow] = dataclasses.field(default_factory=list)
    _known: set[Finding] = dataclasses.field(default_factory=set)

    def report(self, step: str, at: Node, problem: Problem) -> None:
        """A problem at a place; says so when the value is only a parameter's default."""
        message = problem.message
        if at.assumed:
            message = f"{message} (With the default of the pipeline parameter '{at.assumed}'.)"
        finding = Finding(
            problem.rule, problem.level, self.document.file, _shown(step), _shown(dotted(at.path)), _shown(message),
            _shown(problem.suggestion), at.path, self.document,
        )  # fmt: skip
        if finding not in self._known:
            spend("findings")
            self._known.add(finding)
            self.findings.append(finding)

    @contextmanager
    def guarded(self, step: str, at: Node) -> Iterator[None]:
        """Whatever goes wrong in here is a finding at this place, and the rest is still judged."""
        try:
            yield
        except (Unreadable, Exhausted):
            raise
        except Exception as error:
            fix = "This is a fault of `pipelines check`: please report it with the file."
            self.say(step, at, "GPU031", f"The checker failed here: {_where(error)}.", fix)

    def say(self, step: str, at: Node, rule: str, message: str, suggestion: str = "", severity: str = "") -> None:
        self.report(step, at, Problem(rule, "", message, suggestion, severity))

    def unknown(self, step: str, at: Node, what: str) -> None:
        """The value is not known: an error if no run can know it, else a note."""
        if at.dangling:
            self.say(step, at, "GPU015", f"{what} has no value: {at.dangling}.", "Give it a value or a real input.")
        elif at.runtime:
            self.say(step, at, "GPU024", f"{what} is not checkable: {at.runtime}.", "Give the parameter a default.")

    def malformed(self, step: str, at: Node, what: str, wanted: str) -> None:
        given = "missing" if at.value is None else f"{_short(at.value)}"
        self.say(step, at, "GPU025", f"{what} must be {wanted}; it is {given}.")


def _shown(text: str) -> str:
    """Names and values of the document are in it: no control character and no page of text reaches a reader."""
    return one_line(clipped(text))


_REPR = Repr()
_REPR.maxlevel, _REPR.maxstring, _REPR.maxother = 3, 60, 60


def _short(value: object) -> str:
    """The value as Python writes it, but for the inside of large ones, which is not read."""
    text = _REPR.repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _where(error: Exception) -> str:
    """IndexError: list index out of range (plain.py:88)."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"
