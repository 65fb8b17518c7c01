"""The schedules in pipelines.toml, compiled, checked, and as messages for Vertex AI."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError
from vgp.base.text.nearest import did_you_mean
from vgp.check.check_finding import StepRow
from vgp.check.spec.parameters import check_arguments
from vgp.check.spec.pipeline_spec import PipelineSpec, list_cached_tasks, pins_first
from vgp.settings import Schedule, Settings
from vgp.vertex import resource_names
from vgp.vertex.images import image_contents
from vgp.vertex.runs import pipeline_job
from vgp.vertex.runs.run_overhead import Estimate, estimate
from vgp.vertex.schedules.cron import Cron
from vgp.vertex.templates.template import resolve
from vgp.workflow.compiling import source_commit, workflow_files
from vgp.workflow.compiling.compile import check_spec, compile_pipeline

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1.types import Schedule as LiveSchedule

#: The labels that, with managed-by, mark a schedule as one of vgp. The plain name `environment` is left to users.
LABEL, ENVIRONMENT = "schedule", "schedule-environment"
_CACHING = "caching = true counts for submit only: a schedule would train once, and take that result every night."
_MOVES = (
    "cached steps come before any step that detects new data, so they would run only once; "
    "caching is off for this schedule. "
    "Begin with a step like resolve, and mark those that depend on it: target.step(component, pinned=True)."
)
_PERSISTENT = (
    "persistent_resource counts for submit and rerun only: schedules have no field for it, so their steps run on their "
    "own machines."
)
CHAMPION, NIGHTS = "champion", "nights"
_AUTO = "auto"
#: Four fixed years over which runs are counted, so that 29 February counts a quarter and plans do not change daily.
_YEARS = tuple(datetime(year, 1, 1, tzinfo=UTC) for year in range(2025, 2029))
#: The weekday 7, which only some crons read as Sunday (https://en.wikipedia.org/wiki/Cron, to which Google links).
_SEVEN = re.compile(r"(?<![\d/])7(?!\d)")


@dataclass(frozen=True)
class Declaration:
    """A declared schedule with the message that creates it."""

    name: str
    declared: Schedule
    #: google.cloud.aiplatform_v1.Schedule, without a resource name.
    message: "LiveSchedule"
    #: The steps of a run with their machines.
    steps: Sequence[StepRow] = ()
    #: Names of the steps that may be cached.
    cached: Sequence[str] = ()
    #: Warnings for the output.
    notes: Sequence[str] = ()
    #: The expected overhead of a run.
    overhead: Estimate | None = None
    #: The PipelineJob of its runs, as JSON.
    job: JsonObject = field(default_factory=dict, repr=False)

    @property
    def pipeline(self) -> str:
        return PipelineSpec(self.job["pipelineSpec"]).name

    @property
    def cron(self) -> Cron:
        return Cron.parse(self.message.cron)


@dataclass(frozen=True)
class _Template:
    """The pipeline of a schedule: its spec, the URI of an uploaded one, and its steps with their machines."""

    spec: PipelineSpec
    uri: str | None
    steps: Sequence[StepRow]


def read_declarations(settings: Settings, names: Sequence[str] = ()) -> list[Declaration]:
    """Returns the declared schedules `names` (all if none), compiled and checked.

    A local workflow needs no call to Google; an uploaded template is downloaded and pinned by its digest.

    Raises:
        RequestError: there is no such schedule, or its workflow, template or a parameter is wrong.
    """
    refuse_undeclared(settings, names)
    templates: dict[tuple[str, str | None], _Template] = {}
    declarations, commit_label = [], source_commit.read_commit(settings.repository.root).clean_sha
    for name in dict.fromkeys(names or settings.schedules):
        schedule = settings.schedules[name]
        key = schedule.pipeline, schedule.template
        try:
            if key not in templates:
                templates[key] = _choose_template(settings, schedule)
            template = templates[key]
            members = partial(workflow_files.list_members, schedule.pipeline, settings.repository)
            values = check_arguments(template.spec.parameters, schedule.parameters, members)
            values = add_derived(template.spec, schedule, values)
            values = workflow_files.expand_arguments(schedule.pipeline, values, settings.repository)
            workflow_files.check_arguments(schedule.pipeline, template.spec, values, settings.repository, remote=True)
            image_contents.refuse_missing(settings, template.spec, values)
        except RequestError as error:
            raise RequestError(f"schedules.{name}: {error}") from None
        message = declaration(
            settings, name, template.spec.content, values, steps=template.steps, template_uri=template.uri,
            code=schedule.template if schedule.template is not None else commit_label,
        )  # fmt: skip
        declarations.append(message)
    return declarations


def refuse_undeclared(settings: Settings, names: Sequence[str]) -> None:
    """Raises RequestError if a name is not that of a declared schedule."""
    for name in names:
        if name not in settings.schedules:
            write = "Declare one: write [schedules.NAME] into pipelines.toml."
            choices = did_you_mean(name, settings.schedules) if settings.schedules else write
            raise RequestError(f"no schedule {name!r} is declared. {choices}")


def _choose_template(settings: Settings, schedule: Schedule) -> _Template:
    if schedule.template is None:
        workflow = compile_pipeline(schedule.pipeline, settings)
        return _Template(workflow.spec, None, workflow.report.steps)
    if settings.code_uri:
        raise RequestError(
            f'--code: template = "{schedule.template}" is a compiled pipeline, which keeps its code. Omit one of both.'
        )
    template = resolve(settings, schedule.template)
    # kfp names a pipeline `language-model` whose file is language_model.py.
    if template.name != schedule.pipeline and template.name != compile_pipeline(schedule.pipeline, settings).spec.name:
        raise RequestError(f'template = "{schedule.template}" is not a version of the pipeline {schedule.pipeline}.')
    return _Template(template.spec, template.uri, check_spec(template.name, template.spec, settings).steps)


def declaration(
    settings: Settings,
    name: str,
    spec: Mapping[str, object],
    values: JsonObject,
    *,
    steps: Sequence[StepRow] = (),
    template_uri: str | None = None,
    code: str = "",
    now: datetime | None = None,
) -> Declaration:
    """Returns the schedule `name` of the settings, for a compiled `spec` and `values` that fit it.

    Steps of its runs may be cached only if the pipeline begins with a step that detects new data.

    Raises:
        RequestError: a label, the project or the bucket is missing or wrong.
    """
    from google.cloud.aiplatform_v1.types import Schedule as Message
    from google.protobuf import json_format

    declared = settings.schedules[name]
    if ENVIRONMENT in settings.labels:
        raise RequestError(
            f"labels.{ENVIRONMENT}: this label is reserved for the environment of a schedule. Use another name."
        )
    lacks_pins = not pins_first(PipelineSpec(spec))
    caching = False if lacks_pins or settings.caching is False else None
    job = pipeline_job.build_body(
        without_resource(settings), spec, values, caching=caching, labels=marks(settings, name),
        template_uri=template_uri, code=code,
    )  # fmt: skip
    message, compiled = Message(), PipelineSpec(job["pipelineSpec"])
    fields = _build_fields(settings, name, declared, job, now or datetime.now(UTC))
    try:
        json_format.ParseDict(fields, Message.pb(message))
    except (json_format.ParseError, TypeError) as error:
        raise RequestError(f"schedules.{name}: a parameter has a value that is no JSON: {error}.") from None
    return Declaration(
        name,
        declared,
        message,
        steps,
        list_cached_tasks(compiled),
        [
            *([_CACHING] if settings.caching else []),
            *([_MOVES] if lacks_pins else []),
            *([_PERSISTENT] if settings.persistent_resource else []),
            *(text.removeprefix("warning: ") for text in settings.warnings()),
        ],
        estimate(compiled, steps, settings.light_image) if steps else None,
        job,
    )


def without_resource(settings: Settings) -> Settings:
    """Returns the settings of a schedule's runs, without the persistent resource: v1, which has schedules, lacks it."""
    return settings.model_copy(update={"persistent_resource": None})


def marks(settings: Settings, name: str) -> dict[str, str]:
    """Returns the labels that identify the schedule `name` and its runs."""
    commit_label = {ENVIRONMENT: settings.environment} if settings.environment else {}
    return {LABEL: name, **commit_label}


def display_name(settings: Settings, name: str) -> str:
    """Returns the name in the console: nightly (prod)."""
    return f"{name} ({settings.environment})" if settings.environment else name


def _build_fields(settings: Settings, name: str, declared: Schedule, job: JsonObject, now: datetime) -> JsonObject:
    shown = display_name(settings, name)
    sent = {
        "displayName": shown,
        "cron": str(Cron(_replace_weekday_7(declared.cron), declared.time_zone)),
        # The first limits active runs. The second limits runs that are starting, and the API requires it.
        "maxConcurrentActiveRunCount": declared.max_concurrent_runs,
        "maxConcurrentRunCount": declared.max_concurrent_runs,
        "allowQueueing": declared.queueing,
        # A start in the past is left out, so Vertex AI begins at once.
        "startTime": _format_rfc3339(declared.start) if declared.start and declared.start > now else None,
        "endTime": _format_rfc3339(declared.end) if declared.end else None,
        "maxRunCount": declared.max_runs,
        "createPipelineJobRequest": {
            "parent": resource_names.location(settings),
            "pipelineJob": {"displayName": shown, **job},
        },
    }
    return {key: value for key, value in sent.items() if value is not None}


def _replace_weekday_7(expression: str) -> str:
    """Returns the expression with 0 for Sunday, which every cron reads; a range that ends in 7 becomes a list."""
    *fields, weekday = expression.split()
    if _SEVEN.search(weekday):
        from cronsim.cronsim import Field

        days = {day % 7 for day in Field.DOW.parse(weekday.upper()) if isinstance(day, int)}
        weekday = ",".join(map(str, sorted(days)))
    return " ".join([*fields, weekday])


def _format_rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).replace(microsecond=0).isoformat().replace("+00:00", "Z")


def add_derived(spec: PipelineSpec, schedule: Schedule, values: JsonObject) -> JsonObject:
    """Returns `values` with `champion` and `nights` added if the workflow has these parameters without a value."""
    known = {CHAMPION: _AUTO, NIGHTS: count_yearly_runs(schedule)}
    missing = {name: value for name, value in known.items() if name in spec.parameters and name not in values}
    return {**missing, **values}


def count_yearly_runs(schedule: Schedule) -> int:
    """Returns the number of runs of the schedule in a year, at least 1."""
    cron = Cron(schedule.cron, schedule.time_zone)
    months = sum(cron.per_month(first) for first in _YEARS) / len(_YEARS)
    return max(1, round(12 * months))
