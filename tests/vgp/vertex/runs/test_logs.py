"""What the steps wrote, merged by time, each line once, and harmless to the terminal."""

import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from loopback.cloud import Cloud, reset, status

from vgp.base.errors import RequestError, WorkFailed
from vgp.settings import Settings
from vgp.vertex.patient_reads import Patience
from vgp.vertex.runs.remote_run import Run
from vgp.vertex.runs.run_logs import Selection, entries, following, lines

LIST = "logging.entries.list"


@pytest.fixture
def ran(cloud: Cloud, start: Callable[..., str], look: Callable[[str], Run]) -> Run:
    """A run that is over; prepare and train have written something."""
    cloud.script(seconds=60)
    name = start()
    begin = cloud.clock.now()
    cloud.clock.advance(3600)
    run = look(name)
    prepare, train = run.steps[1].jobs[-1], run.steps[2].jobs[-1]
    cloud.logs.add("reading", job_id=prepare, at=begin + timedelta(seconds=20))
    cloud.logs.add("epoch 1", job_id=train, at=begin + timedelta(seconds=90))
    cloud.logs.add("written", job_id=prepare, at=begin + timedelta(seconds=40))
    cloud.logs.add({"message": "loss is NaN", "rank": 3}, job_id=train, task_name="workerpool1-2", severity="ERROR",
                   at=begin + timedelta(seconds=100))  # fmt: skip
    cloud.logs.add("of another run", job_id="999", at=begin + timedelta(seconds=50))
    return run


def messages(found: Any) -> list[str]:
    return [each.message for each in found]


def test_all_steps_by_time(ran: Run, settings: Settings) -> None:
    found = entries(settings, ran, Selection())
    assert messages(found) == ["reading", "written", "epoch 1", "loss is NaN"]
    assert [each.step for each in found] == ["prepare", "prepare", "train", "train"]
    assert found[3].replica == "workerpool1-2"


def test_one_step_a_severity_a_time_and_a_limit(ran: Run, settings: Settings) -> None:
    assert messages(entries(settings, ran, Selection("prepare"))) == ["reading", "written"]
    assert messages(entries(settings, ran, Selection(severity="error"))) == ["loss is NaN"]
    assert messages(entries(settings, ran, Selection(limit=2))) == ["epoch 1", "loss is NaN"]
    late = ran.created + timedelta(seconds=95)  # type: ignore[operator]
    assert messages(entries(settings, ran, Selection(since=late.isoformat()))) == ["loss is NaN"]
    with pytest.raises(RequestError, match="--limit -1"):
        entries(settings, ran, Selection(limit=-1))


def test_a_thousand_lines_come_over_all_pages(cloud: Cloud, ran: Run, settings: Settings) -> None:
    for number in range(1100):
        at = cloud.clock.now() + timedelta(milliseconds=number)
        cloud.logs.add(f"line {number}", job_id=ran.steps[2].jobs[-1], at=at)
    assert len(entries(settings, ran, Selection("train", limit=0))) == 1102
    newest = entries(settings, ran, Selection("train", limit=150))
    assert messages(newest)[-1] == "line 1099" and len(newest) == 150


def test_as_text_and_as_json(ran: Run, settings: Settings) -> None:
    *_, text = lines(entries(settings, ran, Selection()), as_json=False)
    assert re.fullmatch(r"\w{3} \d\d \d\d:\d\d:\d\d train workerpool1-2 ERROR   loss is NaN", text)
    *_, line = lines(entries(settings, ran, Selection()), as_json=True)
    told = json.loads(line)
    assert set(told) == {"time", "step", "replica", "severity", "message"} and told["time"].endswith("Z")


def test_a_message_cannot_steer_the_terminal_or_pretend_to_be_a_line(
    cloud: Cloud, ran: Run, settings: Settings
) -> None:
    job = ran.steps[2].jobs[-1]
    cloud.logs.add("\x1b[31mred\x1b[0m\x1b[2J\x07 10%\r20%\nMar 01 00:00:00 prepare INFO all good\u202e", job_id=job)
    cloud.logs.add({"loss": 0.5, "step": "\x1b[2J"}, job_id=job)
    shown = "\n".join(lines(entries(settings, ran, Selection("train")), as_json=False))
    assert "\x1b" not in shown and "\x07" not in shown and "\r" not in shown and "\u202e" not in shown
    assert "red\\x1b[2J\\x07 10%\n    20%\n    Mar 01" in shown
    assert '{"loss": 0.5, "step": "\\u001b[2J"}' in shown


def test_what_google_says_of_the_run_is_among_all_steps(cloud: Cloud, ran: Run, settings: Settings) -> None:
    payload = {"@type": "type.googleapis.com/x.PipelineJobTaskLogEntry", "taskName": "train", "state": "RUNNING"}
    entry = cloud.logs.add(payload, resource="aiplatform.googleapis.com/PipelineJob", task_name="")
    entry["resource"]["labels"] = {"pipeline_job_id": ran.id}
    found = entries(settings, ran, Selection())
    assert (found[-1].step, found[-1].message) == ("train", '{"state": "RUNNING", "taskName": "train"}')
    assert messages(entries(settings, ran, Selection("train"))) == ["epoch 1", "loss is NaN"]


def test_faults_are_outlasted_and_refusals_explained(cloud: Cloud, ran: Run, settings: Settings) -> None:
    cloud.fail(LIST, status(503), reset())
    assert len(entries(settings, ran, Selection())) == 4
    cloud.fail(LIST, status(403, "Permission 'logging.logEntries.list' denied"))
    with pytest.raises(WorkFailed, match="roles/logging.viewer"):
        entries(settings, ran, Selection())


def test_following_gives_each_line_once_late_ones_too_until_the_run_is_over(
    cloud: Cloud, settings: Settings, start: Callable[..., str], clock: Any
) -> None:
    cloud.script(seconds=15)
    name = start()
    (job,) = (task for task in cloud.pipeline_jobs.jobs[name].tasks if task.name == "prepare")
    written: list[str] = []

    class Writing(type(clock)):  # type: ignore[misc]
        """A line at each look: every third is late by 40 seconds, as from a machine that was busy."""

        def sleep(self, seconds: float) -> None:
            written.append(f"line {len(written)}")
            at = self.moment() - timedelta(seconds=40 if len(written) % 3 == 0 else 0)
            cloud.logs.add(written[-1], job_id=str(job.id), at=max(at, cloud.pipeline_jobs.jobs[name].created))
            super().sleep(seconds)

    time = Writing(cloud)
    cloud.fail(LIST, reset(), reset())
    told: list[str] = []
    patience = Patience(told.append, time)
    found = messages(following(settings, name, Selection("prepare"), patience, clock=time))
    assert sorted(found) == sorted(written[: len(found)]) and len(found) == len(set(found))
    assert len(found) >= len(written) - 1 > 10
    assert len(told) == 2 and "connection is back" in told[1]


def test_following_begins_with_no_more_than_the_newest_lines(
    cloud: Cloud, ran: Run, settings: Settings, clock: Any
) -> None:
    found = following(settings, ran.name, Selection(limit=1), Patience(lambda _: None, clock), clock=clock)
    assert messages(found) == ["loss is NaN"]
