"""The command submit, as people and CI call it, against the loopback cloud."""

import json
from typing import Any

import pytest
from loopback.cloud import Cloud

from pipelines.__main__ import main
from pipelines.vertex import clients


@pytest.fixture(autouse=True)
def signed_in(cloud: Cloud) -> Any:
    clients.credentials.cache_clear()
    yield
    clients.credentials.cache_clear()


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
    told = json.loads(out)
    assert code == 0 and not cloud.jobs
    assert told["started"] is False and told["job"]["pipelineSpec"]["pipelineInfo"]["name"] == "training"
    assert f"dry run: {told['id']} was not started" in err


def test_a_dry_run_tells_a_person_that_nothing_was_started(cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--dry-run", "--wait")
    assert code == 0 and "was not started" in out and not cloud.jobs


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
    cloud: Cloud, capsys: pytest.CaptureFixture[str], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    file = tmp_path / "other.toml"
    file.write_text(UNPRICED)
    given = ("--dry-run", "--no-preflight", "--settings", str(file))
    code, out, _ = run(capsys, *given)
    assert code == 0, out
    assert (
        "at least" in out
        and "not in the total: train (no price of 4 x NVIDIA_GB200 on a4x-highgpu-4g in us-central1" in out
    )
    told = json.loads(run(capsys, *given, "--json")[1])
    assert told["max_usd"] is None and told["max_usd_of_priced_steps"] > 0 and list(told["unpriced"]) == ["train"]
    code, out, err = run(capsys, *given, "--max-usd", "100000")
    assert code == 2 and "cannot be promised" in err and "train (no price of 4 x NVIDIA_GB200 on a4x-highgpu-4g" in err
