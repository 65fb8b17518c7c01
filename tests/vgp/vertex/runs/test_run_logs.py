"""The filters find the entries of a run and of its steps, and nothing that a name smuggles in. What the steps wrote,
merged by time, each line once, and harmless to the terminal."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import pytest

from tools.emulator.cloud import Cloud, reset, status
from tools.emulator.logs import LogFilter
from vgp.base.errors import RequestError, WorkFailed
from vgp.settings import Settings
from vgp.vertex.patient_reads import Patience
from vgp.vertex.runs.remote_run import Run, Step
from vgp.vertex.runs.run_logs import (
    Selection,
    filter_expressions,
    find_steps,
    find_steps_with_jobs,
    follow_entries,
    format_entries,
    logs_link,
    read_entries,
)

BEGIN = datetime(2026, 11, 20, 12, tzinfo=UTC)


def run(*steps: Step) -> Any:
    return SimpleNamespace(id="training-1", created=BEGIN, steps=steps)


def step(name: str, *jobs: str, state: str = "succeeded") -> Step:
    return Step(name, state, name, name.rsplit("/", 1)[-1].partition("[")[0], jobs=jobs)


def entry(job: str, severity: str = "INFO", at: str = "2026-11-20T13:00:00Z") -> dict[str, Any]:
    return {"resource": {"type": "ml_job", "labels": {"job_id": job}}, "severity": severity, "timestamp": at}


def test_one_step_is_its_jobs_retries_included() -> None:
    (text,) = filter_expressions(run(step("a", "1", "2"), step("b", "3")), [step("a", "1", "2")], severity="warning")
    test = LogFilter(text).test
    assert test(entry("1", "ERROR")) and test(entry("2", "WARNING"))
    assert not test(entry("3", "ERROR")) and not test(entry("1"))
    assert not test(entry("1", "ERROR", "2026-11-20T11:00:00Z")), "before the run began"


def test_the_whole_run_is_every_step_and_googles_entries_for_the_run() -> None:
    steps, events = filter_expressions(run(step("a", "1"), step("b", "3")), None)
    assert LogFilter(steps).test(entry("3")) and not LogFilter(steps).test(entry("4"))
    labels = {"pipeline_job_id": "training-1"}
    event = {
        "resource": {"type": "aiplatform.googleapis.com/PipelineJob", "labels": labels},
        "timestamp": "2026-11-20T13:00:00Z",
    }
    assert LogFilter(events).test(event) and not LogFilter(events).test(entry("1"))


def test_very_many_jobs_are_several_filters_that_google_takes() -> None:
    jobs = [str(7_000_000_000_000_000_000 + number) for number in range(1000)]
    texts = list(filter_expressions(run(step("a", *jobs)), [step("a", *jobs)]))
    assert len(texts) == 5 and all(len(text) < 20_000 for text in texts)
    assert all(any(f'"{job}"' in text for text in texts) for job in jobs)


def test_a_step_is_called_by_its_way_by_its_name_or_by_its_group() -> None:
    whole = run(step("prepare", "1"), step("loop/train[0]", "2"), step("loop/train[1]", "3"))
    assert [each.name for each in find_steps(whole, "train")] == ["loop/train[0]", "loop/train[1]"]
    assert [each.name for each in find_steps(whole, "loop/train[1]")] == ["loop/train[1]"]
    assert [each.name for each in find_steps(whole, "loop")] == ["loop/train[0]", "loop/train[1]"]
    with pytest.raises(RequestError, match="training-1 has no step trian. "):
        find_steps(whole, "trian")


def test_a_step_that_ran_nowhere_has_no_log() -> None:
    with pytest.raises(RequestError, match="train of training-1 has no log: it is cached"):
        find_steps_with_jobs(run(step("train", state="cached")), "train")


def test_a_severity_that_is_none_is_refused() -> None:
    with pytest.raises(RequestError, match="--severity eror: Did you mean ERROR"):
        list(filter_expressions(run(step("a", "1")), None, severity="eror"))


def test_the_link_holds_the_same_filter() -> None:
    found = logs_link(Settings(project="my-project"), run(step("a", "1")), [step("a", "1")])
    base, _, rest = found.partition("query;query=")
    query, _, project = rest.partition("?project=")
    assert base == "https://console.cloud.google.com/logs/" and project == "my-project"
    assert unquote(query) == next(filter_expressions(run(step("a", "1")), [step("a", "1")]))
    assert logs_link(Settings(project="my-project"), run(step("a")), [step("a")]).endswith(
        "/logs/query?project=my-project"
    )


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
    found = read_entries(settings, ran, Selection())
    assert messages(found) == ["reading", "written", "epoch 1", "loss is NaN"]
    assert [each.step for each in found] == ["prepare", "prepare", "train", "train"]
    assert found[3].replica == "workerpool1-2"


def test_one_step_a_severity_a_time_and_a_limit(ran: Run, settings: Settings) -> None:
    assert messages(read_entries(settings, ran, Selection("prepare"))) == ["reading", "written"]
    assert messages(read_entries(settings, ran, Selection(severity="error"))) == ["loss is NaN"]
    assert messages(read_entries(settings, ran, Selection(limit=2))) == ["epoch 1", "loss is NaN"]
    late = ran.created + timedelta(seconds=95)  # type: ignore[operator]
    assert messages(read_entries(settings, ran, Selection(since=late.isoformat()))) == ["loss is NaN"]
    with pytest.raises(RequestError, match="--limit -1"):
        read_entries(settings, ran, Selection(limit=-1))


def test_a_thousand_lines_come_over_all_pages(cloud: Cloud, ran: Run, settings: Settings) -> None:
    for number in range(1100):
        at = cloud.clock.now() + timedelta(milliseconds=number)
        cloud.logs.add(f"line {number}", job_id=ran.steps[2].jobs[-1], at=at)
    assert len(read_entries(settings, ran, Selection("train", limit=0))) == 1102
    newest = read_entries(settings, ran, Selection("train", limit=150))
    assert messages(newest)[-1] == "line 1099" and len(newest) == 150


def test_as_text_and_as_json(ran: Run, settings: Settings) -> None:
    *_, text = format_entries(read_entries(settings, ran, Selection()), as_json=False)
    assert re.fullmatch(r"\w{3} \d\d \d\d:\d\d:\d\d train workerpool1-2 ERROR   loss is NaN", text)
    *_, line = format_entries(read_entries(settings, ran, Selection()), as_json=True)
    entry = json.loads(line)
    assert set(entry) == {"time", "step", "replica", "severity", "message"} and entry["time"].endswith("Z")


def test_a_message_cannot_steer_the_terminal_or_pretend_to_be_a_line(
    cloud: Cloud, ran: Run, settings: Settings
) -> None:
    job = ran.steps[2].jobs[-1]
    cloud.logs.add("\x1b[31mred\x1b[0m\x1b[2J\x07 10%\r20%\nMar 01 00:00:00 prepare INFO all good\u202e", job_id=job)
    cloud.logs.add({"loss": 0.5, "step": "\x1b[2J"}, job_id=job)
    shown = "\n".join(format_entries(read_entries(settings, ran, Selection("train")), as_json=False))
    assert "\x1b" not in shown and "\x07" not in shown and "\r" not in shown and "\u202e" not in shown
    assert "red\\x1b[2J\\x07 10%\n    20%\n    Mar 01" in shown
    assert '{"loss": 0.5, "step": "\\u001b[2J"}' in shown


def test_googles_entries_for_the_run_are_among_all_steps(cloud: Cloud, ran: Run, settings: Settings) -> None:
    payload = {"@type": "type.googleapis.com/x.PipelineJobTaskLogEntry", "taskName": "train", "state": "RUNNING"}
    entry = cloud.logs.add(payload, resource="aiplatform.googleapis.com/PipelineJob", task_name="")
    entry["resource"]["labels"] = {"pipeline_job_id": ran.id}
    found = read_entries(settings, ran, Selection())
    assert (found[-1].step, found[-1].message) == ("train", '{"state": "RUNNING", "taskName": "train"}')
    assert messages(read_entries(settings, ran, Selection("train"))) == ["epoch 1", "loss is NaN"]


def test_faults_are_outlasted_and_refusals_explained(cloud: Cloud, ran: Run, settings: Settings) -> None:
    cloud.fail(LIST, status(503), reset())
    assert len(read_entries(settings, ran, Selection())) == 4
    cloud.fail(LIST, status(403, "Permission 'logging.logEntries.list' denied"))
    with pytest.raises(WorkFailed, match="roles/logging.viewer"):
        read_entries(settings, ran, Selection())


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
    lines: list[str] = []
    patience = Patience(lines.append, time)
    found = messages(follow_entries(settings, name, Selection("prepare"), patience, clock=time))
    assert sorted(found) == sorted(written[: len(found)]) and len(found) == len(set(found))
    assert len(found) >= len(written) - 1 > 10
    assert len(lines) == 2 and "connection is back" in lines[1]


def test_following_begins_with_no_more_than_the_newest_lines(
    cloud: Cloud, ran: Run, settings: Settings, clock: Any
) -> None:
    found = follow_entries(settings, ran.name, Selection(limit=1), Patience(lambda _: None, clock), clock=clock)
    assert messages(found) == ["loss is NaN"]
