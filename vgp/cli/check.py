"""The verb `check`: checks specs and jobs against the GPU catalog."""

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from vgp.base.documents.toml_text import FILE_NAME
from vgp.base.errors import RequestError
from vgp.base.text.figures import format_count
from vgp.base.text.printable import one_line, printable
from vgp.base.text.times import parse_as_of
from vgp.base.whole_files import diff_lines
from vgp.check.check_report import Report, print_report, sarif
from vgp.check.checker import check, read_project_regions
from vgp.check.fix import Options, fixes
from vgp.cli import extras
from vgp.cli.options import console, find_repository, import_lazily

with import_lazily():
    from vgp.check import folder_comparison
    from vgp.vertex.schedules import cron

app = typer.Typer()

_FORMS = ("text", "json", "sarif", "markdown")


@app.command(
    "check",
    epilog="Example: vgp check build/*.json config.yaml --region us-central1",
)  # fmt: skip
def check_files(
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="Files, folders, or - for standard input.")],
    region: Annotated[
        list[str] | None,
        typer.Option(help="Region of the jobs; repeatable. Default: that of pipelines.toml, else any region."),
    ] = None,
    strategy: Annotated[
        str | None, typer.Option(help="Default for jobs that name none: standard, spot or flex_start.")
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(metavar="RULE", help="Ignore a rule, by id or name; repeatable.")
    ] = None,
    form: Annotated[str, typer.Option("--format", help="text, json, sarif, or markdown with --compare.")] = "text",
    as_of: Annotated[
        str | None, typer.Option(metavar="DATE", help="Check retirements as of this day; default: today.")
    ] = None,
    fix: Annotated[
        bool, typer.Option("--fix", help="Show, as a diff of the files, the nearest machines that work.")
    ] = False,
    write: Annotated[bool, typer.Option("--write", help="With --fix: also apply the diff to the files.")] = False,
    skip_others: Annotated[
        bool, typer.Option("--skip-others", help="Skip named files that request no machine.")
    ] = False,
    compare: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Folder with earlier versions of the files: compare steps and costs, as Markdown."
        ),
    ] = None,
    rules_url: Annotated[
        str | None,
        typer.Option(
            "--rules-url", metavar="URL", help="Base URL of the help links in SARIF: the folder of the rules' pages."
        ),
    ] = None,
) -> None:
    """Check any request against the GPU catalog: compiled pipelines, custom jobs, tuning, predictions, legacy jobs.

    Specs are JSON or YAML. vgp compile NAME checks a pipeline of this repository; write NAME/ for a folder with the
    name of a pipeline. The command also reads Python, notebooks, Terraform, and gcloud and curl commands in scripts,
    Makefiles, Dockerfiles and CI files. It runs none of them, and reports values that they compute as unknown.

    Exit codes: 0 no error, 1 errors, 2 a file could not be read or checked completely. Rules: docs/reference/rules.
    """
    _refuse_pipelines(paths)
    if form not in _FORMS:
        raise RequestError(f"--format {form}: choose from {', '.join(_FORMS)}.")
    if write and not fix:
        raise RequestError("--write needs --fix: vgp check FILE --fix --write.")
    if fix and (form != "text" or compare is not None):
        raise RequestError("--fix prints a diff; omit --format and --compare.")
    if (compare is None) != (form != "markdown"):
        raise RequestError("--compare FOLDER and --format markdown need each other.")
    if fix:
        options = Options(region or read_project_regions(), strategy, ignore or (), parse_as_of(as_of))
        raise typer.Exit(_fix(paths, options, write=write))
    run_check = partial(check, strategy=strategy, ignore=ignore or (), as_of=parse_as_of(as_of))
    if compare is not None:
        raise typer.Exit(_compare(paths, compare, region or (), run_check))
    report = run_check(paths, regions=region or read_project_regions(), skip_others=skip_others)
    for line in report.unreadable:
        print(f"error: {line}", file=sys.stderr)
    if form == "text":
        print_report(report, console())
    else:
        print(
            json.dumps(
                sarif(report, rules_url or extras.find_rules_url()) if form == "sarif" else report.as_json(), indent=2
            )
        )
    raise typer.Exit(report.exit_code)


def _refuse_pipelines(paths: Sequence[str]) -> None:
    """Raises RequestError for the bare name of a pipeline, because the checker reads compiled specs."""
    from vgp.settings.repository import find_workflows

    names = [path for path in paths if os.sep not in path and not Path(path).is_file()]
    try:
        workflows = find_workflows(find_repository()) if names else {}
    except RequestError:
        return  # no repository is needed to check files
    for name in filter(workflows.__contains__, names):
        beside = f" To check the folder {name}, write {name}/." if Path(name).is_dir() else ""
        raise RequestError(f"{name} is a pipeline, and check reads files. Check it with vgp compile {name}.{beside}")


def _fix(paths: list[str], options: Options, *, write: bool) -> int:
    """Prints the diff to stdout and remaining findings to stderr; returns the exit code of a check of the resulting
    files."""
    file_fixes = list(fixes(paths, options))
    changed = [fix for fix in file_fixes if fix.changes]
    for fix in changed:
        for line in diff_lines(fix.before, fix.after, str(fix.path)):
            print(printable(line))
    for sentence in (sentence for fix in file_fixes for sentence in fix.left):
        print(one_line(sentence), file=sys.stderr)
    if write:
        for fix in changed:
            fix.write()
    report = check(
        paths, regions=options.regions, strategy=options.strategy, ignore=options.ignore, as_of=options.as_of
    )
    for line in report.unreadable:
        print(f"error: {one_line(line)}", file=sys.stderr)
    files = format_count(len(changed), "file")
    done = f"{files} written." if write else f"{files} would change; write them with --write."
    print(f"{done if changed else 'Nothing to write.'} {report.summary}", file=sys.stderr)
    return report.exit_code


def _compare(paths: list[str], folder: Path, regions: Sequence[str], run_check: Callable[..., Report]) -> int:
    """Prints the comparison and returns the exit code of a check of `paths`."""
    now = datetime.now(UTC)
    before, after = folder_comparison.read_states(paths, folder, regions, run_check)
    before = replace(before, schedules=cron.monthly_runs(folder / FILE_NAME, now))
    after = replace(after, schedules=cron.monthly_runs(Path(FILE_NAME), now))
    print(folder_comparison.markdown(before, after, now.date()), end="")
    return after.report.exit_code
