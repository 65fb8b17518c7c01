"""Every schedule is listed, ours with their last run; Google's own SDK reads back what apply created."""

import json
from datetime import UTC, datetime, time, timedelta

import pytest

from tools.emulator.cloud import Cloud
from vgp.settings import Schedule, Settings
from vgp.vertex import resource_names
from vgp.vertex.schedules import schedule_control, schedule_list
from vgp.vertex.schedules.cron import Cron
from vgp.vertex.schedules.reconcile import apply

from .conftest import NIGHTLY, change_of_clocks, foreign, make


def test_ours_come_first_and_others_are_marked(cloud: Cloud, settings: Settings) -> None:
    prod = settings.model_copy(update={"environment": "prod"})
    here = settings.model_copy(update={"schedules": {"nightly": Schedule.model_validate(NIGHTLY)}})
    foreign(cloud, settings, "a\x1b[31m theirs")
    apply(prod, make(prod, "aaa"))
    apply(settings, make(settings, "old"))
    apply(here, make(here))
    found = schedule_list.list_rows(here)
    assert [(row.name, row.ours, row.environment, row.declared) for row in found] == [
        ("nightly", True, None, True),
        ("old", True, None, False),
        ("aaa", True, "prod", None),
        ("a\x1b[31m theirs", False, None, None),
    ]
    json.dumps([row.as_json() for row in found])


def test_the_last_run_is_shown_with_how_it_went(cloud: Cloud, settings: Settings) -> None:
    cloud.script("prepare", seconds=60)
    apply(settings, make(settings))
    (row,) = schedule_list.list_rows(settings)
    assert (row.started, row.last_run, row.last_state) == (0, None, "")
    cloud.clock.advance(2 * 86400)
    (row,) = schedule_list.list_rows(settings)
    assert (row.started, row.last_state) == (2, "succeeded")
    assert row.last_id in {resource_names.short(name) for name in cloud.jobs}
    assert row.last_run and row.next_run and row.next_run - row.last_run == timedelta(days=1)
    schedule_control.set_state(settings, "nightly", "paused")
    assert schedule_list.list_rows(settings)[0].next_run is None


@pytest.mark.parametrize("month", [3, 10])
def test_the_cloud_starts_runs_at_the_times_of_the_plan_across_a_change(
    cloud: Cloud, settings: Settings, month: int
) -> None:
    cloud.clock.set(datetime.combine(change_of_clocks(month), time(), UTC) - timedelta(days=2))
    cron = Cron("30 2 * * *", "Europe/Berlin")
    expected = [f"{run.astimezone(UTC):%Y%m%d%H%M%S}" for run in cron.next(4, cloud.clock.now())]
    apply(settings, make(settings, cron="30 2 * * *"))
    cloud.clock.advance(4 * 86400)
    assert sorted(name.rsplit("-", 1)[1] for name in cloud.jobs) == expected


def test_googles_sdk_reads_back_what_was_applied(cloud: Cloud, settings: Settings) -> None:
    from google.cloud import aiplatform
    from google.cloud.aiplatform import initializer

    apply(settings, make(settings, parameters={"epochs": 2.0}, queueing=True))
    before = dict(vars(initializer.global_config))
    try:
        aiplatform.init(
            project=settings.project, location=settings.region, api_endpoint=cloud.endpoint("aiplatform"),
            api_transport="rest",
        )  # fmt: skip
        (found,) = aiplatform.PipelineJobSchedule.list()
        read = aiplatform.PipelineJobSchedule.get(found.resource_name)
    finally:
        vars(initializer.global_config).update(before)
    assert (read.cron, read.display_name, read.allow_queueing) == ("CRON_TZ=Europe/Berlin 30 3 * * *", "nightly", True)
    assert read.state.name == "ACTIVE"
