"""The step that changed the registry brings Vertex AI after it, and does not fail where that fails."""

import pytest

from tools.emulator.cloud import Cloud, status
from vgp.base import google_api
from vgp.steps.vertex_records import follow

from .registered import IMAGE, PARENT, Registry

#: Google names a run by the number of its project.
JOB = f"{PARENT}/pipelineJobs/training-20261122"
TERMS = {"image": IMAGE, "labels": {"team": "sky"}}


@pytest.fixture(autouse=True)
def here(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(google_api, "address", lambda service: cloud.endpoint("aiplatform"))


def sent(cloud: Cloud) -> list[str]:
    return [call.method.rpartition(".")[2] for call in cloud.requests if ".models." in call.method]


def test_a_run_that_is_not_on_vertex_ai_sends_no_request(cloud):
    for job in ("", "flights-20261122", "projects/1/locations/here"):
        assert follow(job, Registry(1, champion=1).read, 1, TERMS) == {} and not sent(cloud)


def test_a_version_goes_to_the_project_and_region_of_the_run_with_the_labels_of_the_settings(cloud, monkeypatch):
    asked = []
    monkeypatch.setattr(google_api, "address", lambda host: asked.append(host) or cloud.endpoint("aiplatform"))
    job = JOB.replace("us-central1", "europe-west4")
    assert follow(job, Registry(1, champion=1).read, 1, TERMS) == {"vertex": "up to date"}
    ((name, model),) = cloud.models.models.items()
    assert set(asked) == {"europe-west4-aiplatform"} and "/locations/europe-west4/models/" in name
    (version,) = model.versions.values()
    assert (version.labels["team"], version.labels["run"]) == ("sky", "training-1")


def test_the_version_of_the_step_is_uploaded_and_reigns_and_a_repetition_sends_nothing(cloud, capsys):
    registry = Registry(1, champion=1)
    assert follow(JOB, registry.read, 1, TERMS) == {"vertex": "up to date"}
    assert "Vertex AI: version 1 uploaded" in capsys.readouterr().out
    before = sent(cloud).count("upload")
    assert follow(JOB, registry.read, 1, TERMS) == {"vertex": "up to date"}
    assert (before, sent(cloud).count("upload")) == (1, 1)


def test_a_refusal_of_google_is_reported_and_is_no_failure_of_the_step(cloud, capsys):
    cloud.fail("*.models.upload", status(403, "Permission denied"), forever=True)
    answer = follow(JOB, Registry(1, champion=1).read, 1, TERMS)["vertex"]
    assert answer.startswith("not up to date: ") and "aiplatform.models.upload" in answer
    assert "warning: " in capsys.readouterr().err
