"""`pipelines submit`: a run on Vertex AI, from request to console link."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from vgp.check import cost
from vgp.compiling import workflows
from vgp.errors import RequestError
from vgp.settings import Settings
from vgp.spec import spec
from vgp.vertex import names
from vgp.vertex.runs import attempts, started
from vgp.vertex.runs import job as vertex
from vgp.vertex.runs.state import read


@dataclass(frozen=True)
class Options:
    """How a run is started, beside its parameters."""

    #: An uploaded version instead of the local pipeline: a tag, sha256:..., or NAME@REFERENCE.
    template: str | None = None
    #: The run's id; None: one that follows from the request, or with `new` a random one.
    id: str | None = None
    new: bool = False
    #: Whether every step takes results of earlier runs; None: as the settings say, and with `new` none does.
    caching: bool | None = None
    labels: Sequence[str] = ()
    max_usd: float | None = None
    preflight: bool = True
    dry_run: bool = False


def submit(
    name: str, parameters: Sequence[str], *, settings: Settings, options: Options, console: Console
) -> dict[str, Any]:
    """Starts a run of the pipeline `name`, or finds the one that stands for the same request.

    Returns its id, link and state, and whether it was started.

    Raises:
        RequestError: the pipeline, a parameter or a setting is wrong; nothing was started.
        WorkFailed: Google refused or could not be reached.
    """
    if options.id and options.new:
        raise RequestError("--id and --new exclude each other: --new makes an id of its own.")
    body, steps = _request(name, parameters, settings, options)
    job_id = vertex.job_id(body, given=options.id, new=options.new)
    if options.dry_run:
        console.print(cost.table(steps, width=console.width))
        console.print(f"dry run: {job_id} was not started", highlight=False, markup=False, soft_wrap=True)
        return {"id": job_id, "started": False, "exit_code": 0, **cost.as_json(steps), "job": body}
    if options.preflight:
        from vgp.vertex.preflight import refuse_cheaply

        refuse_cheaply(settings)
    exact = options.id or options.new
    job, fresh = vertex.create(settings, body, job_id) if exact else attempts.start(settings, body)
    run, by_id = read(job), options.id is not None
    console.print(started.text(settings, run, fresh, by_id=by_id), highlight=False, markup=False, soft_wrap=True)
    if fresh:
        console.print(cost.table(steps, width=console.width))
    if settings.experiment:
        from vgp.vertex.runs.experiment import associate

        associate(settings, job.name, settings.experiment)
    return {**started.as_json(settings, run, fresh), "state": job.state.name, **cost.as_json(steps)}


def _request(
    name: str, parameters: Sequence[str], settings: Settings, options: Options
) -> tuple[dict[str, Any], list[Any]]:
    """The PipelineJob that is asked for, checked, and its machines."""
    labels = _labels(options.labels)
    made, uri, steps = _specification(name, settings, options)
    values = spec.arguments(made, parameters)
    workflows.check(name, made, values, settings.repository, remote=True)
    caching = options.caching
    if caching is None:
        caching = bool(settings.caching) and not options.new
    return vertex.body(settings, made, values, caching=caching, labels=labels, template_uri=uri), steps


def _specification(name: str, settings: Settings, options: Options) -> tuple[dict[str, Any], str | None, list[Any]]:
    """Spec, template URI and machines: of the local pipeline, or of an uploaded version of it."""
    if options.template:
        return _uploaded(name, settings, options)
    from vgp.compiling.compile import compiled

    made = compiled(name, settings, max_usd=options.max_usd)
    return made.spec, None, made.report.steps


def _uploaded(name: str, settings: Settings, options: Options) -> tuple[dict[str, Any], str | None, list[Any]]:
    from vgp.compiling.compile import checked
    from vgp.vertex.templates.template import resolve

    template = resolve(settings, f"{name}@{options.template}")
    report = checked(name, template.spec, settings, max_usd=options.max_usd)
    return template.spec, template.uri, report.steps


def _labels(given: Sequence[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in given]
    for key, equals, value in pairs:
        if not equals or not key:
            raise RequestError(f"--label {key}{equals}{value}: give it as key=value.")
    return names.labels({key: value for key, _, value in pairs})
