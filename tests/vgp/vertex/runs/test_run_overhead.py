"""The overhead of a run: estimated from the compiled pipelines, and measured in the times of a run's tasks."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from google.cloud.aiplatform_v1.types import PipelineJob

from vgp.base.documents.document import Document
from vgp.base.text.figures import format_duration
from vgp.check.checker import check
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.vertex.runs import run_overhead
from vgp.vertex.runs.remote_run import read
from vgp.vertex.runs.run_overhead import PULL_GPU_S, PULL_LIGHT_S, WAIT_S, Estimate

GOLDEN = Path(__file__).parents[3] / "golden"
BEGIN = datetime(2026, 11, 20, tzinfo=UTC)


def estimate(name: str, *, light: bool = True) -> Estimate:
    text = (GOLDEN / f"{name}.json").read_text()
    spec = PipelineSpec(json.loads(text))
    image = spec.containers["resolve"]["image"]
    rows = check([Document(name, dict(spec.content), text)], regions=["us-central1"]).steps
    return run_overhead.estimate(spec, rows, image if light else None)


def test_a_training_night_has_eight_containers_and_an_idle_one_two() -> None:
    found, light_s, gpu_s = estimate("training"), WAIT_S + PULL_LIGHT_S, WAIT_S + PULL_GPU_S
    assert (found.containers, found.seconds) == (8, 6 * light_s + 2 * gpu_s)  # train and evaluate have GPUs
    assert (found.least_containers, found.least_seconds) == (2, 2 * light_s)
    page = (GOLDEN.parents[1] / "docs/explanation/how-a-run-works.md").read_text()
    assert f"| {format_duration(found.seconds - gpu_s)} around `train` |" in page


def test_a_prediction_has_three_containers_which_always_run() -> None:
    found = estimate("batch_prediction")
    assert (found.containers, found.least_containers) == (3, 3)
    assert found.seconds == found.least_seconds == 3 * (WAIT_S + PULL_LIGHT_S)


def test_without_a_light_image_every_step_pulls_the_large_one() -> None:
    assert estimate("batch_prediction", light=False).seconds == 3 * (WAIT_S + PULL_GPU_S)


def at(second: int) -> Any:
    return BEGIN + timedelta(seconds=second)


def run(*tasks: dict[str, Any], **fields: Any) -> Any:
    details = [{"task_id": number, **task} for number, task in enumerate(tasks, 1)]
    job = PipelineJob(
        name="projects/1/locations/us-central1/pipelineJobs/training-1", state="PIPELINE_STATE_SUCCEEDED",
        create_time=at(0), end_time=at(300), job_detail={"task_details": details},
    )  # fmt: skip
    for name, value in fields.items():
        setattr(job, name, value)
    return read(job)


def task(name: str, start: int, end: int, running: int | None = None, state: str = "SUCCEEDED") -> dict[str, Any]:
    statuses = [{"state": "PENDING", "update_time": at(start)}]
    statuses += [] if running is None else [{"state": "RUNNING", "update_time": at(running)}]
    return {"task_name": name, "state": state, "start_time": at(start), "end_time": at(end),
            "pipeline_task_status": statuses}  # fmt: skip


def test_overhead_is_the_time_in_which_no_step_works() -> None:
    assert run_overhead.measure(run(task("a", 10, 100, running=40), task("b", 150, 290))) == 300 - 60 - 140


def test_steps_at_the_same_time_count_once_and_cached_steps_do_not_count() -> None:
    tasks = task("a", 0, 100), task("b", 50, 200), task("c", 60, 80), task("d", 200, 300, state="SKIPPED")
    assert run_overhead.measure(run(*tasks)) == 100


def test_a_run_without_times_has_no_overhead() -> None:
    assert run_overhead.measure(run()) is None
    assert run_overhead.measure(run(task("a", 0, 10), state="PIPELINE_STATE_RUNNING")) is None
