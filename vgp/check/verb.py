"""`pipelines check PATH...`: judge any spec against the GPU catalog, before anything is queued."""

import sys
import tomllib
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from vgp.check import report as rendering
from vgp.check.check import Report
from vgp.check.check import check as judge
from vgp.documents.document import Document, Unreadable, parse, standard_input
from vgp.errors import RequestError


def check(
    paths: Sequence[str | Path],
    *,
    regions: Sequence[str] = (),
    strategy: str | None = None,
    ignore: Sequence[str] = (),
    form: str = "text",
    as_of: str | None = None,
) -> int:
    """Checks the paths (`-` is standard input), prints the report on stdout, and returns the exit code.

    Without regions the one of pipelines.toml in this folder counts; without that file every region does.

    Raises:
        RequestError: an unknown rule, strategy, region, format or date.
    """
    if form not in rendering.FORMATS:
        raise RequestError(f"--format {form}: choose from {', '.join(rendering.FORMATS)}.")
    unread: list[str] = []
    inputs: list[str | Path | Document] = []
    for path in paths:
        inputs += _standard_input(unread) if str(path) == "-" else [path]
    try:
        found = judge(inputs, regions=regions or settings_region(), strategy=strategy, ignore=ignore, as_of=day(as_of))
    except ValueError as error:
        raise RequestError(str(error)) from None
    found.unreadable[:0] = unread
    _print(found, form)
    return found.exit_code


def settings_region() -> list[str]:
    """The region of ./pipelines.toml, if there is one. Its other settings do not matter here, nor their mistakes."""
    try:
        region = tomllib.loads(Path("pipelines.toml").read_text(encoding="utf-8")).get("region")
    except (OSError, ValueError):
        return []
    return [region] if isinstance(region, str) else []


def day(text: str | None) -> date | None:
    """The date of `--as-of`."""
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise RequestError(f"--as-of {text}: write a date like 2026-08-20.") from None


def _standard_input(unread: list[str]) -> Sequence[Document]:
    try:
        return parse("<stdin>", standard_input())
    except Unreadable as error:
        unread.append(str(error))
        return []


def _print(report: Report, form: str) -> None:
    for line in report.unreadable:
        print(f"error: {line}", file=sys.stderr)
    if form == "text" and sys.stdout.isatty():
        _print_colored(report)
    else:
        print(rendering.render(report, form))


def _print_colored(report: Report) -> None:
    from rich.console import Console
    from rich.text import Text

    colors = {"error:": "bold red", "warning:": "yellow", "note:": "blue"}
    console = Console(soft_wrap=True, highlight=False)
    for line in rendering.lines(report):
        text = Text(line)
        text.highlight_words([line.split(" ", 1)[0]], colors.get(line.split(" ", 1)[0], ""))
        console.print(text)
