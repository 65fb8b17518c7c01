"""`vgp submit`: a run on Vertex AI, from request to console link, and into an experiment.

https://cloud.google.com/vertex-ai/docs/experiments/add-pipelinerun-experiment
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError, WorkFailed
from vgp.base.retry import Pauses, poll
from vgp.check import cost_bound
from vgp.check.check_report import Report, headline
from vgp.check.spec.parameters import parse_arguments
from vgp.check.spec.pipeline_spec import PipelineSpec, switch_cache
from vgp.settings import Settings
from vgp.vertex import clients, resource_names
from vgp.vertex.google_errors import explained
from vgp.vertex.images import image_contents
from vgp.vertex.preflight import refuse_cheaply
from vgp.vertex.runs import attempts, pipeline_job
from vgp.vertex.runs.remote_run import read
from vgp.vertex.runs.run_cost import last_runs
from vgp.vertex.runs.run_view import write
from vgp.vertex.runs.start_policy import ENDED, IfExists, Started, parse_policy
from vgp.vertex.templates.template import resolve
from vgp.workflow.compiling import source_commit, workflow_files
from vgp.workflow.compiling.compile import checked, compiled

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1.services.metadata_service import MetadataServiceClient

#: As Google's SDK writes them, so that its experiments and the console's are the same ones.
_SCHEMA = {"schema_title": "system.Experiment", "schema_version": "0.0.1", "metadata": {"experiment_deleted": False}}


@dataclass(frozen=True)
class Options:
    """How a run is started, beside its parameters."""

    #: An uploaded version instead of the local pipeline: a tag, sha256:..., or NAME@REFERENCE.
    template: str | None = None
    #: The run's id; None: one that follows from the request.
    id: str | None = None
    #: What tells the request apart, of which there is one run then; None: nothing does.
    key: str | None = None
    #: How long a run answers after its end: 90m, 12h; None: an hour, and with a key as long as it exists.
    window: str | None = None
    #: Whether a run that failed or was cancelled is followed by the next attempt at once.
    retry: bool = False
    #: What an open run does; None: it answers.
    if_exists: IfExists | None = None
    #: if_exists = "new", and every step runs.
    new: bool = False
    #: Whether every step takes results of earlier runs; None: as the settings say, else as the spec does.
    caching: bool | None = None
    labels: Sequence[str] = ()
    max_usd: float | None = None
    preflight: bool = True
    dry_run: bool = False


def submit(
    name: str, parameters: Sequence[str], *, settings: Settings, options: Options, console: Console
) -> JsonObject:
    """Starts a run of the pipeline `name`, or finds the one that stands for the same request.

    Returns its id, link and state, and whether it was started.

    Raises:
        RequestError: the pipeline, a parameter or a setting is wrong; nothing was started.
    """
    policy = parse_policy(
        id=options.id, key=options.key, window=options.window, retry=options.retry, if_exists=options.if_exists,
        new=options.new,
    )  # fmt: skip
    body, report = _request(name, parameters, settings, options)
    steps, doubts = report.steps, [headline(finding) for finding in report.of_severity("warning")]
    job_id = pipeline_job.job_id(body, chosen=options.id)
    if options.dry_run:
        console.print(cost_bound.steps_table(steps, width=console.width))
        write(console, "\n".join([*doubts, f"dry run: {job_id} was not started"]))
        return {"id": job_id, "started": False, "exit_code": 0, **cost_bound.as_json(steps), "job": body}
    if options.preflight:
        refuse_cheaply(settings)
        spec = PipelineSpec(body["pipelineSpec"])
        workflow_files.look(name, spec, body["runtimeConfig"].get("parameterValues", {}), settings.repository)
    if options.id is not None:
        job, fresh = pipeline_job.create(settings, body, job_id)
    else:
        job, fresh = attempts.start(settings, body, policy)
    started = Started(settings, read(job), fresh, policy, by_id=options.id is not None)
    write(console, "\n".join([*started.lines(), *settings.warnings(), *(doubts if fresh else ())]))
    last = last_runs(settings, started.run.pipeline) if fresh else None
    if last:
        console.print(cost_bound.steps_table(steps, width=console.width))
        write(console, last.words)
    if settings.experiment:
        associate(settings, job.name, settings.experiment)
    costs = {**cost_bound.as_json(steps), "last_runs": last.as_json() if last else None}
    return {**started.as_json(), "state": job.state.name, **costs}


def _request(name: str, parameters: Sequence[str], settings: Settings, options: Options) -> tuple[JsonObject, Report]:
    """The PipelineJob that is asked for, and what its check found."""
    labels = _labels(options.labels)
    spec, uri, report = _specification(name, settings, options)
    members = partial(workflow_files.members, name, settings.repository)
    values = parse_arguments(spec.parameters, parameters, members)
    values = workflow_files.expanded(name, values, settings.repository, Path.cwd())
    workflow_files.check(name, spec, values, settings.repository, remote=True)
    image_contents.refuse_missing(settings, spec, values)
    caching = settings.caching if options.caching is None else options.caching
    body = pipeline_job.body(
        settings, spec.content, values, caching=caching, labels=labels, template_uri=uri, key=options.key or "",
        code=_commit(settings, options),
    )  # fmt: skip
    if options.new and options.caching is None:  # of the same request, so that the next one does not go on without it
        body["pipelineSpec"] = switch_cache(PipelineSpec(body["pipelineSpec"]), False).content
    return body, report


def _specification(name: str, settings: Settings, options: Options) -> tuple[PipelineSpec, str | None, Report]:
    """Spec, template URI and what its check found: of the local workflow, or of an uploaded version of it."""
    if options.template:
        template = resolve(settings, f"{name}@{options.template}")
        report = checked(name, template.spec, settings, max_usd=options.max_usd)
        return template.spec, template.uri, report
    workflow = compiled(name, settings, max_usd=options.max_usd)
    return workflow.spec, None, workflow.report


def _commit(settings: Settings, options: Options) -> str:
    """The commit that the spec is of: the repository's, or what a template is tagged with."""
    return (
        options.template
        if options.template is not None
        else source_commit.current(settings.repository.root).of_the_code
    )


def _labels(texts: Sequence[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    for key, equals, value in pairs:
        if not equals or not key:
            raise RequestError(f"--label {key}{equals}{value}: give it as key=value.")
    return resource_names.labels({key: value for key, _, value in pairs})


def associate(settings: Settings, job_name: str, experiment: str, *, patience_s: float = 60.0) -> None:
    """Puts the run into the experiment, which is created if it does not exist. May be repeated.

    Raises:
        WorkFailed: Google refused, or the run has no context after `patience_s` seconds.
    """
    with explained(f"add the run to the experiment {experiment}", settings):
        client = clients.metadata_service(settings)
        parent = _experiment(client, settings, experiment)
        context = _run_context(settings, job_name, patience_s)
        client.add_context_children(request={"context": parent, "child_contexts": [context]}, **clients.reading())


def _experiment(client: "MetadataServiceClient", settings: Settings, experiment: str) -> str:
    """Resource name of the experiment's context."""
    from google.api_core import exceptions

    store = f"{resource_names.location(settings)}/metadataStores/default"
    name = f"{store}/contexts/{resource_names.job_id(experiment)}"
    try:
        client.get_context(name=name, **clients.reading())
    except exceptions.NotFound:
        context = {"display_name": experiment, **_SCHEMA}
        request = {"parent": store, "context_id": experiment, "context": context}
        with contextlib.suppress(exceptions.Conflict):  # after a lost answer, or somebody else was as quick
            client.create_context(request=request, **clients.reading())
    return name


def _run_context(settings: Settings, job_name: str, patience_s: float) -> str:
    """Resource name of the run's context, which Google makes some seconds after the run."""
    client = clients.pipeline_service(settings)

    def look() -> str | None:
        job = client.get_pipeline_job(name=job_name, **clients.reading())
        name = str(job.job_detail.pipeline_run_context.name)
        return name if name or job.state.name in ENDED else None

    name = poll(look, Pauses(1.0, 1.0, deadline_s=patience_s))
    if not name:
        raise WorkFailed(
            "the run was started, but has no context in ML Metadata: it is in no experiment.\n"
            "  The same command adds it while the run answers for it; later, or after --new: the same command with "
            f"--id {resource_names.short(job_name)}."
        )
    return name
