"""The containers of a night, counted in compiled specs, and the estimate of their starts."""

from dataclasses import replace
from pathlib import Path

import pytest

from vgp.check.check_finding import StepRow
from vgp.settings import load
from vgp.workflow.compiling.compile import CompiledPipeline, compile_pipeline
from vgp.workflow.compiling.overhead import Overhead, estimate

FILE = Path(__file__).parents[4] / "pipelines.toml"
GOAL_S, IDLE_GOAL_S = 360, 180


@pytest.fixture(scope="module")
def training() -> CompiledPipeline:
    return compile_pipeline("training", load(FILE))


def unconditional(pipeline: CompiledPipeline) -> list[StepRow]:
    """Returns the rows of steps outside of every condition: an idle night runs only these."""
    components = pipeline.spec.components
    inside = {
        task.name
        for component in components.values()
        for group in component.tasks.values()
        if group.condition
        for task in group.component.tasks.values()
    }
    return [row for row in pipeline.report.steps if row.step not in inside]


def test_a_training_night_starts_8_containers_and_keeps_the_goal_if_evaluate_needs_no_gpu(
    training: CompiledPipeline,
) -> None:
    rows = training.report.steps
    assert estimate(rows, has_light_image=True).containers == 8
    without_gpu = [replace(row, accelerator_type=None) if row.step == "evaluate" else row for row in rows]
    assert estimate(without_gpu, has_light_image=True).steps_s <= GOAL_S < estimate(rows, has_light_image=True).steps_s
    assert estimate(without_gpu, has_light_image=False).steps_s > GOAL_S


def test_an_idle_night_starts_2_containers(training: CompiledPipeline) -> None:
    rows = unconditional(training)
    assert {row.step for row in rows} == {"resolve", "notify"}
    idle = estimate(rows, has_light_image=True)
    assert (idle.containers, idle.jobs_s) == (2, 0) and idle.steps_s <= IDLE_GOAL_S


def test_a_batch_prediction_starts_3_containers() -> None:
    rows = compile_pipeline("batch_prediction", load(FILE)).report.steps
    assert estimate(rows, has_light_image=True).containers == 3


def row(**fields: object) -> StepRow:
    return StepRow(**{"step": "s", "machine_type": "e2-standard-4", "accelerator_type": None, "accelerator_count": 0,
                      "replicas": 1, "strategy": "STANDARD", "usd_per_hour": 0.1, **fields})  # type: ignore[arg-type]  # fmt: skip


def test_a_job_starts_all_nodes_at_once_and_its_launcher_before_them() -> None:
    job = row(accelerator_type="NVIDIA_L4", accelerator_count=1, replicas=4, launcher_region="us-central1")
    assert estimate([job], has_light_image=True) == Overhead(containers=5, steps_s=0, jobs_s=45 + 120 + 4024 / 50)


def test_iterations_count_and_a_persistent_resource_has_started_before() -> None:
    assert estimate([row(turns=3)], has_light_image=True) == Overhead(3, pytest.approx(3 * (45 + 573 / 50)), 0)
    assert estimate([row(is_persistent=True)], has_light_image=False) == Overhead(1, 0, 0)
