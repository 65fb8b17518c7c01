"""`pipelines submit`: a run on Vertex AI, from request to console link."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from pipelines import spec
from pipelines.errors import RequestError, WorkFailed
from pipelines.machines import cost
from pipelines.settings import Settings
from pipelines.vertex import names
from pipelines.vertex import submit as vertex

_ENDED_BADLY = ("PIPELINE_STATE_FAILED", "PIPELINE_STATE_CANCELLED")


@dataclass(frozen=True)
class Options:
    """How a run is started, beside its parameters."""

    #: An uploaded version instead of the local pipeline: a tag, sha256:..., or NAME@REFERENCE.
    template: str | None = None
    #: The run's id; None: one that follows from the request, or with `new` a random one.
    id: str | None = None
    new: bool = False
    #: Overrides the caching of every step; None leaves the pipeline's own.
    caching: bool | None = None
    labels: Sequence[str] = ()
    max_usd: float | None = None
    preflight: bool = True
    dry_run: bool = False


def submit(
    name: str, parameters: Sequence[str], *, settings: Settings, options: Options, console: Console
) -> dict[str, Any]:
    """Starts a run of the pipeline `name`, once, and returns its id, link and state.

    Raises:
        RequestError: the pipeline, a parameter or a setting is wrong; nothing was started.
        WorkFailed: Google refused or could not be reached, or the same run failed before.
    """
    if options.id and options.new:
        raise RequestError("--id and --new exclude each other: --new makes an id of its own.")
    labels = _labels(options.labels)
    made, uri, steps = _specification(name, settings, options)
    values = spec.arguments(made, parameters)
    spec.check(name, made, values, remote=True)
    body = vertex.body(settings, made, values, caching=options.caching, labels=labels, template_uri=uri)
    job_id = vertex.job_id(body, given=options.id, new=options.new)
    console.print(cost.table(steps, width=console.width))
    if options.dry_run:
        console.print(f"dry run: {job_id} was not started", highlight=False, markup=False, soft_wrap=True)
        return {"id": job_id, "started": False, **cost.as_json(steps), "job": body}
    if options.preflight:
        from pipelines.vertex.preflight import refuse_cheaply

        refuse_cheaply(settings)
    job, started = vertex.create(settings, body, job_id)
    result = _result(settings, job_id, job, started) | cost.as_json(steps)
    _say(result, console)
    if settings.experiment:
        from pipelines.vertex.experiment import associate

        associate(settings, job.name, settings.experiment)
    return result


def _specification(name: str, settings: Settings, options: Options) -> tuple[dict[str, Any], str | None, list[Any]]:
    """Spec, template URI and machines: of the local pipeline, or of an uploaded version of it."""
    if options.template:
        return _uploaded(name, settings, options)
    from pipelines.compile import compiled

    made = compiled(name, settings, max_usd=options.max_usd)
    return made.spec, None, made.report.steps


def _uploaded(name: str, settings: Settings, options: Options) -> tuple[dict[str, Any], str | None, list[Any]]:
    from pipelines.compile import checked
    from pipelines.vertex.templates.template import resolve

    template = resolve(settings, f"{name}@{options.template}")
    report = checked(name, template.spec, settings, max_usd=options.max_usd)
    return template.spec, template.uri, report.steps


def _labels(given: Sequence[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in given]
    for key, equals, value in pairs:
        if not equals or not key:
            raise RequestError(f"--label {key}{equals}{value}: give it as key=value.")
    return names.labels({key: value for key, _, value in pairs})


def _result(settings: Settings, job_id: str, job: Any, started: bool) -> dict[str, Any]:
    return {
        "id": job_id,
        "started": started,
        "state": job.state.name,
        "name": job.name,
        "url": names.run_link(settings, job_id),
    }


def _say(result: Mapping[str, Any], console: Console) -> None:
    console.print(result["url"], highlight=False, soft_wrap=True, markup=False)
    if result["started"]:
        console.print(f"started {result['id']}", highlight=False, markup=False)
        return
    state = result["state"].removeprefix("PIPELINE_STATE_").lower()
    if result["state"] in _ENDED_BADLY:
        raise WorkFailed(
            f"the same request ran before as {result['id']} and ended {state}; nothing was started.\n"
            f"  Go on from the failed step: pipelines rerun {result['id']} --from-failed\n"
            "  Start from the beginning:   the same command with --new",
            result=dict(result),
        )
    console.print(
        f"{result['id']} exists already ({state}): the same request starts one run. Another one: --new.",
        highlight=False, markup=False, soft_wrap=True,
    )  # fmt: skip
