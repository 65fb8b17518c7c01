"""A label of a run on Vertex AI names the commit of its code; without a label or an answer, the commit is empty."""

import json
from pathlib import Path

import pytest

from tools.emulator.cloud import Cloud, status
from vgp.base import google_api
from vgp.protocol import commit
from vgp.settings import Settings, load
from vgp.vertex.runs import pipeline_job

SHA = "0123456789abcdef" * 2 + "01234567"
SPEC = json.loads((Path(__file__).parents[2] / "golden/training.json").read_text())
GET = "aiplatform.projects.locations.pipelineJobs.get"


@pytest.fixture
def settings(cloud: Cloud) -> Settings:
    return load()


@pytest.fixture
def started(cloud: Cloud, settings: Settings, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(google_api, "address", lambda service: cloud.endpoint("aiplatform"))

    def start(code: str) -> str:
        body = pipeline_job.build_body(settings, SPEC, {}, code=code)
        return str(pipeline_job.create(settings, body, "small-1")[0].name)

    return start


def test_the_step_finds_the_commit_that_the_run_was_started_from(started):
    assert commit.of_run(started(SHA)) == SHA


@pytest.mark.parametrize("code", ["", "latest", "v3"])
def test_a_run_of_no_commit_has_none(started, code):
    assert commit.of_run(started(code)) == ""


def test_a_run_on_this_machine_sends_no_request(cloud):
    assert commit.of_run("") == "" and not cloud.requests


def test_what_google_refuses_is_a_warning(cloud, started, capsys):
    job = started(SHA)
    cloud.fail(GET, status(403, "Permission denied"), forever=True)
    assert commit.of_run(job) == ""
    assert "aiplatform.pipelineJobs.get" in capsys.readouterr().err


def test_another_commit_is_the_same_request(settings: Settings):
    one, other = (pipeline_job.build_body(settings, SPEC, {}, code=code) for code in (SHA, "f" * 40))
    assert pipeline_job.job_id(one) == pipeline_job.job_id(other)
    assert {**one, "labels": 0} == {**other, "labels": 0} and one["labels"] != other["labels"]
