"""backfill: each night of the range once, as of its own time, no more at a time than the schedule may."""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pytest

from tools.emulator.cloud import Cloud, lose_response
from vgp.base.clock import Clock
from vgp.base.errors import RequestError, WorkFailed
from vgp.settings import Schedule, Settings
from vgp.vertex.schedules import backfill_page, declared_schedule, schedule_control
from vgp.vertex.schedules.backfill import Backfill, backfill, run
from vgp.vertex.schedules.reconcile import apply
from vgp.vertex.schedules.schedule_doctor import diagnose_schedules

from .conftest import NIGHTLY, SMALL, change_of_clocks, make

#: A step that takes `as_of`, as the step of a workflow that pins does; and the same without.
SPEC = json.loads(json.dumps(SMALL))
SPEC["root"]["dag"]["tasks"]["prepare"]["inputs"]["parameters"]["as_of"] = {"componentInputParameter": "as_of"}
WITHOUT = json.loads(json.dumps(SMALL))
del WITHOUT["root"]["inputDefinitions"]["parameters"]["as_of"]
DAY = timedelta(days=1)


@pytest.fixture
def declare(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Settings]:
    """The settings with the schedule `nightly`, whose pipeline needs no compiling."""

    def declared(spec: Any = SPEC, **fields: Any) -> Settings:
        made = lambda given, names: [make(given, names[0], spec, **fields)]  # noqa: E731
        monkeypatch.setattr(declared_schedule, "read_declarations", made)
        schedule = Schedule.model_validate({**NIGHTLY, **fields})
        return settings.model_copy(update={"schedules": {"nightly": schedule}})

    return declared


@pytest.fixture
def past(cloud: Cloud) -> date:
    """A week before the cloud's present day."""
    return (cloud.clock.now() - 7 * DAY).date()


def nights(cloud: Cloud) -> list[str]:
    """`as_of` of the runs, in the order in which they were started."""
    return [str(job.runtime_config.parameter_values["as_of"].string_value) for job in cloud.jobs.values()]


def ended(settings: Settings, made: Backfill, clock: Clock, **options: Any) -> list[str]:
    """Runs the backfill; the lines of its progress."""
    lines: list[str] = []
    run(settings, made, preflight=False, clock=clock, log=lines.append, **options)
    return lines


def test_every_night_is_run_once_as_of_its_time(
    cloud: Cloud, clock: Clock, declare: Callable[..., Settings], past: date
) -> None:
    settings = declare(parameters={"epochs": 2.0})
    made = backfill(settings, "nightly", past, past + 2 * DAY)
    lines = ended(settings, made, clock)
    assert nights(cloud) == [f"{time:%Y-%m-%dT%H:%M:%SZ}" for time in made.times] and len(made.times) == 3
    assert [made.local(time).strftime("%H:%M") for time in made.times] == ["03:30"] * 3
    for job in cloud.jobs.values():
        assert job.runtime_config.parameter_values["epochs"].number_value == 2
        assert (job.labels["schedule"], job.labels["managed-by"]) == ("nightly", "vertex-gpu-pipelines")
    assert len(lines) == 6 and "started training-" in lines[0] and "(2 to start)" in lines[0]


def test_a_second_time_nothing_is_started(
    cloud: Cloud, clock: Clock, declare: Callable[..., Settings], past: date
) -> None:
    settings = declare()
    ended(settings, backfill(settings, "nightly", past, past + DAY), clock)
    again = backfill(settings, "nightly", past, past + DAY)
    runs = run(settings, again, preflight=False, clock=clock, log=lambda line: None)
    assert (len(cloud.jobs), len(runs), backfill_page.exit_code(again, runs)) == (2, 2, 4)
    assert backfill_page.summarize_plan(again) == "2 nights of nightly: none to run; 2 ran before"
    wider = backfill(settings, "nightly", past, past + 2 * DAY)
    ended(settings, wider, clock)
    assert len(cloud.jobs) == 3


@pytest.mark.parametrize("most", [1, 3])
def test_no_more_go_on_at_a_time_than_the_schedule_may(
    cloud: Cloud, clock: Clock, declare: Callable[..., Settings], past: date, most: int
) -> None:
    cloud.script("prepare", seconds=600)
    settings = declare(max_concurrent_runs=most)
    open_runs: list[int] = []

    def count(_: Any) -> None:
        open_runs.append(sum(job.state in (2, 3) for job in cloud.jobs.values()))

    cloud.on("*.pipelineJobs.get", count)
    ended(settings, backfill(settings, "nightly", past, past + 4 * DAY), clock)
    assert (max(open_runs), len(cloud.jobs)) == (most, 5)


def test_runs_of_the_schedule_itself_take_their_place(
    cloud: Cloud, clock: Clock, declare: Callable[..., Settings], past: date
) -> None:
    cloud.script("prepare", seconds=1800)
    settings = declare()
    apply(settings, make(settings, spec=SPEC))
    cloud.clock.set(next(iter(cloud.schedules.values())).next_run_time.ToDatetime(tzinfo=UTC))
    cloud.clock.advance(60)
    (own,) = cloud.jobs.values()
    ended(settings, backfill(settings, "nightly", past, past), clock)
    other = [job for job in cloud.jobs.values() if job.name != own.name]
    assert other[0].create_time.seconds >= own.create_time.seconds + 1800


def test_a_killed_one_goes_on_where_it_was(
    cloud: Cloud, clock: Clock, declare: Callable[..., Settings], past: date
) -> None:
    settings = declare()
    made = backfill(settings, "nightly", past, past + 2 * DAY)

    class Killed(BaseException):
        pass

    def kill(_: Any) -> None:
        if len(cloud.pipeline_jobs.jobs) == 2:
            raise Killed

    with pytest.raises(Killed):
        run(settings, made, preflight=False, clock=clock, log=kill)
    ended(settings, backfill(settings, "nightly", past, past + 2 * DAY), clock)
    assert len(nights(cloud)) == len(set(nights(cloud))) == 3


def test_two_at_once_and_lost_answers_start_no_night_twice(
    cloud: Cloud, clock: Clock, declare: Callable[..., Settings], past: date
) -> None:
    settings = declare(max_concurrent_runs=5)
    one, other = (backfill(settings, "nightly", past, past + 2 * DAY) for _ in range(2))
    cloud.fail("*.pipelineJobs.create", lose_response(), lose_response())
    ended(settings, one, clock)
    lines = ended(settings, other, clock)
    assert len(nights(cloud)) == len(set(nights(cloud))) == 3
    assert "ran as training-" in lines[0]


def test_nights_that_the_schedule_ran_are_left_and_those_that_it_missed_are_run(
    cloud: Cloud, clock: Clock, declare: Callable[..., Settings]
) -> None:
    settings = declare()
    apply(settings, make(settings, spec=SPEC))
    first = cloud.clock.now().date() + DAY
    cloud.clock.advance(2 * 86400)
    schedule_control.set_state(settings, "nightly", "paused")
    cloud.clock.advance(2 * 86400)
    schedule_control.set_state(settings, "nightly", "active")
    (before,) = diagnose_schedules(settings, [], "30d")
    assert [night.kind for night in before.nights] == ["ran", "ran", "missed", "missed"]
    made = backfill(settings, "nightly", first, first + 3 * DAY)
    assert [time in made.todo for time in made.times] == [False, False, True, True]
    ended(settings, made, clock)
    (after,) = diagnose_schedules(settings, [], "30d")
    assert ([night.kind for night in after.nights], after.ok) == (["ran"] * 4, True)


def test_a_failed_night_is_left_or_with_retry_run_again(
    cloud: Cloud, clock: Clock, declare: Callable[..., Settings], past: date
) -> None:
    settings = declare()
    cloud.script("prepare", fail="quota")
    made = backfill(settings, "nightly", past, past)
    runs = run(settings, made, preflight=False, clock=clock, log=lambda line: None)
    assert backfill_page.exit_code(made, runs) == 1
    cloud.script("prepare", seconds=60)
    left = backfill(settings, "nightly", past, past)
    assert (left.todo, backfill_page.summarize_plan(left)) == (
        [], "1 night of nightly: none to run; 1 failed before (--retry runs them again)",
    )  # fmt: skip
    again = backfill(settings, "nightly", past, past, retry=True)
    runs = run(settings, again, preflight=False, clock=clock, log=lambda line: None)
    assert (backfill_page.exit_code(again, runs), len(cloud.jobs)) == (0, 2)
    assert backfill(settings, "nightly", past, past, retry=True).todo == []


def test_the_nights_follow_the_clocks_of_the_time_zone(
    cloud: Cloud, clock: Clock, declare: Callable[..., Settings]
) -> None:
    march, october, day = change_of_clocks(3), change_of_clocks(10), timedelta(days=1)
    cloud.clock.set(datetime.combine(october + 20 * day, time(), UTC))
    settings = declare(cron="30 2 * * *")
    spring = backfill(settings, "nightly", march - day, march + day)
    assert [f"{spring.local(night):%H:%M}" for night in spring.times] == ["02:30", "03:00", "02:30"]
    autumn = backfill(declare(cron="30 2 * * *"), "nightly", october - day, october + day)
    assert [f"{night:%H:%M}" for night in autumn.times] == ["00:30", "00:30", "01:30"]
    assert [night.date() for night in autumn.times] == [october - day, october, october + day]
    hourly = backfill(declare(cron="30 * * * *"), "nightly", october, october)
    assert len(hourly.times) == len(set(hourly.times)) == 25


def test_what_cannot_be_is_refused_before_anything_is_started(
    cloud: Cloud, declare: Callable[..., Settings], past: date
) -> None:
    settings, today = declare(), cloud.clock.now().date()
    with pytest.raises(RequestError, match=r"has not come yet. Give --to 20\d\d-\d\d-\d\d at the latest"):
        backfill(settings, "nightly", past, today + 3 * DAY)
    with pytest.raises(RequestError, match="of which all nights are past"):
        backfill(settings, "nightly", today + 2 * DAY, today + 3 * DAY)
    hourly = declare(cron="30 * * * *")  # of today some nights are past, and some are not
    with pytest.raises(RequestError, match="has not come yet") as refused:
        backfill(hourly, "nightly", past, today)
    advised = date.fromisoformat(str(refused.value).partition("--to ")[2][:10])
    assert advised < today and backfill(hourly, "nightly", past, advised, yes=True).times
    with pytest.raises(RequestError, match="of which all nights are past"):
        backfill(hourly, "nightly", today, today)
    settings = declare()
    with pytest.raises(RequestError, match="is after --to"):
        backfill(settings, "nightly", today, past)
    with pytest.raises(RequestError, match="these are 200 nights .* pass --yes"):
        backfill(settings, "nightly", past - 199 * DAY, past)
    assert len(backfill(settings, "nightly", past - 199 * DAY, past, yes=True).todo) == 200
    with pytest.raises(RequestError, match="has no night"):
        backfill(declare(cron="30 2 1 1 *"), "nightly", past, past)
    with pytest.raises(RequestError, match="more than 10,000 nights"):
        backfill(declare(cron="* * * * *"), "nightly", past - 30 * DAY, past)
    with pytest.raises(RequestError, match="no parameter as_of"):
        backfill(declare(WITHOUT), "nightly", past, past)
    with pytest.raises(RequestError, match="sets as_of: every night would be the same"):
        backfill(declare(parameters={"as_of": "2026-01-01"}), "nightly", past, past)
    assert not cloud.jobs


def test_without_leave_nothing_is_started_and_it_is_explained(
    cloud: Cloud, clock: Clock, declare: Callable[..., Settings], past: date
) -> None:
    settings = declare()
    made = backfill(settings, "nightly", past, past)
    cloud.policies.missing.add("aiplatform.pipelineJobs.create")
    with pytest.raises(WorkFailed, match=r"aiplatform.pipelineJobs.create"):
        ended(settings, made, clock)
    assert not cloud.jobs
