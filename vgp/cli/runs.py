"""The verbs on existing runs: runs, show, wait, cancel, compare, logs, shell, clean."""

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from vgp.cli.options import (
    Environment,
    Json,
    Run,
    SettingsFile,
    Timeout,
    confirm,
    console,
    import_lazily,
    load_settings,
    print_json,
    print_lines,
)

if TYPE_CHECKING:
    from vgp.settings import Settings

with import_lazily():
    from vgp.vertex import cleaning_view, run_cleanup
    from vgp.vertex.runs import follow, job_shell, outputs, run_cost, run_logs, run_pages, run_search, run_view

app = typer.Typer()


@app.command(epilog="Example: vgp runs --pipeline training --state failed --since 7d")
def runs(
    pipeline: Annotated[str, typer.Option(help="Only runs of this pipeline.")] = "",
    state: Annotated[
        list[str] | None, typer.Option(help="Only runs in this state: running, succeeded, failed ...; repeatable.")
    ] = None,
    since: Annotated[str, typer.Option(help="Only runs created since: 90m, 12h, 7d, 2w, or a date.")] = "",
    label: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Only runs with this label, or KEY for any value.")
    ] = None,
    schedule: Annotated[str, typer.Option(metavar="NAME", help="Only runs of this schedule.")] = "",
    mine: Annotated[bool, typer.Option("--mine", help="Only runs that vgp or its schedules started.")] = False,
    limit: Annotated[int, typer.Option(help="Show this many runs, newest first; 0: all.")] = 20,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """List runs, newest first."""
    loaded, now = load_settings(settings, environment), datetime.now(UTC)
    only = run_search.Filter(pipeline, state or (), since, label or (), schedule, mine)
    found_runs = run_search.list_runs(loaded, only, limit=limit, now=now)
    if as_json:
        print_json([outputs.brief_report(loaded, run, now) for run in found_runs])
        return
    console().print(
        run_view.render_list(found_runs, now)
        if found_runs
        else f"No runs match in {loaded.region} of {loaded.project}."
    )
    if limit and len(found_runs) == limit:
        console(stderr=True).print(f"showing the newest {limit}; show more with --limit", style="dim", highlight=False)


@app.command(epilog="Example: vgp show latest")
def show(run: Run, environment: Environment = None, settings: SettingsFile = None, as_json: Json = False) -> None:
    """Show a run: steps with machine and cost, parameters, metrics, artifacts and errors."""
    loaded, now = load_settings(settings, environment), datetime.now(UTC)
    details, rows = run_pages.find_run(loaded, run)
    last = run_cost.last_runs(loaded, details.pipeline, without=details.id)
    if as_json:
        print_json({**outputs.report_json(loaded, details, rows, now), "last_runs": last.as_json()})
    else:
        run_pages.print_page(console(), loaded, details, rows, now, last)


@app.command(epilog="Example: vgp wait latest:training --timeout 7200")
def wait(
    run: Run,
    timeout: Timeout = None,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Follow a run until it ends: steps, machines, cost so far. The run continues after Ctrl-C or a lost connection.

    Exit codes: 0 succeeded, 1 failed, 3 cancelled, 124 still running after --timeout, 130 Ctrl-C.
    """
    follow_run(load_settings(settings, environment), run, as_json=as_json, timeout_s=timeout)


def follow_run(loaded: "Settings", reference: str, *, as_json: bool, timeout_s: float | None = None) -> NoReturn:
    """Shows the run until it ends, and exits with the exit code of its result."""
    outcome = follow.follow(loaded, reference, console(as_json), timeout_s=timeout_s)
    if as_json:
        print_json(outcome.result)
    raise typer.Exit(outcome.exit_code)


@app.command(epilog="Example: vgp cancel training-0f5c --wait")
def cancel(
    run: Run,
    wait: Annotated[bool, typer.Option("--wait", help="Follow the run until it has ended.")] = False,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Stop a run. If it has already ended, nothing changes, and the exit code is 0."""
    loaded = load_settings(settings, environment)
    stopped, was_asked = follow.cancel(loaded, run)
    if wait and not stopped.over:
        outcome = follow.follow(loaded, stopped.name, console(as_json))
        if as_json:
            print_json({**outcome.result, "asked": was_asked})
        # A run that was cancelled or ended meanwhile fulfils the request.
        raise typer.Exit(outcome.exit_code if outcome.exit_code > 3 else 0)
    if as_json:
        print_json(follow.cancellation_json(loaded, stopped, was_asked))
    else:
        print_lines(f"{stopped.id} {f'has ended already: {stopped.state}' if stopped.over else 'is being cancelled'}")


@app.command(epilog="Example: vgp compare training-0f5c training-91ab --all")
def compare(
    several: Annotated[list[str], typer.Argument(metavar="RUN RUN...", help="Two or more runs, as in vgp runs.")],
    all_rows: Annotated[bool, typer.Option("--all", help="Also show equal rows.")] = False,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Compare runs side by side: parameters, metrics, results, template, time and cost."""
    loaded = load_settings(settings, environment)
    runs = run_pages.find_runs(loaded, several)
    rows = run_pages.comparison_rows(runs, datetime.now(UTC))
    if as_json:
        print_json(run_pages.comparison_json(loaded, runs, rows))
    else:
        console().print(run_pages.render_comparison(runs, rows, all_rows=all_rows))


@app.command(epilog="Example: vgp logs latest train --severity warning --follow")
def logs(
    run: Run,
    step: Annotated[
        str | None, typer.Argument(metavar="[STEP]", help="A step; default: all steps, ordered by time.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new lines until the run ends.")] = False,
    since: Annotated[
        str, typer.Option(help="Only lines since: 90m, 12h, 7d, or a time. Default: the run's start.")
    ] = "",
    limit: Annotated[int, typer.Option(help="Print this many of the newest lines; 0: all.")] = 1000,
    severity: Annotated[str, typer.Option(help="Only lines of at least this severity: info, warning, error ...")] = "",
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document per line.")] = False,
) -> None:
    """Print the logs of the steps of a run, from Cloud Logging: time, step, machine, severity, message."""
    selection = run_logs.Selection(step, since, severity, limit)
    loaded = load_settings(settings, environment)
    entries = run_logs.read_logs(loaded, run, selection, follow=follow, log=partial(print_lines, stderr=True))
    try:
        for line in run_logs.format_entries(entries, as_json=as_json):
            print(line, flush=follow)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


@app.command(epilog="Example: vgp shell latest train --open")
def shell(
    run: Run,
    step: Annotated[str, typer.Argument(metavar="STEP", help="The step: its custom job needs web_access = true.")],
    open_: Annotated[bool, typer.Option("--open", help="Open the first machine's shell in the browser.")] = False,
    timeout: Timeout = None,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Print the address of a browser shell on each machine of a running step, for nvidia-smi, py-spy or a debugger.

    Waits until the machines have started. For a step with a ladder, the shell is on the current job.
    """
    loaded = load_settings(settings, environment)
    try:
        shells = job_shell.wait_for_shells(loaded, run, step, timeout_s=timeout, log=partial(print_lines, stderr=True))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    if as_json:
        print_json(shells.as_json())
    else:
        width = max(map(len, shells.uris))
        print_lines(*(f"{name.ljust(width)}  {uri}" for name, uri in shells.uris.items()), f"the job: {shells.link}")
    if open_:
        typer.launch(next(iter(shells.uris.values())))


@app.command(epilog="Example: vgp clean --older-than 90d --dry-run")
def clean(
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="AGE", help="Minimum age of the last change: 60d, 10w.")
    ] = "60d",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the files to delete; delete nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; required without a terminal.")] = False,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Remove old outputs, checkpoints and pins of runs from runs/ in the bucket. Shows them and asks first.

    Files that a champion, an active run, a schedule or the pins of a newer run refer to stay, and so do results of the
    last four weeks, which the cache may use. The command is safe to interrupt and repeat.
    """
    age, loaded = run_cleanup.parse_age(older_than), load_settings(settings, environment)
    planned = run_cleanup.make_plan(loaded, age)
    console(as_json).print(cleaning_view.render_plan(planned))
    removed = None
    if planned.going and not dry_run:
        confirm(f"Delete them from {planned.root.uri}?", yes, "vgp clean --dry-run")
        with console(stderr=True).status("Deleting") as status:
            removed = run_cleanup.remove(planned, lambda removed: status.update(f"{removed.objects:,} objects deleted"))
        print_lines(f"Deleted {removed.objects:,} objects, {cleaning_view.format_size(removed.bytes)}.", stderr=as_json)
        if removed.changed:
            print_lines(f"Kept {removed.changed:,} objects that changed meanwhile.", stderr=as_json)
    if as_json:
        print_json(cleaning_view.as_json(planned, removed))
