"""`vgp submit`: starts a run of a workflow or template on Vertex AI, and adds it to an experiment.

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
from vgp.vertex.google_errors import explain_errors
from vgp.vertex.images import image_contents, project_code
from vgp.vertex.images.project_code import ProjectCode
from vgp.vertex.preflight import require_basics
from vgp.vertex.runs import attempts, pipeline_job, run_overhead
from vgp.vertex.runs.remote_run import read
from vgp.vertex.runs.run_cost import last_runs
from vgp.vertex.runs.run_view import write
from vgp.vertex.runs.start_policy import ENDED, IfExists, Started, parse_policy
from vgp.vertex.templates.template import resolve
from vgp.workflow.compiling import source_commit, workflow_files
from vgp.workflow.compiling.compile import check_spec, compile_pipeline

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1.services.metadata_service import MetadataServiceClient

#: The fields that Google's SDK writes, so that the SDK and the console list the experiment.
_SCHEMA = {"schema_title": "system.Experiment", "schema_version": "0.0.1", "metadata": {"experiment_deleted": False}}


#: The label with the beginning of the digest of the code that a run imports in place of its image's.
CODE = "code"


@dataclass(frozen=True)
class Options:
    """The options of `vgp submit`, without the parameters of the pipeline."""

    #: An uploaded version instead of the local workflow: a tag, sha256:..., or NAME@REFERENCE.
    template: str | None = None
    #: The id of the run; None: derived from the request.
    id: str | None = None
    #: Makes a request of its own, which has one run; None: the request follows from workflow and parameters.
    key: str | None = None
    #: How long a run answers after its end: 90m, 12h; None: an hour, and with a key as long as the run exists.
    window: str | None = None
    #: Whether a run that failed or was cancelled is followed by the next attempt at once.
    retry: bool = False
    #: The policy for an open run; None for `attach`.
    if_exists: IfExists | None = None
    #: if_exists = "new", without cached results.
    new: bool = False
    #: Whether steps may use cached results; None: from the settings, else from the spec.
    caching: bool | None = None
    labels: Sequence[str] = ()
    max_usd: float | None = None
    preflight: bool = True
    dry_run: bool = False
    #: Whether the steps import the project's code as it is on this machine.
    code: bool = False


def submit(
    name: str, parameters: Sequence[str], *, settings: Settings, options: Options, console: Console
) -> JsonObject:
    """Starts a run of the pipeline `name`, or finds the run that answers the request.

    Returns its id, link and state, and whether it was started, as JSON.

    Raises:
        RequestError: the pipeline, a parameter or a setting is invalid; nothing was started.
    """
    policy = parse_policy(
        id=options.id, key=options.key, window=options.window, retry=options.retry, if_exists=options.if_exists,
        new=options.new,
    )  # fmt: skip
    code = _pack_code(settings, options)
    settings = code.settings if code else settings
    body, report = _build_request(name, parameters, settings, options, code)
    steps, warnings = report.steps, [headline(finding) for finding in report.of_severity("warning")]
    if settings.persistent_resource:
        warnings.append(
            f"steps run on the persistent resource {settings.persistent_resource}: a training job waits for room, "
            f"any other step runs on its own machine after {pipeline_job.RESOURCE_WAIT_MS // 60_000} minutes"
        )
    job_id = pipeline_job.job_id(body, own_id=options.id)
    sent = {"code": code.as_json()} if code else {}
    if options.dry_run:
        if code:
            write(console, str(code))
        overhead = run_overhead.estimate(PipelineSpec(body["pipelineSpec"]), steps, settings.light_image)
        console.print(cost_bound.steps_table(steps, width=console.width))
        write(console, "\n".join([f"overhead: {overhead}", *warnings, f"dry run: {job_id} was not started"]))
        costs = {**cost_bound.as_json(steps), **overhead.as_json()}
        return {"id": job_id, "started": False, "exit_code": 0, **costs, **sent, "job": body}
    if options.preflight:
        require_basics(settings)
        spec = PipelineSpec(body["pipelineSpec"])
        workflow_files.check_sources(name, spec, body["runtimeConfig"].get("parameterValues", {}), settings.repository)
    if code:
        uploaded = project_code.upload(code)
        write(console, f"{code} {'uploaded' if uploaded else 'is already there'}")
    if options.id is not None:
        job, fresh = pipeline_job.create(settings, body, job_id)
    else:
        job, fresh = attempts.start(settings, body, policy)
    started = Started(settings, read(job), fresh, policy, by_id=options.id is not None)
    write(console, "\n".join([*started.lines(), *settings.warnings(), *(warnings if fresh else ())]))
    last = last_runs(settings, started.run.pipeline) if fresh else None
    if last:
        console.print(cost_bound.steps_table(steps, width=console.width))
        write(console, last.words)
    if settings.experiment:
        associate(settings, job.name, settings.experiment)
    costs = {**cost_bound.as_json(steps), "last_runs": last.as_json() if last else None}
    return {**started.as_json(), "state": job.state.name, **costs, **sent}


def _pack_code(settings: Settings, options: Options) -> ProjectCode | None:
    """Packs the project's code if `--code` asks for it. Raises RequestError for a template."""
    if options.code and options.template is not None:
        raise RequestError("--code changes the steps of the local pipeline; omit it, or --template.")
    return project_code.pack(settings) if options.code else None


def _build_request(
    name: str, parameters: Sequence[str], settings: Settings, options: Options, code: ProjectCode | None
) -> tuple[JsonObject, Report]:
    """Returns the PipelineJob for the request, and the report of the checker."""
    labels = {**_parse_labels(options.labels), **({CODE: code.label} if code else {})}
    spec, uri, report = _read_spec(name, settings, options)
    members = partial(workflow_files.list_members, name, settings.repository)
    values = parse_arguments(spec.parameters, parameters, members)
    values = workflow_files.expand_arguments(name, values, settings.repository, Path.cwd())
    workflow_files.check_arguments(name, spec, values, settings.repository, remote=True)
    image_contents.refuse_missing(settings, spec, values, code.files if code else ())
    caching = settings.caching if options.caching is None else options.caching
    body = pipeline_job.build_body(
        settings, spec.content, values, caching=caching, labels=labels, template_uri=uri, key=options.key or "",
        code=_commit(settings, options),
    )  # fmt: skip
    # Caching is switched off after the request's digest is computed, so a later attempt of the request uses the cache.
    if options.new and options.caching is None:
        body["pipelineSpec"] = switch_cache(PipelineSpec(body["pipelineSpec"]), False).content
    return body, report


def _read_spec(name: str, settings: Settings, options: Options) -> tuple[PipelineSpec, str | None, Report]:
    """Returns the spec, the template's URI and the checker's report, for the local workflow or an uploaded version."""
    if options.template:
        template = resolve(settings, f"{name}@{options.template}")
        report = check_spec(name, template.spec, settings, max_usd=options.max_usd)
        return template.spec, template.uri, report
    workflow = compile_pipeline(name, settings, max_usd=options.max_usd)
    return workflow.spec, None, workflow.report


def _commit(settings: Settings, options: Options) -> str:
    """Returns the commit of the spec: that of the repository, or the tag of the template."""
    return (
        options.template
        if options.template is not None
        else source_commit.read_commit(settings.repository.root).clean_sha
    )


def _parse_labels(texts: Sequence[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    for key, equals, value in pairs:
        if not equals or not key:
            raise RequestError(f"--label {key}{equals}{value}: give it as key=value.")
    return resource_names.labels({key: value for key, _, value in pairs})


def associate(settings: Settings, job_name: str, experiment: str, *, patience_s: float = 60.0) -> None:
    """Adds the run to an experiment, which is created if it does not exist. Repeating the call is safe.

    Raises:
        WorkFailed: Google refused, or the run has no context in ML Metadata after `patience_s` seconds.
    """
    with explain_errors(f"add the run to the experiment {experiment}", settings):
        client = clients.metadata_service(settings)
        parent = _find_or_create_experiment(client, settings, experiment)
        context = _wait_for_run_context(settings, job_name, patience_s)
        client.add_context_children(request={"context": parent, "child_contexts": [context]}, **clients.reading())


def _find_or_create_experiment(client: "MetadataServiceClient", settings: Settings, experiment: str) -> str:
    """Returns the resource name of the experiment's context."""
    from google.api_core import exceptions

    store = f"{resource_names.location(settings)}/metadataStores/default"
    name = f"{store}/contexts/{resource_names.job_id(experiment)}"
    try:
        client.get_context(name=name, **clients.reading())
    except exceptions.NotFound:
        context = {"display_name": experiment, **_SCHEMA}
        request = {"parent": store, "context_id": experiment, "context": context}
        with contextlib.suppress(exceptions.Conflict):  # a retry after a lost answer, or a concurrent command
            client.create_context(request=request, **clients.reading())
    return name


def _wait_for_run_context(settings: Settings, job_name: str, patience_s: float) -> str:
    """Returns the resource name of the run's context, which Google creates some seconds after the run."""
    client = clients.pipeline_service(settings)

    def read_context() -> str | None:
        job = client.get_pipeline_job(name=job_name, **clients.reading())
        name = str(job.job_detail.pipeline_run_context.name)
        return name if name or job.state.name in ENDED else None

    name = poll(read_context, Pauses(1.0, 1.0, deadline_s=patience_s))
    if not name:
        raise WorkFailed(
            "the run was started, but it has no context in ML Metadata, so it was not added to the experiment.\n"
            "  To add it, repeat the command while the run answers the request. Later, or instead of --new, use "
            f"--id {resource_names.short(job_name)}."
        )
    return name
