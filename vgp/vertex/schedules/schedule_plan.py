"""What would have to be done so that the live schedules are the declared ones. Reads only."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from vgp.base.documents.json_text import JsonObject
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.check.spec.spec_difference import Difference
from vgp.settings import Settings
from vgp.vertex import clients, resource_names
from vgp.vertex.google_errors import explained
from vgp.vertex.schedules import schedule_fields, schedule_list
from vgp.vertex.schedules.declared_schedule import Declaration
from vgp.vertex.schedules.schedule_fields import Change
from vgp.workflow.compiling.compile import compare_specs

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1.types import Schedule as LiveSchedule

Kind = Literal["create", "update", "replace", "nothing", "prune", "undeclared", "other"]
#: Kinds of which `apply` does something.
PENDING = ("create", "update", "replace", "prune")


@dataclass(frozen=True)
class Action:
    """One schedule: what would be done with it, and why."""

    kind: Kind
    #: As declared; of schedules that are not ours what the console shows.
    name: str
    #: Resource name; None: there is none yet.
    resource: str | None = None
    changes: Sequence[Change] = ()
    #: How the pipeline differs that it runs, if it does.
    template: Sequence[Difference] = ()
    #: Both specs, live and declared, if they differ.
    specs: tuple[PipelineSpec, PipelineSpec] | None = None
    #: Further schedules with the same mark, which `apply` deletes.
    surplus: Sequence[str] = ()
    #: What a person should know besides.
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
            "changes": _rows(self.changes),
            "template": _rows(self.template),
            "surplus": list(self.surplus),
            "notes": list(self.notes),
        }


def plan(
    settings: Settings, declarations: Sequence[Declaration], *, only: Sequence[str] = (), prune: bool = False
) -> list[Action]:
    """The actions for the `declarations`, for ours that are declared no longer, and for the others.

    With `only`, only those of ours.
    """
    with explained("read the schedules", settings):
        schedules = schedule_list.existing_schedules(settings)
        ours = schedule_list.ours(settings, schedules)
        actions = [_action(settings, one, ours.get(one.name, [])) for one in declarations]
    declared = {*settings.schedules, *(one.name for one in declarations)}
    gone = [name for name in sorted(ours) if name not in declared and (not only or name in only)]
    actions += [_undeclared(name, ours[name], prune) for name in gone]
    if not only:
        actions += [_other(settings, schedule) for schedule in schedules if not _is_ours(settings, schedule)]
    return actions


def difference(declaration: Declaration, schedule: "LiveSchedule") -> list[Change]:
    """Fields and state that differ from the live schedule."""
    if schedule_list.state_of(schedule) == "completed" and never_runs(declaration):
        return []
    changes = schedule_fields.changes(declaration.message, schedule)
    state, target = schedule_list.state_of(schedule), "paused" if declaration.declared.paused else "active"
    if state not in (target, "completed"):
        changes.append(Change("state", state, target))
    return changes


def replaces(changes: Sequence[Change], schedule: "LiveSchedule") -> bool:
    """Whether the changes take a new schedule: a completed one stays as it is, and no field can be emptied."""
    return bool(changes) and (
        schedule_list.state_of(schedule) == "completed" or not all(change.in_place for change in changes)
    )


def never_runs(declaration: Declaration) -> bool:
    """Its end has passed: there is nothing to create."""
    return declaration.declared.end is not None and declaration.declared.end <= datetime.now(UTC)


def _action(settings: Settings, declaration: Declaration, ours: Sequence["LiveSchedule"]) -> Action:
    if not ours:
        if never_runs(declaration):
            return Action("nothing", declaration.name, notes=["its end has passed"], declaration=declaration)
        return Action("create", declaration.name, declaration=declaration)
    client = clients.schedule_service(settings)
    kept = client.get_schedule(name=ours[0].name, **clients.reading())
    changes, surplus = difference(declaration, kept), [schedule.name for schedule in ours[1:]]
    specs = schedule_fields.spec(kept), schedule_fields.spec(declaration.message)
    changed = any(change.field == "pipeline" for change in changes)
    again = replaces(changes, kept)
    return Action(
        "replace" if again else "update" if changes or surplus else "nothing",
        declaration.name,
        kept.name,
        changes,
        compare_specs(*specs) if changed else (),
        specs if changed else None,
        surplus,
        list(_notes(kept, changes, again)),
        declaration,
    )


def _notes(schedule: "LiveSchedule", changes: Sequence[Change], again: bool) -> list[str]:
    notes = []
    if schedule_list.state_of(schedule) == "completed":
        notes.append(f"completed after {schedule.started_run_count} runs")
    if again:
        why = [change.field for change in changes if not change.in_place]
        reason = f"Vertex AI cannot empty {', '.join(why)}" if why else "a completed schedule cannot be changed"
        notes.append(f"{reason}: it is deleted and made anew, and counts its runs from 0")
    return notes


def _undeclared(name: str, ours: Sequence["LiveSchedule"], prune: bool) -> Action:
    hint = [] if prune else ["declared no longer; apply --prune deletes it"]
    surplus = [schedule.name for schedule in ours[1:]]
    return Action("prune" if prune else "undeclared", name, ours[0].name, surplus=surplus, notes=hint)


def _is_ours(settings: Settings, schedule: "LiveSchedule") -> bool:
    mark = schedule_list.mark_of(schedule)
    return mark is not None and mark.environment == settings.environment


def _other(settings: Settings, schedule: "LiveSchedule") -> Action:
    mark = schedule_list.mark_of(schedule)
    whose = f"of the environment {mark.environment or 'none'}" if mark else "not made by this tool"
    return Action("other", schedule.display_name or resource_names.short(schedule.name), schedule.name, notes=[whose])


def _rows(changes: Sequence[Change | Difference]) -> list[JsonObject]:
    return [{"field": one.field, "before": one.before, "after": one.after} for one in changes]
