"""Artifacts, metrics and returned values as the steps left them."""

from collections.abc import Callable
from typing import Any

from google.cloud.aiplatform_v1.types import PipelineJob

from tools.emulator.cloud import Cloud
from vgp.vertex.runs.outputs import artifacts, metrics, return_values, short_type
from vgp.vertex.runs.remote_run import Run, read

NAME = "projects/1/locations/us-central1/pipelineJobs/training-1"
STORE = "projects/1/locations/us-central1/metadataStores/default"


def run(*tasks: dict[str, Any]) -> Run:
    details = [{"task_id": number, "task_name": f"t{number}", **task} for number, task in enumerate(tasks, start=1)]
    return read(PipelineJob(name=NAME, job_detail={"task_details": details}))


def artifact(title: str, metadata: dict[str, Any], number: int = 7) -> dict[str, Any]:
    name = f"{STORE}/artifacts/{number}"
    return {"artifacts": [{"name": name, "uri": "gs://b/x", "schema_title": title, "metadata": metadata}]}


def test_artifacts_of_a_run_with_their_pages(cloud: Cloud, start: Callable[..., str], look: Callable) -> None:
    name = start()
    cloud.clock.advance(3600)
    found = {f"{each.step}.{each.name}": each for each in artifacts(look(name))}
    model = found["train.model"]
    assert model.type == "system.Model" and short_type(model.type) == "Model"
    assert model.uri.startswith("gs://test-bucket/runs/")
    page = "vertex-ai/locations/us-central1/metadata-stores/default/artifacts"
    assert model.url.startswith(f"https://console.cloud.google.com/{page}/") and "?project=" in model.url


def test_metrics_are_scalars_by_step() -> None:
    curve = {"confidenceMetrics": [{"recall": 1.0}]}
    others = {"curve": artifact("system.ClassificationMetrics", curve), "data": artifact("system.Dataset", {"x": 1})}
    found = run(
        {"outputs": {"metrics": artifact("system.Metrics", {"auc": 0.71, "rows": 100.0, "kind": "test", **curve})}},
        {"outputs": others},
    )  # fmt: skip
    assert metrics(found) == {"t1.auc": 0.71, "t1.rows": 100, "t1.kind": "test"}


def test_metrics_of_two_artifacts_of_a_step_do_not_hide_each_other() -> None:
    two = {"new": artifact("system.Metrics", {"auc": 0.7, "n": 1}), "old": artifact("system.Metrics", {"auc": 0.6}, 8)}
    assert metrics(run({"outputs": two})) == {"t1.new.auc": 0.7, "t1.old.auc": 0.6, "t1.n": 1}


def test_returned_values_are_those_of_the_execution() -> None:
    metadata = {"output:Output": 0.5, "output:gcp_resources": "{}", "input:x": 1, "output:why": "[red]\x1b[2J"}
    assert return_values(run({"execution": {"metadata": metadata}})) == {"t1.Output": 0.5, "t1.why": "[red]\x1b[2J"}


def test_a_step_that_left_nothing_has_nothing() -> None:
    assert (artifacts(run({})), metrics(run({})), return_values(run({}))) == ([], {}, {})
    odd = run({"outputs": {"x": {"artifacts": [{"name": "no resource name"}]}}})
    assert artifacts(odd)[0].url == ""
