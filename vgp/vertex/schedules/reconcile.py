"""`vgp schedule plan` and `apply`: makes the live schedules the declared ones. It can be killed and repeated.

Google gives a schedule its id, so a creation cannot be repeated safely: it is sent once, and what became of it is
looked up by the mark in its labels. Every round begins by reading what is there and takes one step, so a
command that was killed, or whose answer was lost, goes on where the cloud stands. If several callers created at
once, all keep the same one, the oldest, and delete the others.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vgp.base.errors import WorkFailed
from vgp.settings import Settings
from vgp.vertex import clients, resource_names
from vgp.vertex.google_errors import explained
from vgp.vertex.patient_reads import passing
from vgp.vertex.preflight import require_basics
from vgp.vertex.resource_names import schedule_link, short
from vgp.vertex.runs.run_cost import LastRuns, last_runs
from vgp.vertex.schedules import schedule_control, schedule_fields, schedule_list
from vgp.vertex.schedules.declared_schedule import Declaration, read_declarations, refuse_undeclared
from vgp.vertex.schedules.schedule_fields import Change
from vgp.vertex.schedules.schedule_plan import Action, difference, never_runs, plan, replaces

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1.services.schedule_service import ScheduleServiceClient
    from google.cloud.aiplatform_v1.types import Schedule as LiveSchedule

#: Rounds after which another process must be undoing the changes.
ROUNDS = 12
#: Creations whose fate is unknown after which Google is taken to be down, and seconds to wait after the first.
TRIES, WAIT_S = 4, 1.0


@dataclass
class Outcome:
    """What was done for one schedule, in order."""

    name: str
    #: created, updated, paused, resumed, replaced, deleted a duplicate.
    did: list[str] = field(default_factory=list)
    #: Resource name, once there is one.
    resource: str | None = None
    #: Fields that Google holds in another form than they were sent in.
    kept: list[str] = field(default_factory=list)
    #: Ids of the schedules that were created.
    created: set[str] = field(default_factory=set)


def plan_all(settings: Settings, names: Sequence[str] = (), *, prune: bool = False) -> list[Action]:
    """What `apply_all` would do; reads only.

    Raises:
        RequestError: as `read_declarations`.
    """
    undeclared = [name for name in names if name not in settings.schedules]
    if undeclared and prune:
        with explained("read the schedules", settings):
            ours = schedule_list.ours(settings, schedule_list.existing_schedules(settings))
        undeclared = [name for name in undeclared if name not in ours]
    refuse_undeclared(settings, undeclared)
    here = [name for name in names if name in settings.schedules]
    declarations = read_declarations(settings, here) if here or not names else []
    return plan(settings, declarations, only=names, prune=prune)


def last_costs(settings: Settings, actions: Sequence[Action]) -> dict[str, LastRuns]:
    """Returns what the last runs of each declared pipeline cost, by the schedule's name; none for a paused schedule."""
    declarations = [action.declaration for action in actions if action.declaration]
    return {one.name: last_runs(settings, one.pipeline) for one in declarations if not one.declared.paused}


def apply_all(
    settings: Settings, actions: Sequence[Action], *, preflight: bool = True, tell: Callable[[str], None] = print
) -> list[Outcome]:
    """Applies the plan; reads each schedule again before it changes it.

    Raises:
        WorkFailed: Google refused or could not be reached; what was done stays, and repeating goes on.
    """
    pending = [action for action in actions if action.pending]
    if pending and preflight:
        require_basics(settings)
    outcomes = []
    for action in pending:
        if action.declaration is not None:
            outcome = apply(settings, action.declaration)
        else:
            outcome = prune(settings, action.name, [action.resource or "", *action.surplus])
        tell(f"{action.name}: {', '.join(outcome.did) or 'no change needed'}")
        if outcome.created and outcome.resource:
            tell(schedule_link(settings, short(outcome.resource)))
        if outcome.kept:
            tell(f"{action.name}: warning: Vertex AI stores a different {', '.join(outcome.kept)} from the one sent")
        outcomes.append(outcome)
    return outcomes


def apply(settings: Settings, declaration: Declaration, *, pause: Callable[[float], None] = time.sleep) -> Outcome:
    """Brings one schedule to what is declared. Repeating it changes nothing.

    Raises:
        WorkFailed: Google refused or could not be reached; repeating the command is safe.
    """
    outcome = Outcome(declaration.name)
    with explained(f"apply the schedule {declaration.name}", settings):
        for _ in range(ROUNDS):
            kept = _only(settings, declaration, outcome, pause)
            if kept is None or _brought(settings, declaration, kept.name, outcome):
                return outcome
    raise WorkFailed(
        f"apply the schedule {declaration.name}: another process keeps changing it at the same time.\n"
        f"  Done so far: {', '.join(outcome.did) or 'nothing'}. Look again: vgp schedule plan."
    )


def prune(settings: Settings, name: str, resources: Sequence[str]) -> Outcome:
    """Deletes schedules of ours that are declared no longer."""
    with explained(f"delete the schedule {name}", settings):
        for resource in resources:
            schedule_control.remove(settings, resource)
    return Outcome(name, ["deleted"])


def _only(
    settings: Settings, declaration: Declaration, outcome: Outcome, pause: Callable[[float], None]
) -> "LiveSchedule | None":
    """The one schedule with the mark, made if there is none; None if none is to be made.

    Whoever creates looks again afterwards: of two that race, the one who looks last sees both. A creation without an
    answer may still come about, so there is one look more after a while.
    """
    created: dict[str, LiveSchedule] = {}
    doubtful = False
    for attempt in range(TRIES):
        last = attempt == TRIES - 1
        oldest = _oldest(settings, declaration, created, outcome)
        if oldest is None and never_runs(declaration):
            return None
        if oldest is not None and (last or not doubtful):
            return oldest
        new = None if oldest is not None else _created(settings, declaration, last=last)
        if new is None:
            doubtful = oldest is None
            pause(WAIT_S * 2**attempt)
        else:
            created[new.name] = new
            outcome.created.add(resource_names.short(new.name))
            outcome.did.append(f"created {resource_names.short(new.name)}")
    return next(iter(created.values()))


def _oldest(
    settings: Settings, declaration: Declaration, created: dict[str, "LiveSchedule"], outcome: Outcome
) -> "LiveSchedule | None":
    """The oldest of those with the mark, the others deleted; None if there is none.

    `created` are those of this command: whether a list shows at once what was created is not documented.
    """
    listed = {schedule.name: schedule for schedule in schedule_list.existing_schedules(settings)}
    ours = schedule_list.ours(settings, {**created, **listed}.values()).get(declaration.name, [])
    for duplicate in ours[1:]:
        schedule_control.remove(settings, duplicate.name)
        created.pop(duplicate.name, None)
        outcome.did.append(f"deleted the duplicate {resource_names.short(duplicate.name)}")
    return next(iter(ours), None)


def _created(settings: Settings, declaration: Declaration, *, last: bool) -> "LiveSchedule | None":
    """Sends the creation once; None if what became of it is not known."""
    parent, client = resource_names.location(settings), clients.schedule_service(settings)
    try:
        return client.create_schedule(parent=parent, schedule=declaration.message, **clients.once())
    except Exception as error:
        if last or not passing(error):
            raise
        return None


def _brought(settings: Settings, declaration: Declaration, name: str, outcome: Outcome) -> bool:
    """Closes the differences; False if the schedule went away meanwhile, or must be made anew."""
    from google.api_core import exceptions

    client = clients.schedule_service(settings)
    try:
        schedule = client.get_schedule(name=name, **clients.reading())
        changes = difference(declaration, schedule)
        if resource_names.short(name) not in outcome.created and replaces(changes, schedule):
            schedule_control.remove(settings, name)
            outcome.did.append(f"deleted {resource_names.short(name)}, to make it anew")
            return False
        _change(settings, declaration, schedule, changes, outcome)
    except exceptions.NotFound:
        return False
    except exceptions.BadRequest:
        if _completed_meanwhile(client, schedule):
            return False
        raise
    return True


def _change(
    settings: Settings, declaration: Declaration, schedule: "LiveSchedule", changes: Sequence[Change], outcome: Outcome
) -> None:
    """Pauses before, and resumes after the fields are changed: no run starts from the old ones."""
    outcome.resource = schedule.name
    target = next((change.after for change in changes if change.field == "state"), None)
    own = [change for change in changes if change.field != "state"]
    if target == "paused":
        schedule_control.pause(settings, schedule.name)
        outcome.did.append("paused")
    if own and resource_names.short(schedule.name) not in outcome.created:
        own = schedule_fields.changes(declaration.message, _updated(settings, declaration, schedule.name, own))
        outcome.did.append("updated")
    outcome.kept = [change.field for change in own]
    if target == "active":
        schedule_control.resume(settings, schedule.name, catch_up=declaration.declared.catch_up)
        outcome.did.append("resumed")


def _updated(settings: Settings, declaration: Declaration, name: str, changes: Sequence[Change]) -> "LiveSchedule":
    from google.cloud.aiplatform_v1.types import Schedule
    from google.protobuf.field_mask_pb2 import FieldMask

    new = Schedule(declaration.message)
    new.name = name
    mask = FieldMask(paths=list(dict.fromkeys(change.path for change in changes)))
    client = clients.schedule_service(settings)
    return client.update_schedule(schedule=new, update_mask=mask, **clients.reading())


def _completed_meanwhile(client: "ScheduleServiceClient", before: "LiveSchedule") -> bool:
    now = client.get_schedule(name=before.name, **clients.reading())
    return schedule_list.state_of(now) == "completed" and schedule_list.state_of(before) != "completed"
