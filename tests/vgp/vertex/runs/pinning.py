"""A small pipeline that pins, and what its runs do."""

from typing import Any

from google.cloud.aiplatform_v1 import PipelineState

from tools.emulator.cloud import Cloud

HOUR = 3600
TEXT = {"parameterType": "STRING", "defaultValue": "", "isOptional": True}
CACHED = {"cachingOptions": {"enableCache": True}}
BUCKET = "gs://test-bucket/pins"


def _step(name: str, after: str = "", **more: Any) -> dict[str, Any]:
    wait = {"dependentTasks": [after]} if after else {}
    return {"componentRef": {"name": name}, "taskInfo": {"name": name}, **wait, **more}


_FROM_OUTSIDE = {"inputs": {"parameters": {"pins": {"componentInputParameter": "pins"}}}}
_PINNED = {
    "inputs": {
        "parameters": {"pins": {"taskOutputParameter": {"producerTask": "resolve", "outputParameterKey": "uri"}}}
    }
}
_INPUTS = {"inputDefinitions": {"parameters": {"pins": {"parameterType": "STRING"}}}}

#: resolve -> prepare -> train
SPEC = {
    "pipelineInfo": {"name": "nightly"},
    "root": {
        "inputDefinitions": {"parameters": {"pins": TEXT, "epochs": {**TEXT, "defaultValue": "3"}}},
        "dag": {
            "tasks": {
                "resolve": _step("resolve", **_FROM_OUTSIDE),
                "prepare": _step("prepare", "resolve", **_PINNED, **CACHED),
                "train": _step("train", "prepare", **_PINNED, **CACHED),
            }
        },
    },
    "components": {
        "resolve": {
            **_INPUTS,
            "outputDefinitions": {"parameters": {"uri": {"parameterType": "STRING"}}},
            "executorLabel": "x",
        },
        "prepare": {**_INPUTS, "executorLabel": "y"},
        "train": {**_INPUTS, "executorLabel": "z"},
    },
    "deploymentSpec": {"executors": {label: {"container": {"image": f"python:{label}"}} for label in "xyz"}},
    "schemaVersion": "2.1.0",
}


def in_exit_handler(spec: dict[str, Any]) -> dict[str, Any]:
    """The same steps within the group of an exit handler."""
    dag = spec["root"]["dag"]
    group = {"componentRef": {"name": "exit-handler-1"}, "taskInfo": {"name": "exit-handler-1"}, **_FROM_OUTSIDE}
    return {
        **spec,
        "root": {**spec["root"], "dag": {"tasks": {"exit-handler-1": group}}},
        "components": {**spec["components"], "exit-handler-1": {**_INPUTS, "dag": dag}},
    }


def night(cloud: Cloud, uri: str, **fails: str) -> None:
    """What runs that start from now on do: their pins, and the steps that fail, each with its message."""
    cloud.script(seconds=20)
    cloud.script("resolve", seconds=20, outputs={"uri": uri}, fail=fails.pop("resolve", None))
    for step, message in fails.items():
        cloud.script(step, seconds=20, fail=message)


def over(cloud: Cloud, job: Any, how: str, seconds: float = 70.0) -> None:
    """The run ends within `seconds`, as expected."""
    if how == "cancelled":
        cloud.pipeline_jobs.stop(cloud.pipeline_jobs.jobs[job.name])
    cloud.clock.advance(seconds)
    assert PipelineState(cloud.jobs[job.name].state).name == f"PIPELINE_STATE_{how.upper()}"


def read_pins(job: Any) -> tuple[str | None, str | None, str | None]:
    """Attempt, whose pins, and which."""
    values = dict(job.runtime_config.parameter_values)
    return job.labels.get("attempt"), job.labels.get("pinned-by"), values.get("pins")
