"""The verb `convert`: rewrites a job request in another form."""

import json
import shlex
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from vgp.base.errors import RequestError
from vgp.base.text.printable import one_line
from vgp.base.text.times import parse_as_of
from vgp.check import check_report
from vgp.check.convert import any_request, step_job
from vgp.check.convert.any_request import Result, replace_machines
from vgp.check.sources.command_line import Note
from vgp.cli.options import Json, SettingsFile, console, print_json

app = typer.Typer()

_FORMS = ("config", "sdk", "vm")


@app.command(
    "convert",
    epilog="Example: vgp convert legacy.yaml > config.yaml, or: vgp convert --step train --to vm",
)
def convert_request(
    source: Annotated[
        str | None, typer.Argument(help="The file of a job, - for standard input, or a quoted 'gcloud ...' line.")
    ] = None,
    step: Annotated[str | None, typer.Option(help="A step of pipelines.toml instead of a file.")] = None,
    to: Annotated[
        str, typer.Option(help="config: for gcloud; sdk: a Python program; vm: with --step, a Compute Engine machine.")
    ] = "config",
    args: Annotated[str, typer.Option(help="With --step: quoted arguments of python -m vgp.steps STEP.")] = "",
    nearest: Annotated[
        bool, typer.Option("--nearest", help="Replace unavailable machines and GPUs by the nearest available ones.")
    ] = False,
    settings: SettingsFile = None,
    as_json: Json = False,
    as_of: Annotated[
        str | None, typer.Option(metavar="DATE", help="Check retirements as of this day; default: today.")
    ] = None,
) -> None:
    """Convert a legacy AI Platform job, a gcloud line, a Vertex AI job or a step into another form.

    The result goes to stdout; a note on each converted or lost field goes to stderr. Exit code 1: it would not run.
    """
    if not source and step is None or source is not None and step is not None:
        raise RequestError("convert needs either a file or gcloud line, or --step NAME.")
    forms = _FORMS if step is not None else _FORMS[:2]
    if to not in forms:
        raise RequestError(f"--to {to}: choose from {', '.join(forms)}.")
    if nearest and step is not None:
        raise RequestError("--nearest does not apply to --step; change the machine of the step in pipelines.toml.")
    if step is None:
        conversion = any_request.convert_source(source or "", as_of=parse_as_of(as_of))
    elif to != "vm":
        conversion = step_job.job(settings, step, _split_words(args))
    else:
        _print_vm(*step_job.vm(settings, step, _split_words(args)), as_json)
        return
    if nearest:
        replace_machines(conversion, as_of=parse_as_of(as_of))
    result = any_request.result(conversion, as_of=parse_as_of(as_of))
    (_print_json if as_json else _print)(result, to)
    raise typer.Exit(int(result.has_failed))


def _split_words(args: str) -> list[str]:
    try:
        return shlex.split(args)
    except ValueError as error:
        raise RequestError(f"--args cannot be split into words: {error}.") from None


def _print(result: Result, form: str) -> None:
    """Prints the converted job to stdout if it would run, and notes and findings to stderr."""
    conversion = result.conversion
    _print_notes([*conversion.notes, *(result.sdk_notes if form == "sdk" else ())])
    check_report.print_report(result.report, console(stderr=True))
    for line in result.report.unreadable:
        print(f"error: {line}", file=sys.stderr)
    if result.has_failed:
        has_changes = any(finding.changes for finding in result.report.of_severity("error"))
        hint = " Use the nearest machines that work with --nearest." if has_changes else ""
        print(f"error: not converted, because the result would not run.{hint}", file=sys.stderr)
        return
    print(result.sdk if form == "sdk" else result.config, end="")
    if form == "config":
        print(f"Save the output as config.yaml, then run: {one_line(conversion.command())}", file=sys.stderr)


def _print_json(result: Result, _: str) -> None:
    """Prints every form in one JSON document."""
    conversion = result.conversion
    notes = [*conversion.notes, *result.sdk_notes]
    document = {
        "config": None if result.has_failed else conversion.config,
        "worker_pool_specs": result.worker_pool_specs,
        "sdk": None if result.has_failed else result.sdk,
        "command": conversion.command(),
        "notes": [{"field": note.field, "became": note.became, "dropped": note.dropped} for note in notes],
        "lost": {note.field: note.became for note in notes if note.dropped},
        **result.report.as_json(),
    }
    print(json.dumps(document, indent=2, default=str))


def _print_vm(line: str, lost: Sequence[Note], as_json: bool) -> None:
    if as_json:
        print_json({"command": line, "lost": {note.field: note.became for note in lost}})
    else:
        _print_notes(lost)
        print(line)


def _print_notes(notes: Sequence[Note]) -> None:
    for note in notes:
        print(one_line(f"{note.field}: {'lost: ' if note.dropped else ''}{note.became}"), file=sys.stderr)
