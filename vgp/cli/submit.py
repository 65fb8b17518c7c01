"""The verbs that start runs, and the one that looks before: preflight, submit, rerun."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError
from vgp.cli.options import (
    Environment,
    Json,
    Parameters,
    Preflight,
    Run,
    SettingsFile,
    Timeout,
    Wait,
    WithParameters,
    Workflow,
    at_first_use,
    console,
    load_settings,
    print_json,
    say,
)
from vgp.cli.runs import follow_run

if TYPE_CHECKING:
    from vgp.settings import Settings

with at_first_use():
    from vgp.vertex.runs import rerun as rerunning
    from vgp.vertex.runs import run_submission
    from vgp.workflow.compiling import compile as compiling

app = typer.Typer()

Template = Annotated[
    str | None,
    typer.Option(metavar="VERSION", help="An uploaded version instead of the local pipeline: a tag or sha256:..."),
]
Window = Annotated[
    str | None,
    typer.Option(metavar="DURATION", help="How long a run answers after its end: 0s, 30m, 12h; default: 1h."),
]
Retry = Annotated[
    bool,
    typer.Option(
        "--retry",
        help="After a run that failed or was cancelled start the next attempt now, which goes on with its pins.",
    ),
]
IfExists = Annotated[
    Literal["attach", "new", "fail"] | None,
    typer.Option(
        help="If there is a run: attach (default) starts nothing, and --wait follows one that goes on; new starts "
        "another one beside it, at each call; fail starts and follows nothing.",
    ),
]
Key = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        help="A name of this time, such as 2026-11-21: one run of request and key for as long as it exists, "
        "however it ended; only --retry starts its next attempt.",
    ),
]
Id = Annotated[
    str | None,
    typer.Option("--id", help="An id of your own: one run for ever. Default: one that follows from the request."),
]
Caching = Annotated[
    bool | None,
    typer.Option(
        "--cache/--no-cache",
        help="Whether steps take results of earlier runs: all of them, or none; default: caching of the settings, "
        "else those whose inputs are pinned.",
    ),
]
Policy = Annotated[
    str | None, typer.Option(help="When a step fails: fast starts no further step, slow runs what still can.")
]
MaxUsd = Annotated[float | None, typer.Option(help="Start nothing if the run can cost more than this.")]


@app.command(epilog="Example: vgp preflight training --env prod")
def preflight(
    name: Workflow,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Look for what would stop a run, before it costs money: nothing is changed, nothing started.

    Credentials, APIs, machines in the region, quota, bucket, image, service account, key, network and repository,
    each with the command that puts it right. What you may not see is unknown, not ok. Exit code 1: there are errors.
    """
    from vgp.vertex.preflight import preflight, preflight_questions

    loaded = load_settings(settings, environment)
    workflow = compiling.compiled(name, loaded)
    with console(stderr=True).status("looking ...") as status:
        findings = preflight(
            loaded, workflow.spec, workflow.report.steps,
            progress=lambda done, of: status.update(f"looking ... {done} of {of}"),
        )  # fmt: skip
    if as_json:
        print_json(preflight_questions.findings_json(name, findings))
    else:
        for line in preflight_questions.lines(findings):
            console().print(line, soft_wrap=True)
        console().print(preflight_questions.summary(findings), highlight=False)
    raise typer.Exit(int(preflight_questions.counts(findings)["error"] > 0))


@app.command(
    cls=WithParameters,
    epilog="Example: vgp submit training --env prod --set epochs=5 --wait",
)
def submit(
    name: Workflow,
    set_: Parameters = None,
    template: Template = None,
    wait: Wait = False,
    timeout: Timeout = None,
    window: Window = None,
    retry: Retry = False,
    if_exists: IfExists = None,
    key: Key = None,
    new: Annotated[bool, typer.Option("--new", help="As --if-exists new, and every step runs.")] = False,
    id_: Id = None,
    caching: Caching = None,
    failure_policy: Policy = None,
    label: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A label; repeatable.")] = None,
    service_account: Annotated[str | None, typer.Option(help="The account that the steps run as.")] = None,
    network: Annotated[str | None, typer.Option(help="projects/NUMBER/global/networks/NAME.")] = None,
    experiment: Annotated[str | None, typer.Option(help="The experiment that the run belongs to.")] = None,
    encryption_key: Annotated[str | None, typer.Option(help="Cloud KMS key of everything that the run makes.")] = None,
    max_usd: MaxUsd = None,
    preflight: Preflight = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check and show, start nothing; --json shows the job.")
    ] = False,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Start a run on Vertex AI, once: the same request finds the run that it started, until an hour after its end.

    Machines and parameters are checked first. Ids follow from the request (pipeline, parameters, settings, labels,
    --key), so a command that was killed, or is repeated by CI or a second person, starts nothing twice. Later it starts
    the next attempt, ID-a2: after a failure with what the failed one had pinned, so that it goes on where that stood;
    after a success with what there is by then.

    Every night: the same command; --window 0s if a run takes until the next one is due. In CI: --key "$COMMIT", and
    --retry to go on with what failed.

    Exit codes: 0 started, or with --wait succeeded; 1 failed; 2 the request was wrong; 3 cancelled (--wait);
    4 nothing was started: a run of the same request goes on (--wait follows it), or still answers for it;
    124 not over after --timeout (--wait).
    """
    _refuse_timeout(timeout, wait=wait)
    flags = {
        "failure_policy": failure_policy, "service_account": service_account, "network": network,
        "experiment": experiment, "encryption_key": encryption_key,
    }  # fmt: skip
    loaded = load_settings(settings, environment, flags)
    options = run_submission.Options(
        template=template, id=id_, key=key, window=window, retry=retry, if_exists=if_exists, new=new, caching=caching,
        labels=label or (), max_usd=max_usd, preflight=preflight, dry_run=dry_run,
    )  # fmt: skip
    result = run_submission.submit(name, set_ or (), settings=loaded, options=options, console=console(as_json))
    follow = wait and not dry_run and (result["started"] or if_exists != "fail")
    _conclude(loaded, result, wait=follow, timeout_s=timeout, as_json=as_json)


@app.command(cls=WithParameters, epilog="Example: vgp rerun latest --from-failed --wait")
def rerun(
    run: Run,
    set_: Parameters = None,
    from_failed: Annotated[
        bool,
        typer.Option(
            "--from-failed", help="Go on with what the run had pinned: finished steps from the cache, run the others."
        ),
    ] = False,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Run every step: the default.")] = False,
    new: Annotated[bool, typer.Option("--new", help="Another run, even if the same rerun is going on.")] = False,
    max_usd: MaxUsd = None,
    wait: Wait = False,
    timeout: Timeout = None,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Run again what a run ran: the same pipeline, parameters, account, network and key, from what Google keeps.

    Every step runs, on what there is now; --from-failed goes on where the run stood. Repeating the command finds the
    rerun that it started, until an hour after its end. Exit codes: as of submit.
    """
    _refuse_timeout(timeout, wait=wait)
    if from_failed and no_cache:
        raise RequestError("--from-failed and --no-cache exclude each other: the one needs the cache.")
    loaded = load_settings(settings, environment)
    started = rerunning.rerun(loaded, run, set_ or (), from_failed=from_failed, new=new, max_usd=max_usd)
    say(*started.lines(), stderr=as_json)
    _conclude(loaded, started.as_json(), wait=wait, timeout_s=timeout, as_json=as_json)


def _refuse_timeout(timeout: float | None, *, wait: bool) -> None:
    """Raises RequestError: there is nothing that the timeout could end."""
    if timeout is not None and not wait:
        raise RequestError("--timeout ends the waiting of --wait: give both, or neither. The run itself is not ended.")


def _conclude(loaded: "Settings", result: JsonObject, *, wait: bool, timeout_s: float | None, as_json: bool) -> None:
    """Follows a run that goes on, or prints what is known; the exit code says whether something was started."""
    if wait and not result["over"]:
        follow_run(loaded, result["name"], as_json=as_json, timeout_s=timeout_s)
    if as_json:
        print_json(result)
    raise typer.Exit(result["exit_code"])
