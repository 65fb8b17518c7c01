"""The report of a check, with its findings, steps and exit code; as text, JSON and SARIF.

SARIF 2.1.0, which code hosts show at the changed lines:
https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from rich.console import Console
from rich.text import Text

from vgp.base.documents.json_text import JsonObject
from vgp.base.text.figures import format_count
from vgp.base.text.printable import one_line
from vgp.check.check_finding import Finding, StepRow
from vgp.machines.placement.machine_rules import RULES, Rule


@dataclass
class Report:
    """The result of a check. `unreadable` holds a line for each file or document that could not be judged."""

    findings: list[Finding] = field(default_factory=list)
    steps: list[StepRow] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    #: Steps by file; a file that was judged and requests no machine has an empty list.
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
        """Returns 0 without errors, 1 with errors, 2 if a file was unreadable or not judged completely."""
        partly = any(finding.rule == "GPU031" for finding in self.of_severity("error"))
        return 2 if self.unreadable or partly else 1 if self.errors else 0

    @property
    def summary(self) -> str:
        """Returns the counts: `1 machine request, 2 errors, 0 warnings, 3 notes`."""
        counts = {
            "machine request": len(self.steps), "error": self.errors, "warning": self.warnings,
            "note": len(self.of_severity("note")),
        }  # fmt: skip
        return ", ".join(format_count(count, word) for word, count in counts.items()) + "."

    def as_json(self) -> JsonObject:
        lines = self.lines()
        return {
            "findings": [{**finding.as_json(), "line": lines.get(id(finding), 1)} for finding in self.findings],
            "steps": [row.as_json() for row in self.steps],
            "unreadable": self.unreadable,
            "errors": self.errors,
            "warnings": self.warnings,
        }

    def lines(self) -> dict[int, int]:
        """Returns the line of each finding by its identity; each document is read once for all of its findings."""
        of_document: dict[int, list[Finding]] = {}
        for finding in self.findings:
            of_document.setdefault(id(finding.document), []).append(finding)
        lines: dict[int, int] = {}
        for findings in of_document.values():
            document = findings[0].document
            by_path = document.lines({finding.path for finding in findings}) if document else {}
            lines |= {id(finding): by_path.get(finding.path, 1) for finding in findings}
        return lines


_ORDER = {"error": 0, "warning": 1, "note": 2}
_STYLES = {"error:": "bold red", "warning:": "yellow", "note:": "blue"}


def headline(finding: Finding) -> str:
    """Returns `error: train: n1-standard-8 takes 1, 2 or 4 of NVIDIA_TESLA_T4, not 3.  [GPU003]`."""
    return f"{finding.severity}: {finding.step}: {finding.message}  [{finding.rule}]"


def lines(report: Report) -> Iterator[str]:
    """Yields three lines for each finding, errors first (problem, place, fix), and then the counts."""
    numbers = report.lines()
    for finding in sorted(report.findings, key=lambda finding: _ORDER[finding.severity]):
        yield headline(finding)
        where = ", ".join(dict.fromkeys(part for part in (finding.cell, _shorten_path(finding.field)) if part))
        yield f"  {one_line(finding.file)}:{numbers.get(id(finding), 1)}  {where}"
        if finding.suggestion:
            yield f"  {finding.suggestion}"
    yield report.summary


def print_report(report: Report, console: Console) -> None:
    """Prints the lines; a terminal shows severities in colour."""
    if not console.is_terminal:
        print("\n".join(lines(report)), file=console.file)
        return
    for line in lines(report):
        severity, space, message = line.partition(" ")
        text = Text.assemble((severity, _STYLES.get(severity, "")), space + message)
        console.print(text, soft_wrap=True, highlight=False)


def _shorten_path(field: str) -> str:
    """Returns the end of a long path, its most specific part."""
    return field if len(field) <= 90 else f"...{field[-87:]}"


_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(report: Report, rules_url: str = "") -> JsonObject:
    """Returns the SARIF log of one run. `rules_url`: the folder of the rules' web pages, or empty."""
    lines = report.lines()
    rules = sorted({finding.rule for finding in report.findings})
    notices = [{"level": "error", "message": {"text": text}} for text in report.unreadable]
    run = {
        "tool": {"driver": {"name": "vgp check", "rules": [_sarif_rule(RULES[rule], rules_url) for rule in rules]}},
        "invocations": [{"executionSuccessful": report.exit_code != 2, "toolExecutionNotifications": notices}],
        "results": [
            _sarif_result(finding, rules.index(finding.rule), lines.get(id(finding), 1)) for finding in report.findings
        ],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _sarif_rule(rule: Rule, rules_url: str) -> JsonObject:
    page = f"{rules_url.rstrip('/')}/{rule.id}.md" if rules_url else ""
    return {
        "id": rule.id,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": f"{rule.title}."},
        "help": {"text": f"See {page or rule.page}."},
        **({"helpUri": page} if page else {}),
        "defaultConfiguration": {"level": rule.severity},
    }


def _sarif_result(finding: Finding, rule_index: int, line: int) -> JsonObject:
    physical = {"artifactLocation": {"uri": _format_uri(finding.file)}, "region": {"startLine": line}}
    logical = {"name": finding.step, "fullyQualifiedName": finding.field or finding.step}
    return {
        "ruleId": finding.rule,
        "ruleIndex": rule_index,
        "level": finding.severity,
        "message": {"text": f"{finding.message} {finding.suggestion}".rstrip()},
        "locations": [{"physicalLocation": physical, "logicalLocations": [logical]}],
    }


def _format_uri(file: str) -> str:
    """Returns the path relative to the working folder if possible, because code hosts match it with their files."""
    path = Path(file)
    if path.is_absolute():
        relative = os.path.relpath(file)
        if relative.startswith(".."):
            return path.as_uri()
        path = Path(relative)
    return quote(os.fsencode(path.as_posix()))
