"""Pauses, resumes and deletes schedules of vgp by name. Each action may be repeated."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError
from vgp.base.text.nearest import did_you_mean
from vgp.settings import Settings
from vgp.settings.schedule_settings import NAME
from vgp.vertex import clients, resource_names
from vgp.vertex.google_errors import explain_errors
from vgp.vertex.schedules import schedule_list
from vgp.vertex.schedules.schedule_list import last_run

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1.services.schedule_service import ScheduleServiceClient
    from google.cloud.aiplatform_v1.types import Schedule as LiveSchedule

#: Seconds that Google may take to delete a schedule.
DELETE_S = 120.0


def find(settings: Settings, name: str) -> list["LiveSchedule"]:
    """Finds the schedules of vgp by their declared name or id, the oldest first; empty if there is none.

    Raises:
        RequestError: vgp did not make the schedule, or it belongs to another environment.
    """
    with explain_errors("read the schedules", settings):
        schedules = schedule_list.existing_schedules(settings)
    own_schedules = schedule_list.group_by_name(settings, schedules)
    if name in own_schedules:
        return own_schedules[name]
    candidates = [
        one
        for one in schedules
        if resource_names.short(name) == resource_names.short(one.name) or name == one.display_name
    ]
    for schedule in candidates:
        _refuse_others(settings, schedule)
    return candidates


def set_state(settings: Settings, name: str, target: str, *, catch_up: bool | None = None) -> list[JsonObject]:
    """Pauses or resumes the schedule `name`, unless it has the state `target`, which is paused or active.

    Args:
        catch_up: With active: whether the missed runs of the pause are started; None: as declared.

    Raises:
        RequestError: there is no such schedule, vgp did not make it, or it is completed.
    """
    schedules = find(settings, name)
    if not schedules:
        raise _unknown_name(settings, name)
    result = []
    for schedule in schedules:
        state = schedule_list.read_state(schedule)
        if state == "completed":
            raise RequestError(
                f"{name} is completed: it neither runs nor pauses. A later end or more runs start it anew."
            )
        if state != target:
            with explain_errors(f"{'pause' if target == 'paused' else 'resume'} {name}", settings):
                if target == "paused":
                    pause(settings, schedule.name)
                else:
                    resume(settings, schedule.name, catch_up=_decide_catch_up(settings, schedule, catch_up))
        result.append({"name": name, "schedule": schedule.name, "state": target, "changed": state != target})
    return result


def delete(settings: Settings, name: str, *, confirm: Callable[[], None] = lambda: None) -> list[str]:
    """Deletes the schedule `name` after a call of `confirm`; returns the deleted resource names.

    The list is empty if the schedule is gone already, which its declaration or its runs prove.

    Raises:
        RequestError: vgp did not make the schedule, or there is no trace of it.
    """
    resources = [schedule.name for schedule in find(settings, name)]
    if resources:
        confirm()
    elif name not in settings.schedules and not _had_runs(settings, name):
        raise _unknown_name(settings, name)
    with explain_errors(f"delete {name}", settings):
        for resource in resources:
            remove(settings, resource)
    return resources


def pause(settings: Settings, resource: str) -> None:
    """Pauses a schedule; its active runs continue."""
    client = clients.schedule_service(settings)
    _call_with_retry(lambda: client.pause_schedule(name=resource, **clients.reading()), client, resource, "paused")


def resume(settings: Settings, resource: str, *, catch_up: bool) -> None:
    """Resumes a schedule; `catch_up` also starts the missed runs of the pause."""
    client = clients.schedule_service(settings)
    request = {"name": resource, "catch_up": catch_up}
    _call_with_retry(lambda: client.resume_schedule(request=request, **clients.reading()), client, resource, "active")


def remove(settings: Settings, resource: str) -> None:
    """Deletes a schedule and waits until it is gone; a schedule that is gone already is no error."""
    from google.api_core import exceptions

    client = clients.schedule_service(settings)
    with suppress(exceptions.NotFound):
        client.delete_schedule(name=resource, **clients.reading()).result(timeout=DELETE_S)


def find_declared_state(settings: Settings, changes: Sequence[JsonObject]) -> str | None:
    """Returns the state to which the next `apply` would set a changed schedule, or None if it would keep the change."""
    for change in changes:
        declared = settings.schedules.get(change["name"])
        target = "paused" if declared and declared.paused else "active"
        if declared and target != change["state"]:
            return target
    return None


def _call_with_retry(call: Callable[[], object], client: "ScheduleServiceClient", resource: str, target: str) -> None:
    """Makes a pause or resume that may be retried: a refused retry is no error if the state is `target` already."""
    from google.api_core import exceptions

    try:
        call()
    except exceptions.BadRequest:
        if schedule_list.read_state(client.get_schedule(name=resource, **clients.reading())) != target:
            raise


def _decide_catch_up(settings: Settings, schedule: "LiveSchedule", flag: bool | None) -> bool:
    mark = schedule_list.read_mark(schedule)
    declared = settings.schedules.get(mark.name) if mark else None
    return flag if flag is not None else bool(declared and declared.catch_up)


def _had_runs(settings: Settings, name: str) -> bool:
    """Whether a schedule of vgp with this name has started runs, which keep its name as a label."""
    return bool(NAME.fullmatch(name)) and last_run(settings, name) is not None


def _unknown_name(settings: Settings, name: str) -> RequestError:
    """Returns the error about a name that no live schedule has, with similar names."""
    if name in settings.schedules:
        choices = "It is declared, and not applied yet: vgp schedule apply."
    elif known := {
        *schedule_list.group_by_name(settings, schedule_list.existing_schedules(settings)),
        *settings.schedules,
    }:
        choices = did_you_mean(name, known)
    else:
        choices = "vgp has no schedule there: vgp schedule list."
    return RequestError(f"there is no schedule {name!r}. {choices}")


def _refuse_others(settings: Settings, schedule: "LiveSchedule") -> None:
    mark = schedule_list.read_mark(schedule)
    link = resource_names.schedule_link(settings, resource_names.short(schedule.name))
    label = f"{schedule.display_name!r} ({resource_names.short(schedule.name)})"
    if mark is None:
        raise RequestError(
            f"{label} was not made by vgp, which leaves it alone.\n  Pause, resume or delete it in the console: {link}"
        )
    if mark.environment != settings.environment:
        option = f"--env {mark.environment}" if mark.environment else "settings without an environment"
        raise RequestError(f"{label} belongs to another environment. Use {option}.")
