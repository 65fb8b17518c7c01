"""The judgement of one document: the collector that the judges write their findings and step rows to."""

import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from reprlib import Repr

from vgp.base.documents.budget import Exhausted, spend
from vgp.base.documents.document import Document
from vgp.base.documents.edits import Change
from vgp.base.documents.field_path import dotted
from vgp.base.documents.node import Computed, Node
from vgp.base.documents.reading import Unreadable
from vgp.base.text.printable import clipped, one_line
from vgp.check.finding import Finding, StepRow
from vgp.machines.placement.rules import Problem


@dataclass
class Judgement:
    """Collects the findings of one document. The options are those of `vgp check`."""

    document: Document
    as_of: date
    regions: Sequence[str] = ()
    strategy: str | None = None
    #: Whether all of a pipeline's steps run on a persistent resource, as its job says.
    on_resource: bool = False
    findings: list[Finding] = field(default_factory=list)
    steps: list[StepRow] = field(default_factory=list)
    _known: set[Finding] = field(default_factory=set)

    def report(self, step: str, at: Node, *problems: Problem, parts: Mapping[str, Node] | None = None) -> None:
        """Problems at a place; says so when the value is only a parameter's default.

        `parts`: where the fields stand that a problem's nearest names.
        """
        for problem in problems:
            message = problem.message
            if at.assumed:
                message = f"{message} (With the default of the pipeline parameter '{at.assumed}'.)"
            self._keep(
                Finding(
                    problem.rule, problem.level, self.document.file, _shown(step), _shown(dotted(at.path)),
                    _shown(message), _shown(problem.suggestion), at.path, self.document,
                    _changes(problem, parts or {}),
                )
            )  # fmt: skip

    def _keep(self, finding: Finding) -> None:
        if finding not in self._known:
            spend("findings")
            self._known.add(finding)
            self.findings.append(finding)

    def add(self, step: str, at: Node, rule: str, message: str, suggestion: str = "", severity: str = "") -> None:
        self.report(step, at, Problem(rule, "", message, suggestion, severity))

    def unknown(self, step: str, at: Node, what: str) -> None:
        """The value is not known: an error if no run can know it, else a note."""
        if at.dangling:
            self.add(step, at, "GPU015", f"{what} has no value: {at.dangling}.", "Give it a value or a real input.")
        elif at.runtime:
            is_text = isinstance(at.value, Computed) or (isinstance(at.value, str) and "{{$" not in at.value)
            fix = "" if is_text else "Give the parameter a default."
            self.add(step, at, "GPU024", f"{what} is not checkable: {at.runtime}.", fix)

    def malformed(self, step: str, at: Node, what: str, rule: str) -> None:
        """The value is not as the rule says: `a list with at least one pool`."""
        value = "missing" if at.value is None else _short(at.value)
        self.add(step, at, "GPU025", f"{what} must be {rule}; it is {value}.")

    @contextmanager
    def guarded(self, step: str, at: Node) -> Iterator[None]:
        """Whatever goes wrong in here is a finding at this place, and the rest is still judged."""
        try:
            yield
        except (Unreadable, Exhausted):
            raise
        except Exception as error:
            fix = "This is a fault of `vgp check`: please report it with the file."
            self.add(step, at, "GPU031", f"The checker failed here: {_where(error)}.", fix)


def _changes(problem: Problem, parts: Mapping[str, Node]) -> tuple[Change, ...]:
    """The fields that would be other; none where one of them stands nowhere."""
    if any(name not in parts for name, _ in problem.nearest):
        return ()
    pairs = [(parts[name], value) for name, value in problem.nearest]
    return tuple(
        Change(node.path, node.value, value, _why_not(node)) for node, value in pairs if node.value != value
    )  # fmt: skip


def _why_not(node: Node) -> str:
    if node.assumed:
        return f"it is the default of the parameter '{node.assumed}', which others may use"
    return "" if node.known else "the value is known only at run time"


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
