"""Findings as people read them: the one place that writes them, for every verb that shows some."""

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from vgp.base.text.printable import one_line
from vgp.check.finding import Finding
from vgp.check.report import Report

_ORDER = {"error": 0, "warning": 1, "note": 2}
_STYLES = {"error:": "bold red", "warning:": "yellow", "note:": "blue"}


def headline(finding: Finding) -> str:
    """error: train: n1-standard-8 takes 1, 2 or 4 of NVIDIA_TESLA_T4, not 3.  [GPU003]"""
    return f"{finding.severity}: {finding.step}: {finding.message}  [{finding.rule}]"


def lines(report: Report) -> Iterator[str]:
    """Findings, worst first, as three lines each: what is wrong, where, and what works; then how many there are."""
    numbers = report.lines()
    for finding in sorted(report.findings, key=lambda finding: _ORDER[finding.severity]):
        yield headline(finding)
        where = ", ".join(dict.fromkeys(part for part in (finding.cell, _end(finding.field)) if part))
        yield f"  {one_line(finding.file)}:{numbers.get(id(finding), 1)}  {where}"
        if finding.suggestion:
            yield f"  {finding.suggestion}"
    yield report.summary


def show(report: Report, console: Console) -> None:
    """Prints the lines; a terminal shows severities in colour."""
    if not console.is_terminal:
        print("\n".join(lines(report)), file=console.file)
        return
    for line in lines(report):
        severity, space, rest = line.partition(" ")
        text = Text.assemble((severity, _STYLES.get(severity, "")), space + rest)
        console.print(text, soft_wrap=True, highlight=False)


def _end(field: str) -> str:
    """The end of a long path, which tells most."""
    return field if len(field) <= 90 else f"...{field[-87:]}"
