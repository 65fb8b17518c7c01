"""The verbs that look at runs: runs, show, logs, compare."""

from typing import Annotated

import typer

from vgp.cli.options import Environment, Json, Run, SettingsFile, console, print_json

app = typer.Typer()
_PANEL = "On Vertex AI"


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
    from vgp.settings import load
    from vgp.vertex.patience import Clock
    from vgp.vertex.runs import report as run_report
    from vgp.vertex.runs.search import Wanted, listed

    loaded, now = load(settings, environment=environment), Clock().now()
    wanted = Wanted(pipeline, state or (), since, label or (), schedule, mine)
    found = listed(loaded, wanted, limit=limit, now=now)
    if as_json:
        print_json([run_report.brief(loaded, each, now) for each in found])
        return
    from vgp.vertex.runs.show import listing

    console().print(listing(found, now) if found else f"There are no such runs in {loaded.region} of {loaded.project}.")
    if limit and len(found) == limit:
        console(stderr=True).print(f"the newest {limit}; more with --limit", style="dim", highlight=False)


@app.command(rich_help_panel=_PANEL, epilog="Example: pipelines show latest")
def show(run: Run, environment: Environment = None, settings: SettingsFile = None, as_json: Json = False) -> None:
    """Show a run: steps with machine and cost, parameters, metrics, artifacts, and what failed."""
    from vgp.settings import load
    from vgp.vertex.patience import Clock
    from vgp.vertex.runs import cost as run_cost
    from vgp.vertex.runs import report as run_report
    from vgp.vertex.runs import search as vertex
    from vgp.vertex.runs.custom_jobs import courteously
    from vgp.vertex.runs.state import read

    loaded, now = load(settings, environment=environment), Clock().now()
    found = courteously(loaded, read(vertex.find(loaded, run)))
    rows = run_cost.machines(found)
    if as_json:
        print_json(run_report.as_json(loaded, found, rows, now))
        return
    from vgp.vertex.runs.show import page

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
    from vgp.settings import load
    from vgp.vertex.patience import Clock, Patience
    from vgp.vertex.runs import log_filter
    from vgp.vertex.runs import logs as vertex
    from vgp.vertex.runs import search as finder
    from vgp.vertex.runs.custom_jobs import courteously
    from vgp.vertex.runs.state import read
    from vgp.vertex.runs.view import write

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


@app.command(rich_help_panel=_PANEL, epilog="Example: pipelines compare training-0f5c training-91ab --all")
def compare(
    several: Annotated[list[str], typer.Argument(metavar="RUN RUN...", help="Two or more runs; see pipelines runs.")],
    all_rows: Annotated[bool, typer.Option("--all", help="Equal rows too.")] = False,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Put runs side by side: parameters, metrics, results, template, time and cost."""
    from vgp.settings import load
    from vgp.vertex import names
    from vgp.vertex.patience import Clock
    from vgp.vertex.runs import compare as vertex
    from vgp.vertex.runs import search as finder
    from vgp.vertex.runs.state import read

    loaded = load(settings, environment=environment)
    found = [read(finder.find(loaded, each)) for each in several]
    rows = vertex.rows(found, Clock().now())
    if as_json:
        links = [{"id": each.id, "url": names.run_link(loaded, each.id)} for each in found]
        print_json({"runs": links, "rows": [row.as_json() for row in rows]})
        return
    console().print(vertex.table(found, rows, all_rows=all_rows))
