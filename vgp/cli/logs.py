"""The verb on what runs wrote: logs."""

from typing import Annotated

import typer

from vgp.cli.options import Environment, Run, SettingsFile, load_settings, say

app = typer.Typer()


@app.command(epilog="Example: vgp logs latest train --severity warning --follow")
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
    from vgp.vertex.runs import run_logs

    selection = run_logs.Selection(step, since, severity, limit)
    loaded = load_settings(settings, environment)
    entries = run_logs.of_run(loaded, run, selection, follow=follow, tell=lambda text: say(text, stderr=True))
    try:
        for line in run_logs.lines(entries, as_json=as_json):
            print(line, flush=follow)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
