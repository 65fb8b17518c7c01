"""Thirty nights of the compiled workflow: each ends as it should, whatever came before it."""

from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from functools import partial
from zoneinfo import ZoneInfo

import pytest

from tools.emulator.cloud import Cloud
from vgp.protocol.summary import summary_of
from vgp.settings import load
from vgp.vertex.runs import outputs
from vgp.vertex.runs.remote_run import Run
from vgp.vertex.runs.rerun import rerun
from vgp.vertex.schedules import schedule_control
from vgp.vertex.schedules.backfill_page import read_data_state
from vgp.vertex.schedules.schedule_doctor import diagnose_schedules

from .conftest import SPEC
from .nightly import FIRST, Project, became, real_resolve

BERLIN = ZoneInfo("Europe/Berlin")
#: The event before a night and its outcome. The default: the visits of the day arrive, and all steps run.
EVENTS = {
    3: ("nothing", "CCCC"),
    5: ("train fails", "RF--"),
    7: ("nothing", "RRRR"),  # 12 March: the cache epoch is over
    8: ("nothing", "CCCC"),
    9: ("stockout", "RF--"),
    10: ("nothing", "CRRR"),
    11: ("nothing", "CCCC"),
    12: ("new champion", "CCRR"),
    13: ("nothing", "CCCC"),
    14: ("passing", "RRRR"),  # its second try succeeds
    15: ("replaced", "RRRR"),
    17: ("outage", "RRRR"),
    20: ("removed", "RRRR"),
    24: ("clocks", "RRRR"),  # 29 March: 02:30 does not exist
    25: ("nothing", "CCCC"),
}
STOCKOUT = "The following quota/resources are insufficient: STOCKOUT of NVIDIA_L4 in us-central1-a"


@pytest.fixture
def project(monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    with Cloud(now=FIRST) as cloud, real_resolve():
        for name, value in cloud.environment.items():
            monkeypatch.setenv(name, value)
        yield Project(cloud, load(), SPEC)
        assert cloud.crashed is None


def test_each_of_thirty_nights_ends_as_it_should(project: Project) -> None:
    cloud, runs = project.cloud, {}
    for number in range(1, 31):
        event, letters = EVENTS.get(number, ("visits", "RRRR"))
        day = FIRST.date() + timedelta(days=number - 1)
        begin = happens(project, event, day)
        (run,) = project.night(begin)
        assert (number, event, became(run)) == (number, event, letters)
        runs[number] = run
        mended(project, event, run, day)
    assert words(runs[3]) == f"nothing new since {runs[2].id}: nothing was trained"
    assert words(runs[11]) == f"nothing new since {runs[10].id}: nothing was trained"
    assert words(runs[12]).startswith("nothing was trained")
    assert data(runs[7]) != data(runs[6]) and data(runs[8]) == data(runs[7])
    assert data(runs[10]) == data(runs[9])
    assert [read_data_state(project.settings, runs[number]) for number in (16, 17, 18)] == ["", "windows", ""]
    (diagnosis,) = diagnose_schedules(project.settings, [], "40d")
    assert (diagnosis.ok, diagnosis.counts) == (True, {"ran": 24, "nothing new": 5, "failed": 1})
    local = {
        night.time.astimezone(BERLIN).date(): f"{night.time.astimezone(BERLIN):%H:%M %Z}" for night in diagnosis.nights
    }
    assert (len(local), local[date(2026, 3, 28)], local[date(2026, 3, 29)]) == (30, "02:30 CET", "03:00 CEST")
    assert len(cloud.jobs) == 31, "and one that was started by hand after the failure"


def happens(project: Project, event: str, day: date) -> Callable[[], object] | None:
    """What comes before a night; what begins it, if that is not the schedule's time."""
    cloud = project.cloud
    if event in ("visits", "train fails", "stockout", "passing", "outage", "clocks"):
        project.arrives(day)
    if event == "train fails":
        cloud.script("train", fail="CUDA out of memory", seconds=2400)
    if event == "stockout":
        cloud.script("train", fail=STOCKOUT, seconds=2400)
    if event == "passing":
        cloud.script("prepare", fail="connection reset", fails=1, seconds=200)
    if event == "new champion":
        project.put("champion/model.json", b'{"epochs": 2}')
    if event == "replaced":
        project.arrives(date(2026, 3, 1), first=date(2026, 1, 20))
    if event == "removed":
        project.bucket.blob(f"raw/{date(2026, 1, 20)}.csv").delete()
        project.arrives(date(2026, 3, 1), first=date(2026, 2, 10))
    if event != "outage":
        return None
    schedule_control.set_state(project.settings, "nightly", "paused")
    cloud.clock.set(datetime(day.year, day.month, day.day, 12, tzinfo=BERLIN) + timedelta(days=1))
    project.arrives(day + timedelta(days=1))
    return partial(schedule_control.set_state, project.settings, "nightly", "active", catch_up=True)


def mended(project: Project, event: str, run: Run, day: date) -> None:
    """What a person does the next morning."""
    if event == "passing":
        assert [len(step.jobs) for step in run.steps if step.task == "prepare"] == [2]
        project.cloud.script("prepare", seconds=200)
    if event == "stockout":
        project.cloud.script("train", seconds=2400)
    if event == "train fails":
        project.cloud.script("train", seconds=2400)
        project.arrives(day + timedelta(days=1))
        (attempt,) = project.night(lambda: rerun(project.settings, run.id, from_failed=True))
        assert became(attempt) == "CRRR", "it goes on with what the failed night had pinned"
        assert data(attempt) == data(run)


def data(run: Run) -> str:
    """The pins of its data."""
    return str(outputs.return_values(run)["resolve.data"])


def words(run: Run) -> str:
    from google.protobuf import json_format

    return summary_of(json_format.MessageToDict(type(run.job).pb(run.job))).words
