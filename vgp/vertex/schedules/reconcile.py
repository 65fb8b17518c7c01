"""`vgp schedule plan` and `apply`: what pipelines.toml declares, compiled and checked, brought to Vertex AI."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from vgp.base.errors import RequestError
from vgp.base.text.nearest import did_you_mean
from vgp.check.check_finding import StepRow
from vgp.check.spec.parameters import check_arguments
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.settings import Schedule, Settings
from vgp.vertex.google_errors import explained
from vgp.vertex.images import held
from vgp.vertex.preflight import refuse_cheaply
from vgp.vertex.resource_names import schedule_link, short
from vgp.vertex.schedules import schedule_list
from vgp.vertex.schedules.apply import Outcome, apply, prune
from vgp.vertex.schedules.declared_schedule import Declaration, declaration, filled
from vgp.vertex.schedules.schedule_plan import Action, plan
from vgp.vertex.templates.template import resolve
from vgp.workflow.compiling import source_commit, workflow_files
from vgp.workflow.compiling.compile import checked, compiled


@dataclass(frozen=True)
class _Template:
    """What a schedule runs: a spec, where it was uploaded, and its machines."""

    spec: PipelineSpec
    uri: str | None
    steps: Sequence[StepRow]


def declared(settings: Settings, names: Sequence[str] = ()) -> list[Declaration]:
    """The declared schedules `names` (all if none), compiled and checked.

    A local workflow costs no call; an uploaded template is downloaded and pinned by its digest.

    Raises:
        RequestError: there is no such schedule, or its workflow, template or a parameter is wrong.
    """
    _refuse_undeclared(settings, names)
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
            held.refuse_missing(settings, template.spec, values)
        except RequestError as error:
            raise RequestError(f"schedules.{name}: {error}") from None
        message = declaration(
            settings, name, template.spec.content, values, steps=template.steps, template_uri=template.uri,
            code=schedule.template if schedule.template is not None else here,
        )  # fmt: skip
        declarations.append(message)
    return declarations


def plan_all(settings: Settings, names: Sequence[str] = (), *, prune: bool = False) -> list[Action]:
    """What `apply_all` would do; reads only.

    Raises:
        RequestError: as `declared`.
        WorkFailed: Google refused or could not be reached.
    """
    undeclared = [name for name in names if name not in settings.schedules]
    if undeclared and prune:
        with explained("read the schedules", settings):
            ours = schedule_list.ours(settings, schedule_list.existing_schedules(settings))
        undeclared = [name for name in undeclared if name not in ours]
    _refuse_undeclared(settings, undeclared)
    here = [name for name in names if name in settings.schedules]
    declarations = declared(settings, here) if here or not names else []
    return plan(settings, declarations, only=names, prune=prune)


def apply_all(
    settings: Settings, actions: Sequence[Action], *, preflight: bool = True, tell: Callable[[str], None] = print
) -> list[Outcome]:
    """Does what the plan says; each schedule is looked at again before it is touched.

    Raises:
        WorkFailed: Google refused or could not be reached; what was done stays, and repeating goes on.
    """
    pending = [action for action in actions if action.pending]
    if pending and preflight:
        refuse_cheaply(settings)
    outcomes = []
    for action in pending:
        if action.declaration is not None:
            outcome = apply(settings, action.declaration)
        else:
            outcome = prune(settings, action.name, [action.resource or "", *action.surplus])
        tell(f"{action.name}: {', '.join(outcome.did) or 'nothing to do any more'}")
        if outcome.created and outcome.resource:
            tell(schedule_link(settings, short(outcome.resource)))
        if outcome.kept:
            tell(f"{action.name}: warning: Vertex AI holds another {', '.join(outcome.kept)} than was sent")
        outcomes.append(outcome)
    return outcomes


def _refuse_undeclared(settings: Settings, names: Sequence[str]) -> None:
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
