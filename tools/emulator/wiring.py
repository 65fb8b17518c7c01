"""The dependencies of a spec's tasks: order, inputs, conditions, loops, outputs.

https://github.com/kubeflow/pipelines/blob/master/api/v2alpha1/pipeline_spec.proto
"""

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .plan import Task

#: The output of a task without a script.
UNKNOWN = object()
REFERENCE = re.compile(r"\{\{\$\.inputs\.parameters\['([^']+)'\]\}\}")
#: {{$.pipeline_job_name}}
OF_THE_JOB = re.compile(r"\{\{\$\.([a-z_]+)\}\}")


def in_order(tasks: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the tasks, each after its dependencies."""
    left = dict(tasks)
    while left:
        free = [name for name, spec in left.items() if not any(other in left for other in upstream(spec))]
        assert free, f"the tasks wait for each other: {', '.join(left)}"
        for name in free:
            yield name, left.pop(name)


def upstream(spec: dict[str, Any]) -> list[str]:
    return spec.get("dependentTasks", [])


def comes_anyway(spec: dict[str, Any]) -> bool:
    """Whether the task runs after failures: an exit task, or one that ignores upstream failures."""
    return spec.get("triggerPolicy", {}).get("strategy") == "ALL_UPSTREAM_TASKS_COMPLETED"


def resolve_parameters(
    spec: dict[str, Any], parameters: dict[str, Any], done: dict[str, "Task"], placeholder_values: dict[str, str]
) -> Iterator[tuple[str, Any]]:
    """Yields the values of the task's input parameters; UNKNOWN for outputs of tasks without a script.

    `placeholder_values` replace the job's placeholders in texts.
    """
    for name, value in sources(spec, parameters, done):
        text = isinstance(value, str)
        yield name, OF_THE_JOB.sub(lambda match: placeholder_values.get(match[1], match[0]), value) if text else value


def sources(spec: dict[str, Any], parameters: dict[str, Any], done: dict[str, "Task"]) -> Iterator[tuple[str, Any]]:
    for name, source in spec.get("inputs", {}).get("parameters", {}).items():
        if "taskOutputParameter" in source:
            output = source["taskOutputParameter"]
            yield name, done[output["producerTask"]].outputs.get(output["outputParameterKey"], UNKNOWN)
        elif "componentInputParameter" in source:
            value = parameters.get(source["componentInputParameter"], UNKNOWN)
            selector = source.get("parameterExpressionSelector", "")
            field_name = re.fullmatch(r'parseJson\(string_value\)\["(.+)"\]', selector)
            if field_name and isinstance(value, dict):
                value = value.get(field_name[1], UNKNOWN)
            yield name, value
        elif "runtimeValue" in source:
            yield name, splice(source["runtimeValue"].get("constant"), parameters)


def splice(constant: Any, parameters: dict[str, Any]) -> Any:
    if not isinstance(constant, str):
        return constant
    return REFERENCE.sub(lambda found: str(parameters.get(found[1], found[0])), constant)


def resolve_artifacts(
    spec: dict[str, Any], artifacts: dict[str, tuple["Task", str]], done: dict[str, "Task"]
) -> Iterator[tuple[str, tuple["Task", str]]]:
    for name, source in spec.get("inputs", {}).get("artifacts", {}).items():
        if "taskOutputArtifact" in source:
            output = source["taskOutputArtifact"]
            yield name, (done[output["producerTask"]], output["outputArtifactKey"])
        elif source.get("componentInputArtifact") in artifacts:
            yield name, artifacts[source["componentInputArtifact"]]


def holds(spec: dict[str, Any], inputs: dict[str, Any]) -> bool:
    """Whether the task's condition is true; a condition on an unknown value counts as true."""
    condition = spec.get("triggerPolicy", {}).get("condition")
    named = re.findall(r"inputs\.parameter_values\['([^']+)'\]", condition or "")
    if not condition or any(inputs.get(name, UNKNOWN) is UNKNOWN for name in named):
        return True
    text = re.sub(r"inputs\.parameter_values\['([^']+)'\]", r"values['\1']", condition)
    text = text.replace("&&", " and ").replace("||", " or ")
    text = re.sub(r"!(?!=)", " not ", text)
    names = {"values": inputs, "int": int, "double": float, "string": str, "true": True, "false": False}
    return bool(eval(text, {"__builtins__": {}}, names))  # the tests' own specifications


def iterations(task: "Task") -> Iterator[dict[str, Any]]:
    loop = task.spec.get("parameterIterator")
    if loop is None:
        yield task.inputs
        return
    items = loop["items"]
    found = json.loads(items["raw"]) if "raw" in items else task.inputs.get(items["inputParameter"], UNKNOWN)
    for item in found if isinstance(found, list) else [UNKNOWN]:
        yield {**task.inputs, loop["itemInput"]: item}


def dag_outputs(component: dict[str, Any], inner: dict[str, "Task"]) -> Iterator[tuple[str, Any]]:
    for key, output in component["dag"].get("outputs", {}).get("parameters", {}).items():
        source = output.get("valueFromParameter")
        if source and source["producerSubtask"] in inner:
            yield key, inner[source["producerSubtask"]].outputs.get(source["outputParameterKey"], UNKNOWN)


def output_parameters(task: "Task") -> dict[str, Any]:
    declared = task.component.get("outputDefinitions", {}).get("parameters", {})
    outputs = task.script.outputs
    values = outputs(task) if callable(outputs) else outputs
    return {key: values.get(key, UNKNOWN) for key in declared}
