"""The verb that judges any spec: check."""

import json
import sys
from typing import Annotated

import typer

from vgp.check import sarif, text
from vgp.check.check import check, own_regions
from vgp.check.fix import Options, fixes
from vgp.cli.options import console
from vgp.errors import RequestError
from vgp.text.diff import unified
from vgp.text.figures import plural
from vgp.text.printable import one_line, printable
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
    fix: Annotated[bool, typer.Option("--fix", help="Show the nearest that works as a diff of the files.")] = False,
    write: Annotated[bool, typer.Option("--write", help="With --fix: also write it into the files.")] = False,
) -> None:
    """Check any request against the GPU catalog: compiled pipelines, custom jobs, tuning, predictions, legacy jobs.

    Specs are JSON or YAML. Programs, notebooks and scripts with gcloud commands are read too, and not run: what they
    compute is said to be unknown.

    Exit codes: 0 no error, 1 errors, 2 a file cannot be read or judged to its end. The rules: docs/rules.
    """
    if form not in _FORMS:
        raise RequestError(f"--format {form}: choose from {', '.join(_FORMS)}.")
    if write and not fix:
        raise RequestError("--write belongs to --fix: pipelines check FILE --fix --write.")
    if fix and form != "text":
        raise RequestError(f"--fix shows a diff: leave out --format {form}.")
    regions = region or own_regions()
    if fix:
        options = Options(regions, strategy, ignore or (), day(as_of))
        raise typer.Exit(_fix(paths, options, write=write))
    report = check(paths, regions=regions, strategy=strategy, ignore=ignore or (), as_of=day(as_of))
    for line in report.unreadable:
        print(f"error: {line}", file=sys.stderr)
    if form == "text":
        text.show(report, console())
    else:
        print(json.dumps(sarif.sarif(report) if form == "sarif" else report.as_json(), indent=2))
    raise typer.Exit(report.exit_code)


def _fix(paths: list[str], options: Options, *, write: bool) -> int:
    """The diff on stdout, what stays on stderr; the exit code is that of a check of the files as they then are."""
    found = list(fixes(paths, options))
    changed = [fix for fix in found if fix.changes]
    for fix in changed:
        for line in unified(fix.before, fix.after, str(fix.path)):
            print(printable(line))
    for sentence in (sentence for fix in found for sentence in fix.left):
        print(one_line(sentence), file=sys.stderr)
    if write:
        for fix in changed:
            fix.write()
    report = check(
        paths, regions=options.regions, strategy=options.strategy, ignore=options.ignore, as_of=options.as_of
    )
    for line in report.unreadable:
        print(f"error: {one_line(line)}", file=sys.stderr)
    many = plural(len(changed), "file")
    done = f"{many} written." if write else f"{many} would be written: add --write."
    print(f"{done if changed else 'Nothing to write.'} {report.summary}", file=sys.stderr)
    return report.exit_code
