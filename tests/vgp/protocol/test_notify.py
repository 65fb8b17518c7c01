"""The exit step, called as kfp calls it, against the loopback cloud and a real receiver: it reports and never fails."""

import json
from pathlib import Path
from typing import Any

import pytest
from kfp import dsl

from components.notify import notify
from tools.emulator.cloud import Cloud, lose_response, slow, status
from vgp.base import google_api
from vgp.base.retry import Pauses
from vgp.settings import load
from vgp.steps import vertex_records
from vgp.vertex import clients

from .nights import PRICES, SPEC
from .receiver import Receiver

SECRET = "/services/T0/B0/XXXXXXXXXXXXXXXX?token=abc"


pytestmark = pytest.mark.usefixtures("cloud")


def started(cloud: Cloud, run: str, **settings: Any) -> str:
    """A run of the small workflow, which has come to its exit step."""
    tasks = {name: {**task, "cachingOptions": {"enableCache": True}} for name, task in small()["tasks"].items()}
    spec = json.loads(json.dumps(SPEC))
    spec["components"]["comp-exit-handler-1"]["dag"]["tasks"] = tasks
    spec |= {"schemaVersion": "2.1.0", "sdkVersion": "kfp-2.17.0"}
    executors = {f"exec-{name}": {"container": {"image": "i"}} for name in (*tasks, "notify")}
    spec["deploymentSpec"] = {"executors": executors}
    spec["root"]["dag"]["tasks"]["notify"] |= {
        "dependentTasks": ["exit-handler-1"], "triggerPolicy": {"strategy": "ALL_UPSTREAM_TASKS_COMPLETED"},
    }  # fmt: skip
    job = {"pipeline_spec": spec, "runtime_config": {"gcs_output_directory": "gs://test-bucket/runs"}}
    parent = f"projects/{cloud.project}/locations/{cloud.region}"
    client = clients.pipeline_service(load())
    made = client.create_pipeline_job(parent=parent, pipeline_job=job, pipeline_job_id=run)
    cloud.clock.advance(10 + 60 * len(tasks) + 1)
    return str(made.name)


def small() -> dict[str, Any]:
    """prepare -> train: steps without the name of their run."""
    dag = json.loads(json.dumps(SPEC["components"]["comp-exit-handler-1"]["dag"]))
    tasks = {name: dag["tasks"][name] for name in ("prepare", "train")}
    tasks["train"] |= {
        "dependentTasks": ["prepare"],
    }
    return {"tasks": tasks}


def run_notify(folder: Path, name: str, state: str = "SUCCEEDED", **inputs: Any) -> tuple[str, dict[str, Any]]:
    """The text and the metadata of the artifact."""
    artifact = dsl.Markdown(uri=str(folder / "out" / "summary"), metadata={})
    ended = dsl.PipelineTaskFinalStatus(state, name, "exit-handler-1", None, None)
    notify.python_func(status=ended, summary=artifact, **{"prices": PRICES, "webhook": "", **inputs})
    return Path(artifact.path).read_text(), artifact.metadata


def test_a_second_night_without_anything_new_is_reported(cloud: Cloud, tmp_path: Path) -> None:
    first = run_notify(tmp_path, started(cloud, "first"))
    assert first[1]["words"] == "trained" and "| train | succeeded | 1m 00s | $0.04 |" in first[0]
    cloud.clock.advance(3600)
    text, metadata = run_notify(tmp_path, started(cloud, "second"))
    assert metadata == {"words": "nothing new since first: nothing was trained", "sent": "no: no webhook is set"}
    assert "| train | cached |  |  | first |" in text


def test_a_failed_night_names_its_step(cloud: Cloud, tmp_path: Path) -> None:
    cloud.script("train", fail="CUDA out of memory")
    assert run_notify(tmp_path, started(cloud, "a"), "FAILED")[1]["words"] == "failed in train: CUDA out of memory"


def test_the_summary_is_sent_with_a_key_that_is_the_runs(cloud: Cloud, receiver: Receiver, tmp_path: Path) -> None:
    names = [started(cloud, "a"), started(cloud, "b")]
    for name in (*names, names[1]):
        assert run_notify(tmp_path, name, webhook=receiver.url)[1]["sent"] == "yes: answered 200"
    keys = [request[1]["Idempotency-Key"] for request in receiver.requests]
    assert keys[0] != keys[1] == keys[2]
    assert [request[2]["run"] for request in receiver.requests] == ["a", "b", "b"]


@pytest.mark.parametrize("version", ["", "/versions/1"])
def test_the_address_may_be_a_secret_and_is_never_printed(
    cloud: Cloud, receiver: Receiver, tmp_path: Path, capfd: pytest.CaptureFixture[str], version: str
) -> None:
    cloud.secrets.versions["hook"] = [receiver.url + SECRET + "\n"]
    receiver.answers = [200, 500]
    name = started(cloud, "a")
    for sent in ("yes: answered 200", "no: 127.0.0.1 answered 500 (2 tries)."):
        text, metadata = run_notify(tmp_path, name, webhook=f"projects/test-project/secrets/hook{version}")
        assert metadata["sent"] == sent
        assert not [place for place in (text, str(metadata), *capfd.readouterr()) if "services" in place]
    assert [path for path, _, _ in receiver.requests] == [SECRET] * 3


@pytest.mark.parametrize("value", ["http://example.com/services/x", "https://10.0.0.1/services/x", "services/x"])
def test_a_secret_that_is_no_address_is_not_sent_to(
    cloud: Cloud, tmp_path: Path, capfd: pytest.CaptureFixture[str], value: str
) -> None:
    cloud.secrets.versions["hook"] = [value]
    sent = run_notify(tmp_path, started(cloud, "a"), webhook="projects/test-project/secrets/hook")[1]["sent"]
    assert sent.startswith("no: ") and "warning: the summary was not sent: the address " in capfd.readouterr().err
    assert "services" not in sent


def test_what_is_not_allowed_is_a_warning_with_the_permission(
    cloud: Cloud, receiver: Receiver, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    name = started(cloud, "a")
    cloud.policies.missing |= {"aiplatform.pipelineJobs.get", "secretmanager.versions.access"}
    _, metadata = run_notify(tmp_path, name, webhook="projects/test-project/secrets/hook")
    assert metadata["words"] == "succeeded"
    assert "projects/test-project/secrets/hook cannot be read (HTTPError, 403)" in metadata["sent"]
    warned = capfd.readouterr().err
    assert "aiplatform.pipelineJobs.get" in warned and "secretmanager.versions.access" in warned
    assert run_notify(tmp_path, name, webhook=receiver.url)[1]["sent"] == "yes: answered 200"
    assert receiver.requests[0][2]["words"] == "succeeded" and receiver.requests[0][2]["run"] == "a"


@pytest.mark.parametrize("answer", [500, "hang", 302])
def test_a_receiver_that_fails_changes_nothing(
    cloud: Cloud, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    receiver.answers = [answer]
    receiver.lose_patience(monkeypatch)
    text, metadata = run_notify(tmp_path, started(cloud, "a"), webhook=receiver.url)
    assert metadata["words"] == "trained" and metadata["sent"].startswith("no: ") and "trained" in text


def test_a_passing_failure_of_google_is_asked_again(
    cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(google_api, "PAUSES", Pauses(0.0, 0.0, tries=2))
    name = started(cloud, "a")
    cloud.fail("aiplatform.projects.locations.pipelineJobs.get", status(503))
    assert run_notify(tmp_path, name)[1]["words"] == "trained"


def test_google_that_never_answers_is_not_waited_for(
    cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(google_api, "ATTEMPT_S", 0.05)
    monkeypatch.setattr(google_api, "PAUSES", Pauses(0.0, 0.0, tries=1))
    name = started(cloud, "a")
    cloud.fail("aiplatform.projects.locations.pipelineJobs.get", slow(0.3))
    assert run_notify(tmp_path, name)[1]["words"] == "succeeded"


def test_a_run_on_this_machine_reports_its_status_and_sends_nothing(receiver: Receiver, tmp_path: Path) -> None:
    text, metadata = run_notify(tmp_path, "local-pipeline-exit-handler-1", "FAILED", webhook=receiver.url)
    assert metadata == {"words": "failed", "sent": "no: this is not a run on Vertex AI"} and receiver.requests == []
    assert text == "# This run: failed\n"


def test_nothing_that_breaks_fails_the_run(
    cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").write_text("a file where a folder should be")
    artifact = dsl.Markdown(uri=str(tmp_path / "out" / "summary"), metadata={})
    ended = dsl.PipelineTaskFinalStatus("SUCCEEDED", "local-x", "exit-handler-1", None, None)
    notify.python_func(status=ended, summary=artifact, prices={}, webhook="")
    assert "warning: the summary could not be written" in capfd.readouterr().err
    notify.python_func(status=None, summary=artifact, prices={}, webhook="")
    assert "warning: the run's summary could not be written" in capfd.readouterr().err


def members(cloud: Cloud) -> list[str]:
    names = [name for name in cloud.contexts.created if name.endswith("/contexts/nights")]
    return [child["name"].rpartition("/")[2] for name in names for child in cloud.contexts.children(name)]


def test_a_run_of_a_schedule_joins_its_experiment_once_and_a_night_without_news_does_not(
    cloud: Cloud, tmp_path: Path
) -> None:
    first = started(cloud, "first")
    for _ in range(2):  # the step may be tried again
        assert run_notify(tmp_path, first, experiment="nights")[1]["experiment"] == "yes: nights"
    cloud.clock.advance(3600)
    second = run_notify(tmp_path, started(cloud, "second"), experiment="nights")[1]
    assert second["experiment"] == "no: nothing is new" and members(cloud) == ["first"]
    context = next(made for name, made in cloud.contexts.created.items() if name.endswith("/nights"))
    assert (context.schema_title, context.schema_version, context.display_name) == (
        "system.Experiment", "0.0.1", "nights"
    )  # fmt: skip


@pytest.mark.parametrize("method", ["get", "create", "addContextChildren"])
@pytest.mark.parametrize("fault", [status(503), lose_response()], ids=["503", "lost"])
def test_an_experiment_is_joined_through_faults(
    cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, fault: Any
) -> None:
    monkeypatch.setattr(google_api, "PAUSES", Pauses(0.0, 0.0, tries=2))
    name = started(cloud, "a")
    cloud.fail(f"aiplatform.projects.locations.metadataStores.contexts.{method}", fault)
    assert run_notify(tmp_path, name, experiment="nights")[1]["experiment"] == "yes: nights"
    assert members(cloud) == ["a"]


def test_an_experiment_that_may_not_be_joined_is_a_warning_with_the_permissions(
    cloud: Cloud, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    name = started(cloud, "a")
    cloud.policies.missing |= {"aiplatform.contexts.addContextChildren"}
    _, metadata = run_notify(tmp_path, name, experiment="nights")
    assert metadata["words"] == "trained" and metadata["experiment"] == "no: HTTPError, 403"
    assert "needs aiplatform.contexts.get, .create and .addContextChildren" in capfd.readouterr().err


def test_a_run_without_a_context_joins_nothing_and_asks_nothing() -> None:
    name = "projects/1/locations/us-central1/pipelineJobs/a"
    with pytest.raises(LookupError, match="no context in ML Metadata"):
        vertex_records.join({"name": name, "jobDetail": {}}, "nights")


def test_a_run_on_this_machine_joins_nothing(tmp_path: Path) -> None:
    assert run_notify(tmp_path, "local", experiment="nights")[1]["experiment"] == "no: this is not a run on Vertex AI"
