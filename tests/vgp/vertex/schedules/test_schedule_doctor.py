"""doctor: the last good night, failed and missed ones with step and error, what to do, and what is wrong now."""

import io
import json
from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from tools.emulator.cloud import Cloud
from vgp.base.errors import RequestError
from vgp.settings import Schedule, Settings
from vgp.vertex.runs import pipeline_job, rerun
from vgp.vertex.schedules import schedule_control, scheduled_nights
from vgp.vertex.schedules.declared_schedule import marks
from vgp.vertex.schedules.reconcile import apply
from vgp.vertex.schedules.schedule_doctor import Diagnosis, diagnose_schedules, render_page

from .conftest import NIGHTLY, SMALL, change_of_clocks, make

DAY_S = 86400.0


def declaring(settings: Settings, *names: str, **declared: Any) -> Settings:
    schedule = Schedule.model_validate({**NIGHTLY, **declared})
    return settings.model_copy(update={"schedules": dict.fromkeys(names or ["nightly"], schedule)})


def one(settings: Settings, since: str = "30d") -> Diagnosis:
    (diagnosis,) = diagnose_schedules(declaring(settings), [], since)
    return diagnosis


def kinds(diagnosis: Diagnosis) -> list[str]:
    return [night.kind for night in diagnosis.nights]


def shown(*diagnoses: Diagnosis) -> str:
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(render_page(diagnoses, "30d"), highlight=False)
    return console.export_text()


@pytest.fixture
def nightly(cloud: Cloud, settings: Settings) -> Settings:
    """A schedule of one step, which has run well for three nights."""
    cloud.script("prepare", seconds=600)
    apply(settings, make(settings))
    cloud.clock.advance(3 * DAY_S)
    return settings


def test_a_schedule_that_runs_well_is_fine(cloud: Cloud, nightly: Settings) -> None:
    diagnosis = one(nightly)
    assert (kinds(diagnosis), diagnosis.ok) == (["ran"] * 3, True)
    assert diagnosis.last_good and diagnosis.last_good.time == diagnosis.nights[-1].time
    assert diagnosis.next_run == diagnosis.nights[-1].time + timedelta(days=1)
    text = shown(diagnosis)
    assert text.startswith("✓ nightly") and "3 since 30d: 3 ran" in text and "1 schedule, and it is fine" in text


def test_a_failed_night_is_reported_with_step_error_and_what_to_do(cloud: Cloud, nightly: Settings) -> None:
    cloud.script("prepare", fail="Permission 'storage.objects.get' denied on resource (or it may not exist)")
    cloud.clock.advance(DAY_S)
    diagnosis = one(nightly)
    assert (kinds(diagnosis), diagnosis.ok) == (["ran"] * 3 + ["failed"], False)
    (night,) = diagnosis.bad
    assert night.run
    row = diagnosis.as_json()["nights"][-1]
    assert row["failed"] == [{"step": "prepare", "error": cloud.pipeline_jobs.scripts[-1].fail}]
    assert "storage.objects.get is missing: the role roles/storage.objectUser holds it." in row["do"]
    assert f"vgp rerun {night.run.id} --from-failed" in row["do"]
    text = shown(diagnosis)
    assert "failed  " in text and "prepare: Permission" in text and "1 of 1 schedule needs you: nightly" in text
    assert max(map(cell_len, text.splitlines())) <= 80


def test_a_rerun_that_went_well_mends_its_night(cloud: Cloud, nightly: Settings) -> None:
    cloud.script("prepare", fail="quota")
    cloud.clock.advance(DAY_S)
    (night,) = one(nightly).bad
    cloud.script("prepare", seconds=600)
    assert night.run
    rerun.rerun(nightly, night.run.id, from_failed=True)
    assert kinds(one(nightly)) == ["ran"] * 3 + ["open"]
    cloud.clock.advance(3600)
    assert (kinds(one(nightly)), one(nightly).ok) == (["ran"] * 4, True)


def test_an_old_failed_night_before_a_good_one_is_reported_and_is_no_error(cloud: Cloud, nightly: Settings) -> None:
    cloud.script("prepare", fail="quota")
    cloud.clock.advance(DAY_S)
    cloud.script("prepare", seconds=600)
    cloud.clock.advance(DAY_S)
    diagnosis = one(nightly)
    assert (kinds(diagnosis), diagnosis.ok) == (["ran"] * 3 + ["failed", "ran"], True)
    assert "prepare: quota; a later night went well" in " ".join(shown(diagnosis).split())
    assert diagnosis.as_json()["nights"][3]["made_good"] is True


def test_nights_of_a_pause_are_missed_until_a_backfill_has_run_them(cloud: Cloud, nightly: Settings) -> None:
    schedule_control.set_state(nightly, "nightly", "paused")
    cloud.clock.advance(2 * DAY_S)
    diagnosis = one(nightly)
    assert kinds(diagnosis) == ["ran"] * 3 + ["missed"] * 2
    assert [night.why for night in diagnosis.bad] == ["the schedule was paused"] * 2
    assert "declared active: vgp schedule resume nightly --catch-up" in diagnosis.problems[0]
    day = f"{diagnosis.local(diagnosis.bad[0].time):%Y-%m-%d}"
    assert diagnosis.remedy(diagnosis.bad[0]) == [f"vgp schedule backfill nightly --from {day} --to {day}"]
    schedule_control.set_state(nightly, "nightly", "active")
    for night in diagnosis.bad:
        labels = marks(nightly, "nightly") | {scheduled_nights.NIGHT: scheduled_nights.format_label(night.time)}
        body = pipeline_job.build_body(nightly, SMALL, {}, labels=labels)
        pipeline_job.create(nightly, body, pipeline_job.job_id(body))
    cloud.clock.advance(3600)
    assert (kinds(one(nightly)), one(nightly).ok) == (["ran"] * 5, True)


def test_a_night_that_the_run_before_left_no_room_for_is_reported(cloud: Cloud, nightly: Settings) -> None:
    cloud.script("prepare", seconds=1.5 * DAY_S)
    cloud.clock.advance(2 * DAY_S + 4 * 3600)
    diagnosis = one(nightly)
    assert kinds(diagnosis) == ["ran"] * 4 + ["missed"]
    assert "had not ended, and max_concurrent_runs = 1" in diagnosis.bad[0].why


def test_a_night_that_waits_is_not_missed(cloud: Cloud, settings: Settings) -> None:
    cloud.script("prepare", seconds=4 * DAY_S)
    apply(settings, make(settings, queueing=True))
    cloud.clock.advance(2 * DAY_S + 3600)
    diagnosis = one(settings)
    assert (kinds(diagnosis), diagnosis.ok) == (["open", "waiting"], True)


def test_what_an_outage_left_out_is_missed(cloud: Cloud, nightly: Settings) -> None:
    gone = sorted(cloud.pipeline_jobs.jobs)[1]
    del cloud.pipeline_jobs.jobs[gone]
    assert kinds(one(nightly)) == ["ran", "missed", "ran"]
    assert one(nightly).ok
    assert "why is not known" in one(nightly).nights[1].why


def test_a_changed_cron_makes_no_missed_nights_of_the_past(cloud: Cloud, nightly: Settings) -> None:
    apply(nightly, make(nightly, cron="0 12 * * *"))
    cloud.clock.advance(DAY_S)
    assert kinds(one(nightly)) == ["ran"] * 4
    apply(nightly, make(nightly, cron="0 12 * * *", parameters={"epochs": 2.0}))
    cloud.clock.advance(DAY_S)
    assert kinds(one(nightly)) == ["ran"] * 5


def test_a_declared_schedule_that_is_not_live_is_an_error_and_an_undeclared_one_is_reported(
    cloud: Cloud, nightly: Settings
) -> None:
    live, lost = diagnose_schedules(declaring(nightly, "nightly", "weekly"), [], "30d")
    assert (live.ok, lost.ok, lost.state) == (True, False, "not applied")
    assert "vgp schedule apply weekly" in shown(lost)
    (undeclared,) = diagnose_schedules(nightly, [], "30d")
    assert undeclared.ok and "declared no longer" in undeclared.notes[0]
    with pytest.raises(RequestError, match="Did you mean nightly"):
        diagnose_schedules(nightly, ["nihgtly"], "30d")


def test_schedules_of_other_environments_do_not_mix(cloud: Cloud, nightly: Settings) -> None:
    prod = nightly.model_copy(update={"environment": "prod"})
    apply(prod, make(prod))
    cloud.script("prepare", fail="quota")
    cloud.clock.advance(DAY_S)
    assert kinds(one(prod)) == ["failed"]
    assert kinds(one(nightly)) == ["ran"] * 3 + ["failed"]
    assert {night.run.labels["schedule-environment"] for night in one(prod).nights if night.run} == {"prod"}


def test_a_months_nights_take_one_list_for_each_schedule(cloud: Cloud, nightly: Settings) -> None:
    cloud.clock.advance(27 * DAY_S)
    cloud.script("prepare", fail="quota")
    cloud.clock.advance(DAY_S)
    cloud.requests.clear()
    diagnosis = one(nightly)
    assert len(diagnosis.nights) == 30 and diagnosis.bad[0].failed
    calls = [call.method.rpartition(".projects.locations.")[2] for call in cloud.requests]
    assert sorted(calls) == ["pipelineJobs.list", "schedules.list", "schedules.list"]
    json.dumps(diagnosis.as_json())


def test_the_schedule_time_of_a_run_decides_its_night(cloud: Cloud, settings: Settings) -> None:
    """As after an outage: both runs come at once, and each names its night."""
    tick = {"runtimeValue": {"constant": "{{$.pipeline_job_schedule_time_utc}}"}}
    task = {**SMALL["root"]["dag"]["tasks"]["prepare"], "inputs": {"parameters": {"scheduled": tick}}}
    spec = {**SMALL, "root": {**SMALL["root"], "dag": {"tasks": {"prepare": task}}}}
    apply(settings, make(settings, spec=spec, catch_up=True))
    schedule_control.set_state(settings, "nightly", "paused")
    cloud.clock.advance(3 * DAY_S)
    schedule_control.set_state(settings, "nightly", "active", catch_up=True)
    for _ in range(4):
        cloud.clock.advance(600)
    found = one(settings).nights
    assert [night.kind for night in found] == ["ran"] * 3
    assert [scheduled_nights.read_scheduled_time(night.run) for night in found if night.run] == [
        night.time for night in found
    ]


def test_hourly_nights_of_the_hour_that_comes_twice_are_two(cloud: Cloud, settings: Settings) -> None:
    cloud.clock.set(datetime.combine(change_of_clocks(10), time(), UTC) - timedelta(minutes=1))
    cloud.script("prepare", seconds=60)
    apply(settings, make(settings, cron="30 * * * *"))
    cloud.clock.advance(3 * 3600)
    assert kinds(one(settings)) == ["ran"] * 3


def test_nothing_of_a_run_reaches_the_terminal_raw(cloud: Cloud, nightly: Settings) -> None:
    cloud.script("prepare", fail="\x1b]8;;http://evil\x07[bold]x[/]\n\u202e")
    cloud.clock.advance(DAY_S)
    text = shown(one(nightly))
    assert "\x07" not in text and "\u202e" not in text and "[bold]x[/]" in text


def test_a_run_without_steps_in_the_list_is_requested(
    cloud: Cloud, nightly: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vgp.vertex.runs import run_search

    monkeypatch.setattr(run_search, "_STEPS", ())
    cloud.script("prepare", fail="quota")
    cloud.clock.advance(DAY_S)
    (night,) = one(nightly).bad
    assert [step.error for step in night.failed] == ["quota"]
