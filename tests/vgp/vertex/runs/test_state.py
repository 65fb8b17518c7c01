"""A run's parameters and times as Google tells them; its steps: test_steps.py."""

from collections.abc import Callable
from typing import Any

from google.cloud.aiplatform_v1.types import PipelineJob
from loopback.cloud import Cloud

from vgp.vertex import clients
from vgp.vertex.runs.remote_run import read, whole

NAME = "projects/1/locations/us-central1/pipelineJobs/training-1"


def test_numbers_come_back_as_they_were_written(cloud: Cloud, start: Callable[..., str], look: Callable) -> None:
    run = look(start(values={"epochs": 2.5, "seed": 7, "task_options": {"layers": [1, 2]}}))
    assert run.arguments == {"epochs": 2.5, "seed": 7, "task_options": {"layers": [1, 2]}}
    assert isinstance(run.arguments["seed"], int) and isinstance(run.arguments["task_options"]["layers"][0], int)
    assert whole(1e300) == 1e300 and whole([True, 2.0, {"a": 3.0}]) == [True, 2, {"a": 3}]


def test_parameters_of_the_old_kind_are_read_too() -> None:
    old = PipelineJob(
        name=NAME, runtime_config={"parameters": {"epochs": {"int_value": 3}, "data": {"string_value": "x"}}}
    )
    assert read(old).arguments == {"epochs": "3", "data": "x"}


def test_the_list_view_has_no_tasks(cloud: Cloud, start: Callable[..., str], settings: Any) -> None:
    start()
    client = clients.pipeline_service(settings)
    (listed,) = client.list_pipeline_jobs(parent=f"projects/{settings.project}/locations/us-central1")
    assert {step.state for step in read(listed).steps} == {"waiting"}
