"""The verb that rewrites a request: convert."""

import json
import shlex
import sys
from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vgp.cli.check import print_findings
from vgp.cli.options import Json, SettingsFile, print_json
from vgp.errors import RequestError

if TYPE_CHECKING:
    from vgp.check.report import Report
    from vgp.convert.conversion import Conversion, Note

app = typer.Typer()

_FORMS = ("config", "sdk", "vm")


@app.command(
    rich_help_panel="On this machine",
    epilog="Example: pipelines convert legacy.yaml > config.yaml, or: pipelines convert --step train --to vm",
)
def convert(
    source: Annotated[
        str | None, typer.Argument(help="A file of a job, - for standard input, or a 'gcloud ...' line in quotes.")
    ] = None,
    step: Annotated[str | None, typer.Option(help="A step of pipelines.toml instead of a file.")] = None,
    to: Annotated[
        str, typer.Option(help="config: for gcloud; sdk: a Python program; vm: with --step, a Compute Engine machine.")
    ] = "config",
    args: Annotated[str, typer.Option(help="With --step: arguments of python -m training STEP, in quotes.")] = "",
    settings: SettingsFile = None,
    as_json: Json = False,
    as_of: Annotated[
        str | None, typer.Option(metavar="DATE", help="Judge retirements as of this day; default: today.")
    ] = None,
) -> None:
    """Turn a legacy AI Platform job, a gcloud line or a Vertex AI job into another form, or print a step as one.

    The result goes to stdout, what became of each field, or that it is lost, to stderr. Exit code 1: it would not run.
    """
    from vgp.text.times import day

    if (source is None) == (step is None):
        raise RequestError("give a file or a gcloud line, or --step NAME.")
    forms = _FORMS if step else _FORMS[:2]
    if to not in forms:
        raise RequestError(f"--to {to}: choose from {', '.join(forms)}.")
    if step is None:
        raise typer.Exit(_print(_conversion(source or "", day(as_of)), to, as_json, day(as_of)))
    from vgp import settings as settings_file
    from vgp.convert import step as step_forms

    loaded, arguments = settings_file.load(settings), _words(args)
    if to == "vm":
        _print_vm(*step_forms.vm(loaded, step, arguments), as_json)
    else:
        raise typer.Exit(_print(step_forms.job(loaded, step, arguments), to, as_json, day(as_of)))


def _words(args: str) -> list[str]:
    try:
        return shlex.split(args)
    except ValueError as error:
        raise RequestError(f"--args cannot be split into words: {error}.") from None


def _conversion(source: str, as_of: date | None) -> "Conversion":
    from vgp.convert.convert import converted
    from vgp.convert.source import document

    first, notes = document(source)
    conversion = converted(first, as_of=as_of)
    conversion.notes[:0] = notes
    return conversion


def _print(conversion: "Conversion", form: str, as_json: bool, as_of: date | None) -> int:
    """Checks the result, prints it if it would run, and returns the exit code."""
    from vgp.convert.conversion import as_yaml
    from vgp.convert.convert import checked
    from vgp.convert.sdk_program import program
    from vgp.text.printable import one_line

    report = checked(conversion, as_of=as_of)
    failed = report.exit_code != 0
    sdk, sdk_notes = ("", []) if failed else program(conversion)
    if form == "sdk" or as_json:
        conversion.notes += sdk_notes
    if as_json:
        print(json.dumps(_as_json(conversion, report, sdk), indent=2, default=str))
        return int(failed)
    _print_notes(conversion.notes)
    print_findings(report, stderr=True)
    if failed:
        print("error: not converted: the result would not run.", file=sys.stderr)
    elif form == "sdk":
        print(sdk, end="")
    else:
        print(as_yaml(conversion.config), end="")
        print(f"Save it as config.yaml, then: {one_line(conversion.command())}", file=sys.stderr)
    return int(failed)


def _as_json(conversion: "Conversion", report: "Report", sdk: str) -> dict[str, Any]:
    from vgp.convert.sdk_program import snake

    failed = report.exit_code != 0
    return {
        "config": None if failed else conversion.config,
        "worker_pool_specs": None if failed else snake(conversion.job["workerPoolSpecs"]),
        "sdk": None if failed else sdk,
        "command": conversion.command(),
        "notes": [{"field": note.field, "became": note.became, "dropped": note.dropped} for note in conversion.notes],
        "lost": {note.field: note.became for note in conversion.lost},
        **report.as_json(),
    }


def _print_vm(line: str, lost: "Sequence[Note]", as_json: bool) -> None:
    if as_json:
        print_json({"command": line, "lost": {note.field: note.became for note in lost}})
    else:
        _print_notes(lost)
        print(line)


def _print_notes(notes: "Sequence[Note]") -> None:
    from vgp.text.printable import one_line

    for note in notes:
        print(one_line(f"{note.field}: {'lost: ' if note.dropped else ''}{note.became}"), file=sys.stderr)
