"""The verbs that follow and inspect runs: wait, runs, show, logs, cancel, rerun, compare."""

from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.commands.options import Environment, Json, SettingsFile, console, print_json
from pipelines.errors import RequestError, WorkFailed

if TYPE_CHECKING:
    from pipelines.settings import Settings

app = typer.Typer()
_PANEL = "On Vertex AI"

Run = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="Id, the beginning of one, resource name, console link, latest or latest:PIPELINE.",
    ),
]
Timeout = Annotated[
    float | None, typer.Option("--timeout", metavar="SECONDS", min=0, help="Wait no longer; the run goes on.")
]


@app.command(rich_help_panel=_PANEL, epilog="Example: pipelines wait latest:training --timeout 7200")
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
    from pipelines.settings import load
    from pipelines.vertex import clients, runs
    from pipelines.vertex.errors import explained
    from pipelines.vertex.patience import Clock, Patience
    from pipelines.vertex.run_view import write

    loaded, out = load(settings, environment=environment), console(as_json)
    patience = Patience(lambda text: write(out, text), Clock())
    with explained(f"look for the run {run}", loaded):
        name = patience(lambda: runs.look_for(loaded, run, calls=clients.once)).name
    follow_run(loaded, name, as_json=as_json, timeout_s=timeout)


def follow_run(loaded: "Settings", name: str, *, as_json: bool, timeout_s: float | None = None) -> None:
    """Shows the run `name` until it ends; the command's exit code tells how it did."""
    from pipelines.vertex.follow import follow

    outcome = follow(loaded, name, console(as_json), timeout_s=timeout_s)
    if as_json:
        print_json(outcome.result)
    raise typer.Exit(outcome.exit_code)


@app.command(rich_help_panel=_PANEL, epilog="Example: pipelines runs --pipeline training --state failed --since 7d")
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
    from pipelines.settings import load
    from pipelines.vertex import run_report
    from pipelines.vertex.patience import Clock
    from pipelines.vertex.runs import Wanted, listed

    loaded, now = load(settings, environment=environment), Clock().now()
    wanted = Wanted(pipeline, state or (), since, label or (), schedule, mine)
    found = listed(loaded, wanted, limit=limit, now=now)
    if as_json:
        print_json([run_report.brief(loaded, each, now) for each in found])
        return
    from pipelines.vertex.show import listing

    console().print(listing(found, now))
    if limit and len(found) == limit:
        console(stderr=True).print(f"the newest {limit}; more with --limit", style="dim", highlight=False)


@app.command(rich_help_panel=_PANEL, epilog="Example: pipelines show latest")
def show(run: Run, environment: Environment = None, settings: SettingsFile = None, as_json: Json = False) -> None:
    """Show a run: steps with machine and cost, parameters, metrics, artifacts, and what failed."""
    from pipelines.settings import load
    from pipelines.vertex import run_cost, run_report
    from pipelines.vertex import runs as vertex
    from pipelines.vertex.custom_jobs import courteously
    from pipelines.vertex.patience import Clock
    from pipelines.vertex.run_state import read

    loaded, now = load(settings, environment=environment), Clock().now()
    found = courteously(loaded, read(vertex.find(loaded, run)))
    rows = run_cost.machines(found)
    if as_json:
        print_json(run_report.as_json(loaded, found, rows, now))
        return
    from pipelines.vertex.show import page

    page(console(), loaded, found, rows, now)


@app.command(rich_help_panel=_PANEL, epilog="Example: pipelines logs latest train --severity warning --follow")
def logs(
    run: Run,
    step: Annotated[str | None, typer.Argument(metavar="[STEP]", help="One step; default: all, by time.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new lines until the run ends.")] = False,
    since: Annotated[str, typer.Option(help="Only since: 90m, 12h, 7d, or a time. Default: the run's start.")] = "",
    limit: Annotated[int, typer.Option(help="The newest so many lines; 0: all.")] = 1000,
    severity: Annotated[str, typer.Option(help="Only this and worse: info, warning, error ...")] = "",
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document a line.")] = False,
) -> None:
    """Print what the steps of a run wrote, from Cloud Logging: time, step, machine, severity, message."""
    from pipelines.settings import load
    from pipelines.vertex import log_filter
    from pipelines.vertex import logs as vertex
    from pipelines.vertex import runs as finder
    from pipelines.vertex.custom_jobs import courteously
    from pipelines.vertex.patience import Clock, Patience
    from pipelines.vertex.run_state import read
    from pipelines.vertex.run_view import write

    loaded, aside = load(settings, environment=environment), console(stderr=True)
    wanted = vertex.Wanted(step, since, severity, limit)
    found = courteously(loaded, read(finder.find(loaded, run)))
    steps = log_filter.known(found, step) if step else None
    write(aside, log_filter.link(loaded, found, steps))
    if follow:
        patience = Patience(lambda text: write(aside, text), Clock())
        entries = vertex.following(loaded, found.name, wanted, patience)
    else:
        entries = iter(vertex.entries(loaded, found, wanted))
    try:
        for line in vertex.lines(entries, as_json=as_json):
            print(line, flush=follow)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


@app.command(rich_help_panel=_PANEL, epilog="Example: pipelines cancel training-0f5c --wait")
def cancel(
    run: Run,
    wait: Annotated[bool, typer.Option("--wait", help="Follow the run until it has ended.")] = False,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Stop a run. One that has ended already stays as it is; the exit code is 0 then too."""
    from pipelines.settings import load
    from pipelines.vertex import cancel as vertex
    from pipelines.vertex import names

    loaded, out = load(settings, environment=environment), console(as_json)
    found, asked = vertex.cancel(loaded, run)
    if wait and not found.over:
        from pipelines.vertex.follow import follow

        outcome = follow(loaded, found.name, out)
        if as_json:
            print_json({**outcome.result, "asked": asked})
        # To be cancelled is what was asked for, and to have ended meanwhile is as good.
        raise typer.Exit(outcome.exit_code if outcome.exit_code > 3 else 0)
    if as_json:
        link = names.run_link(loaded, found.id)
        print_json({"id": found.id, "name": found.name, "state": found.state, "asked": asked, "url": link})
        return
    words = "is being cancelled" if not found.over else f"has ended already: {found.state}"
    out.print(f"{found.id} {words}", highlight=False, markup=False, soft_wrap=True)


@app.command(rich_help_panel=_PANEL, epilog="Example: pipelines rerun latest --from-failed --wait")
def rerun(
    run: Run,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Another value for a parameter; repeatable."),
    ] = None,
    from_failed: Annotated[
        bool, typer.Option("--from-failed", help="Take finished steps from the cache, run the others.")
    ] = False,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Run every step, even if its result is known.")] = False,
    new: Annotated[bool, typer.Option("--new", help="Another run, even if the same rerun was started before.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Follow the run; the exit code tells how it ended.")] = False,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Run again what a run ran: the same pipeline, parameters, account, network and key, from what Google keeps.

    Default: with the caching that the pipeline asked for. Repeating the command starts nothing twice.
    """
    import secrets

    from pipelines.settings import load
    from pipelines.vertex import names, run_state
    from pipelines.vertex import rerun as vertex
    from pipelines.vertex import runs as finder

    if from_failed and no_cache:
        raise RequestError("--from-failed and --no-cache exclude each other: the one needs the cache.")
    loaded, out = load(settings, environment=environment), console(as_json)
    old = run_state.read(finder.find(loaded, run))
    caching = True if from_failed else False if no_cache else None
    body = vertex.body(old, set_ or (), caching=caching, again=secrets.token_hex(8) if new else "")
    job, started = vertex.rerun(loaded, body)
    made = run_state.read(job)
    result = {
        "id": made.id, "of": old.id, "started": started, "state": made.state, "name": made.name,
        "url": names.run_link(loaded, made.id),
    }  # fmt: skip
    words = f"started {made.id}, a rerun of {old.id}" if started else f"{made.id} exists already ({made.state})"
    out.print(f"{words}\n{result['url']}", highlight=False, markup=False, soft_wrap=True)
    ended_badly = not started and made.state in ("failed", "cancelled")
    if as_json and (ended_badly or not wait):
        print_json(result)
    if ended_badly:
        raise WorkFailed(
            f"this rerun ended {made.state}; nothing was started.\n"
            f"  Go on from its failed step: pipelines rerun {made.id} --from-failed\n"
            "  Another one:                the same command with --new",
            result=result,
        )
    if wait:
        follow_run(loaded, made.name, as_json=as_json)


@app.command(rich_help_panel=_PANEL, epilog="Example: pipelines compare training-0f5c training-91ab --all")
def compare(
    several: Annotated[list[str], typer.Argument(metavar="RUN RUN...", help="Two or more runs; see pipelines runs.")],
    all_rows: Annotated[bool, typer.Option("--all", help="Equal rows too.")] = False,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Put runs side by side: parameters, metrics, results, template, time and cost."""
    from pipelines.settings import load
    from pipelines.vertex import compare as vertex
    from pipelines.vertex import names
    from pipelines.vertex import runs as finder
    from pipelines.vertex.patience import Clock
    from pipelines.vertex.run_state import read

    loaded = load(settings, environment=environment)
    found = [read(finder.find(loaded, each)) for each in several]
    rows = vertex.rows(found, Clock().now())
    if as_json:
        links = [{"id": each.id, "url": names.run_link(loaded, each.id)} for each in found]
        print_json({"runs": links, "rows": [row.as_json() for row in rows]})
        return
    console().print(vertex.table(found, rows, all_rows=all_rows))
