"""Whole runs on the loopback cloud whose steps work: plain ones, a custom job of Google's launcher, and a ladder."""

import json
import time
import warnings

import pytest
from kfp import compiler, dsl

from components import step
from tests.tools.emulator.conftest import PARENT
from tools.emulator.capacity import World
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.machines.placement.step_request import Request
from vgp.protocol.capacity import ladder_view
from vgp.settings import Settings
from vgp.workflow.compiling.sizes import add_size_parameters
from vgp.workflow.compiling.vertex import Vertex

LARGE = {"capacity": [{"machine": "g2-standard-24", "strategy": "spot"}, {"machine": "g2-standard-24"}]}
SIZES = {"small": {"machine": "g2-standard-4"}, "large": LARGE}


@step
def choose(x: int) -> int:
    return x + 1


@step
def train(x: int, model: dsl.Output[dsl.Model]):
    import os
    import pathlib
    import time

    starts = pathlib.Path("starts")
    starts.write_text(f"{starts.read_text() if starts.exists() else ''}{x}")
    while "wait" in os.environ and starts.read_text() == f"{x}":
        time.sleep(0.05)
    pathlib.Path(model.path).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(model.path).write_text(starts.read_text())


@step
def read(model: dsl.Input[dsl.Model], figures: dsl.Output[dsl.Metrics]) -> str:
    figures.log_metric("auc", 0.61)
    with open(model.path) as file:
        return file.read()


@pytest.fixture
def run(cloud, client, tmp_path):
    """Starts the pipeline whose step `train` asks for that; returns its job when it is over."""

    def run_(asked, world, values=None, meanwhile=lambda work: None):
        from google.cloud.aiplatform_v1 import PipelineServiceClient

        work = cloud.custom_jobs.works(tmp_path / "work", world)
        cloud.pipeline_jobs.works(work.machines)
        asked = Request(**{"machine": "g2-standard-4", "timeout": "6h", **asked})
        target = Vertex(Settings(image="us-docker.pkg.dev/p/r/training:1", steps={"train": asked}))
        before, job, after = target.step(choose), target.job(train), target.step(read)

        @dsl.pipeline(name="one")
        def one(x: int = 1):
            after(model=job(x=before(x=x).output).outputs["model"])

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiler.Compiler().compile(one, str(tmp_path / "p.json"))
        spec = add_size_parameters(PipelineSpec(json.loads((tmp_path / "p.json").read_text()))).content
        service = client(PipelineServiceClient, "aiplatform")
        body = {
            "pipeline_spec": spec,
            "runtime_config": {"parameter_values": values or {}, "gcs_output_directory": "gs://test-bucket/runs"},
        }
        name = service.create_pipeline_job(parent=PARENT, pipeline_job=body, pipeline_job_id="one-1").name
        cloud.clock.run(60)
        until = time.monotonic() + 240
        while (found := service.get_pipeline_job(name=name)).state.name in ("PIPELINE_STATE_PENDING", "PIPELINE_STATE_RUNNING"):  # fmt: skip  # noqa: E501
            assert time.monotonic() < until and not cloud.crashed
            meanwhile(work)
            time.sleep(0.1)
        return found, work

    return run_


def outputs(found, name):
    """What the step returned, and its custom job."""
    (task,) = (task for task in found.job_detail.task_details if task.task_name == name)
    return task.execution.metadata.get("output:Output"), task.execution.metadata.get("output:gcp_resources", "")


def test_a_run_takes_the_size_that_its_parameter_names_and_its_steps_hand_on_what_they_made(cloud, run):
    world = World()
    world.always("*", "*", "*")
    cloud.script("*", metrics={"auc": 0.778, "log_loss": 0.5051})
    found, work = run({"sizes": SIZES}, world, {"train_size": "large"})
    assert found.state.name == "PIPELINE_STATE_SUCCEEDED", found.error
    (last,) = (task for task in found.job_detail.task_details if task.task_name == "read")
    assert dict(last.outputs["figures"].artifacts[0].metadata) == {"auc": 0.61}, "what the step measured, and no script"
    assert outputs(found, "choose")[0] == 2 and outputs(found, "read")[0] == "2"
    (job,) = work.jobs.values()
    assert job.message.job_spec.worker_pool_specs[0].machine_spec.machine_type == "g2-standard-24"
    assert job.message.name in outputs(found, "train")[1] and job.message.job_spec.scheduling.disable_retries
    assert (
        job.message.labels["vertex-ai-pipelines-run-billing-id"] == found.labels["vertex-ai-pipelines-run-billing-id"]
    )
    (climbed,) = ladder_view.of_run(ladder_view.client(), "gs://test-bucket/runs", "one-1")
    assert [attempt.rung for attempt in climbed.attempts] == ["large-1-spot-us-central1"] or climbed.attempts[0].outcome


def test_a_plain_job_on_spot_is_started_again_by_vertex_itself(cloud, run):
    """https://cloud.google.com/vertex-ai/docs/training/use-spot-vms: it is one job, which its step waits for."""
    world = World()
    world.always("*", "*", "spot")

    def preempt(work):
        """Once, when the program has begun."""
        with cloud.lock:
            for job in work.jobs.values():
                if len(job.spells) == 1 and (job.machines[0].folder / "starts").exists():
                    job.preempted = job.preempted or cloud.clock.now()

    found, work = run({"strategy": "spot", "env": {"wait": "1"}}, world, meanwhile=preempt)
    assert found.state.name == "PIPELINE_STATE_SUCCEEDED", found.error
    (job,) = work.jobs.values()
    assert [spell.why for spell in job.spells] == ["preempted", "succeeded"]
    assert not job.message.job_spec.scheduling.disable_retries and outputs(found, "read")[0] == "22"
    assert job.message.name in outputs(found, "train")[1]


def test_a_step_that_fails_is_tried_again_and_ends_the_run(cloud, run):
    found, _ = run({"sizes": SIZES, "retries": 1}, World(), {"train_size": "no such size"})
    assert found.state.name == "PIPELINE_STATE_FAILED"
    (task,) = (task for task in found.job_detail.task_details if task.task_name == "train")
    assert task.error.message == "The step failed with exit code 2."
    assert len(task.executor_detail.container_detail.failed_main_jobs) == 1
    logged = [entry.get("textPayload", "") for entry in cloud.logs.entries]
    assert any("size = 'no such size': one of small, large" in line for line in logged)
