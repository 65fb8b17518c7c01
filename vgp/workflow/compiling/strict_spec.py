"""The strictest reading of a spec: unknown fields, wrong types and names of nothing are errors."""

from vgp.base.errors import RequestError
from vgp.check.spec.dag import Component, Task, table
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.workflow import kfp_package


def verify(spec: PipelineSpec) -> None:
    """Parses a compiled spec into `PipelineSpec` and `PipelineDeploymentConfig`, and follows its references.

    Raises:
        RequestError: the spec does not parse, or a task, component or executor that it names does not exist.
    """
    kfp_package.load()
    from google.protobuf import json_format
    from kfp.pipeline_spec import pipeline_spec_pb2 as messages

    try:
        json_format.ParseDict(dict(spec.content), messages.PipelineSpec())
        json_format.ParseDict(dict(table(spec.content, "deploymentSpec")), messages.PipelineDeploymentConfig())
    except json_format.ParseError as error:
        raise RequestError(f"the spec is not a PipelineSpec: {error}") from None
    for name, component in {**spec.components, "root": spec.root}.items():
        if component.executor and component.executor not in spec.executors:
            raise RequestError(f"component {name} names executor {component.executor}, which does not exist.")
        for task in component.tasks.values():
            _follow(f"{name}.{task.name}", task, component, spec)


def _follow(name: str, task: Task, group: Component, spec: PipelineSpec) -> None:
    if task.component.name not in spec.components:
        raise RequestError(f"task {name} names component {task.component.name}, which does not exist.")
    for producer in sorted(task.producers | set(task.dependencies)):
        if producer not in group.tasks:
            raise RequestError(f"task {name} waits for task {producer}, which does not exist.")
