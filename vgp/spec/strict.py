"""The strictest reading of a spec: unknown fields, wrong types and names of nothing are errors."""

from collections.abc import Mapping
from typing import Any

from vgp.errors import RequestError


def verify(spec: Mapping[str, Any]) -> None:
    """Parses a compiled spec into `PipelineSpec` and `PipelineDeploymentConfig`, and follows its references.

    Raises:
        RequestError: the spec does not parse, or a task, component or executor that it names does not exist.
    """
    from google.protobuf import json_format
    from kfp.pipeline_spec import pipeline_spec_pb2 as messages

    try:
        json_format.ParseDict(dict(spec), messages.PipelineSpec())
        json_format.ParseDict(dict(spec["deploymentSpec"]), messages.PipelineDeploymentConfig())
    except json_format.ParseError as error:
        raise RequestError(f"the spec is not a PipelineSpec: {error}") from None
    _follow(spec)


def _follow(spec: Mapping[str, Any]) -> None:
    components, executors = spec.get("components", {}), spec["deploymentSpec"]["executors"]
    for name, component in {**components, "root": spec["root"]}.items():
        label = component.get("executorLabel")
        if label is not None and label not in executors:
            raise RequestError(f"component {name} names executor {label}, which does not exist.")
        for task_name, task in component.get("dag", {}).get("tasks", {}).items():
            _follow_task(f"{name}.{task_name}", task, component["dag"]["tasks"], components)


def _follow_task(
    name: str, task: Mapping[str, Any], siblings: Mapping[str, Any], components: Mapping[str, Any]
) -> None:
    if task["componentRef"]["name"] not in components:
        raise RequestError(f"task {name} names component {task['componentRef']['name']}, which does not exist.")
    sources = [
        *task.get("inputs", {}).get("parameters", {}).values(),
        *task.get("inputs", {}).get("artifacts", {}).values(),
    ]
    outputs = [source.get("taskOutputParameter") or source.get("taskOutputArtifact") or {} for source in sources]
    producers = {output["producerTask"] for output in outputs if output}
    for producer in producers | set(task.get("dependentTasks", [])):
        if producer not in siblings:
            raise RequestError(f"task {name} waits for task {producer}, which does not exist.")
