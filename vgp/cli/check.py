"""The verb that judges any spec: check."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vgp.cli.options import console
from vgp.errors import RequestError

if TYPE_CHECKING:
    from vgp.check.report import Report
    from vgp.documents.document import Document

app = typer.Typer()


@app.command(
    rich_help_panel="On this machine", epilog="Example: pipelines check build/*.json config.yaml --region us-central1"
)
def check(
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="Files, folders, or - for standard input.")],
    region: Annotated[
        list[str] | None,
        typer.Option(help="The specs must work here; repeatable. Default: that of pipelines.toml, else anywhere."),
    ] = None,
    strategy: Annotated[
        str | None, typer.Option(help="Taken where a job names none: standard, spot or flex_start.")
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(metavar="RULE", help="Leave out a rule, by id or name; repeatable.")
    ] = None,
    form: Annotated[str, typer.Option("--format", help="text, json or sarif.")] = "text",
    as_of: Annotated[
        str | None, typer.Option(metavar="DATE", help="Judge retirements as of this day; default: today.")
    ] = None,
) -> None:
    """Check any spec against the GPU catalog: compiled pipelines, custom jobs, tuning, predictions, legacy jobs.

    Exit codes: 0 no error, 1 errors, 2 a file cannot be read or judged to its end. The rules: docs/rules.
    """
    from vgp.check import check as checker
    from vgp.text.times import day

    if form not in _FORMS:
        raise RequestError(f"--format {form}: choose from {', '.join(_FORMS)}.")
    inputs, unread = _inputs(paths)
    try:
        report = checker.check(
            inputs, regions=region or _own_region(), strategy=strategy, ignore=ignore or (), as_of=day(as_of)
        )
    except ValueError as error:
        raise RequestError(str(error)) from None
    report.unreadable[:0] = unread
    for line in report.unreadable:
        print(f"error: {line}", file=sys.stderr)
    _FORMS[form](report)
    raise typer.Exit(report.exit_code)


def _inputs(paths: Sequence[str]) -> "tuple[list[str | Path | Document], list[str]]":
    """Files and documents, and why standard input could not be read."""
    from vgp.documents.document import parse
    from vgp.documents.reading import Unreadable, standard_input

    inputs: list[str | Path | Document] = []
    unread = []
    for path in paths:
        try:
            inputs += parse("<stdin>", standard_input()) if path == "-" else [path]
        except Unreadable as error:
            unread.append(str(error))
    return inputs, unread


def _own_region() -> list[str]:
    """The region of ./pipelines.toml, if there is one. Its other settings do not matter here, nor their mistakes."""
    from vgp.documents import toml_text

    try:
        region = toml_text.load(Path("pipelines.toml")).get("region")
    except RequestError:
        return []
    return [region] if isinstance(region, str) else []


def print_findings(report: "Report", *, stderr: bool = False) -> None:
    """Prints the findings for people; a terminal shows severities in colour."""
    from vgp.check.text import lines, styled

    stream = sys.stderr if stderr else sys.stdout
    if not stream.isatty():
        print("\n".join(lines(report)), file=stream)
        return
    terminal = console(stderr=stderr)
    for line in lines(report):
        terminal.print(styled(line), soft_wrap=True, highlight=False)


def _print_json(report: "Report") -> None:
    print(json.dumps(report.as_json(), indent=2))


def _print_sarif(report: "Report") -> None:
    from vgp.check.sarif import sarif

    print(json.dumps(sarif(report), indent=2))


_FORMS: "dict[str, Callable[[Report], None]]" = {
    "text": print_findings, "json": _print_json, "sarif": _print_sarif,
}  # fmt: skip
