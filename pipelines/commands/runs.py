"""The verb that starts a run on Vertex AI: submit."""

from typing import Annotated

import typer

from pipelines.commands.options import Environment, Json, SettingsFile, console, print_json
from pipelines.errors import WorkFailed

app = typer.Typer()


@app.command(
    rich_help_panel="On Vertex AI",
    epilog="Example: pipelines submit training --env prod --set epochs=5 --wait",
)
def submit(
    name: Annotated[str, typer.Argument(help="The pipeline: see pipelines list.")],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the pipeline; repeatable."),
    ] = None,
    template: Annotated[
        str | None,
        typer.Option(metavar="VERSION", help="An uploaded version instead of the local pipeline: a tag or sha256:..."),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Follow the run; the exit code tells how it ended.")] = False,
    new: Annotated[bool, typer.Option("--new", help="Another run, even if the same request ran before.")] = False,
    id_: Annotated[
        str | None, typer.Option("--id", help="The run's id; default: one that follows from the request.")
    ] = None,
    caching: Annotated[
        bool | None,
        typer.Option("--cache/--no-cache", help="Take or refuse cached results in every step; default: as compiled."),
    ] = None,
    failure_policy: Annotated[
        str | None, typer.Option(help="When a step fails: fast starts no further step, slow runs what still can.")
    ] = None,
    label: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A label; repeatable.")] = None,
    service_account: Annotated[str | None, typer.Option(help="The account that the steps run as.")] = None,
    network: Annotated[str | None, typer.Option(help="projects/NUMBER/global/networks/NAME.")] = None,
    experiment: Annotated[str | None, typer.Option(help="The experiment that the run belongs to.")] = None,
    encryption_key: Annotated[str | None, typer.Option(help="Cloud KMS key of everything that the run makes.")] = None,
    max_usd: Annotated[float | None, typer.Option(help="Start nothing if the run can cost more than this.")] = None,
    preflight: Annotated[
        bool, typer.Option("--preflight/--no-preflight", help="Look at credentials, bucket and account before.")
    ] = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check and show, start nothing; --json shows the job.")
    ] = False,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Start a run on Vertex AI, once: the same request again finds the run that it started before.

    Machines and parameters are checked first. Ids follow from the request (pipeline, parameters, settings), so a
    command that lost its connection or was killed can simply be repeated.
    """
    from pipelines import submit as verb
    from pipelines.settings import load

    flags = {
        "failure_policy": failure_policy, "service_account": service_account, "network": network,
        "experiment": experiment, "encryption_key": encryption_key,
    }  # fmt: skip
    overrides = {key: value for key, value in flags.items() if value is not None}
    loaded = load(settings, environment=environment, overrides=overrides)
    options = verb.Options(
        template=template, id=id_, new=new, caching=caching, labels=label or (), max_usd=max_usd,
        preflight=preflight, dry_run=dry_run,
    )  # fmt: skip
    try:
        result = verb.submit(name, set_ or (), settings=loaded, options=options, console=console(as_json))
    except WorkFailed as failure:
        if as_json and failure.result:
            print_json(failure.result)
        raise
    if as_json and not wait:
        print_json(result)
    if wait and not dry_run:
        from pipelines.commands.inspect import follow_run

        follow_run(loaded, result["name"], as_json=as_json)
