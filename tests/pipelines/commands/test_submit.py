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
