"""The schedules that pipelines.toml declares: compiled, checked, and as the messages that Vertex AI takes."""

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
from vgp.vertex.schedules.cron import Cron
from vgp.vertex.templates.template import resolve
from vgp.workflow.compiling import source_commit, workflow_files
from vgp.workflow.compiling.compile import checked, compiled

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1.types import Schedule as LiveSchedule

#: The labels that, with managed-by, mark a schedule as ours. `environment` may be a label of the settings' own.
LABEL, ENVIRONMENT = "schedule", "schedule-environment"
_CACHING = "caching = true counts for submit only: a schedule would train once, and take that result every night."
_MOVES = (
    "cached steps come before any step that detects new data, so they would run only once; "
    "caching is off for this schedule. "
    "Begin with a step like resolve, and mark those that depend on it: target.step(component, pinned=True)."
)
CHAMPION, NIGHTS = "champion", "nights"
_AUTO = "auto"
#: Nights are counted over these, so that 29 February is a quarter; fixed, for tomorrow's plan is to be the same.
_YEARS = tuple(datetime(year, 1, 1, tzinfo=UTC) for year in range(2025, 2029))
#: The weekday 7 is a Sunday to some crons only; Google links to https://en.wikipedia.org/wiki/Cron, which says so.
_SEVEN = re.compile(r"(?<![\d/])7(?!\d)")


@dataclass(frozen=True)
class Declaration:
    """A declared schedule with everything that is sent for it."""

    name: str
    declared: Schedule
    #: google.cloud.aiplatform_v1.Schedule, without a resource name.
    message: "LiveSchedule"
    #: The machines of a run.
    steps: Sequence[StepRow] = ()
    #: Those of the steps that may take the result of an earlier run.
    cached: Sequence[str] = ()
    #: What a person should know besides.
    notes: Sequence[str] = ()
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
    """What a schedule runs: a spec, where it was uploaded, and its machines."""

    spec: PipelineSpec
    uri: str | None
    steps: Sequence[StepRow]


def read_declarations(settings: Settings, names: Sequence[str] = ()) -> list[Declaration]:
    """Returns the declared schedules `names` (all if none), compiled and checked.

    A local workflow costs no call; an uploaded template is downloaded and pinned by its digest.

    Raises:
        RequestError: there is no such schedule, or its workflow, template or a parameter is wrong.
    """
    refuse_undeclared(settings, names)
    templates: dict[tuple[str, str | None], _Template] = {}
    declarations, here = [], source_commit.current(settings.repository.root).of_the_code
    for name in dict.fromkeys(names or settings.schedules):
        schedule = settings.schedules[name]
        key = schedule.pipeline, schedule.template
        try:
            if key not in templates:
                templates[key] = _template(settings, schedule)
            template = templates[key]
            members = partial(workflow_files.members, schedule.pipeline, settings.repository)
            values = check_arguments(template.spec.parameters, schedule.parameters, members)
            values = filled(template.spec, schedule, values)
            values = workflow_files.expanded(schedule.pipeline, values, settings.repository)
            workflow_files.check(schedule.pipeline, template.spec, values, settings.repository, remote=True)
            image_contents.refuse_missing(settings, template.spec, values)
        except RequestError as error:
            raise RequestError(f"schedules.{name}: {error}") from None
        message = declaration(
            settings, name, template.spec.content, values, steps=template.steps, template_uri=template.uri,
            code=schedule.template if schedule.template is not None else here,
        )  # fmt: skip
        declarations.append(message)
    return declarations


def refuse_undeclared(settings: Settings, names: Sequence[str]) -> None:
    """Raises RequestError: a name is that of no declared schedule."""
    for name in names:
        if name not in settings.schedules:
            write = "Declare one: write [schedules.NAME] into pipelines.toml."
            choices = did_you_mean(name, settings.schedules) if settings.schedules else write
            raise RequestError(f"no schedule {name!r} is declared. {choices}")


def _template(settings: Settings, schedule: Schedule) -> _Template:
    if schedule.template is None:
        workflow = compiled(schedule.pipeline, settings)
        return _Template(workflow.spec, None, workflow.report.steps)
    template = resolve(settings, schedule.template)
    # kfp names a pipeline `language-model` whose file is language_model.py.
    if template.name != schedule.pipeline and template.name != compiled(schedule.pipeline, settings).spec.name:
        raise RequestError(f'template = "{schedule.template}" is no version of the pipeline {schedule.pipeline}.')
    return _Template(template.spec, template.uri, checked(template.name, template.spec, settings).steps)


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
    """The schedule `name` of the settings, for a compiled `spec` and `values` that were checked against it.

    Its runs take results of earlier ones where the spec says so, if that comes after a step that tells what is new.

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
    moves = not pins_first(PipelineSpec(spec))
    caching = False if moves or settings.caching is False else None
    job = pipeline_job.body(
        settings, spec, values, caching=caching, labels=marks(settings, name), template_uri=template_uri, code=code
    )
    message = Message()
    fields = _fields(settings, name, declared, job, now or datetime.now(UTC))
    try:
        json_format.ParseDict(fields, Message.pb(message))
    except (json_format.ParseError, TypeError) as error:
        raise RequestError(f"schedules.{name}: a parameter has a value that is no JSON: {error}.") from None
    return Declaration(
        name,
        declared,
        message,
        steps,
        list_cached_tasks(PipelineSpec(job["pipelineSpec"])),
        [
            *([_CACHING] if settings.caching else []),
            *([_MOVES] if moves else []),
            *(text.removeprefix("warning: ") for text in settings.warnings()),
        ],
        job,
    )


def marks(settings: Settings, name: str) -> dict[str, str]:
    """The labels by which the schedule `name` and its runs are found again."""
    here = {ENVIRONMENT: settings.environment} if settings.environment else {}
    return {LABEL: name, **here}


def display_name(settings: Settings, name: str) -> str:
    """What the console shows: nightly (prod)."""
    return f"{name} ({settings.environment})" if settings.environment else name


def _fields(settings: Settings, name: str, declared: Schedule, job: JsonObject, now: datetime) -> JsonObject:
    shown = display_name(settings, name)
    sent = {
        "displayName": shown,
        "cron": str(Cron(_sunday(declared.cron), declared.time_zone)),
        # How many runs may be going on; how many may be starting, which is required and says little.
        "maxConcurrentActiveRunCount": declared.max_concurrent_runs,
        "maxConcurrentRunCount": declared.max_concurrent_runs,
        "allowQueueing": declared.queueing,
        # A start that has passed is no start: Vertex AI begins at once.
        "startTime": _rfc3339(declared.start) if declared.start and declared.start > now else None,
        "endTime": _rfc3339(declared.end) if declared.end else None,
        "maxRunCount": declared.max_runs,
        "createPipelineJobRequest": {
            "parent": resource_names.location(settings),
            "pipelineJob": {"displayName": shown, **job},
        },
    }
    return {key: value for key, value in sent.items() if value is not None}


def _sunday(expression: str) -> str:
    """The expression with Sunday as 0, which every cron knows; a range that ends in 7 is spelled out."""
    *fields, weekday = expression.split()
    if _SEVEN.search(weekday):
        from cronsim.cronsim import Field

        days = {day % 7 for day in Field.DOW.parse(weekday.upper()) if isinstance(day, int)}
        weekday = ",".join(map(str, sorted(days)))
    return " ".join([*fields, weekday])


def _rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).replace(microsecond=0).isoformat().replace("+00:00", "Z")


def filled(spec: PipelineSpec, schedule: Schedule, values: JsonObject) -> JsonObject:
    """The values, with what follows from the schedule for parameters of the workflow that have no value."""
    known = {CHAMPION: _AUTO, NIGHTS: nights(schedule)}
    missing = {name: value for name, value in known.items() if name in spec.parameters and name not in values}
    return {**missing, **values}


def nights(schedule: Schedule) -> int:
    """How often the schedule falls due in a year, at least once."""
    cron = Cron(schedule.cron, schedule.time_zone)
    months = sum(cron.per_month(first) for first in _YEARS) / len(_YEARS)
    return max(1, round(12 * months))
