"""Schedules as Google's generated client sees them, on a clock of ours."""

import time
from datetime import UTC, datetime, timedelta

import pytest
from google.api_core import exceptions

from tests.tools.emulator.conftest import PARENT
from tools.emulator.cloud import Cloud


@pytest.fixture
def cloud(monkeypatch):
    """Midnight in UTC."""
    with Cloud(now=datetime(2026, 3, 1, tzinfo=UTC)) as cloud:
        for name, value in cloud.environment.items():
            monkeypatch.setenv(name, value)
        yield cloud
        assert cloud.crashed is None


@pytest.fixture
def create(schedules, job):
    def make(cron, **more):
        asked = {"parent": PARENT, "pipeline_job": job}
        body = {"display_name": "nightly", "cron": cron, "max_concurrent_run_count": 1, **more}
        return schedules.create_schedule(parent=PARENT, schedule={"create_pipeline_job_request": asked, **body})

    return make


def runs(cloud):
    return [job.create_time.ToDatetime() for job in cloud.jobs.values()]


def test_a_schedule_has_a_number_and_its_next_run(cloud, create):
    made = create("0 3 * * *")
    assert made.name.startswith("projects/123456789012/locations/us-central1/schedules/")
    assert made.name.rpartition("/")[2].isdigit()
    assert (made.state.name, made.next_run_time.isoformat()) == ("ACTIVE", "2026-03-01T03:00:00+00:00")
    assert made.start_time == made.create_time == cloud.clock.now()


def test_every_tick_makes_a_job_of_the_schedule(cloud, create, schedules, pipelines):
    made = create("0 3 * * *")
    cloud.clock.advance(3 * 86400)
    listed = list(pipelines.list_pipeline_jobs(parent=PARENT))
    assert [job.schedule_name for job in listed] == [made.name] * 3
    now = schedules.get_schedule(name=made.name)
    assert now.started_run_count == 3
    assert now.last_scheduled_run_response.scheduled_run_time.isoformat() == "2026-03-03T03:00:00+00:00"
    assert [job.state.name for job in listed] == ["PIPELINE_STATE_SUCCEEDED"] * 3


def test_a_time_zone_moves_with_its_clocks(cloud, create):
    create("CRON_TZ=America/New_York 30 5 * * *")
    cloud.clock.set(datetime(2026, 12, 1, tzinfo=UTC))
    hours = {moment.date(): moment.strftime("%H:%M") for moment in runs(cloud)}
    changes = [(3, 7, "10:30"), (3, 8, "09:30"), (10, 31, "09:30"), (11, 1, "10:30")]
    assert [hours[datetime(2026, month, day).date()] for month, day, _ in changes] == [each[2] for each in changes]
    assert len(hours) == 275


def test_a_local_time_that_does_not_exist_or_comes_twice_is_run_once(cloud, create):
    create("TZ=America/New_York 30 2 * * *")
    create("TZ=America/New_York 30 1 * * *")
    cloud.clock.set(datetime(2026, 12, 1, tzinfo=UTC))
    spring = [moment.hour for moment in runs(cloud) if (moment.month, moment.day) == (3, 8)]
    autumn = [moment.hour for moment in runs(cloud) if (moment.month, moment.day) == (11, 1)]
    assert spring == [6, 7]  # 1:30 EST, and 2:30, which is 3:00 EDT
    assert autumn == [5, 7]  # the first 1:30, and 2:30


def test_ten_thousand_ticks_take_seconds(cloud, create, schedules):
    made = create("TZ=Europe/Berlin 30 2 * * *")
    before = time.process_time()  # whatever else the machine does
    cloud.clock.advance(10_000 * 86400)
    assert schedules.get_schedule(name=made.name).started_run_count == 10_000
    assert time.process_time() - before < 30


def test_it_ends_with_its_last_run_or_its_end(cloud, create, schedules):
    counted = create("0 * * * *", max_run_count=2)
    timed = create("0 * * * *", end_time=cloud.clock.now() + timedelta(hours=3, minutes=30))
    late = create("0 * * * *", start_time=cloud.clock.now() + timedelta(hours=9, minutes=1))
    cloud.clock.advance(10 * 3600)
    found = [schedules.get_schedule(name=each.name) for each in (counted, timed, late)]
    assert [each.started_run_count for each in found] == [3 - 1, 4, 1]
    assert [each.state.name for each in found] == ["COMPLETED", "COMPLETED", "ACTIVE"]
    assert not found[0].next_run_time
    for refused in (schedules.pause_schedule, schedules.resume_schedule):
        with pytest.raises(exceptions.BadRequest):
            refused(name=counted.name)
    with pytest.raises(exceptions.BadRequest, match="completed"):
        schedules.update_schedule(schedule={"name": counted.name, "cron": "1 * * * *"}, update_mask={"paths": ["cron"]})


@pytest.mark.parametrize(("catch_up", "count"), [(False, 2), (True, 4)])
def test_a_paused_schedule_makes_up_for_missed_runs_on_request(cloud, create, schedules, catch_up, count):
    made = create("0 * * * *")
    cloud.clock.advance(3600)
    schedules.pause_schedule(name=made.name)
    cloud.clock.advance(2 * 3600 + 60)
    schedules.resume_schedule(request={"name": made.name, "catch_up": catch_up})
    cloud.clock.advance(3600)
    now = schedules.get_schedule(name=made.name)
    assert (now.state.name, now.catch_up, len(cloud.jobs)) == ("ACTIVE", catch_up, count + 1)
    assert now.last_pause_time < now.last_resume_time
    made_up = [moment for moment in runs(cloud) if moment.strftime("%H:%M") == "03:01"]
    assert len(made_up) == (2 if catch_up else 0)


@pytest.mark.parametrize(("queueing", "gaps"), [(False, [2, 2]), (True, [1.5, 1.5])])
def test_runs_beyond_the_limit_of_active_ones_wait_or_are_skipped(cloud, create, queueing, gaps):
    cloud.script(seconds=5400 - 10)
    cloud.script("[te]*", seconds=0)
    create("0 * * * *", max_concurrent_active_run_count=1, allow_queueing=queueing)
    cloud.clock.advance(6 * 3600)
    started = runs(cloud)
    hours = [(after - before).total_seconds() / 3600 for before, after in zip(started, started[1:], strict=False)]
    assert hours[:2] == gaps


def test_an_update_changes_what_its_mask_names(cloud, create, schedules, job):
    made = create("0 3 * * *")
    job["runtime_config"]["parameter_values"] = {"epochs": 7}
    changed = {
        "name": made.name, "cron": "0 4 * * *", "display_name": "other",
        "create_pipeline_job_request": {"parent": PARENT, "pipeline_job": job},
    }  # fmt: skip
    schedules.update_schedule(schedule=changed, update_mask={"paths": ["cron", "create_pipeline_job_request"]})
    cloud.clock.advance(86400)
    now = schedules.get_schedule(name=made.name)
    assert (now.display_name, now.started_run_count) == ("nightly", 1)
    assert now.last_scheduled_run_response.scheduled_run_time.hour == 4
    [run] = cloud.jobs.values()
    assert run.runtime_config.parameter_values["epochs"].number_value == 7


@pytest.mark.parametrize(
    ("change", "mask", "message"),
    [
        ({"cron": "x"}, "cron", "Invalid cron"),
        ({}, "cron", "cannot be unset"),
        ({}, "colour", "is no field"),
        ({}, "name", "immutable"),
        ({"max_concurrent_run_count": -1}, "max_concurrent_run_count", "at least 1"),
    ],
)
def test_an_update_that_makes_no_sense_is_refused(create, schedules, change, mask, message):
    made = create("0 3 * * *")
    with pytest.raises(exceptions.BadRequest, match=message):
        schedules.update_schedule(schedule={"name": made.name, **change}, update_mask={"paths": [mask]})
    assert schedules.get_schedule(name=made.name) == made


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cron": "0 25 * * *"}, "Invalid cron"),
        ({"cron": "* * * *"}, "Invalid cron"),
        ({"cron": "CRON_TZ=Mars/Base 0 3 * * *"}, "IANA"),
        ({"cron": ""}, "time_specification"),
        ({"display_name": ""}, "display_name"),
        ({"max_concurrent_run_count": 0}, "max_concurrent_run_count"),
        ({"create_pipeline_job_request": None}, "create_pipeline_job_request"),
        ({"create_pipeline_job_request": {"parent": PARENT}}, "pipeline_job"),
    ],
)  # fmt: skip
def test_what_is_required_has_to_be_there(create, change, message):
    with pytest.raises(exceptions.BadRequest, match=message):
        create(**{"cron": "0 3 * * *", **change})


def test_lists_are_filtered_and_read_in_pages(cloud, create, schedules):
    names = []
    for number in range(3):
        names.append(create("0 3 * * *", display_name=f"daily {number}").name)
        cloud.clock.advance(1)
    schedules.pause_schedule(name=names[1])
    found = [each.name for each in schedules.list_schedules(request={"parent": PARENT, "page_size": 2})]
    assert found == names[::-1]
    for text, expected in [
        ('state="PAUSED"', names[1:2]), ('display_name="daily 2"', names[2:]), ("create_pipeline_job_request:*", found),
        ('NOT display_name:"*0" AND state="ACTIVE"', names[2:]), ("end_time:*", []),
    ]:  # fmt: skip
        listed = schedules.list_schedules(request={"parent": PARENT, "filter": text})
        assert [each.name for each in listed] == expected


def test_deleting_is_an_operation_that_ends(create, schedules):
    made = create("0 3 * * *")
    schedules.delete_schedule(name=made.name).result(timeout=120)
    with pytest.raises(exceptions.NotFound):
        schedules.get_schedule(name=made.name)
