"""The verbs that start, follow and stop runs: submit, rerun, wait, cancel."""

from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from vgp.cli.options import Environment, Json, Run, SettingsFile, console, print_json
from vgp.errors import RequestError

if TYPE_CHECKING:
    from vgp.settings import Settings

app = typer.Typer()
_PANEL = "On Vertex AI"

Timeout = Annotated[
    float | None, typer.Option("--timeout", metavar="SECONDS", min=0, help="Wait no longer; the run goes on.")
]


@app.command(
    rich_help_panel=_PANEL,
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
    new: Annotated[
        bool, typer.Option("--new", help="Another run, even if one of the same request is going on.")
    ] = False,
    id_: Annotated[
        str | None, typer.Option("--id", help="The run's id; default: one that follows from the request.")
    ] = None,
    caching: Annotated[
        bool | None,
        typer.Option(
            "--cache/--no-cache",
            help="Whether steps take results of earlier runs, even if the data behind the same names has changed; "
            "default: caching of the settings, else not.",
        ),
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
    """Start a run on Vertex AI, once: the same request finds the run that it started, until an hour after its end.

    Machines and parameters are checked first. Ids follow from the request (pipeline, parameters, settings, labels), so
    a command that lost its connection or was killed can simply be repeated. Later it starts the next one: ID-a2.

    Exit codes: 0 started, or with --wait succeeded; 1 failed; 2 the request was wrong; 3 cancelled (--wait);
    4 nothing was started: a run of the same request goes on (--wait follows it), or ended within the hour.
    """
    from vgp.settings import load
    from vgp.vertex.runs import submit as verb

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
    result = verb.submit(name, set_ or (), settings=loaded, options=options, console=console(as_json))
    _conclude(loaded, result, wait=wait and not dry_run, as_json=as_json)


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
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Run every step: the default.")] = False,
    new: Annotated[bool, typer.Option("--new", help="Another run, even if the same rerun is going on.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Follow the run; the exit code tells how it ended.")] = False,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Run again what a run ran: the same pipeline, parameters, account, network and key, from what Google keeps.

    Every step runs, unless --from-failed takes finished ones from the cache. Repeating the command finds the rerun that
    it started, until an hour after its end. Exit codes: as of submit.
    """
    import secrets

    from vgp.settings import load
    from vgp.vertex.runs import rerun as vertex
    from vgp.vertex.runs import search as finder
    from vgp.vertex.runs import started
    from vgp.vertex.runs import state as run_state

    if from_failed and no_cache:
        raise RequestError("--from-failed and --no-cache exclude each other: the one needs the cache.")
    loaded, out = load(settings, environment=environment), console(as_json)
    old = run_state.read(finder.find(loaded, run))
    if run.partition(":")[0] == finder.LATEST and not old.over:
        # Else a command that is repeated would repeat its own rerun.
        raise RequestError(f"{run} is {old.id}, which goes on. Name it by its id: pipelines rerun {old.id}.")
    body = vertex.body(old, set_ or (), caching=from_failed, again=secrets.token_hex(8) if new else "")
    job, fresh = vertex.rerun(loaded, body)
    made = run_state.read(job)
    out.print(started.text(loaded, made, fresh, of=old.id), highlight=False, markup=False, soft_wrap=True)
    if fresh and from_failed:
        out.print(vertex.OF_ANOTHER_NIGHT, highlight=False, markup=False, soft_wrap=True)
    _conclude(loaded, {**started.as_json(loaded, made, fresh), "of": old.id}, wait=wait, as_json=as_json)


def _conclude(loaded: "Settings", result: dict[str, Any], *, wait: bool, as_json: bool) -> None:
    """Follows a run that goes on, or prints what is known; the exit code says whether something was started."""
    if wait and not result["over"]:
        follow_run(loaded, result["name"], as_json=as_json)
    if as_json:
        print_json(result)
    raise typer.Exit(result["exit_code"])


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
    from vgp.settings import load

    follow_run(load(settings, environment=environment), run, as_json=as_json, timeout_s=timeout)


def follow_run(loaded: "Settings", given: str, *, as_json: bool, timeout_s: float | None = None) -> NoReturn:
    """Shows the run until it ends; the command's exit code tells how it did."""
    from vgp.vertex.runs.follow import follow

    outcome = follow(loaded, given, console(as_json), timeout_s=timeout_s)
    if as_json:
        print_json(outcome.result)
    raise typer.Exit(outcome.exit_code)


@app.command(rich_help_panel=_PANEL, epilog="Example: pipelines cancel training-0f5c --wait")
def cancel(
    run: Run,
    wait: Annotated[bool, typer.Option("--wait", help="Follow the run until it has ended.")] = False,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Stop a run. One that has ended already stays as it is; the exit code is 0 then too."""
    from vgp.settings import load
    from vgp.vertex import names
    from vgp.vertex.runs import cancel as vertex

    loaded, out = load(settings, environment=environment), console(as_json)
    found, asked = vertex.cancel(loaded, run)
    if wait and not found.over:
        from vgp.vertex.runs.follow import follow

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
