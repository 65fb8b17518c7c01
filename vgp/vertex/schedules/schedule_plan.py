"""Plans the actions that make the live schedules equal to the declared ones; only reads."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from vgp.base.documents.json_text import JsonObject
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.check.spec.spec_difference import Difference
from vgp.settings import Settings
from vgp.vertex import clients, resource_names
from vgp.vertex.google_errors import explain_errors
from vgp.vertex.schedules import schedule_fields, schedule_list
from vgp.vertex.schedules.declared_schedule import Declaration
from vgp.vertex.schedules.schedule_fields import Change
from vgp.workflow.compiling.compile import compare_specs

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1.types import Schedule as LiveSchedule

Kind = Literal["create", "update", "replace", "nothing", "prune", "undeclared", "other"]
#: Kinds of actions that `apply` carries out.
PENDING = ("create", "update", "replace", "prune")


@dataclass(frozen=True)
class Action:
    """The planned action for one schedule, and its reason."""

    kind: Kind
    #: The declared name; of a schedule that vgp did not make, the name in the console.
    name: str
    #: Resource name; None for a schedule that does not exist yet.
    resource: str | None = None
    changes: Sequence[Change] = ()
    #: Differences of the pipeline.
    template: Sequence[Difference] = ()
    #: Both specs, live and declared, if they differ.
    specs: tuple[PipelineSpec, PipelineSpec] | None = None
    #: Further schedules with the same mark, which `apply` deletes.
    surplus: Sequence[str] = ()
    #: Warnings for the output.
    notes: Sequence[str] = ()
    declaration: Declaration | None = field(default=None, repr=False)

    @property
    def pending(self) -> bool:
        return self.kind in PENDING

    def as_json(self) -> JsonObject:
        """For --json, without the specs."""
        return {
            "action": self.kind,
            "name": self.name,
            "schedule": self.resource,
            "changes": _build_rows(self.changes),
            "template": _build_rows(self.template),
            "surplus": list(self.surplus),
            "notes": list(self.notes),
        }


def plan(
    settings: Settings, declarations: Sequence[Declaration], *, only: Sequence[str] = (), prune: bool = False
) -> list[Action]:
    """Plans an action for each declaration, each schedule that is no longer declared, and each schedule of others.

    `only` restricts the plan to schedules of vgp with these names.
    """
    with explain_errors("read the schedules", settings):
        schedules = schedule_list.existing_schedules(settings)
        ours = schedule_list.group_by_name(settings, schedules)
        actions = [_plan_declared(settings, one, ours.get(one.name, [])) for one in declarations]
    declared = {*settings.schedules, *(one.name for one in declarations)}
    undeclared = [name for name in sorted(ours) if name not in declared and (not only or name in only)]
    actions += [_plan_undeclared(name, ours[name], prune) for name in undeclared]
    if not only:
        actions += [_describe_other(settings, schedule) for schedule in schedules if not _is_ours(settings, schedule)]
    return actions


def list_differences(declaration: Declaration, schedule: "LiveSchedule") -> list[Change]:
    """Lists the fields and the state in which a declaration differs from the live schedule."""
    if schedule_list.read_state(schedule) == "completed" and never_runs(declaration):
        return []
    changes = schedule_fields.list_changes(declaration.message, schedule)
    state, target = schedule_list.read_state(schedule), "paused" if declaration.declared.paused else "active"
    if state not in (target, "completed"):
        changes.append(Change("state", state, target))
    return changes


def needs_replacement(changes: Sequence[Change], schedule: "LiveSchedule") -> bool:
    """Whether the changes need a new schedule: Vertex AI cannot change a completed one or empty a field."""
    return bool(changes) and (
        schedule_list.read_state(schedule) == "completed" or not all(change.in_place for change in changes)
    )


def never_runs(declaration: Declaration) -> bool:
    """Whether the end of the declared schedule has passed, so that there is nothing to create."""
    return declaration.declared.end is not None and declaration.declared.end <= datetime.now(UTC)


def _plan_declared(settings: Settings, declaration: Declaration, ours: Sequence["LiveSchedule"]) -> Action:
    if not ours:
        if never_runs(declaration):
            return Action("nothing", declaration.name, notes=["its end has passed"], declaration=declaration)
        return Action("create", declaration.name, declaration=declaration)
    client = clients.schedule_service(settings)
    live = client.get_schedule(name=ours[0].name, **clients.reading())
    changes, surplus = list_differences(declaration, live), [schedule.name for schedule in ours[1:]]
    specs = schedule_fields.spec(live), schedule_fields.spec(declaration.message)
    changed = any(change.field == "pipeline" for change in changes)
    is_replacement = needs_replacement(changes, live)
    return Action(
        "replace" if is_replacement else "update" if changes or surplus else "nothing",
        declaration.name,
        live.name,
        changes,
        compare_specs(*specs) if changed else (),
        specs if changed else None,
        surplus,
        list(_list_notes(live, changes, is_replacement)),
        declaration,
    )


def _list_notes(schedule: "LiveSchedule", changes: Sequence[Change], is_replacement: bool) -> list[str]:
    notes = []
    if schedule_list.read_state(schedule) == "completed":
        notes.append(f"completed after {schedule.started_run_count} runs")
    if is_replacement:
        why = [change.field for change in changes if not change.in_place]
        reason = f"Vertex AI cannot empty {', '.join(why)}" if why else "a completed schedule cannot be changed"
        notes.append(f"{reason}: it is deleted and made anew, and counts its runs from 0")
    return notes


def _plan_undeclared(name: str, ours: Sequence["LiveSchedule"], prune: bool) -> Action:
    hint = [] if prune else ["declared no longer; apply --prune deletes it"]
    surplus = [schedule.name for schedule in ours[1:]]
    return Action("prune" if prune else "undeclared", name, ours[0].name, surplus=surplus, notes=hint)


def _is_ours(settings: Settings, schedule: "LiveSchedule") -> bool:
    mark = schedule_list.read_mark(schedule)
    return mark is not None and mark.environment == settings.environment


def _describe_other(settings: Settings, schedule: "LiveSchedule") -> Action:
    mark = schedule_list.read_mark(schedule)
    owner = f"of the environment {mark.environment or 'none'}" if mark else "not made by vgp"
    return Action("other", schedule.display_name or resource_names.short(schedule.name), schedule.name, notes=[owner])


def _build_rows(changes: Sequence[Change | Difference]) -> list[JsonObject]:
    return [{"field": one.field, "before": one.before, "after": one.after} for one in changes]
