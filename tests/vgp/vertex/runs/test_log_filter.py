"""The filters find the entries of a run and of its steps, and nothing that a name smuggles in."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import pytest
from loopback.logs import LogFilter

from vgp.base.errors import RequestError
from vgp.settings import Settings
from vgp.vertex.runs.remote_run import Step
from vgp.vertex.runs.run_logs import chosen, expressions, known, link

BEGIN = datetime(2026, 11, 20, 12, tzinfo=UTC)


def run(*steps: Step) -> Any:
    return SimpleNamespace(id="training-1", created=BEGIN, steps=steps)


def step(name: str, *jobs: str, state: str = "succeeded") -> Step:
    return Step(name, state, name, name.rsplit("/", 1)[-1].partition("[")[0], jobs=jobs)


def entry(job: str, severity: str = "INFO", at: str = "2026-11-20T13:00:00Z") -> dict[str, Any]:
    return {"resource": {"type": "ml_job", "labels": {"job_id": job}}, "severity": severity, "timestamp": at}


def test_one_step_is_its_jobs_retries_included() -> None:
    (text,) = expressions(run(step("a", "1", "2"), step("b", "3")), [step("a", "1", "2")], severity="warning")
    test = LogFilter(text).test
    assert test(entry("1", "ERROR")) and test(entry("2", "WARNING"))
    assert not test(entry("3", "ERROR")) and not test(entry("1"))
    assert not test(entry("1", "ERROR", "2026-11-20T11:00:00Z")), "before the run began"


def test_the_whole_run_is_every_step_and_what_google_says_of_the_run() -> None:
    steps, events = expressions(run(step("a", "1"), step("b", "3")), None)
    assert LogFilter(steps).test(entry("3")) and not LogFilter(steps).test(entry("4"))
    labels = {"pipeline_job_id": "training-1"}
    event = {
        "resource": {"type": "aiplatform.googleapis.com/PipelineJob", "labels": labels},
        "timestamp": "2026-11-20T13:00:00Z",
    }
    assert LogFilter(events).test(event) and not LogFilter(events).test(entry("1"))


def test_very_many_jobs_are_several_filters_that_google_takes() -> None:
    jobs = [str(7_000_000_000_000_000_000 + number) for number in range(1000)]
    texts = list(expressions(run(step("a", *jobs)), [step("a", *jobs)]))
    assert len(texts) == 5 and all(len(text) < 20_000 for text in texts)
    assert all(any(f'"{job}"' in text for text in texts) for job in jobs)


def test_a_step_is_called_by_its_way_by_its_name_or_by_its_group() -> None:
    whole = run(step("prepare", "1"), step("loop/train[0]", "2"), step("loop/train[1]", "3"))
    assert [each.name for each in known(whole, "train")] == ["loop/train[0]", "loop/train[1]"]
    assert [each.name for each in known(whole, "loop/train[1]")] == ["loop/train[1]"]
    assert [each.name for each in known(whole, "loop")] == ["loop/train[0]", "loop/train[1]"]
    with pytest.raises(RequestError, match="training-1 has no step trian. "):
        known(whole, "trian")


def test_a_step_that_ran_nowhere_has_no_log() -> None:
    with pytest.raises(RequestError, match="train of training-1 has no log: it is cached"):
        chosen(run(step("train", state="cached")), "train")


def test_a_severity_that_is_none_is_refused() -> None:
    with pytest.raises(RequestError, match="--severity eror: Did you mean ERROR"):
        list(expressions(run(step("a", "1")), None, severity="eror"))


def test_the_link_holds_the_same_filter() -> None:
    found = link(Settings(project="my-project"), run(step("a", "1")), [step("a", "1")])
    base, _, rest = found.partition("query;query=")
    query, _, project = rest.partition("?project=")
    assert base == "https://console.cloud.google.com/logs/" and project == "my-project"
    assert unquote(query) == next(expressions(run(step("a", "1")), [step("a", "1")]))
    assert link(Settings(project="my-project"), run(step("a")), [step("a")]).endswith("/logs/query?project=my-project")
