"""The verbs that need no account: list, compile, run, check, machines, convert."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from vgp.cli.options import Environment, Json, SettingsFile, console, print_json, show
from vgp.errors import RequestError, WorkFailed

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
    epilog="Example: pipelines run training --set epochs=3 --set train_months=1-3 --set test_month=4 --nproc 2",
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


@app.command(
    rich_help_panel="On this machine",
    epilog="Example: pipelines machines --accelerator L4 --region europe-west4 --provisioning spot",
)
def machines(
    name: Annotated[str | None, typer.Argument(help="A machine type: show everything about it.")] = None,
    accelerator: Annotated[str | None, typer.Option(help="L4, H100, A100-80GB ...; none: without GPU.")] = None,
    count: Annotated[int | None, typer.Option(help="GPUs of one machine.")] = None,
    min_memory_gb: Annotated[float, typer.Option(help="Memory of one machine.")] = 0,
    min_gpu_memory_gb: Annotated[float, typer.Option(help="GPU memory of one machine, all GPUs together.")] = 0,
    min_vcpu: Annotated[int, typer.Option(help="vCPU of one machine.")] = 0,
    region: Annotated[str | None, typer.Option(help="Only what the region has.")] = None,
    max_usd_per_hour: Annotated[float | None, typer.Option(help="Only what is known to cost no more.")] = None,
    provisioning: Annotated[
        str | None, typer.Option(help="standard, spot, flex_start or reservation.", show_default=False)
    ] = None,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Read prices and machine types from Google's APIs; show what changed.")
    ] = False,
    as_of: Annotated[
        str | None, typer.Option(metavar="DATE", help="What is retired on this day is left out; default: today.")
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="With --refresh: write the changes into the catalog.")] = False,
    project: Annotated[
        str | None, typer.Option(help="With --refresh: the project that asks; default: that of pipelines.toml.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List machines with their GPUs, cheapest first; or everything about one, with the quota to ask for.

    Only what compile accepts is listed. Exit codes: 1 nothing meets all filters, 2 what is asked for cannot be.
    """
    from vgp.check.verb import day
    from vgp.placement import offers as machine_list

    if refresh:
        from vgp.settings import load
        from vgp.vertex.refresh import refresh as verb

        loaded = load(overrides={"project": project})
        raise typer.Exit(verb(loaded, write=write, console=console(as_json)))
    if name:
        from vgp.cli.machine_card import card

        detail = machine_list.detail(name, as_of=day(as_of))
        show(detail, as_json, card)
        return
    filters: dict[str, Any] = dict(
        accelerator=accelerator, count=count, min_memory_gb=min_memory_gb, min_gpu_memory_gb=min_gpu_memory_gb,
        min_vcpu=min_vcpu, region=region, max_usd_per_hour=max_usd_per_hour, provisioning=provisioning,
        as_of=day(as_of),
    )  # fmt: skip
    rows = machine_list.offers(**filters)
    if not rows:
        from vgp.placement.no_offer import explained

        reason = explained(filters)
        if as_json:
            print_json(rows)
        raise WorkFailed(reason)
    show(rows, as_json, machine_list.table)


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
