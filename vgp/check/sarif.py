"""A report as SARIF 2.1.0, which code hosts show beside the lines of a change.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from vgp.check.finding import Finding
from vgp.check.report import Report
from vgp.machines.placement.rules import RULES, Rule

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(report: Report, rules_url: str = "") -> dict[str, Any]:
    """The log with one run. `rules_url`: the folder on the web that has a page for each rule; empty: not known."""
    lines = report.lines()
    rules = sorted({finding.rule for finding in report.findings})
    notices = [{"level": "error", "message": {"text": text}} for text in report.unreadable]
    run = {
        "tool": {"driver": {"name": "vgp check", "rules": [_rule(RULES[rule], rules_url) for rule in rules]}},
        "invocations": [{"executionSuccessful": report.exit_code != 2, "toolExecutionNotifications": notices}],
        "results": [
            _result(finding, rules.index(finding.rule), lines.get(id(finding), 1)) for finding in report.findings
        ],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: Rule, rules_url: str) -> dict[str, Any]:
    page = f"{rules_url.rstrip('/')}/{rule.id}.md" if rules_url else ""
    return {
        "id": rule.id,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": f"{rule.title}."},
        "help": {"text": f"See {page or rule.page}."},
        **({"helpUri": page} if page else {}),
        "defaultConfiguration": {"level": rule.severity},
    }


def _result(finding: Finding, rule_index: int, line: int) -> dict[str, Any]:
    physical = {"artifactLocation": {"uri": _uri(finding.file)}, "region": {"startLine": line}}
    logical = {"name": finding.step, "fullyQualifiedName": finding.field or finding.step}
    return {
        "ruleId": finding.rule,
        "ruleIndex": rule_index,
        "level": finding.severity,
        "message": {"text": f"{finding.message} {finding.suggestion}".rstrip()},
        "locations": [{"physicalLocation": physical, "logicalLocations": [logical]}],
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
