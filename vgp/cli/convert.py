"""The verb that rewrites a request: convert."""

import shlex
from typing import Annotated

import typer

from vgp.cli.options import Json, SettingsFile
from vgp.errors import RequestError

app = typer.Typer()


@app.command(
    rich_help_panel="On this machine",
    epilog="Example: pipelines convert legacy.yaml > config.yaml, or: pipelines convert --step train --to vm",
)
def convert(
    source: Annotated[
        str | None, typer.Argument(help="A file of a job, - for standard input, or a 'gcloud ...' line in quotes.")
    ] = None,
    step: Annotated[str | None, typer.Option(help="A step of pipelines.toml instead of a file.")] = None,
    to: Annotated[
        str, typer.Option(help="config: for gcloud; sdk: a Python program; vm: with --step, a Compute Engine machine.")
    ] = "config",
    args: Annotated[str, typer.Option(help="With --step: arguments of python -m training STEP, in quotes.")] = "",
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Turn a legacy AI Platform job, a gcloud line or a Vertex AI job into another form, or print a step as one.

    The result goes to stdout, what became of each field, or that it is lost, to stderr. Exit code 1: it would not run.
    """
    from vgp.convert import convert as verb

    if (source is None) == (step is None):
        raise RequestError("give a file or a gcloud line, or --step NAME.")
    if step is not None:
        words = shlex.split(args)
        raise typer.Exit(verb.print_step(step, form=to, settings=settings, arguments=words, as_json=as_json))
    raise typer.Exit(verb.convert(source or "", form=to, as_json=as_json))
