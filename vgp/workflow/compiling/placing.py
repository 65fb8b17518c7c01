"""Places the steps of a workflow on machines, and completes its spec, while its file is imported.

A workflow is an ordinary KFP file with a `@dsl.pipeline` function that calls components placed by `step` and `job`.

    train_step = job(train)

    @placed
    @dsl.pipeline(name="training")
    def training(epochs: float = 3.0) -> None:
        train_step(epochs=epochs)

The target in effect during the import chooses the machines. The commands of vgp set it with `use_target`. Otherwise,
for example under `kfp dsl compile`, it is Vertex AI with the nearest pipelines.toml.
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
from vgp.workflow.compiling.sizes import add_size_parameters

if TYPE_CHECKING:
    from kfp.dsl.base_component import BaseComponent


#: The type of a workflow's own function `expanded`: values and a folder to values.
Expand = Callable[[JsonObject, Path], JsonView]


class _EffectiveTarget(NamedTuple):
    """A target, and the root of the repository whose workflow is imported for it."""

    target: Target
    root: Path


_effective: ContextVar[_EffectiveTarget | None] = ContextVar("target", default=None)
#: The attribute of a pipeline that holds the spec completed by `placed`.
_COMPLETE_SPEC = "vgp_spec"


@contextmanager
def use_target(target: Target, root: Path) -> Iterator[None]:
    """Puts a target into effect for a workflow that the block imports."""
    token = _effective.set(_EffectiveTarget(target, root))
    try:
        yield
    finally:
        _effective.reset(token)


def _find_effective_target() -> _EffectiveTarget:
    """Returns the target in effect; outside the commands of vgp, Vertex AI in the default environment.

    Raises:
        RequestError: there are no settings, or they are invalid.
    """
    effective = _effective.get()
    if effective is None:
        from vgp.settings import load
        from vgp.workflow.compiling.vertex import Vertex

        settings = load()
        effective = _EffectiveTarget(Vertex(settings), settings.repository.root)
        _effective.set(effective)
    return effective


def target() -> Target:
    """Returns the target in effect, whose attributes a workflow can pass to its steps."""
    return _find_effective_target().target


def step(component: "BaseComponent", **marks: Any) -> "BaseComponent":
    """Returns a plain step on its machine; the marks are those of `Target.step`."""
    return target().step(component, **marks)


def job(component: "BaseComponent", **marks: Any) -> "BaseComponent":
    """Returns a training step, which may have several GPUs and machines; the marks are those of `Target.job`."""
    return target().job(component, **marks)


def placed(pipeline: "BaseComponent") -> "BaseComponent":
    """Completes a pipeline's spec with the target's caching, default places, machine sizes and mail."""
    from google.protobuf import json_format
    from kfp.pipeline_spec import pipeline_spec_pb2 as messages

    effective = _find_effective_target()
    expand = pipeline.pipeline_func.__globals__.get("expanded")
    spec = complete_spec(pipeline, effective.target, expand, effective.root)
    graph = json_format.ParseDict(dict(spec.content), messages.PipelineSpec())
    pipeline.component_spec.implementation.graph = graph
    setattr(pipeline, _COMPLETE_SPEC, spec)
    return pipeline


def complete_spec(pipeline: "BaseComponent", target: Target, expand: Expand | None, root: Path) -> PipelineSpec:
    """Returns the complete spec of a pipeline, which `placed` may have completed already."""
    complete: PipelineSpec | None = getattr(pipeline, _COMPLETE_SPEC, None)
    if complete is not None:
        return complete
    from google.protobuf import json_format

    content = json_format.MessageToDict(pipeline.pipeline_spec)
    _order_parameters(content, pipeline.component_spec.inputs or {})
    spec = add_size_parameters(PipelineSpec(content))
    spec = with_defaults(spec, lambda values: expand(dict(values), root) if expand else values)
    spec = with_places(spec, target.places)
    refuse_same_inputs(spec)
    if target.email:
        spec = add_email(spec, target.email)
    return as_pinned(spec, otherwise=target.caching)


def _order_parameters(content: JsonObject, names: JsonView) -> None:
    """Puts the parameters into the order of the workflow's signature, which the console's form then shows."""
    declared = content["root"].get("inputDefinitions", {}).get("parameters")
    if declared:
        content["root"]["inputDefinitions"]["parameters"] = {name: declared[name] for name in names if name in declared}


# ---- Google's e-mail component as one more exit task
#
# Vertex AI sends mail only from an exit task (https://cloud.google.com/vertex-ai/docs/pipelines/email-notifications),
# and kfp allows one exit task per handler: it refuses nested handlers and a second exit task, and the tasks of a
# pipeline that is an exit task do not receive the status. The compiled format has no such limit. Therefore kfp compiles
# the component as the exit task of another handler, and its task is moved to the workflow's handler, beside the
# workflow's own exit task. Not verified on Vertex AI.


def add_email(spec: PipelineSpec, recipients: Sequence[str]) -> PipelineSpec:
    """Returns the spec with an exit task that sends mail to the recipients when the steps have ended.

    Raises:
        RequestError: the workflow has no exit handler.
    """
    handler = _find_handler(spec)
    mail = _compile_email_task(recipients)
    content = copy.deepcopy(dict(spec.content))
    ((name, task),) = ((name, task) for name, task in mail["root"]["dag"]["tasks"].items() if _find_status_input(task))
    if name in content["root"]["dag"]["tasks"]:
        return spec  # the workflow sends mail itself
    component = task["componentRef"]["name"]
    label = mail["components"][component]["executorLabel"]
    task.pop("cachingOptions", None)
    task["dependentTasks"] = [handler]
    _find_status_input(task)["producerTask"] = handler
    content["root"]["dag"]["tasks"][name] = task
    content["components"][component] = mail["components"][component]
    content["deploymentSpec"]["executors"][label] = mail["deploymentSpec"]["executors"][label]
    return PipelineSpec(content)


def _find_handler(spec: PipelineSpec) -> str:
    """Returns the name of the group of tasks whose final status the workflow's exit task receives."""
    for task in spec.root.tasks.values():
        producer = _find_status_input(task.content).get("producerTask")
        if producer:
            return str(producer)
    raise RequestError(
        f"{spec.name}: [notify] email: Vertex AI sends mail only at the end of a dsl.ExitHandler, and this workflow "
        "has none. Put its steps into one, as pipelines/training.py does, or remove the addresses: email = []."
    )


def _find_status_input(task: Any) -> Any:
    """Returns the input that gives an exit task the final status of its handler's tasks; {} for another task."""
    for source in table(task, "inputs", "parameters").values():
        if status := table(source, "taskFinalStatus"):
            return status
    return {}


def _compile_email_task(recipients: Sequence[str]) -> JsonObject:
    """Returns a compiled pipeline that has Google's e-mail component as its exit task."""
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
