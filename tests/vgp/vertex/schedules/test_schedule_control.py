"""Pause, resume and delete touch schedules of ours only, by name or id, and may be repeated."""

from collections.abc import Callable
from typing import Any

import pytest

from tools.emulator.cloud import Cloud
from vgp.base.errors import RequestError
from vgp.settings import Schedule, Settings
from vgp.vertex import resource_names
from vgp.vertex.schedules import schedule_control
from vgp.vertex.schedules.reconcile import apply

from .conftest import NIGHTLY, foreign, make

VERBS: list[Callable[[Settings, str], Any]] = [
    lambda settings, name: schedule_control.set_state(settings, name, "paused"),
    lambda settings, name: schedule_control.set_state(settings, name, "active"),
    schedule_control.delete,
]


@pytest.mark.parametrize("verb", VERBS)
def test_what_others_made_is_refused_with_the_way_to_the_console(
    cloud: Cloud, settings: Settings, verb: Callable[[Settings, str], Any]
) -> None:
    other = foreign(cloud, settings, "theirs")
    for given in ("theirs", resource_names.short(other.name), other.name):
        with pytest.raises(RequestError, match="not made by vgp.*\n.*console.cloud.google.com/vertex-ai") as error:
            verb(settings, given)
        assert resource_names.short(other.name) in str(error.value)
    assert len(cloud.schedules) == 1
    assert {call.http_method for call in cloud.requests[1:]} == {"GET"}


@pytest.mark.parametrize("verb", VERBS)
def test_another_environment_is_refused_with_its_name(
    cloud: Cloud, settings: Settings, verb: Callable[[Settings, str], Any]
) -> None:
    prod = settings.model_copy(update={"environment": "prod"})
    resource = apply(prod, make(prod)).resource or ""
    with pytest.raises(RequestError, match="another environment. Use --env prod"):
        verb(settings, resource_names.short(resource))
    assert len(cloud.schedules) == 1


def test_the_catch_up_of_the_declaration_or_of_the_flag_reaches_google(cloud: Cloud, settings: Settings) -> None:
    declared = Schedule.model_validate({**NIGHTLY, "catch_up": True})
    here = settings.model_copy(update={"schedules": {"nightly": declared}})
    resource = apply(here, make(here, catch_up=True)).resource
    for given, sent in ((None, True), (False, False), (True, True)):
        schedule_control.set_state(here, "nightly", "paused")
        schedule_control.set_state(here, "nightly", "active", catch_up=given)
        assert cloud.schedules[resource].catch_up is sent


def test_runs_missed_in_a_pause_are_made_up_for_only_with_catch_up(cloud: Cloud, settings: Settings) -> None:
    apply(settings, make(settings, max_concurrent_runs=9))
    for catch_up, missed in ((False, 0), (True, 3)):
        before = len(cloud.jobs)
        schedule_control.set_state(settings, "nightly", "paused")
        cloud.clock.advance(3 * 86400)
        schedule_control.set_state(settings, "nightly", "active", catch_up=catch_up)
        assert len(cloud.jobs) - before == missed


def test_the_error_for_an_unknown_name_lists_the_existing_ones(cloud: Cloud, settings: Settings) -> None:
    with pytest.raises(RequestError, match="vgp has no schedule there"):
        schedule_control.set_state(settings, "nightly", "paused")
    apply(settings, make(settings))
    with pytest.raises(RequestError, match="Did you mean nightly?"):
        schedule_control.set_state(settings, "nihgtly", "paused")
    assert len(cloud.schedules) == 1


def test_to_delete_what_never_was_is_an_error_that_knows_what_was_meant(cloud: Cloud, settings: Settings) -> None:
    with pytest.raises(RequestError, match="no schedule 'nihgtly'. vgp has no schedule there"):
        schedule_control.delete(settings, "nihgtly")
    apply(settings, make(settings))
    declared = settings.model_copy(update={"schedules": {"weekly": Schedule.model_validate(NIGHTLY)}})
    for name, meant in (("nihgtly", "nightly"), ("weelky", "weekly"), ("3000000000000000099", "Choices: nightly, w")):
        with pytest.raises(RequestError, match=f"there is no schedule '{name}'.*{meant}"):
            schedule_control.delete(declared, name, confirm=lambda: pytest.fail("asked about nothing"))
    assert len(cloud.schedules) == 1


def test_what_was_deleted_before_is_known_by_its_declaration_or_its_runs(cloud: Cloud, settings: Settings) -> None:
    declared = settings.model_copy(update={"schedules": {"weekly": Schedule.model_validate(NIGHTLY)}})
    assert schedule_control.delete(declared, "weekly") == []
    apply(settings, make(settings))
    cloud.clock.advance(2 * 86400)
    assert len(schedule_control.delete(settings, "nightly")) == 1
    assert schedule_control.delete(settings, "nightly") == []
    prod = settings.model_copy(update={"environment": "prod"})
    with pytest.raises(RequestError, match="there is no schedule 'nightly'"):
        schedule_control.delete(prod, "nightly")


def test_a_completed_schedule_is_reported(cloud: Cloud, settings: Settings) -> None:
    apply(settings, make(settings, max_runs=1))
    cloud.clock.advance(2 * 86400)
    with pytest.raises(RequestError, match="nightly is completed"):
        schedule_control.set_state(settings, "nightly", "paused")
    assert len(schedule_control.delete(settings, "nightly")) == 1


def test_a_state_set_by_hand_is_shown_with_the_change_of_the_next_apply(cloud: Cloud, settings: Settings) -> None:
    here = settings.model_copy(update={"schedules": {"nightly": Schedule.model_validate(NIGHTLY)}})
    apply(here, make(here))
    assert schedule_control.find_declared_state(here, schedule_control.set_state(here, "nightly", "paused")) == "active"
    assert schedule_control.find_declared_state(here, schedule_control.set_state(here, "nightly", "active")) is None
