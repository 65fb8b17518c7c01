"""Pause, resume and delete schedules of ours by their names. Each may be repeated."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError
from vgp.base.text.nearest import did_you_mean
from vgp.settings import Settings
from vgp.settings.schedule_settings import NAME
from vgp.vertex import clients, resource_names
from vgp.vertex.google_errors import explained
from vgp.vertex.schedules import schedule_list
from vgp.vertex.schedules.schedule_list import last_run

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1.services.schedule_service import ScheduleServiceClient
    from google.cloud.aiplatform_v1.types import Schedule as LiveSchedule

#: Seconds that Google may take to delete a schedule.
DELETE_S = 120.0


def find(settings: Settings, name: str) -> list["LiveSchedule"]:
    """The schedules of ours that `name` means (as declared, or an id), the oldest first; empty if there is none.

    Raises:
        RequestError: the name is that of a schedule that is not ours, or of another environment.
    """
    with explained("read the schedules", settings):
        schedules = schedule_list.existing_schedules(settings)
    ours = schedule_list.ours(settings, schedules)
    if name in ours:
        return ours[name]
    meant = [
        one
        for one in schedules
        if resource_names.short(name) == resource_names.short(one.name) or name == one.display_name
    ]
    for schedule in meant:
        _refuse_others(settings, schedule)
    return meant


def set_state(settings: Settings, name: str, target: str, *, catch_up: bool | None = None) -> list[JsonObject]:
    """Pauses or resumes the schedule `name`: `target` is paused or active. What is so already stays.

    Args:
        catch_up: With active: whether runs that fell into the pause are made up for; None: as declared.

    Raises:
        RequestError: there is none, it is not ours, or it is completed.
    """
    schedules = find(settings, name)
    if not schedules:
        raise _unknown(settings, name)
    result = []
    for schedule in schedules:
        state = schedule_list.state_of(schedule)
        if state == "completed":
            raise RequestError(
                f"{name} is completed: it neither runs nor pauses. A later end or more runs start it anew."
            )
        if state != target:
            with explained(f"{'pause' if target == 'paused' else 'resume'} {name}", settings):
                if target == "paused":
                    pause(settings, schedule.name)
                else:
                    resume(settings, schedule.name, catch_up=_catch_up(settings, schedule, catch_up))
        result.append({"name": name, "schedule": schedule.name, "state": target, "changed": state != target})
    return result


def delete(settings: Settings, name: str, *, confirm: Callable[[], None] = lambda: None) -> list[str]:
    """Deletes the schedule `name`, once `confirm` has returned; the resource names that were deleted.

    None where it is known to be gone: it is declared, or runs of it are still there.

    Raises:
        RequestError: it is not ours, or there never was one, as far as can be known.
    """
    resources = [schedule.name for schedule in find(settings, name)]
    if resources:
        confirm()
    elif name not in settings.schedules and not _had_runs(settings, name):
        raise _unknown(settings, name)
    with explained(f"delete {name}", settings):
        for resource in resources:
            remove(settings, resource)
    return resources


def pause(settings: Settings, resource: str) -> None:
    """Runs that have started go on."""
    client = clients.schedule_service(settings)
    _repeatable(lambda: client.pause_schedule(name=resource, **clients.reading()), client, resource, "paused")


def resume(settings: Settings, resource: str, *, catch_up: bool) -> None:
    """Runs start again; with `catch_up` also those that fell into the pause."""
    client = clients.schedule_service(settings)
    request = {"name": resource, "catch_up": catch_up}
    _repeatable(lambda: client.resume_schedule(request=request, **clients.reading()), client, resource, "active")


def remove(settings: Settings, resource: str) -> None:
    """Deletes it, and waits until it is gone. One that is gone already is as good."""
    from google.api_core import exceptions

    client = clients.schedule_service(settings)
    with suppress(exceptions.NotFound):
        client.delete_schedule(name=resource, **clients.reading()).result(timeout=DELETE_S)


def declared_state(settings: Settings, changes: Sequence[JsonObject]) -> str | None:
    """What the next `apply` would make of a state that was set by hand: None if it leaves it."""
    for change in changes:
        declared = settings.schedules.get(change["name"])
        target = "paused" if declared and declared.paused else "active"
        if declared and target != change["state"]:
            return target
    return None


def _repeatable(call: Callable[[], object], client: "ScheduleServiceClient", resource: str, target: str) -> None:
    """A pause or resume whose answer was lost was done all the same: its repetition is refused, and the state tells."""
    from google.api_core import exceptions

    try:
        call()
    except exceptions.BadRequest:
        if schedule_list.state_of(client.get_schedule(name=resource, **clients.reading())) != target:
            raise


def _catch_up(settings: Settings, schedule: "LiveSchedule", flag: bool | None) -> bool:
    mark = schedule_list.mark_of(schedule)
    declared = settings.schedules.get(mark.name) if mark else None
    return flag if flag is not None else bool(declared and declared.catch_up)


def _had_runs(settings: Settings, name: str) -> bool:
    """Whether a schedule of ours of this name has started runs, which keep its name as a label."""
    return bool(NAME.fullmatch(name)) and last_run(settings, name) is not None


def _unknown(settings: Settings, name: str) -> RequestError:
    """The error about a name that no live schedule has, with what it may have meant."""
    if name in settings.schedules:
        choices = "It is declared, and not applied yet: vgp schedule apply."
    elif known := {*schedule_list.ours(settings, schedule_list.existing_schedules(settings)), *settings.schedules}:
        choices = did_you_mean(name, known)
    else:
        choices = "None of ours is there: vgp schedule list."
    return RequestError(f"there is no schedule {name!r}. {choices}")


def _refuse_others(settings: Settings, schedule: "LiveSchedule") -> None:
    mark = schedule_list.mark_of(schedule)
    link = resource_names.schedule_link(settings, resource_names.short(schedule.name))
    shown = f"{schedule.display_name!r} ({resource_names.short(schedule.name)})"
    if mark is None:
        raise RequestError(
            f"{shown} was not made by this tool, which leaves it alone.\n"
            f"  Pause, resume or delete it in the console: {link}"
        )
    if mark.environment != settings.environment:
        option = f"--env {mark.environment}" if mark.environment else "settings without an environment"
        raise RequestError(f"{shown} belongs to another environment. Use {option}.")
