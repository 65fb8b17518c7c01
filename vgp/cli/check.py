"""The verb that judges any spec: check."""

from typing import Annotated

import typer

app = typer.Typer()


@app.command(
    rich_help_panel="On this machine", epilog="Example: pipelines check build/*.json config.yaml --region us-central1"
)
def check(
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
) -> None:
    """Check any spec against the GPU catalog: compiled pipelines, custom jobs, tuning, predictions, legacy jobs.

    Exit codes: 0 no error, 1 errors, 2 a file cannot be read or judged to its end. The rules: docs/rules.
    """
    from vgp.check.verb import check as verb

    raise typer.Exit(verb(paths, regions=region or (), strategy=strategy, ignore=ignore or (), form=form, as_of=as_of))
