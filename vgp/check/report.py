"""A report as text, JSON or SARIF 2.1.0."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from vgp.check.check import Report
from vgp.check.finding import Finding
from vgp.placement.rules import RULES
from vgp.text.printable import one_line

FORMATS = ("text", "json", "sarif")
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_ORDER = {"error": 0, "warning": 1, "note": 2}


def render(report: Report, form: str) -> str:
    """The report in one of FORMATS, without a newline at the end."""
    if form == "json":
        return json.dumps(report.as_json(), indent=2)
    if form == "sarif":
        return json.dumps(sarif(report), indent=2)
    return "\n".join(lines(report))


def lines(report: Report) -> Iterator[str]:
    """Findings, worst first, as three lines each: what and where, why, and what works."""
    places = located(report)
    for finding in sorted(report.findings, key=lambda each: _ORDER[each.severity]):
        yield f"{finding.severity}: {finding.step}: {finding.message}  [{finding.rule}]"
        yield f"  {one_line(finding.file)}:{places.get(id(finding), 1)}  {_short(finding.field)}"
        if finding.suggestion:
            yield f"  {finding.suggestion}"
    yield summary(report)


def located(report: Report) -> dict[int, int]:
    """Line of each finding by its identity; each document is read once for all of its findings."""
    lines = {}
    of_document: dict[int, list[Finding]] = {}
    for finding in report.findings:
        of_document.setdefault(id(finding.document), []).append(finding)
    for findings in of_document.values():
        document = findings[0].document
        found = document.lines({finding.path for finding in findings}) if document else {}
        lines.update({id(finding): found.get(finding.path, 1) for finding in findings})
    return lines


def summary(report: Report) -> str:
    notes = len(report.findings) - report.errors - report.warnings
    counts = (
        (len(report.steps), "machine request"),
        (report.errors, "error"),
        (report.warnings, "warning"),
        (notes, "note"),
    )
    return ", ".join(f"{count} {word}{'' if count == 1 else 's'}" for count, word in counts) + "."


def _short(field: str) -> str:
    """The end of a long path, which tells most."""
    return field if len(field) <= 90 else f"...{field[-87:]}"


def sarif(report: Report) -> dict[str, Any]:
    """SARIF 2.1.0, https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html."""
    places = located(report)
    used = sorted({finding.rule for finding in report.findings})
    rules = [
        {
            "id": rule.id,
            "name": "".join(word.capitalize() for word in rule.name.split("-")),
            "shortDescription": {"text": f"{rule.title}."},
            "help": {"text": f"See {rule.page}."},
            "defaultConfiguration": {"level": rule.severity},
        }
        for rule in (RULES[name] for name in used)
    ]
    notices = [{"level": "error", "message": {"text": text}} for text in report.unreadable]
    invocation = {"executionSuccessful": report.exit_code != 2, "toolExecutionNotifications": notices}
    driver = {"name": "pipelines check", "rules": rules}
    run = {
        "tool": {"driver": driver},
        "invocations": [invocation],
        "results": [
            _result(finding, used.index(finding.rule), places.get(id(finding), 1)) for finding in report.findings
        ],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(finding: Finding, rule_index: int, line: int) -> dict[str, Any]:
    text = f"{finding.message} {finding.suggestion}".rstrip()
    location = {
        "physicalLocation": {
            "artifactLocation": {"uri": _uri(finding.file)},
            "region": {"startLine": line},
        },
        "logicalLocations": [{"name": finding.step, "fullyQualifiedName": finding.field or finding.step}],
    }
    return {
        "ruleId": finding.rule,
        "ruleIndex": rule_index,
        "level": finding.severity,
        "message": {"text": text},
        "locations": [location],
    }


def _uri(file: str) -> str:
    """Relative to the working folder where that is possible: what code hosts match with their files."""
    path = Path(file)
    if path.is_absolute():
        relative = os.path.relpath(file)
        if relative.startswith(".."):
            return path.as_uri()
        path = Path(relative)
    return quote(os.fsencode(path.as_posix()))
