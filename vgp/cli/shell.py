"""The verb that leads into the machines of a step: shell."""

from typing import Annotated

import typer

from vgp.cli.options import Environment, Json, Run, SettingsFile, Timeout, load_settings, print_json, say

app = typer.Typer()


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
    """Print where a browser finds a shell on each machine of a running step: nvidia-smi, py-spy, a debugger.

    Waits until the machines are there. Of a step with a ladder it is the job of the moment.
    """
    from vgp.vertex.runs.job_shell import shells

    loaded = load_settings(settings, environment)
    try:
        found = shells(loaded, run, step, timeout_s=timeout, tell=lambda text: say(text, stderr=True))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    if as_json:
        print_json(found.as_json())
    else:
        width = max(map(len, found.uris))
        say(*(f"{name.ljust(width)}  {uri}" for name, uri in found.uris.items()), f"the job: {found.link}")
    if open_:
        typer.launch(next(iter(found.uris.values())))
