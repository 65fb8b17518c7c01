"""Google's e-mail component as one more exit task of a workflow: Vertex AI writes to people when its steps have ended.

Vertex AI sends mail only from an exit task (https://cloud.google.com/vertex-ai/docs/pipelines/email-notifications), and
kfp gives an exit handler one exit task: handlers in handlers are refused, so is an exit task after another, and the
tasks of a pipeline that is itself an exit task are not told the status. The IR knows no such limit. So kfp compiles the
component as the exit task of a handler of its own, and the task that it writes joins the workflow's handler, beside the
one that the workflow has. Not verified on Vertex AI.
"""

import copy
from collections.abc import Sequence
from typing import Any

from vgp.base.errors import RequestError
from vgp.check.spec.dag import table
from vgp.check.spec.pipeline_spec import PipelineSpec


def with_email(spec: PipelineSpec, recipients: Sequence[str]) -> PipelineSpec:
    """The spec, with mail to the recipients when its exit handler's steps have ended.

    Raises:
        RequestError: the workflow has no exit handler.
    """
    handler = _handler(spec)
    mail = _carrier(recipients)
    content = copy.deepcopy(dict(spec.content))
    ((name, task),) = ((name, task) for name, task in mail["root"]["dag"]["tasks"].items() if _status(task))
    if name in content["root"]["dag"]["tasks"]:
        return spec  # the workflow sends mail itself
    component = task["componentRef"]["name"]
    label = mail["components"][component]["executorLabel"]
    task.pop("cachingOptions", None)
    task["dependentTasks"] = [handler]
    _status(task)["producerTask"] = handler
    content["root"]["dag"]["tasks"][name] = task
    content["components"][component] = mail["components"][component]
    content["deploymentSpec"]["executors"][label] = mail["deploymentSpec"]["executors"][label]
    return PipelineSpec(content)


def _handler(spec: PipelineSpec) -> str:
    """The name of the group of tasks whose end the workflow's own exit task is told."""
    for task in spec.root.tasks.values():
        producer = _status(task.content).get("producerTask")
        if producer:
            return str(producer)
    raise RequestError(
        f"{spec.name}: [notify] email: Vertex AI sends mail only at the end of a dsl.ExitHandler, and this workflow "
        "has none. Put its steps into one, as pipelines/training.py does, or take the addresses away: email = []."
    )


def _status(task: Any) -> Any:
    """The input by which an exit task is told how the tasks of its handler ended; empty for another task."""
    for source in table(task, "inputs", "parameters").values():
        if status := table(source, "taskFinalStatus"):
            return status
    return {}


def _carrier(recipients: Sequence[str]) -> dict[str, Any]:
    """A compiled pipeline with the component as exit task."""
    from google.protobuf import json_format
    from google_cloud_pipeline_components.v1.vertex_notification_email import VertexNotificationEmailOp
    from kfp import dsl

    @dsl.container_component  # type: ignore[untyped-decorator]
    def nothing() -> dsl.ContainerSpec:
        return dsl.ContainerSpec(image="scratch")

    @dsl.pipeline(name="carrier")  # type: ignore[untyped-decorator]
    def carrier() -> None:
        with dsl.ExitHandler(VertexNotificationEmailOp(recipients=list(recipients))):
            nothing()

    return dict(json_format.MessageToDict(carrier.pipeline_spec))
