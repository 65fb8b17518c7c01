"""Judges the runtime that a PipelineJob names for its steps: a persistent resource, whose machines are there already.

runtimeConfig.defaultRuntime, a field of v1beta1 alone:
https://cloud.google.com/python/docs/reference/aiplatform/latest/google.cloud.aiplatform_v1beta1.types.PipelineJob.RuntimeConfig.PersistentResourceRuntimeDetail
"""

from vgp.base.documents.node import Node
from vgp.check.fields import Reader
from vgp.check.judgement import Judgement
from vgp.machines.placement import resource_names
from vgp.machines.placement.rules import Problem

_FALLS_BACK = ("FALL_BACK_TO_ON_DEMAND", 2)
#: What is done with a step that waits longer than it may; by its number too, and where nothing is said it fails.
_BEHAVIOURS = (None, "FAIL", "TASK_RESOURCE_UNAVAILABLE_TIMEOUT_BEHAVIOR_UNSPECIFIED", 0, 1, *_FALLS_BACK)
_STEP = "pipeline"


def stays_on_resource(judgement: Judgement) -> bool:
    """Whether the steps run on a persistent resource, and never on machines that they ask for themselves."""
    reader = Reader(judgement, _STEP)
    config = reader.object(Node(judgement.document.data).get("runtimeConfig"), "runtimeConfig")
    runtime = reader.object(config.get("defaultRuntime"), "defaultRuntime") if config else None
    field = "persistentResourceRuntimeDetail"
    detail = reader.object(runtime.get(field), field) if runtime else None
    if detail is None:
        return False
    _name(reader, detail.get("persistentResourceName"))
    reader.number(detail.get("taskResourceUnavailableWaitTimeMs"), "taskResourceUnavailableWaitTimeMs")
    behaviour = detail.get("taskResourceUnavailableTimeoutBehavior")
    if behaviour.known and behaviour.value not in _BEHAVIOURS:
        reader.judgement.malformed(_STEP, behaviour, str(behaviour.path[-1]), "FAIL or FALL_BACK_TO_ON_DEMAND")
    return behaviour.known and behaviour.value not in _FALLS_BACK


def _name(reader: Reader, node: Node) -> None:
    """The resource's whole name, in a region of the run."""
    name, regions = reader.text(node, "persistentResourceName"), reader.judgement.regions
    if node.missing:
        reader.judgement.malformed(_STEP, node, "persistentResourceName", "given")
    if not name:
        return
    try:
        region = resource_names.whole_persistent_resource(name)
    except ValueError as error:
        text = f"persistentResourceName: {error}"
    else:
        if not regions or region in regions:
            return
        text = f"persistentResourceName is in {region}, the run in {', '.join(regions)}."
    reader.judgement.report(_STEP, node, Problem("GPU035", "", text, severity="warning"))
