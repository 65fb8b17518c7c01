"""How the tasks of a pipeline hang together, and what the workflow itself gives to each of them."""

from typing import Any

from vgp.check.spec.dag import Component, Json, table
from vgp.check.spec.leaves import leaves
from vgp.check.spec.pipeline_spec import PipelineSpec


def given(spec: PipelineSpec) -> dict[str, dict[str, Any]]:
    """The constants among a task's inputs, such as prices, and how often it is tried again, by the way to the task."""
    return {
        path: leaves(_constants(task.content), "input ") | leaves({"retryPolicy": task.content.get("retryPolicy")})
        for path, task in spec.walk()
    }


def flow(component: Component) -> dict[str, Any]:
    """The DAG of a component, without what is told apart: what is given, and which of its steps are cached."""
    tasks = {name: _bare(task.content) for name, task in component.tasks.items()}
    return {**table(component.content, "dag"), "tasks": tasks}


def _constants(task: Json) -> dict[str, Any]:
    values = {name: table(source, "runtimeValue") for name, source in table(task, "inputs", "parameters").items()}
    return {name: value.get("constant", value) for name, value in values.items() if value}


def _bare(task: Json) -> dict[str, Any]:
    inputs = table(task, "inputs")
    parameters = {
        name: "constant" if "runtimeValue" in table(source) else source
        for name, source in table(inputs, "parameters").items()
    }
    return {**task, "inputs": {**inputs, "parameters": parameters}, "cachingOptions": None, "retryPolicy": None}
