"""The verbs on runs that there are: runs, show, wait, cancel, compare."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from vgp.cli.options import Environment, Json, Run, SettingsFile, Timeout, console, load_settings, print_json, say

if TYPE_CHECKING:
    from vgp.settings import Settings

app = typer.Typer()


@app.command(epilog="Example: vgp runs --pipeline training --state failed --since 7d")
def runs(
    pipeline: Annotated[str, typer.Option(help="Only of this pipeline.")] = "",
    state: Annotated[
        list[str] | None, typer.Option(help="Only in this state: running, succeeded, failed ...; repeatable.")
    ] = None,
    since: Annotated[str, typer.Option(help="Only created since: 90m, 12h, 7d, 2w, or a date.")] = "",
    label: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Only with this label, or KEY for any value.")
    ] = None,
    schedule: Annotated[str, typer.Option(metavar="NAME", help="Only those that a schedule started.")] = "",
    mine: Annotated[
        bool, typer.Option("--mine", help="Only those that this command line or its schedules started.")
    ] = False,
    limit: Annotated[int, typer.Option(help="The newest so many; 0: all.")] = 20,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """List runs, newest first."""
    from vgp.vertex.runs import outputs, run_search, run_view

    loaded, now = load_settings(settings, environment), datetime.now(UTC)
    only = run_search.Filter(pipeline, state or (), since, label or (), schedule, mine)
    listed = run_search.listed(loaded, only, limit=limit, now=now)
    if as_json:
        print_json([outputs.brief_report(loaded, run, now) for run in listed])
        return
    console().print(
        run_view.listing(listed, now) if listed else f"There are no such runs in {loaded.region} of {loaded.project}."
    )
    if limit and len(listed) == limit:
        console(stderr=True).print(f"the newest {limit}; more with --limit", style="dim", highlight=False)


@app.command(epilog="Example: vgp show latest")
def show(run: Run, environment: Environment = None, settings: SettingsFile = None, as_json: Json = False) -> None:
    """Show a run: steps with machine and cost, parameters, metrics, artifacts, and what failed."""
    from vgp.vertex.runs import outputs, run_cost, run_pages

    loaded, now = load_settings(settings, environment), datetime.now(UTC)
    shown, rows = run_pages.look(loaded, run)
    last = run_cost.last_runs(loaded, shown.pipeline, without=shown.id)
    if as_json:
        print_json({**outputs.report_json(loaded, shown, rows, now), "last_runs": last.as_json()})
    else:
        run_pages.page(console(), loaded, shown, rows, now, last)


@app.command(epilog="Example: vgp wait latest:training --timeout 7200")
def wait(
    run: Run,
    timeout: Timeout = None,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Follow a run until it ends: steps, machines, cost so far. Ctrl-C leaves it, and so does losing the network.

    Exit codes: 0 succeeded, 1 failed, 3 cancelled, 124 not over after --timeout, 130 left with Ctrl-C.
    """
    follow_run(load_settings(settings, environment), run, as_json=as_json, timeout_s=timeout)


def follow_run(loaded: "Settings", reference: str, *, as_json: bool, timeout_s: float | None = None) -> NoReturn:
    """Shows the run until it ends; the command's exit code tells how it did."""
    from vgp.vertex.runs import follow

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
    """Stop a run. One that has ended already stays as it is; the exit code is 0 then too."""
    from vgp.vertex.runs import follow

    loaded = load_settings(settings, environment)
    stopped, asked = follow.cancel(loaded, run)
    if wait and not stopped.over:
        outcome = follow.follow(loaded, stopped.name, console(as_json))
        if as_json:
            print_json({**outcome.result, "asked": asked})
        # To be cancelled is what was asked for, and to have ended meanwhile is as good.
        raise typer.Exit(outcome.exit_code if outcome.exit_code > 3 else 0)
    if as_json:
        print_json(follow.cancelled_json(loaded, stopped, asked))
    else:
        say(f"{stopped.id} " + ("is being cancelled" if not stopped.over else f"has ended already: {stopped.state}"))


@app.command(epilog="Example: vgp compare training-0f5c training-91ab --all")
def compare(
    several: Annotated[list[str], typer.Argument(metavar="RUN RUN...", help="Two or more runs; see vgp runs.")],
    all_rows: Annotated[bool, typer.Option("--all", help="Equal rows too.")] = False,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Put runs side by side: parameters, metrics, results, template, time and cost."""
    from vgp.vertex.runs import run_pages

    loaded = load_settings(settings, environment)
    runs = run_pages.find_runs(loaded, several)
    rows = run_pages.comparison_rows(runs, datetime.now(UTC))
    if as_json:
        print_json(run_pages.comparison_json(loaded, runs, rows))
    else:
        console().print(run_pages.comparison(runs, rows, all_rows=all_rows))
