"""The command submit, as people and CI call it, against the loopback cloud."""

import json
from pathlib import Path

import pytest

from tools.emulator.cloud import Cloud
from vgp.__main__ import main

pytestmark = pytest.mark.usefixtures("cloud")


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["submit", "training", *words])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


@pytest.mark.parametrize("words", [(), ("--wait",)])
def test_a_dry_run_shows_the_job_and_starts_nothing(
    cloud: Cloud, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    code, out, err = run(capsys, "--dry-run", "--json", *words)
    printed = json.loads(out)
    assert code == 0 and not cloud.jobs
    assert printed["started"] is False and printed["job"]["pipelineSpec"]["pipelineInfo"]["name"] == "training"
    assert f"dry run: {printed['id']} was not started" in err


def test_a_dry_run_reports_that_nothing_was_started(cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--dry-run", "--wait")
    assert code == 0 and "was not started" in out and not cloud.jobs


def test_warnings_of_the_check_are_printed_for_a_dry_run_and_for_a_run_that_starts(
    cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    doubt = "warning: train: The default quota for NVIDIA_L4 in us-central1 is 0; the job needs 2.  [GPU017]"
    dry, started, found = (run(capsys, *words)[1] for words in (("--dry-run",), (), ()))
    assert doubt in dry and doubt in started and doubt not in found and len(cloud.jobs) == 1


def test_code_that_the_image_does_not_hold_is_refused(cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "--set", "task=docs.examples.digits:Digits")
    assert (code, "docs/examples/digits.py" in err) == (2, True) and "the image does not hold" in err and not cloud.jobs


#: A4X has no price anywhere in the catalog, and comes from reservations.
UNPRICED = """\
image = "r/i:1"
project = "test-project"
bucket = "gs://b"
[steps.train]
machine = "a4x-highgpu-4g"
reservation = "any"
boot_disk_type = "hyperdisk-balanced"
"""


def test_a_step_without_a_price_is_named_wherever_the_run_is_summed(
    cloud: Cloud,
    capsys: pytest.CaptureFixture[str],
    repository: Path,
    monkeypatch: pytest.MonkeyPatch,
    b200_without_price: None,
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    file = repository / "other.toml"
    file.write_text(UNPRICED)
    given = ("--dry-run", "--no-preflight", "--settings", str(file))
    code, out, _ = run(capsys, *given)
    assert code == 0, out
    assert (
        "at least" in out
        and "not included: train (no price of 4 x NVIDIA_GB200 on a4x-highgpu-4g in us-central1" in out
    )
    printed = json.loads(run(capsys, *given, "--json")[1])
    assert (
        printed["max_usd"] is None and printed["max_usd_of_priced_steps"] > 0 and list(printed["unpriced"]) == ["train"]
    )
    code, out, err = run(capsys, *given, "--max-usd", "100000")
    assert (
        code == 2 and "cannot be guaranteed" in err and "train (no price of 4 x NVIDIA_GB200 on a4x-highgpu-4g" in err
    )


HOUR = 3600


def test_that_nothing_started_is_printed_first_and_has_an_exit_code_of_its_own(
    cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys)
    assert code == 0 and out.startswith("started training-")
    code, out, _ = run(capsys)
    assert code == 4 and out.startswith("nothing was started: training-") and "vgp wait" in out
    cloud.clock.advance(HOUR // 2)
    code, out, _ = run(capsys)
    assert code == 4 and out.startswith("nothing was started: training-") and " succeeded at " in out
    assert "--new" in out and "at most" not in out, "what a run can cost is beside the point"
    code, out, _ = run(capsys, "--wait")
    assert code == 4 and out.startswith("nothing was started: ")
    code, out, err = run(capsys, "--json")
    printed = json.loads(out)
    assert code == 4 and err.startswith("nothing was started: ")
    assert (printed["started"], printed["over"], printed["exit_code"]) == (False, True, 4)
    assert len(cloud.jobs) == 1


def test_a_request_that_failed_within_the_hour_explains_how_to_continue_and_later_starts_anew(
    cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    cloud.script("train", fail="CUDA out of memory")
    first = json.loads(run(capsys, "--json")[1])["id"]
    cloud.clock.advance(HOUR // 2)
    code, out, _ = run(capsys)
    assert code == 4 and out.startswith(f"nothing was started: {first}, of the same request, failed at ")
    assert "the same command with --retry" in out and "--new" in out
    cloud.clock.advance(HOUR)
    code, out, _ = run(capsys, "--json")
    assert code == 0 and json.loads(out)["id"] == f"{first}-a2"


def test_waiting_for_a_run_that_goes_on_ends_as_the_run_does(cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    cloud.script("decide", fail="no memory")
    first = json.loads(run(capsys, "--json")[1])["id"]
    cloud.clock.run(120)
    code, out, _ = run(capsys, "--wait")
    assert code == 1 and out.startswith(f"nothing was started: {first}, of the same request, is ")
    assert f"{first} failed" in out


@pytest.mark.parametrize("verb", ["submit", "rerun"])
def test_waiting_has_an_end_and_the_run_goes_on(cloud: Cloud, capsys: pytest.CaptureFixture[str], verb: str) -> None:
    first = json.loads(run(capsys, "--json")[1])["id"]
    cloud.clock.run(120)
    words = {"submit": ["submit", "training", "--new", "--no-preflight"], "rerun": ["rerun", first]}[verb]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--wait", "--timeout", "0"])
    out = capsys.readouterr().out
    assert ended.value.code == 124 and "not over after 0s; the run continues." in out and "vgp wait training-" in out
    started = len(cloud.jobs)
    with pytest.raises(SystemExit) as ended:
        main([*words, "--timeout", "60"])
    assert ended.value.code == 2 and "--timeout needs --wait" in capsys.readouterr().err
    assert len(cloud.jobs) == started


def test_an_id_is_one_run_for_ever(cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--id", "mine")[0] == 0
    cloud.clock.advance(100 * HOUR)
    code, out, _ = run(capsys, "--id", "mine")
    assert code == 4 and "another --id" in out and "starts the next" not in out
    assert run(capsys, "--id", "mine", "--set", "epochs=1")[0] == 2


def test_a_retry_starts_at_once_and_is_reported_and_a_success_is_not_retried(
    cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    cloud.script("resolve", outputs={"uri": "gs://test-bucket/runs/1/pins/0.json"})
    cloud.script("train", fail="stockout")
    first = json.loads(run(capsys, "--json")[1])
    assert (first["attempt"], first["key"], first["pinned_by"]) == (1, None, None)
    cloud.clock.advance(HOUR // 2)
    cloud.script("train")
    code, out, err = run(capsys, "--retry", "--json")
    second = json.loads(out)
    assert (second["id"], second["attempt"], second["started"]) == (f"{first['id']}-a2", 2, True)
    assert second["pinned_by"] == first["id"]
    assert f"attempt 2 uses the pins of {first['id']}; finished steps come from the cache" in err
    cloud.clock.advance(HOUR // 2)
    assert {"prepare"} == {
        task.task_name for task in cloud.jobs[second["name"]].job_detail.task_details if task.state == 8
    }
    code, out, _ = run(capsys, "--retry", "--if-exists", "attach")
    assert code == 4 and out.startswith(f"nothing was started: {second['id']}, of the same request, succeeded at ")
    assert "--retry applies only to failed and cancelled runs; from " in out and "starts the next run" in out


def test_a_key_is_one_run_whatever_the_hour(cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    line = ("--key", "2026-11-21")
    first = json.loads(run(capsys, *line, "--json")[1])
    assert first["started"] and first["key"] == "2026-11-21" and first["id"].startswith("training-2026-11-21-")
    cloud.clock.advance(100 * HOUR)
    code, out, _ = run(capsys, *line)
    assert code == 4 and f"{first['id']}, of the same request and key 2026-11-21, succeeded at" in out
    assert "another --key" in out and "starts the next" not in out
    assert run(capsys)[0] == 0 and run(capsys, "--key", "2026-11-22")[0] == 0, "other requests"
    code, out, err = run(capsys, "--key", "2026/11/21")
    assert code == 2 and "Write 2026-11-21." in err and len(cloud.jobs) == 3


def test_what_exists_can_answer_be_run_beside_or_fail(cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    first = json.loads(run(capsys, "--json")[1])["id"]
    code, out, _ = run(capsys, "--if-exists", "fail", "--wait", "--timeout", "0")
    assert code == 4 and out.startswith(f"nothing was started: {first}, of the same request, is ")
    assert run(capsys, "--if-exists", "attach")[0] == 4
    assert json.loads(run(capsys, "--if-exists", "new", "--json")[1])["attempt"] == 2
    assert run(capsys, "--new")[0] == 0 and len(cloud.jobs) == 3
    assert run(capsys, "--if-exists", "perhaps")[0] == 2


def test_a_window_of_ones_own(cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys)[0] == 0
    cloud.clock.advance(2 * HOUR)
    assert run(capsys, "--window", "12h")[0] == 4
    assert json.loads(run(capsys, "--window", "0s", "--json")[1])["attempt"] == 2


@pytest.mark.parametrize("verb", ["submit", "rerun"])
def test_the_exit_codes_are_in_the_help(capsys: pytest.CaptureFixture[str], verb: str) -> None:
    with pytest.raises(SystemExit):
        main([verb, "--help"])
    assert "Exit codes" in capsys.readouterr().out


def test_two_environments_labels_and_experiments_are_other_requests(
    cloud: Cloud, repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(repository)
    Path("pipelines.toml").write_text("[environments.dev]\n[environments.prod]\n")
    lines = (["--env", "dev"], ["--env", "prod"], ["--env", "prod", "--label", "x=y"])
    results = [json.loads(run(capsys, *line, "--json")[1]) for line in lines]
    assert all(each["started"] for each in results) and len(cloud.jobs) == len(lines)


def test_a_command_of_the_settings_is_a_custom_job_and_the_step_that_takes_up_what_it_left(
    cloud: Cloud, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIPELINES_STEPS__TRAIN__COMMAND", '["python", "train.py", "--epochs", "{epochs}"]')
    monkeypatch.setenv("PIPELINES_STEPS__TRAIN__LAUNCH", "torchrun")
    monkeypatch.setenv("PIPELINES_STEPS__TRAIN__IMAGE", "us-docker.pkg.dev/p/r/mine:1")
    code, out, _ = run(capsys, "--set", "epochs=4", "--json", "--no-preflight")
    assert code == 0 and json.loads(out)["max_usd"] > 0
    (job,) = cloud.jobs.values()
    assert "comp-collect" in str(job)
