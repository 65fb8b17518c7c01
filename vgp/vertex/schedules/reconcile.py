"""`vgp schedule plan` and `apply`: makes the live schedules equal to the declared ones. It can be killed and repeated.

Google assigns the id of a schedule, so a creation cannot be retried safely: it is sent once, and its result is looked
up by the mark in its labels. Every round reads the live schedules and takes one step, so a command continues after it
was killed or an answer was lost. If several callers created one schedule at the same time, all keep the oldest and
delete the others.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vgp.base.errors import WorkFailed
from vgp.settings import Settings
from vgp.vertex import clients, resource_names
from vgp.vertex.google_errors import explain_errors
from vgp.vertex.patient_reads import is_transient
from vgp.vertex.preflight import require_basics
from vgp.vertex.resource_names import schedule_link, short
from vgp.vertex.runs.run_cost import LastRuns, last_runs
from vgp.vertex.schedules import schedule_control, schedule_fields, schedule_list
from vgp.vertex.schedules.declared_schedule import (
    Declaration,
    read_declarations,
    refuse_undeclared,
    without_resource,
)
from vgp.vertex.schedules.schedule_fields import Change
from vgp.vertex.schedules.schedule_plan import Action, list_differences, needs_replacement, never_runs, plan

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1.services.schedule_service import ScheduleServiceClient
    from google.cloud.aiplatform_v1.types import Schedule as LiveSchedule

#: Rounds without an end, which mean that another process keeps undoing the changes.
ROUNDS = 12
#: Creations without an answer after which Google counts as down, and the seconds to wait after the first.
TRIES, WAIT_S = 4, 1.0


@dataclass
class Outcome:
    """The changes that were made to one schedule, in order."""

    name: str
    #: created, updated, paused, resumed, replaced, deleted a duplicate.
    did: list[str] = field(default_factory=list)
    #: Resource name, once there is one.
    resource: str | None = None
    #: Fields whose value on Vertex AI differs from the sent value.
    kept: list[str] = field(default_factory=list)
    #: Ids of the schedules that were created.
    created: set[str] = field(default_factory=set)


def plan_all(settings: Settings, names: Sequence[str] = (), *, prune: bool = False) -> list[Action]:
    """Plans the actions of `apply_all`; only reads.

    Raises:
        RequestError: as `read_declarations`.
    """
    undeclared = [name for name in names if name not in settings.schedules]
    if undeclared and prune:
        with explain_errors("read the schedules", settings):
            own_schedules = schedule_list.group_by_name(settings, schedule_list.existing_schedules(settings))
        undeclared = [name for name in undeclared if name not in own_schedules]
    refuse_undeclared(settings, undeclared)
    declared_names = [name for name in names if name in settings.schedules]
    declarations = read_declarations(settings, declared_names) if declared_names or not names else []
    return plan(settings, declarations, only=names, prune=prune)


def last_costs(settings: Settings, actions: Sequence[Action]) -> dict[str, LastRuns]:
    """Returns what the last runs of each declared pipeline cost, by the schedule's name; none for a paused schedule."""
    declarations = [action.declaration for action in actions if action.declaration]
    return {one.name: last_runs(settings, one.pipeline) for one in declarations if not one.declared.paused}


def apply_all(
    settings: Settings, actions: Sequence[Action], *, preflight: bool = True, log: Callable[[str], None] = print
) -> list[Outcome]:
    """Applies the plan; reads each schedule again before it changes it.

    Raises:
        WorkFailed: Google refused or could not be reached; finished changes stay, and a repeated command continues.
    """
    pending = [action for action in actions if action.pending]
    if pending and preflight:
        require_basics(without_resource(settings))
    outcomes = []
    for action in pending:
        if action.declaration is not None:
            outcome = apply(settings, action.declaration)
        else:
            outcome = prune(settings, action.name, [action.resource or "", *action.surplus])
        log(f"{action.name}: {', '.join(outcome.did) or 'no change needed'}")
        if outcome.created and outcome.resource:
            log(schedule_link(settings, short(outcome.resource)))
        if outcome.kept:
            log(f"{action.name}: warning: Vertex AI stores a different {', '.join(outcome.kept)} from the one sent")
        outcomes.append(outcome)
    return outcomes


def apply(settings: Settings, declaration: Declaration, *, pause: Callable[[float], None] = time.sleep) -> Outcome:
    """Makes one live schedule equal to its declaration. A second call changes nothing.

    Raises:
        WorkFailed: Google refused or could not be reached; repeating the command is safe.
    """
    outcome = Outcome(declaration.name)
    with explain_errors(f"apply the schedule {declaration.name}", settings):
        for _ in range(ROUNDS):
            kept = _ensure_one(settings, declaration, outcome, pause)
            if kept is None or _apply_differences(settings, declaration, kept.name, outcome):
                return outcome
    raise WorkFailed(
        f"apply the schedule {declaration.name}: another process keeps changing it at the same time.\n"
        f"  Done so far: {', '.join(outcome.did) or 'nothing'}. Look again: vgp schedule plan."
    )


def prune(settings: Settings, name: str, resources: Sequence[str]) -> Outcome:
    """Deletes schedules of vgp that are no longer declared."""
    with explain_errors(f"delete the schedule {name}", settings):
        for resource in resources:
            schedule_control.remove(settings, resource)
    return Outcome(name, ["deleted"])


def _ensure_one(
    settings: Settings, declaration: Declaration, outcome: Outcome, pause: Callable[[float], None]
) -> "LiveSchedule | None":
    """Returns the one schedule with the mark, creates it if there is none; None if its end has passed.

    Reads again after a creation: of two callers that race, the last one to read sees both schedules. A creation without
    an answer may still succeed later, so there is one more read after a wait.
    """
    created: dict[str, LiveSchedule] = {}
    is_unanswered = False
    for attempt in range(TRIES):
        last = attempt == TRIES - 1
        oldest = _keep_oldest(settings, declaration, created, outcome)
        if oldest is None and never_runs(declaration):
            return None
        if oldest is not None and (last or not is_unanswered):
            return oldest
        new = None if oldest is not None else _create(settings, declaration, last=last)
        if new is None:
            is_unanswered = oldest is None
            pause(WAIT_S * 2**attempt)
        else:
            created[new.name] = new
            outcome.created.add(resource_names.short(new.name))
            outcome.did.append(f"created {resource_names.short(new.name)}")
    return next(iter(created.values()))


def _keep_oldest(
    settings: Settings, declaration: Declaration, created: dict[str, "LiveSchedule"], outcome: Outcome
) -> "LiveSchedule | None":
    """Returns the oldest schedule with the mark and deletes its duplicates; None if there is none.

    `created` has the schedules of this command, because Google does not document that a list shows them at once.
    """
    listed = {schedule.name: schedule for schedule in schedule_list.existing_schedules(settings)}
    own_schedules = schedule_list.group_by_name(settings, {**created, **listed}.values()).get(declaration.name, [])
    for duplicate in own_schedules[1:]:
        schedule_control.remove(settings, duplicate.name)
        created.pop(duplicate.name, None)
        outcome.did.append(f"deleted the duplicate {resource_names.short(duplicate.name)}")
    return next(iter(own_schedules), None)


def _create(settings: Settings, declaration: Declaration, *, last: bool) -> "LiveSchedule | None":
    """Sends the creation once; returns None if its result is unknown."""
    parent, client = resource_names.location(settings), clients.schedule_service(settings)
    try:
        return client.create_schedule(parent=parent, schedule=declaration.message, **clients.once())
    except Exception as error:
        if last or not is_transient(error):
            raise
        return None


def _apply_differences(settings: Settings, declaration: Declaration, name: str, outcome: Outcome) -> bool:
    """Applies the differences; returns False if the schedule was deleted meanwhile, or must be created again."""
    from google.api_core import exceptions

    client = clients.schedule_service(settings)
    try:
        schedule = client.get_schedule(name=name, **clients.reading())
        changes = list_differences(declaration, schedule)
        if resource_names.short(name) not in outcome.created and needs_replacement(changes, schedule):
            schedule_control.remove(settings, name)
            outcome.did.append(f"deleted {resource_names.short(name)}, to make it anew")
            return False
        _apply_changes(settings, declaration, schedule, changes, outcome)
    except exceptions.NotFound:
        return False
    except exceptions.BadRequest:
        if _has_completed(client, schedule):
            return False
        raise
    return True


def _apply_changes(
    settings: Settings, declaration: Declaration, schedule: "LiveSchedule", changes: Sequence[Change], outcome: Outcome
) -> None:
    """Applies the changes: pauses before and resumes after an update, so that no run starts with the old fields."""
    outcome.resource = schedule.name
    target = next((change.after for change in changes if change.field == "state"), None)
    own = [change for change in changes if change.field != "state"]
    if target == "paused":
        schedule_control.pause(settings, schedule.name)
        outcome.did.append("paused")
    if own and resource_names.short(schedule.name) not in outcome.created:
        own = schedule_fields.list_changes(declaration.message, _update(settings, declaration, schedule.name, own))
        outcome.did.append("updated")
    outcome.kept = [change.field for change in own]
    if target == "active":
        schedule_control.resume(settings, schedule.name, catch_up=declaration.declared.catch_up)
        outcome.did.append("resumed")


def _update(settings: Settings, declaration: Declaration, name: str, changes: Sequence[Change]) -> "LiveSchedule":
    from google.cloud.aiplatform_v1.types import Schedule
    from google.protobuf.field_mask_pb2 import FieldMask

    new = Schedule(declaration.message)
    new.name = name
    mask = FieldMask(paths=list(dict.fromkeys(change.path for change in changes)))
    client = clients.schedule_service(settings)
    return client.update_schedule(schedule=new, update_mask=mask, **clients.reading())


def _has_completed(client: "ScheduleServiceClient", before: "LiveSchedule") -> bool:
    now = client.get_schedule(name=before.name, **clients.reading())
    return schedule_list.read_state(now) == "completed" and schedule_list.read_state(before) != "completed"
