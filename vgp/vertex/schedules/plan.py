"""What would have to be done so that the live schedules are the declared ones. Reads only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from vgp.compiling import difference as template
from vgp.settings import Settings
from vgp.spec.difference import Difference
from vgp.spec.pipeline_spec import PipelineSpec
from vgp.vertex import clients, names
from vgp.vertex.errors import explained
from vgp.vertex.schedules import fields, live
from vgp.vertex.schedules.fields import Change
from vgp.vertex.schedules.wanted import Wanted

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
    wanted: Wanted | None = field(default=None, repr=False)

    @property
    def pending(self) -> bool:
        return self.kind in PENDING


def plan(
    settings: Settings, wanted: Sequence[Wanted], *, only: Sequence[str] = (), prune: bool = False
) -> list[Action]:
    """The actions for the declared schedules `wanted`, for ours that are declared no longer, and for the others.

    With `only`, only those of ours.

    Raises:
        WorkFailed: Google refused or could not be reached.
    """
    with explained("read the schedules", settings):
        found = live.schedules(settings)
        mine = live.ours(settings, found)
        actions = [_action(settings, each, mine.get(each.name, [])) for each in wanted]
    declared = {*settings.schedules, *(each.name for each in wanted)}
    gone = [name for name in sorted(mine) if name not in declared and (not only or name in only)]
    actions += [_undeclared(name, mine[name], prune) for name in gone]
    if not only:
        actions += [_other(settings, each) for each in found if not _is_mine(settings, each)]
    return actions


def difference(wanted: Wanted, schedule: Any) -> list[Change]:
    """Fields and state that differ from the live schedule."""
    if live.state(schedule) == "completed" and never_runs(wanted):
        return []
    found = fields.changes(wanted.message, schedule)
    state, target = live.state(schedule), "paused" if wanted.declared.paused else "active"
    if state not in (target, "completed"):
        found.append(Change("state", state, target))
    return found


def replaces(changes: Sequence[Change], schedule: Any) -> bool:
    """Whether the changes take a new schedule: a completed one stays as it is, and no field can be emptied."""
    return bool(changes) and (live.state(schedule) == "completed" or not all(each.in_place for each in changes))


def never_runs(wanted: Wanted) -> bool:
    """Its end has passed: there is nothing to create."""
    return wanted.declared.end is not None and wanted.declared.end <= datetime.now(UTC)


def _action(settings: Settings, wanted: Wanted, found: Sequence[Any]) -> Action:
    if not found:
        if never_runs(wanted):
            return Action("nothing", wanted.name, notes=["its end has passed"], wanted=wanted)
        return Action("create", wanted.name, wanted=wanted)
    client = clients.schedule_service(settings)
    kept = client.get_schedule(name=found[0].name, **clients.reading())
    changes, surplus = difference(wanted, kept), [each.name for each in found[1:]]
    specs = PipelineSpec(fields.spec(kept)), PipelineSpec(fields.spec(wanted.message))
    changed = any(each.field == "pipeline" for each in changes)
    again = replaces(changes, kept)
    return Action(
        "replace" if again else "update" if changes or surplus else "nothing",
        wanted.name,
        kept.name,
        changes,
        template.differences(*specs) if changed else (),
        specs if changed else None,
        surplus,
        list(_notes(kept, changes, again)),
        wanted,
    )


def _notes(schedule: Any, changes: Sequence[Change], again: bool) -> list[str]:
    notes = []
    if live.state(schedule) == "completed":
        notes.append(f"completed after {schedule.started_run_count} runs")
    if again:
        why = [each.field for each in changes if not each.in_place]
        reason = f"Vertex AI cannot empty {', '.join(why)}" if why else "a completed schedule cannot be changed"
        notes.append(f"{reason}: it is deleted and made anew, and counts its runs from 0")
    return notes


def _undeclared(name: str, found: Sequence[Any], prune: bool) -> Action:
    hint = [] if prune else ["declared no longer; apply --prune deletes it"]
    surplus = [each.name for each in found[1:]]
    return Action("prune" if prune else "undeclared", name, found[0].name, surplus=surplus, notes=hint)


def _is_mine(settings: Settings, schedule: Any) -> bool:
    mark = live.mark(schedule)
    return mark is not None and mark.environment == settings.environment


def _other(settings: Settings, schedule: Any) -> Action:
    mark = live.mark(schedule)
    whose = f"of the environment {mark.environment or 'none'}" if mark else "not made by this tool"
    return Action("other", schedule.display_name or names.short(schedule.name), schedule.name, notes=[whose])


def as_json(action: Action) -> dict[str, Any]:
    """For --json, without the specs."""
    return {
        "action": action.kind,
        "name": action.name,
        "schedule": action.resource,
        "changes": _rows(action.changes),
        "template": _rows(action.template),
        "surplus": list(action.surplus),
        "notes": list(action.notes),
    }


def _rows(changes: Sequence[Change | Difference]) -> list[Mapping[str, Any]]:
    return [{"field": each.field, "before": each.before, "after": each.after} for each in changes]
