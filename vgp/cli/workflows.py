"""The verbs over workflows: list, compile, run."""

from pathlib import Path
from typing import Annotated

import typer

from vgp.cli.options import Environment, Json, SettingsFile, console, print_json
from vgp.errors import WorkFailed

app = typer.Typer()


Names = Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Pipelines; all if none is named.")]


@app.command("list", rich_help_panel="On this machine", epilog="Example: pipelines list --json")
def list_(as_json: Json = False) -> None:
    """List the pipelines with what they do, and their parameters with --json."""
    from vgp.compiling import listing

    rows = listing.listing()
    if as_json:
        print_json(rows)
    else:
        console().print(listing.table(rows))


@app.command(rich_help_panel="On this machine", epilog="Example: pipelines compile training --out build")
def compile(
    names: Names = None,
    out: Annotated[Path, typer.Option(help="Folder for the specs.")] = Path("build"),
    settings: SettingsFile = None,
    max_usd: Annotated[float | None, typer.Option(help="Fail if a run can cost more than this.")] = None,
    environment: Environment = None,
    as_json: Json = False,
) -> None:
    """Compile pipelines to the JSON that Vertex Pipelines runs, and check every machine in it.

    A spec with an error is not written, and the one from before stays.
    """
    from vgp.compiling.compile import compile_all

    result = compile_all(
        names or (), out=out, settings=settings, environment=environment, max_usd=max_usd, console=console(as_json)
    )
    if as_json:
        print_json(result)


@app.command(
    rich_help_panel="On this machine",
    epilog='Example: pipelines run training --set epochs=3 --set \'task_options={"train": "1-3"}\' --nproc 2',
)
def run(
    name: Annotated[str, typer.Argument(help="The pipeline: see pipelines list.")],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the pipeline; repeatable."),
    ] = None,
    nproc: Annotated[
        int | None, typer.Option(help="Training processes; default: one per GPU, or 1.", show_default=False)
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the run's own folder.")] = Path("runs"),
    resume: Annotated[
        Path | None,
        typer.Option(help="Folder of a run that was stopped or failed: go on with it.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run a pipeline on this machine: every step, on real data, with real training processes. No account, no Docker.

    Ctrl-C ends every process and prints the command that goes on from the last checkpoint.
    """
    from vgp.local import run as verb

    try:
        result = verb.run(name, set_ or (), out=out, nproc=nproc, resume=resume, console=console(as_json))
    except WorkFailed as failure:
        if as_json and failure.result:
            print_json(failure.result)
        raise
    if as_json:
        print_json(result)
