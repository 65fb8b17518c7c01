"""The verbs that start runs and check their prerequisites: preflight, submit, rerun."""

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
    console,
    import_lazily,
    load_settings,
    print_json,
    print_lines,
)
from vgp.cli.runs import follow_run

if TYPE_CHECKING:
    from vgp.settings import Settings

with import_lazily():
    from vgp.vertex.runs import rerun as rerunning
    from vgp.vertex.runs import run_submission
    from vgp.workflow.compiling import compile as compiling

app = typer.Typer()

Template = Annotated[
    str | None,
    typer.Option(metavar="VERSION", help="Run an uploaded version instead of the local pipeline: a tag or sha256:..."),
]
Window = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION", help="How long after its end a run answers for its request: 0s, 30m, 12h; default: 1h."
    ),
]
Retry = Annotated[
    bool,
    typer.Option(
        "--retry",
        help="Start the next attempt of a failed or cancelled run now, with its pinned inputs.",
    ),
]
IfExists = Annotated[
    Literal["attach", "new", "fail"] | None,
    typer.Option(
        help="If the run exists: attach (default) starts nothing, and --wait follows it if it is active; new starts "
        "another run at each call; fail starts and follows nothing.",
    ),
]
Key = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        help="A name for this occasion, such as 2026-11-21: each request runs once per key, whatever its result; "
        "only --retry starts its next attempt.",
    ),
]
Id = Annotated[
    str | None,
    typer.Option("--id", help="Your own id, which can run only once. Default: derived from the request."),
]
Caching = Annotated[
    bool | None,
    typer.Option(
        "--cache/--no-cache",
        help="Whether all steps or none may reuse results of earlier runs; default: caching of the settings, "
        "else steps with pinned inputs.",
    ),
]
Policy = Annotated[
    str | None,
    typer.Option(help="When a step fails: fast starts no further step, slow runs steps that do not need it."),
]
Code = Annotated[
    bool,
    typer.Option(
        "--code", help="Run your code as it is on this machine (code in pipelines.toml), without building the image."
    ),
]
MaxUsd = Annotated[float | None, typer.Option(help="Start nothing if the run can cost more than this.")]


@app.command(epilog="Example: vgp preflight training --env prod")
def preflight(
    name: Workflow,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Find problems that would stop a run, before it costs money. Changes and starts nothing.

    Checks credentials, APIs, machines in the region, quota, bucket, image, service account, key, network and
    repository, and prints the command that fixes each problem. Facts that you have no permission to read are reported
    as unknown, not ok. Exit code 1: there are errors.
    """
    from vgp.vertex.preflight import preflight, preflight_questions

    loaded = load_settings(settings, environment)
    workflow = compiling.compile_pipeline(name, loaded)
    with console(stderr=True).status("checking ...") as status:
        findings = preflight(
            loaded, workflow.spec, workflow.report.steps,
            progress=lambda done, of: status.update(f"checking ... {done} of {of}"),
        )  # fmt: skip
    if as_json:
        print_json(preflight_questions.findings_json(name, findings))
    else:
        for line in preflight_questions.render_lines(findings):
            console().print(line, soft_wrap=True)
        console().print(preflight_questions.summarize(findings), highlight=False)
    raise typer.Exit(int(preflight_questions.count_levels(findings)["error"] > 0))


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
    service_account: Annotated[str | None, typer.Option(help="Account that the steps run as.")] = None,
    network: Annotated[str | None, typer.Option(help="projects/NUMBER/global/networks/NAME.")] = None,
    experiment: Annotated[str | None, typer.Option(help="Vertex AI experiment of the run.")] = None,
    encryption_key: Annotated[
        str | None, typer.Option(help="Cloud KMS key of the run, its jobs and its models.")
    ] = None,
    code: Code = False,
    max_usd: MaxUsd = None,
    preflight: Preflight = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check and show the run, but start nothing; --json shows the job.")
    ] = False,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Start a run on Vertex AI, once: the same request finds the run that it started, until an hour after its end.

    The command checks machines and parameters first. The id derives from the request (pipeline, parameters, settings,
    labels, --key), so you, CI or a colleague can repeat the command without starting a second run. Later the command
    starts the next attempt, ID-a2: after a failure with the pinned inputs of the failed run, so that it resumes there;
    after a success with the current inputs.

    Every night: repeat the command, with --window 0s if a run takes until the next is due. In CI: --key "$COMMIT", and
    --retry to resume failed runs.

    Exit codes: 0 started, or with --wait succeeded; 1 failed; 2 invalid request; 3 cancelled (--wait);
    4 nothing was started: a run of this request is active (--wait follows it), or still answers for it (--window);
    124 still running after --timeout (--wait).
    """
    _refuse_timeout(timeout, wait=wait)
    flags = {
        "failure_policy": failure_policy, "service_account": service_account, "network": network,
        "experiment": experiment, "encryption_key": encryption_key,
    }  # fmt: skip
    loaded = load_settings(settings, environment, flags)
    options = run_submission.Options(
        template=template, id=id_, key=key, window=window, retry=retry, if_exists=if_exists, new=new, caching=caching,
        labels=label or (), max_usd=max_usd, preflight=preflight, dry_run=dry_run, code=code,
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
            "--from-failed",
            help="Use the pinned inputs of the run: take finished steps from the cache, run the others.",
        ),
    ] = False,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Run every step: the default.")] = False,
    new: Annotated[bool, typer.Option("--new", help="Start another run, even if this rerun is active.")] = False,
    max_usd: MaxUsd = None,
    wait: Wait = False,
    timeout: Timeout = None,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Repeat a run with its pipeline, parameters, account, network and key, which Vertex AI keeps.

    Every step runs, on current inputs; --from-failed resumes where the run failed. Until an hour after its end, the
    command finds the rerun instead of starting a second one. Exit codes: those of submit.
    """
    _refuse_timeout(timeout, wait=wait)
    if from_failed and no_cache:
        raise RequestError("--from-failed needs the cache; omit --no-cache.")
    loaded = load_settings(settings, environment)
    started = rerunning.rerun(loaded, run, set_ or (), from_failed=from_failed, new=new, max_usd=max_usd)
    print_lines(*started.lines(), stderr=as_json)
    _conclude(loaded, started.as_json(), wait=wait, timeout_s=timeout, as_json=as_json)


def _refuse_timeout(timeout: float | None, *, wait: bool) -> None:
    """Raises RequestError for --timeout without --wait."""
    if timeout is not None and not wait:
        raise RequestError("--timeout needs --wait. It limits the wait; it does not stop the run.")


def _conclude(loaded: "Settings", result: JsonObject, *, wait: bool, timeout_s: float | None, as_json: bool) -> None:
    """Follows an active run, or prints the result; exits with the exit code of the result."""
    if wait and not result["over"]:
        follow_run(loaded, result["name"], as_json=as_json, timeout_s=timeout_s)
    if as_json:
        print_json(result)
    raise typer.Exit(result["exit_code"])
