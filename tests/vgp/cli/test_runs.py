"""The commands that follow and inspect runs, as people and CI call them, against the loopback cloud."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tools.emulator.cloud import Cloud, reset, status
from vgp.__main__ import main
from vgp.settings import load
from vgp.vertex.runs import pipeline_job

METRICS = {"artifacts": {"metrics": {"artifactType": {"schemaTitle": "system.Metrics", "schemaVersion": "0.0.1"}}}}
HOSTILE = 'it\'s "x" [red]{y}\x1b[2J\n$(rm -rf /) `z` \u202e'
SPEC = {
    "pipelineInfo": {"name": "small", "description": HOSTILE},
    "root": {
        "dag": {"tasks": {
            "first": {"componentRef": {"name": "c"}, "taskInfo": {"name": HOSTILE}},
            "second": {"componentRef": {"name": "d"}, "dependentTasks": ["first"], "taskInfo": {"name": "second"}},
        }},
        "inputDefinitions": {"parameters": {
            "text": {"parameterType": "STRING", "defaultValue": "plain", "isOptional": True},
            "rows": {"parameterType": "NUMBER_INTEGER", "defaultValue": 3, "isOptional": True},
        }},
    },
    "components": {"c": {"executorLabel": "x", "outputDefinitions": METRICS}, "d": {"executorLabel": "x"}},
    "deploymentSpec": {"executors": {"x": {"container": {
        "image": "python", "resources": {"cpuLimit": 4, "memoryLimit": 16},
    }}}},
    "schemaVersion": "2.1.0", "sdkVersion": "kfp-2.17.0",
}  # fmt: skip


pytestmark = pytest.mark.usefixtures("cloud")


@pytest.fixture
def start(cloud: Cloud) -> Callable[..., str]:
    def started(id: str, **values: Any) -> str:
        return str(pipeline_job.create(load(), pipeline_job.build_body(load(), SPEC, values), id)[0].name)

    return started


@pytest.fixture
def ran(cloud: Cloud, start: Callable[..., str]) -> str:
    """`small-1`, which is over, with hostile text wherever text can be."""
    cloud.script("first", seconds=600, metrics={"auc": 0.75, "note": HOSTILE})
    cloud.script("second", fail=HOSTILE)
    name = start("small-1", text=HOSTILE, rows=7)
    cloud.clock.advance(3600)
    return name


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(words)
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def safe(text: str) -> bool:
    return not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e]", text)


def test_show_prints_everything_and_obeys_no_markup(ran: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "show", "small-1")
    assert code == 0 and safe(out)
    assert "small-1 failed 10m 00s" in out or "small-1 failed 11m 00s" in out
    assert 'second failed: it\'s "x" [red]{y}\\x1b[2J\n  $(rm -rf /)' in out
    assert re.search(r'\* +text +it\'s "x" \[red\]\{y\}\\x1b\[2J \$\(rm -rf /\) `z` \\u202e +default plain', out)
    assert re.search(r"\* +rows +7 +default 3", out)
    assert re.search(r"first\.auc +0\.75", out) and "first.metrics" in out and "gs://test-bucket/runs/" in out


def test_show_prints_the_same_facts_as_json(ran: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "show", "latest:small", "--json")
    printed = json.loads(out)
    assert code == 0 and (printed["id"], printed["state"]) == ("small-1", "failed")
    assert printed["parameters"]["text"] == {"value": HOSTILE, "default": "plain", "differs": True}
    assert printed["metrics"]["first.auc"] == 0.75 and printed["metrics"]["first.note"] == HOSTILE
    assert [step["state"] for step in printed["steps"]] == ["succeeded", "failed"]
    assert printed["steps"][0]["seconds"] == 600 and printed["steps"][0]["usd"] > 0
    assert printed["steps"][0]["machines"][0]["machine_type"] == "e2-standard-4"
    assert printed["usd"] == pytest.approx(sum(step["usd"] for step in printed["steps"]), abs=1e-3)


@pytest.mark.parametrize(("fail", "code"), [("", 0), ("broken", 1)])
def test_the_exit_code_of_wait_is_the_end_of_the_run(
    cloud: Cloud, start: Callable[..., str], capsys: pytest.CaptureFixture[str], fail: str, code: int
) -> None:
    cloud.script("second", fail=fail or None)
    start("small-1")
    cloud.clock.advance(3600)
    found, out, _ = run(capsys, "wait", "small-1")
    assert found == code and ("small-1 failed" in out) == bool(code)
    found, out, err = run(capsys, "wait", "small-1", "--json")
    assert found == json.loads(out)["exit_code"] == code and "first: succeeded" in err


def test_wait_gives_up_at_its_timeout(start: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    start("small-1")
    code, out, _ = run(capsys, "wait", "small-1", "--timeout", "0")
    assert code == 124 and "vgp wait small-1" in out


def test_wait_looks_for_the_run_without_network_too(
    cloud: Cloud, ran: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vgp.vertex.patient_reads.FIRST_S", 0.01)
    cloud.fail("aiplatform.projects.locations.pipelineJobs.get", *[reset()] * 3)
    code, out, _ = run(capsys, "wait", "small-1")
    assert code == 1 and "no connection to Google; retrying" in out and "the connection is back" in out


def test_runs_are_listed_for_people_and_machines(
    cloud: Cloud, ran: str, start: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    start("small-2")
    _, out, _ = run(capsys, "runs")
    lines = [line.split() for line in out.splitlines()]
    assert [line[:3] for line in lines] == [
        ["run", "pipeline", "state"], ["small-2", "small", "pending"], ["small-1", "small", "failed"]
    ]  # fmt: skip
    _, out, _ = run(capsys, "runs", "--state", "failed", "--since", "1d", "--label", "pipeline=small", "--json")
    (printed,) = json.loads(out)
    assert (printed["id"], printed["state"], printed["pipeline"]) == ("small-1", "failed", "small")
    _, out, err = run(capsys, "runs", "--limit", "1")
    assert "small-1" not in out and "--limit" in err
    assert run(capsys, "runs", "--pipeline", "other")[1] == "No runs match in us-central1 of test-project.\n"
    assert json.loads(run(capsys, "runs", "--pipeline", "other", "--json")[1]) == []


def test_the_list_fits_a_narrow_terminal(ran: str) -> None:
    environment = {**os.environ, "COLUMNS": "80", "TTY_COMPATIBLE": "1", "FORCE_COLOR": "1"}
    command = [sys.executable, "-m", "vgp", "runs"]
    out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert all(len(re.sub(r"\x1b\[[0-9;]*m", "", line)) <= 80 for line in out.splitlines()) and "small-1" in out


def test_logs_of_a_step_with_the_page_in_the_console(
    cloud: Cloud, ran: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vgp.vertex.runs.run_logs._POLL_S", 0.01)
    job = str(cloud.pipeline_jobs.jobs[ran].tasks[0].id)
    cloud.logs.add(HOSTILE, job_id=job, severity="WARNING")
    code, out, err = run(capsys, "logs", "small-1", "first")
    assert code == 0 and safe(out) and re.search(r"first workerpool0-0 WARNING it's \"x\" \[red\]", out)
    assert err.startswith("https://console.cloud.google.com/logs/query;query=")
    _, out, _ = run(capsys, "logs", "small-1", "--json")
    assert json.loads(out)["message"] == HOSTILE
    code, _, err = run(capsys, "logs", "small-1", "frist")
    assert code == 2 and "Did you mean first?" in err
    code, out, _ = run(capsys, "logs", "small-1", "--follow", "--severity", "error")
    assert (code, out) == (0, "")


def test_cancel_twice(cloud: Cloud, start: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    start("small-1")
    cloud.clock.advance(30)
    assert run(capsys, "cancel", "small-1")[:2] == (0, "small-1 is being cancelled\n")
    cloud.clock.advance(30)
    assert run(capsys, "cancel", "small-1")[:2] == (0, "small-1 has ended already: cancelled\n")
    code, out, _ = run(capsys, "cancel", "small-1", "--json", "--wait")
    assert code == 0 and json.loads(out)["asked"] is False


def test_rerun_until_it_works(cloud: Cloud, ran: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "rerun", "small-1", "--from-failed", "--json")
    first = json.loads(out)
    assert code == 0 and first["started"] and first["of"] == "small-1"
    code, out, err = run(capsys, "rerun", "small-1", "--from-failed", "--json")
    assert code == 4 and json.loads(out)["started"] is False and err.startswith("nothing was started: ")
    cloud.clock.advance(3600)
    code, out, err = run(capsys, "rerun", "small-1", "--from-failed", "--json")
    assert code == 4 and json.loads(out)["state"] == "failed" and f"vgp rerun {first['id']} --from-failed" in err
    cloud.script("second", seconds=60)
    code, out, _ = run(capsys, "rerun", "small-1", "--from-failed", "--new")
    cloud.clock.advance(3600)
    assert code == 0 and run(capsys, "wait", "latest")[0] == 0


def test_a_rerun_of_the_latest_that_is_repeated_does_not_repeat_itself(
    cloud: Cloud, ran: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first = json.loads(run(capsys, "rerun", "latest", "--json")[1])["id"]
    code, _, err = run(capsys, "rerun", "latest")
    assert code == 2 and f"latest is {first}, which is still running" in err and len(cloud.jobs) == 2


def test_what_excludes_itself_is_refused(ran: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "rerun", "small-1", "--from-failed", "--no-cache")[0] == 2
    assert run(capsys, "rerun", "small-1", "--set", "rows=many")[0] == 2
    assert run(capsys, "cancel", "latest")[0] == 2
    assert run(capsys, "compare", "small-1", "small-1")[0] == 2
    assert run(capsys, "show", "nothing-like-it")[0] == 2


def test_compare_for_people_and_machines(
    cloud: Cloud, ran: str, start: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    start("small-2", rows=8)
    cloud.clock.advance(3600)
    code, out, _ = run(capsys, "compare", "small-1", "small-2")
    assert code == 0 and safe(out) and re.search(r"≠ +rows +7 +8", out) and "--all" in out
    printed = json.loads(run(capsys, "compare", "small-1", "small-2", "--json")[1])
    rows = {(row["section"], row["name"]): row for row in printed["rows"]}
    assert rows["parameters", "text"]["values"] == [HOSTILE, "plain"] and rows["parameters", "text"]["differs"]
    assert rows["metrics", "first.auc"]["values"] == [0.75, 0.75] and not rows["metrics", "first.auc"]["differs"]


def test_an_error_of_googles_is_one_message(cloud: Cloud, ran: str, capsys: pytest.CaptureFixture[str]) -> None:
    cloud.fail("aiplatform.*", status(403, "Permission 'aiplatform.pipelineJobs.get' denied on resource"), forever=True)
    for verb in (["show", "x"], ["wait", "x"], ["runs"], ["logs", "x"], ["cancel", "x"], ["compare", "x", "y"]):
        code, out, err = run(capsys, *verb)
        assert (code, out) == (1, "") and "roles/aiplatform" in err and "Traceback" not in err
