"""The verb that judges any spec: check."""

import json
import sys
from typing import Annotated

import typer

from vgp.check import sarif, text
from vgp.check.check import check, own_regions
from vgp.cli.options import console
from vgp.errors import RequestError
from vgp.text.times import day

app = typer.Typer()

_FORMS = ("text", "json", "sarif")


@app.command(
    "check",
    epilog="Example: pipelines check build/*.json config.yaml --region us-central1",
)  # fmt: skip
def check_files(
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
    """Check any request against the GPU catalog: compiled pipelines, custom jobs, tuning, predictions, legacy jobs.

    Specs are JSON or YAML. Programs, notebooks and scripts with gcloud commands are read too, and not run: what they
    compute is said to be unknown.

    Exit codes: 0 no error, 1 errors, 2 a file cannot be read or judged to its end. The rules: docs/rules.
    """
    if form not in _FORMS:
        raise RequestError(f"--format {form}: choose from {', '.join(_FORMS)}.")
    regions = region or own_regions()
    report = check(paths, regions=regions, strategy=strategy, ignore=ignore or (), as_of=day(as_of))
    for line in report.unreadable:
        print(f"error: {line}", file=sys.stderr)
    if form == "text":
        text.show(report, console())
    else:
        print(json.dumps(sarif.sarif(report) if form == "sarif" else report.as_json(), indent=2))
    raise typer.Exit(report.exit_code)
