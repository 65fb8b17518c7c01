"""The cache has Vertex AI's key: each part of it makes another one, and nothing else does."""

import copy
from datetime import UTC, datetime, timedelta

import pytest

from tools.emulator.cache import cache_key
from tools.emulator.plan import Planner, Script

CONTAINER = {
    "image": "i@sha256:1", "command": ["python3", "-m"], "args": ["--a", "{{$}}"],
    "env": [{"name": "TRAINING_IMAGE", "value": "i@sha256:1"}], "resources": {"cpuLimit": 4.0},
}  # fmt: skip
COMPONENT = {
    "executorLabel": "exec-train",
    "inputDefinitions": {"parameters": {"epochs": {"defaultValue": 3, "description": "x"}, "pins": {}}},
    "outputDefinitions": {"artifacts": {"model": {"artifactType": {"schemaTitle": "system.Model"}}}},
}


def key(pipeline="training", component=None, container=None, parameters=None, artifacts=()):
    executor = {"container": {**CONTAINER, **(container or {})}}
    values = {"pins": "gs://b/pins/1.json"} if parameters is None else parameters
    return cache_key(pipeline, executor, {**COMPONENT, **(component or {})}, values, artifacts or [("dataset", 7)])


@pytest.mark.parametrize(
    "change",
    [
        {"pipeline": "training-2"},
        {"parameters": {"pins": "gs://b/pins/2.json"}},
        {"parameters": {"pins": "gs://b/pins/1.json", "epochs": 4}},
        {"component": {"inputDefinitions": {"parameters": {"epochs": {"defaultValue": 4}, "pins": {}}}}},
        {"artifacts": [("dataset", 8)]},
        {"component": {"outputDefinitions": {"artifacts": {"net": {}}}}},
        {"component": {"outputDefinitions": {"parameters": {"model": {}}}}},
        {"container": {"image": "i@sha256:2"}},
        {"container": {"command": ["-m", "python3"]}},
        {"container": {"args": ["--b", "{{$}}"]}},
        {"container": {"env": [{"name": "TRAINING_IMAGE", "value": "i@sha256:2"}]}},
    ],
)
def test_every_part_of_the_key_makes_another_one(change):
    assert key(**change) != key()


@pytest.mark.parametrize(
    "change",
    [
        {"container": {"resources": {"cpuLimit": 96.0, "accelerator": {"count": 8, "type": "NVIDIA_H100_80GB"}}}},
        {"component": {"executorLabel": "exec-fit"}},
        {"parameters": {"pins": "gs://b/pins/1.json", "epochs": 3}},
        {"component": {"inputDefinitions": {"parameters": {"epochs": {"defaultValue": 3, "description": "y"}}}}},
    ],
)
def test_nothing_else_is_in_it(change):
    assert key(**change) == key()


def task(*, after=(), cached=True, parameters=None, artifacts=None, **more):
    """A task of the component of its name."""
    return {
        "dependentTasks": list(after), "cachingOptions": {"enableCache": True} if cached else {},
        "inputs": {"parameters": parameters or {}, "artifacts": artifacts or {}}, **more,
    }  # fmt: skip


@pytest.fixture
def spec():
    """resolve -> prepare -> train, as a workflow that pins first has them."""
    text = {"parameterType": "STRING"}
    given = {"taskOutputParameter": {"producerTask": "resolve", "outputParameterKey": "data"}}
    rows = {"taskOutputArtifact": {"producerTask": "prepare", "outputArtifactKey": "dataset"}}
    once = {"runtimeValue": {"constant": "{{$.pipeline_job_name}}"}}
    tick = {"runtimeValue": {"constant": "{{$.pipeline_job_schedule_time_utc}}"}}
    tasks = {
        "resolve": task(parameters={"run": once, "scheduled": tick}),
        "prepare": task(after=["resolve"], parameters={"pins": given}),
        "train": task(after=["prepare", "resolve"], parameters={"pins": given}, artifacts={"dataset": rows}),
    }
    outputs = {
        "resolve": {"parameters": {"data": text}}, "prepare": {"artifacts": {"dataset": {}}},
        "train": {"artifacts": {"model": {}}},
    }  # fmt: skip
    for name, content in tasks.items():
        content["componentRef"] = {"name": name}
    return {
        "pipelineInfo": {"name": "training"}, "root": {"dag": {"tasks": tasks}},
        "components": {name: {"executorLabel": name, "outputDefinitions": outputs[name]} for name in tasks},
        "deploymentSpec": {"executors": {name: {"container": {"image": name}} for name in tasks}},
    }  # fmt: skip


class Nights:
    """Runs of one pipeline, a day apart, that share the cache of a project."""

    def __init__(self):
        self.cache, self.now, self.next_id = {}, datetime(2026, 11, 21, tzinfo=UTC), 0

    def run(self, spec, *scripts, **values):
        self.now += timedelta(days=1)
        values = {"pipeline_job_name": f"run-{self.now:%d}", **values}
        planner = Planner(copy.deepcopy(spec), list(scripts), self.cache, f"gs://b/{self.now:%d}", self.next_id, values)
        tasks = planner.plan({}, self.now, fail_fast=False)
        self.next_id = planner.next_id
        return {one.name: one for one in tasks}

    def ends(self, *given, **values):
        return {name: one.final for name, one in self.run(*given, **values).items()}


PINS = Script("resolve", outputs={"data": "gs://b/pins/1.json"})
ALL = dict.fromkeys(("resolve", "prepare", "train"), "SUCCEEDED")


def test_a_step_that_takes_the_runs_name_runs_every_night_and_its_equal_words_are_hits(spec):
    nights = Nights()
    assert nights.ends(spec, PINS) == ALL
    assert nights.ends(spec, PINS) == ALL | {"prepare": "SKIPPED", "train": "SKIPPED"}
    assert nights.ends(spec, Script("resolve", outputs={"data": "gs://b/pins/2.json"})) == ALL


def test_an_entry_never_expires(spec):
    nights = Nights()
    nights.run(spec, PINS)
    nights.now += timedelta(days=3650)
    assert nights.ends(spec, PINS)["train"] == "SKIPPED"


def test_equal_bytes_of_a_step_that_ran_again_miss_downstream(spec):
    """`prepare` writes the same for the same pins; its second dataset is another artifact all the same."""
    nights = Nights()
    nights.run(spec, PINS)
    spec["root"]["dag"]["tasks"]["prepare"]["cachingOptions"] = {}
    assert nights.ends(spec, PINS) == ALL
    assert nights.ends(spec, PINS)["train"] == "SUCCEEDED"


def test_a_failed_step_is_no_result(spec):
    nights = Nights()
    assert nights.ends(spec, PINS, Script("train", fail="stockout")) == ALL | {"train": "FAILED"}
    assert nights.ends(spec, PINS) == ALL | {"prepare": "SKIPPED"}


def test_only_runs_of_schedules_get_the_schedules_time(spec):
    nights = Nights()
    night = nights.run(spec, PINS, pipeline_job_schedule_time_utc="2026-11-21T01:30:00Z")
    assert night["resolve"].inputs == {"run": "run-22", "scheduled": "2026-11-21T01:30:00Z"}
    assert nights.run(spec, PINS)["resolve"].inputs["scheduled"] == "{{$.pipeline_job_schedule_time_utc}}"


def test_what_a_step_returns_may_be_worked_out_from_its_inputs(spec):
    def resolve(one):
        return {"data": f"{one.inputs['run']} in {one.output_uri('', 'record')}"}

    def broken(one):
        raise ValueError(f"no data for {one.inputs['run']}")

    night = Nights().run(spec, Script("resolve", outputs=resolve))
    assert night["prepare"].inputs["pins"] == "run-22 in gs://b/22/resolve_1/record"
    night = Nights().run(spec, Script("resolve", outputs=broken))
    assert (night["resolve"].final, night["resolve"].error) == ("FAILED", "no data for run-22")
    assert night["train"].final == "NOT_TRIGGERED"


@pytest.mark.parametrize(
    ("fails", "final", "minutes"), [(1, "SUCCEEDED", [10]), (2, "SUCCEEDED", [10, 21]), (0, "FAILED", [10, 21])]
)
def test_a_task_is_tried_as_often_as_its_retry_policy_allows(spec, fails, final, minutes):
    spec["root"]["dag"]["tasks"]["train"]["retryPolicy"] = {
        "maxRetryCount": 2.0, "backoffDuration": "60s", "backoffFactor": 2.0, "backoffMaxDuration": "3600s",
    }  # fmt: skip
    train = Nights().run(spec, PINS, Script("train", fail="stockout", fails=fails, seconds=600))["train"]
    assert train.final == final
    assert [(end - train.start).total_seconds() / 60 for end in train.failed_tries] == minutes
    assert (train.end - train.start).total_seconds() / 60 == {1: 21, 2: 33, 0: 33}[fails]
    assert Nights().run(spec, PINS, Script("prepare", fail="x", fails=1))["prepare"].final == "FAILED"
