"""The steps of a workflow on their machines, and the spec of the whole, while its file is imported.

A workflow is an ordinary KFP file: `@dsl.pipeline` at its top, over components that `step` and `job` have placed.

    train_step = job(train)

    @placed
    @dsl.pipeline(name="training")
    def training(epochs: float = 3.0) -> None:
        train_step(epochs=epochs)

The target in effect during the import says which machines those are: commands of ours put one into effect (`placing`).
Without one, as under `kfp dsl compile`, it is Vertex AI with the settings that are found from the current folder.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from vgp.base.documents.json_text import JsonObject, JsonView
from vgp.base.errors import RequestError
from vgp.check.spec.dag import table
from vgp.check.spec.pipeline_spec import PipelineSpec, as_pinned, with_defaults, with_places
from vgp.check.spec.spec_ladder import refuse_same_inputs
from vgp.workflow.compiling.compile_target import Target
from vgp.workflow.compiling.sizes import with_sizes

if TYPE_CHECKING:
    from kfp.dsl.base_component import BaseComponent


#: What a workflow's own function of that name makes of values, in a folder.
Expand = Callable[[JsonObject, Path], JsonView]


class _Place(NamedTuple):
    """A target, and the root of the repository of the workflow that is imported for it."""

    target: Target
    root: Path


_in_effect: ContextVar[_Place | None] = ContextVar("target", default=None)
#: Where a pipeline keeps the spec that `placed` has completed.
_COMPLETE = "vgp_spec"


@contextmanager
def placing(where: Target, root: Path) -> Iterator[None]:
    """Puts a target into effect, for the workflow that is imported meanwhile."""
    token = _in_effect.set(_Place(where, root))
    try:
        yield
    finally:
        _in_effect.reset(token)


def _place() -> _Place:
    """Returns the target in effect; outside our commands that is Vertex AI in the default environment.

    Raises:
        RequestError: no settings are found, or they are wrong.
    """
    known = _in_effect.get()
    if known is None:
        from vgp.settings import load
        from vgp.workflow.compiling.vertex import Vertex

        settings = load()
        known = _Place(Vertex(settings), settings.repository.root)
        _in_effect.set(known)
    return known


def target() -> Target:
    """Returns the target in effect, for what a workflow tells its steps of it."""
    return _place().target


def step(component: "BaseComponent", **marks: Any) -> "BaseComponent":
    """Returns a plain step on its machine; the marks are those of `Target.step`."""
    return target().step(component, **marks)


def job(component: "BaseComponent", **marks: Any) -> "BaseComponent":
    """Returns a training step, which may have several GPUs and machines; the marks are those of `Target.job`."""
    return target().job(component, **marks)


def placed(pipeline: "BaseComponent") -> "BaseComponent":
    """Completes a pipeline with what the target knows of whole runs: caching, places, sizes of machines, mail."""
    from google.protobuf import json_format
    from kfp.pipeline_spec import pipeline_spec_pb2 as messages

    where = _place()
    spec = completed(pipeline, where.target, pipeline.pipeline_func.__globals__.get("expanded"), where.root)
    graph = json_format.ParseDict(dict(spec.content), messages.PipelineSpec())
    pipeline.component_spec.implementation.graph = graph
    setattr(pipeline, _COMPLETE, spec)
    return pipeline


def completed(pipeline: "BaseComponent", where: Target, expand: Expand | None, root: Path) -> PipelineSpec:
    """Returns the complete spec of a pipeline; the one that `placed` has made of it, if it has."""
    known: PipelineSpec | None = getattr(pipeline, _COMPLETE, None)
    if known is not None:
        return known
    from google.protobuf import json_format

    content = json_format.MessageToDict(pipeline.pipeline_spec)
    _in_order_of_signature(content, pipeline.component_spec.inputs or {})
    spec = with_sizes(PipelineSpec(content))
    spec = with_defaults(spec, lambda values: expand(dict(values), root) if expand else values)
    spec = with_places(spec, where.places)
    refuse_same_inputs(spec)
    if where.email:
        spec = with_email(spec, where.email)
    return as_pinned(spec, otherwise=where.caching)


def _in_order_of_signature(content: JsonObject, names: JsonView) -> None:
    """Puts the parameters in the order in which the workflow declares them, which a person's form has, too."""
    declared = content["root"].get("inputDefinitions", {}).get("parameters")
    if declared:
        content["root"]["inputDefinitions"]["parameters"] = {name: declared[name] for name in names if name in declared}


# ---- Google's e-mail component as one more exit task
#
# Vertex AI sends mail only from an exit task (https://cloud.google.com/vertex-ai/docs/pipelines/email-notifications),
# and kfp gives an exit handler one exit task: handlers in handlers are refused, so is an exit task after another, and
# the tasks of a pipeline that is itself an exit task are not told the status. The IR knows no such limit. So kfp
# compiles the component as the exit task of a handler of its own, and the task that it writes joins the workflow's
# handler, beside the one that the workflow has. Not verified on Vertex AI.


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


def _carrier(recipients: Sequence[str]) -> JsonObject:
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
