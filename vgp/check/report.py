"""The report of a check: findings, steps, what could not be judged, and the exit code that follows."""

from dataclasses import dataclass, field
from typing import Any

from vgp.base.text.figures import plural
from vgp.check.finding import Finding, StepRow


@dataclass
class Report:
    """What a check says. `unreadable` holds a line for each file or document that could not be judged."""

    findings: list[Finding] = field(default_factory=list)
    steps: list[StepRow] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    #: The same steps, by the file that asks for them; a file that could be judged and asks for none has an empty list.
    by_file: dict[str, list[StepRow]] = field(default_factory=dict)

    def of_severity(self, severity: str) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == severity]

    @property
    def errors(self) -> int:
        return len(self.of_severity("error"))

    @property
    def warnings(self) -> int:
        return len(self.of_severity("warning"))

    @property
    def exit_code(self) -> int:
        """0 no error, 1 errors, 2 something could not be read, or not judged to its end."""
        partly = any(finding.rule == "GPU031" for finding in self.of_severity("error"))
        return 2 if self.unreadable or partly else 1 if self.errors else 0

    @property
    def summary(self) -> str:
        """1 machine request, 2 errors, 0 warnings, 3 notes."""
        counts = {
            "machine request": len(self.steps), "error": self.errors, "warning": self.warnings,
            "note": len(self.of_severity("note")),
        }  # fmt: skip
        return ", ".join(plural(count, word) for word, count in counts.items()) + "."

    def as_json(self) -> dict[str, Any]:
        lines = self.lines()
        return {
            "findings": [{**finding.as_json(), "line": lines.get(id(finding), 1)} for finding in self.findings],
            "steps": [row.as_json() for row in self.steps],
            "unreadable": self.unreadable,
            "errors": self.errors,
            "warnings": self.warnings,
        }

    def lines(self) -> dict[int, int]:
        """Line of each finding by its identity; each document is read once for all of its findings."""
        of_document: dict[int, list[Finding]] = {}
        for finding in self.findings:
            of_document.setdefault(id(finding.document), []).append(finding)
        lines: dict[int, int] = {}
        for findings in of_document.values():
            document = findings[0].document
            by_path = document.lines({finding.path for finding in findings}) if document else {}
            lines |= {id(finding): by_path.get(finding.path, 1) for finding in findings}
        return lines
