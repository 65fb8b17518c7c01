"""Applying converges to one schedule: repeated, raced, with faults and lost answers at every request."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tools.emulator.cloud import Cloud, lose_response, reset, status
from vgp.base.errors import WorkFailed
from vgp.settings import Settings
from vgp.vertex import clients, resource_names
from vgp.vertex.schedules import schedule_control, schedule_fields, schedule_list
from vgp.vertex.schedules.declared_schedule import Declaration
from vgp.vertex.schedules.reconcile import Outcome, apply

from .conftest import SMALL, foreign, make

Declare = Callable[..., Declaration]
METHOD = "aiplatform.projects.locations.schedules."
LATER = datetime(2099, 1, 1, tzinfo=UTC)
#: Of the answers that are retried, 503 stands for all: tests/vgp/vertex/test_clients.py has the others.
FAULTS = [status(503), reset(), lose_response()]


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Google's retries wait a moment; what is repeated is the same."""
    monkeypatch.setattr("google.api_core.retry.retry_base.random.uniform", lambda *_: 0.0)
    monkeypatch.setattr("vgp.vertex.schedules.reconcile.WAIT_S", 0.0)


def only(cloud: Cloud) -> Any:
    (schedule,) = cloud.schedules.values()
    return schedule


def as_declared(cloud: Cloud, settings: Settings, wanted: Declaration) -> bool:
    """Whether exactly the one schedule is there, and is what was declared."""
    (schedule,) = schedule_list.existing_schedules(settings)
    state = "paused" if wanted.declared.paused else "active"
    return schedule_fields.list_changes(wanted.message, schedule) == [] and schedule_list.read_state(schedule) == state


def calls(cloud: Cloud) -> list[str]:
    return [call.method.removeprefix(METHOD) for call in cloud.requests]


def test_the_first_apply_creates_and_the_second_changes_nothing(
    cloud: Cloud, settings: Settings, declare: Declare
) -> None:
    assert apply(settings, declare()).did == [f"created {resource_names.short(only(cloud).name)}"]
    assert as_declared(cloud, settings, declare())
    before = only(cloud).SerializeToString(deterministic=True)
    cloud.requests.clear()
    assert apply(settings, declare()).did == []
    assert set(calls(cloud)) == {"list", "get"}
    assert only(cloud).SerializeToString(deterministic=True) == before


@pytest.mark.parametrize(
    "declared",
    [
        {"cron": "0 5 * * 1-5"},
        {"time_zone": "America/New_York"},
        {"parameters": {"epochs": 4.0, "champion": "gs://a/b"}},
        {"end": LATER, "max_runs": 5},
        {"start": LATER},
        {"max_concurrent_runs": 3, "queueing": True},
    ],
    ids=str,
)
def test_a_change_is_made_in_place(
    cloud: Cloud, settings: Settings, declare: Declare, declared: dict[str, Any]
) -> None:
    first = apply(settings, declare()).resource
    assert apply(settings, declare(**declared)).did == ["updated"]
    assert only(cloud).name == first
    assert as_declared(cloud, settings, declare(**declared))
    assert apply(settings, declare(**declared)).did == []


def test_another_pipeline_is_put_into_the_same_schedule(cloud: Cloud, settings: Settings) -> None:
    apply(settings, make(settings))
    other = make(settings, spec={**SMALL, "sdkVersion": "kfp-9.9.9"})
    assert apply(settings, other).did == ["updated"]
    assert schedule_fields.spec(schedule_list.existing_schedules(settings)[0]).content["sdkVersion"] == "kfp-9.9.9"


def test_only_what_differs_is_in_the_update_mask(cloud: Cloud, settings: Settings, declare: Declare) -> None:
    apply(settings, declare())
    apply(settings, declare(cron="0 5 * * *", queueing=True))
    (patch,) = [call for call in cloud.requests if call.method == METHOD + "patch"]
    assert sorted(patch.query["updateMask"].split(",")) == ["allowQueueing", "cron"]


@pytest.mark.parametrize("declared", [{"end": LATER}, {"max_runs": 5}, {"start": LATER}], ids=["end", "runs", "start"])
def test_what_vertex_cannot_empty_is_made_anew_once(
    cloud: Cloud, settings: Settings, declare: Declare, declared: dict[str, Any]
) -> None:
    first = apply(settings, declare(**declared)).resource
    outcome = apply(settings, declare())
    assert [word.split()[0] for word in outcome.did] == ["deleted", "created"]
    assert only(cloud).name != first
    assert as_declared(cloud, settings, declare())


def test_paused_is_reconciled_in_both_directions(cloud: Cloud, settings: Settings, declare: Declare) -> None:
    outcome = apply(settings, declare(paused=True))
    assert outcome.did[1:] == ["paused"]
    assert apply(settings, declare(paused=True)).did == []
    assert apply(settings, declare()).did == ["resumed"]
    assert as_declared(cloud, settings, declare())
    assert apply(settings, declare(paused=True, cron="1 1 * * *")).did == ["paused", "updated"]


def test_resuming_changes_the_fields_first_and_catches_up_as_declared(
    cloud: Cloud, settings: Settings, declare: Declare
) -> None:
    apply(settings, declare(paused=True))
    assert apply(settings, declare(cron="1 1 * * *", catch_up=True)).did == ["updated", "resumed"]
    assert only(cloud).catch_up


def test_a_completed_schedule_stays_until_the_declaration_changes(
    cloud: Cloud, settings: Settings, declare: Declare
) -> None:
    apply(settings, declare(max_runs=1))
    cloud.clock.advance(2 * 86400)
    assert schedule_list.read_state(schedule_list.existing_schedules(settings)[0]) == "completed"
    assert apply(settings, declare(max_runs=1)).did == []
    outcome = apply(settings, declare(max_runs=2))
    assert [word.split()[0] for word in outcome.did] == ["deleted", "created"]
    assert as_declared(cloud, settings, declare(max_runs=2))


def test_a_schedule_whose_end_has_passed_is_not_created(cloud: Cloud, settings: Settings, declare: Declare) -> None:
    past = datetime.now(UTC) - timedelta(days=1)
    assert apply(settings, declare(start=past - timedelta(days=9), end=past)).did == []
    assert cloud.schedules == {}


def test_environments_do_not_see_each_other(cloud: Cloud, settings: Settings) -> None:
    for environment in ("dev", "prod", "dev", "prod", None):
        here = settings.model_copy(update={"environment": environment})
        apply(here, make(here))
    assert sorted(each.display_name for each in cloud.schedules.values()) == [
        "nightly", "nightly (dev)", "nightly (prod)",
    ]  # fmt: skip


def test_schedules_of_others_stay_as_they_are(cloud: Cloud, settings: Settings, declare: Declare) -> None:
    others = [foreign(cloud, settings, name) for name in ("nightly", "x")]
    before = {each.name: cloud.schedules[each.name].SerializeToString(deterministic=True) for each in others}
    for cron in ("1 1 * * *", "2 2 * * *"):
        apply(settings, declare(cron=cron))
    assert len(cloud.schedules) == 3
    after = {each.name: cloud.schedules[each.name].SerializeToString(deterministic=True) for each in others}
    assert after == before


@pytest.mark.parametrize("method", ["list", "create", "get"])
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_while_creating_ends_in_one_schedule(
    cloud: Cloud, settings: Settings, declare: Declare, method: str, fault: Any
) -> None:
    cloud.fail(METHOD + method, fault)
    apply(settings, declare())
    assert as_declared(cloud, settings, declare())


@pytest.mark.parametrize("method", ["patch", "pause", "resume", "delete", "*"])
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_while_changing_ends_in_one_schedule(
    cloud: Cloud, settings: Settings, declare: Declare, method: str, fault: Any
) -> None:
    for declared in ({"paused": True}, {"cron": "1 1 * * *", "max_runs": 4}, {"paused": True}):
        cloud.fail(METHOD + method, fault)
        apply(settings, declare(**declared))
        assert as_declared(cloud, settings, declare(**declared))


def test_a_creation_is_sent_once_and_looked_up_when_its_answer_is_lost(
    cloud: Cloud, settings: Settings, declare: Declare
) -> None:
    cloud.fail(METHOD + "create", lose_response())
    assert apply(settings, declare()).did == []
    assert calls(cloud).count("create") == 1


def test_an_outage_that_lasts_is_reported_and_nothing_is_lost(
    cloud: Cloud, settings: Settings, declare: Declare
) -> None:
    cloud.fail(METHOD + "create", *[status(503)] * 4)
    with pytest.raises(WorkFailed, match="apply the schedule nightly: .*503"):
        apply(settings, declare())
    assert calls(cloud).count("create") == 4
    apply(settings, declare())
    assert as_declared(cloud, settings, declare())


def test_a_refusal_is_not_repeated(cloud: Cloud, settings: Settings, declare: Declare) -> None:
    cloud.fail(METHOD + "create", status(403, "Permission 'aiplatform.schedules.create' denied"))
    with pytest.raises(WorkFailed, match="roles/aiplatform.user"):
        apply(settings, declare())
    assert calls(cloud).count("create") == 1


@pytest.mark.parametrize("several", [2, 8])
def test_people_who_apply_at_once_end_in_one_schedule(
    cloud: Cloud, settings: Settings, declare: Declare, several: int
) -> None:
    with ThreadPoolExecutor(several) as pool:
        outcomes: list[Outcome] = list(pool.map(lambda _: apply(settings, declare()), range(several)))
    assert as_declared(cloud, settings, declare())
    assert {each.resource for each in outcomes} == {only(cloud).name}
    assert apply(settings, declare()).did == []


def test_people_who_apply_different_things_at_once_end_in_one_of_them(
    cloud: Cloud, settings: Settings, declare: Declare
) -> None:
    declared = [{"cron": f"{minute} 3 * * *", "max_runs": minute or None} for minute in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda each: apply(settings, declare(**each)), declared))
    assert only(cloud).cron in {f"CRON_TZ=Europe/Berlin {each['cron']}" for each in declared}
    apply(settings, declare(**declared[3]))
    assert as_declared(cloud, settings, declare(**declared[3]))


def test_of_several_that_are_ours_the_oldest_stays(cloud: Cloud, settings: Settings, declare: Declare) -> None:
    client = clients.schedule_service(settings)
    made = []
    for _ in range(3):
        made.append(client.create_schedule(parent=resource_names.location(settings), schedule=declare().message).name)
        cloud.clock.advance(1)
    outcome = apply(settings, declare())
    assert only(cloud).name == made[0]
    assert [word.split()[1] for word in outcome.did] == ["the", "the"]


def test_a_schedule_that_is_deleted_meanwhile_is_made_again(cloud: Cloud, settings: Settings, declare: Declare) -> None:
    apply(settings, declare())
    once = iter([True])

    def delete(_: Any) -> None:
        if next(once, False):
            cloud.live_schedules.live.clear()

    cloud.on(METHOD + "get", delete)
    outcome = apply(settings, declare(cron="5 5 * * *"))
    assert [word.split()[0] for word in outcome.did] == ["created"]
    assert as_declared(cloud, settings, declare(cron="5 5 * * *"))


def test_a_list_that_lags_behind_makes_no_second_one(cloud: Cloud, settings: Settings, declare: Declare) -> None:
    """Google does not promise that a list shows a new schedule at once."""
    hidden: dict[str, Any] = {}

    def hide(_: Any) -> None:
        hidden.update(cloud.live_schedules.live)
        cloud.live_schedules.live.clear()

    def reappear(_: Any) -> None:
        cloud.live_schedules.live.update(hidden)

    cloud.on(METHOD + "create", hide)
    seen = iter([False, True])
    cloud.on(METHOD + "list", lambda call: reappear(call) if next(seen, True) else None)
    apply(settings, declare())
    assert calls(cloud).count("create") == 1
    assert as_declared(cloud, settings, declare())


def test_a_creation_that_comes_about_late_is_found_and_only_one_stays(
    cloud: Cloud, settings: Settings, declare: Declare
) -> None:
    late: dict[str, Any] = {}

    def hide(_: Any) -> None:
        if not late:
            late.update(cloud.live_schedules.live)
            cloud.live_schedules.live.clear()

    cloud.on(METHOD + "create", hide)
    cloud.fail(METHOD + "create", lose_response())
    lists = iter(range(9))
    # The second look finds the second creation; the first creation appears after it.
    cloud.on(METHOD + "list", lambda _: cloud.live_schedules.live.update(late) if next(lists) == 2 else None)
    apply(settings, declare())
    assert calls(cloud).count("create") == 2
    assert as_declared(cloud, settings, declare())


def test_pausing_twice_and_deleting_twice_are_no_errors(cloud: Cloud, settings: Settings, declare: Declare) -> None:
    settings = settings.model_copy(update={"schedules": {"nightly": declare().declared}})
    apply(settings, declare())
    cloud.fail(METHOD + "pause", lose_response())
    assert [each["changed"] for each in schedule_control.set_state(settings, "nightly", "paused")] == [True]
    assert [each["changed"] for each in schedule_control.set_state(settings, "nightly", "paused")] == [False]
    cloud.fail(METHOD + "resume", lose_response())  # the repetition is refused: it is not paused any more
    assert [each["changed"] for each in schedule_control.set_state(settings, "nightly", "active")] == [True]
    cloud.fail(METHOD + "delete", lose_response())
    assert len(schedule_control.delete(settings, "nightly")) == 1
    assert schedule_control.delete(settings, "nightly") == []
