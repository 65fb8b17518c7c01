"""A run's parameters and times as Google reports them; its steps: test_steps.py. A run of Google's becomes steps in
DAG order, whatever is nested, repeated, absent or malformed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.cloud.aiplatform_v1.types import PipelineJob
from hypothesis import given
from hypothesis import strategies as st

from tools.emulator.cloud import Cloud
from vgp.check.spec.pipeline_spec import PipelineSpec, switch_cache
from vgp.vertex import clients
from vgp.vertex.runs.remote_run import Run, read, restore_integers

JOB_NAME = "projects/1/locations/us-central1/pipelineJobs/training-1"


def test_numbers_come_back_as_they_were_written(cloud: Cloud, start: Callable[..., str], look: Callable) -> None:
    run = look(start(values={"epochs": 2.5, "seed": 7, "task_options": {"layers": [1, 2]}}))
    assert run.arguments == {"epochs": 2.5, "seed": 7, "task_options": {"layers": [1, 2]}}
    assert isinstance(run.arguments["seed"], int) and isinstance(run.arguments["task_options"]["layers"][0], int)
    assert restore_integers(1e300) == 1e300 and restore_integers([True, 2.0, {"a": 3.0}]) == [True, 2, {"a": 3}]


def test_parameters_of_the_old_kind_are_read_too() -> None:
    old = PipelineJob(
        name=JOB_NAME, runtime_config={"parameters": {"epochs": {"int_value": 3}, "data": {"string_value": "x"}}}
    )
    assert read(old).arguments == {"epochs": "3", "data": "x"}


def test_the_list_view_has_no_tasks(cloud: Cloud, start: Callable[..., str], settings: Any) -> None:
    start()
    client = clients.pipeline_service(settings)
    (listed,) = client.list_pipeline_jobs(parent=f"projects/{settings.project}/locations/us-central1")
    assert {step.state for step in read(listed).steps} == {"waiting"}


TRAINING = json.loads((Path(__file__).parents[3] / "golden/training.json").read_text())
STEPS = ("resolve", "prepare", "train", "evaluate", "decide", "register", "notify")
NAME = "projects/1/locations/us-central1/pipelineJobs/training-1"
LOOP = {
    "pipelineInfo": {"name": "loop"},
    "root": {"dag": {"tasks": {
        "first": {"componentRef": {"name": "work"}},
        "loop": {"componentRef": {"name": "turn"}, "dependentTasks": ["first"], "parameterIterator": {}},
        "after": {"componentRef": {"name": "work"}, "dependentTasks": ["loop"]},
    }}},
    "components": {
        "work": {"executorLabel": "x"},
        "turn": {"dag": {"tasks": {
            "a": {"componentRef": {"name": "work"}},
            "b": {"componentRef": {"name": "work"}, "dependentTasks": ["a"]},
        }}},
    },
}  # fmt: skip


def job(spec: dict[str, Any], tasks: list[dict[str, Any]], state: str = "PIPELINE_STATE_RUNNING") -> Any:
    return PipelineJob(name=NAME, pipeline_spec=spec, state=state, job_detail={"task_details": tasks})


def states(run: Run) -> list[tuple[str, str]]:
    return [(step.name, step.state) for step in run.steps]


def test_the_steps_of_a_run_from_waiting_to_done(cloud: Cloud, start: Callable[..., str], look: Callable) -> None:
    cloud.script(seconds=60)
    name = start()
    assert states(look(name)) == [(step, "waiting") for step in STEPS]
    cloud.clock.advance(30)
    assert states(look(name))[:2] == [("resolve", "running"), ("prepare", "pending")]
    cloud.clock.advance(3600)
    run = look(name)
    assert {state for _, state in states(run)} == {"succeeded"} and run.state == "succeeded" and run.over
    assert [step.seconds(cloud.clock.now()) for step in run.steps] == [60.0] * 7
    assert run.seconds(cloud.clock.now()) == 420.0


def test_a_failed_step_keeps_the_rest_from_starting(cloud: Cloud, start: Callable[..., str], look: Callable) -> None:
    cloud.script("train", fail="CUDA out of memory")
    name = start()
    cloud.clock.advance(3600)
    run = look(name)
    assert [state for _, state in states(run)] == [
        "succeeded", "succeeded", "failed", "not triggered", "not triggered", "not triggered", "succeeded",
    ], "the exit handler runs"  # fmt: skip
    assert [(step.name, step.error) for step in run.list_failed_steps()] == [("train", "CUDA out of memory")]


def test_a_cached_step_took_no_time_and_has_no_job(cloud: Cloud, start: Callable[..., str], look: Callable) -> None:
    spec = switch_cache(PipelineSpec(TRAINING), True).content
    start(spec)
    cloud.clock.advance(3600)
    name = start(spec, id="again")
    cloud.clock.advance(3600)
    for step in look(name).steps[1:5]:
        assert (step.state, step.seconds(cloud.clock.now()), step.jobs) == ("cached", None, ())


def test_conditions_loops_and_exit_handlers_are_named_by_their_way(
    cloud: Cloud, start: Callable[..., str], look: Callable, branching: dict[str, Any]
) -> None:
    cloud.script("flip*", outputs={"Output": "tails"})
    name = start(branching)
    before = states(look(name))
    assert before and {state for _, state in before} == {"waiting"}
    cloud.clock.advance(3600)
    found = dict(states(look(name)))
    assert found["for-loop-7/flip-2[0]"] == found["for-loop-7/flip-2[1]"] == "succeeded"
    assert found["flip"] == found["say"] == "succeeded"
    branches = {step.rsplit("/", 1)[1]: state for step, state in found.items() if "condition-branches" in step}
    assert branches == {"say-2": "not triggered", "say-3": "not triggered", "say-4": "succeeded"}


def test_iterations_that_are_tasks_of_their_own_are_shown_as_such() -> None:
    tasks = [
        {"task_id": 1, "task_name": "loop", "state": "RUNNING"},
        {"task_id": 2, "task_name": "loop-iteration-0", "parent_task_id": 1, "state": "RUNNING"},
        {"task_id": 3, "task_name": "loop-iteration-1", "parent_task_id": 1, "state": "FAILED"},
        {"task_id": 4, "task_name": "a", "parent_task_id": 2, "state": "RUNNING"},
        {"task_id": 5, "task_name": "a", "parent_task_id": 3, "state": "FAILED"},
    ]
    run = read(job(LOOP, tasks))
    assert states(run) == [
        ("first", "waiting"),
        ("loop/loop-iteration-0/a", "running"),
        ("loop/loop-iteration-0/b", "waiting"),
        ("loop/loop-iteration-1/a", "failed"),
        ("loop/loop-iteration-1/b", "not run"),
        ("after", "waiting"),
    ]
    assert {step.path for step in run.steps} == {"first", "loop/a", "loop/b", "after"}


def test_a_task_that_stands_for_the_whole_run_is_no_step() -> None:
    whole_run = {"task_id": 9, "task_name": "training-1", "state": "RUNNING"}
    assert states(read(job(LOOP, [whole_run])))[0] == ("first", "waiting")
    inside = {"task_id": 1, "task_name": "first", "parent_task_id": 9, "state": "SUCCEEDED"}
    assert states(read(job(LOOP, [whole_run, inside])))[0] == ("first", "succeeded")
    by_schema = {"task_id": 9, "task_name": "x", "execution": {"schema_title": "system.Run"}}
    assert states(read(job(LOOP, [by_schema, inside])))[0] == ("first", "succeeded")


def test_a_group_that_failed_before_its_tasks_is_shown() -> None:
    group = {"task_id": 1, "task_name": "loop", "state": "FAILED", "error": {"message": "no such parameter"}}
    run = read(job(LOOP, [group]))
    assert ("loop", "failed") in states(run) and ("loop/a", "not run") in states(run)
    inner = {"task_id": 2, "task_name": "a", "parent_task_id": 1, "state": "FAILED"}
    assert [name for name, state in states(read(job(LOOP, [group, inner]))) if state == "failed"] == ["loop/a"]


def test_in_a_run_that_is_over_what_was_never_begun_is_not_waited_for() -> None:
    assert {state for _, state in states(read(job(LOOP, [], "PIPELINE_STATE_FAILED")))} == {"not run"}


def test_retries_show_every_job_and_why_google_tries_again() -> None:
    task = {
        "task_id": 1, "task_name": "first", "state": "RUNNING",
        "executor_detail": {"container_detail": {
            "main_job": "projects/1/locations/r/customJobs/12",
            "failed_main_jobs": ["projects/1/locations/r/customJobs/11"],
        }},
        "pipeline_task_status": [{"state": "RUNNING", "error": {"message": "The zone is out of resources"}}],
    }  # fmt: skip
    step = read(job(LOOP, [task])).steps[0]
    assert step.jobs == ("11", "12") and step.tries == 2 and step.retrying == "The zone is out of resources"


def test_jobs_that_a_step_starts_are_no_tries_of_it() -> None:
    """As Google's launcher of one job does, and ours of a ladder with one for each attempt."""
    uri = "https://r-aiplatform.googleapis.com/v1/projects/1/locations/r/customJobs/13"
    resources = {"resources": [{"resourceType": "CustomJob", "resourceUri": uri}]}
    task = {
        "task_id": 1, "task_name": "first", "state": "RUNNING",
        "executor_detail": {"container_detail": {"main_job": "projects/1/locations/r/customJobs/12"}},
        "execution": {"metadata": {"output:gcp_resources": json.dumps(resources)}},
    }  # fmt: skip
    step = read(job(LOOP, [task])).steps[0]
    assert step.jobs == ("12", "13") and step.tries == 1


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"resources": 1}', '{"resources": [1]}', '{"resources": [{"resourceUri": 1}]}']
)
def test_resources_that_are_none_of_ours_are_passed_over(text: str) -> None:
    task = {"task_id": 1, "task_name": "first", "execution": {"metadata": {"output:gcp_resources": text}}}
    assert read(job(LOOP, [task])).steps[0].jobs == ()


def test_the_job_that_googles_launcher_started_belongs_to_the_step(
    cloud: Cloud, start: Callable, look: Callable
) -> None:
    name = start()
    cloud.clock.advance(3600)
    train = look(name).steps[2]
    assert train.name == "train" and len(train.jobs) == 1 and train.jobs[0].isdigit()


@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.integers(0, 6), st.sampled_from(["first", "loop", "a", "b", "strange", ""])),
        max_size=12,
    ),
    st.sampled_from([LOOP, {}, {"root": 3}, {"root": {"dag": {"tasks": {"x": None, "y": {"componentRef": 1}}}}}]),
)
def test_no_answer_however_tangled_breaks_the_reading(tasks: list[tuple[int, int, str]], spec: dict[str, Any]) -> None:
    details = [{"task_id": own, "parent_task_id": parent, "task_name": name} for own, parent, name in tasks]
    names = [step.name for step in read(job(spec, details)).steps]
    assert len(names) < 1000


def test_components_that_contain_each_other_end() -> None:
    twice = {name: {"componentRef": {"name": "c"}} for name in ("x", "y")}
    endless = {"root": {"dag": {"tasks": twice}}, "components": {"c": {"dag": {"tasks": twice}}}}
    assert len(read(job(endless, [])).steps) == 10_000
