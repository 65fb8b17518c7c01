"""Judges an object of the API: custom job, tuning job, batch prediction, deployment or pools."""

import math
import re

from vgp.base.documents.json_text import JsonObject
from vgp.base.documents.node import Node, spellings, whole_number
from vgp.check import custom_job
from vgp.check.judgement import Judgement, Reader
from vgp.check.machine_spec import judge_machine
from vgp.check.terms import Terms, judge_region, price_of, report_misplaced
from vgp.check.worker_pool import judge_reservation, judge_resource_pools
from vgp.machines.placement.search import Conditions

#: Fields that identify the kind of an object, the most specific first.
KIND_FIELDS = (
    "trialJobSpec", "jobSpec", "deployedModel", "deployedModels", "dedicatedResources", "trainingTaskInputs",
    "resourcePools", "workerPoolSpecs", "machineSpec",
)  # fmt: skip
#: Fields of create requests that hold the object.
_ENVELOPES = (
    "customJob", "hyperparameterTuningJob", "trainingPipeline", "batchPredictionJob", "endpoint", "persistentResource",
    "deploymentResourcePool",
)  # fmt: skip
_PARENT = re.compile(r"projects/[^/]+/locations/([^/]+)(?:/.*)?")


def find_kind_field(value: object) -> str | None:
    """Returns the field that identifies the object, or the envelope around it; None if it is not an object with
    machines."""
    if not isinstance(value, dict):
        return None
    field = next((name for name in KIND_FIELDS if any(spelled in value for spelled in spellings(name))), None)
    return field or _find_envelope(value)


def _find_envelope(value: JsonObject) -> str | None:
    """Returns the field of a request body {parent, customJob: {...}} that holds a known object."""
    held = ((name, value.get(spelled)) for name in _ENVELOPES for spelled in spellings(name))
    return next((name for name, inner in held if _has_kind_field(inner)), None)


def _has_kind_field(value: object) -> bool:
    """Whether the object itself, not an envelope around it, has an identifying field. Envelopes do not nest."""
    return isinstance(value, dict) and any(spelled in value for name in KIND_FIELDS for spelled in spellings(name))


def is_pool_list(value: object) -> bool:
    """Whether the value is a list of worker pools in the SDK's form."""
    return isinstance(value, list) and any(find_kind_field(item) == "machineSpec" for item in value)


def judge(judgement: Judgement, step: str, node: Node, *, location: Node | None = None, strict: bool = False) -> bool:
    """Judges the object and returns True, or returns False if it requests no machines.

    `strict`: the object goes through Google's Python client, which refuses what gcloud accepts.
    """
    node = node.decode()
    kind = find_kind_field(node.value)
    if kind is None:
        return False
    location = location if location is not None else _find_location(node)
    if kind in _ENVELOPES:
        return judge(judgement, step, node.get(kind), location=location, strict=strict)
    step = step or node.get("displayName").text() or judgement.document.default_step
    if not location.known:
        judgement.report_unknown(step, location, "location")
    if kind == "machineSpec":
        judge_pools(judgement, step, Node([node.value], node.path[:-1] if node.path else (), node.scope))
    elif kind == "deployedModels":
        _judge_deployed_models(judgement, step, node.get(kind).decode(), location)
    elif kind == "resourcePools":
        judge_resource_pools(judgement, step, node, location)
    elif kind == "workerPoolSpecs":
        custom_job.judge(judgement, step, node, location=location, strict_list=strict)
    elif (inner := Reader(judgement, step).object(node.get(kind), kind)) is not None:
        _judge_content(judgement, step, kind, node, inner, location, strict)
    elif node.get(kind).missing:
        judgement.report_malformed(step, node.get(kind), kind, "an object")
    return True


def _find_location(node: Node) -> Node:
    """Returns the location of the object: its field `location`, that of the request around it, or a part of
    `parent`."""
    location, parent = node.get("location"), node.get("parent")
    match = _PARENT.fullmatch(str(parent.value)) if location.missing else None
    return Node(match.group(1), parent.path, parent.scope).resolve() if match else location


def _judge_deployed_models(judgement: Judgement, step: str, models: Node, location: Node) -> None:
    """Judges each deployed model of an endpoint; models with automatic resources name no machine."""
    if not models.known:
        judgement.report_unknown(step, models, "deployedModels")
    elif not isinstance(models.value, list):
        judgement.report_malformed(step, models, "deployedModels", "a list of deployed models")
    reader = Reader(judgement, step)
    for index, item in enumerate(models.items()):
        model = reader.object(item, f"deployedModels[{index}]")
        if model is None:
            continue
        name = model.get("displayName").text() or str(index)
        resources = reader.object(model.get("dedicatedResources"), "dedicatedResources")
        if resources is not None:
            judge_resources(judgement, f"{step}/{name}", resources, location)


def _judge_content(
    judgement: Judgement, step: str, kind: str, node: Node, inner: Node, location: Node, strict: bool
) -> None:
    """Judges the object that the identifying field holds."""
    reader = Reader(judgement, step)
    if kind in ("jobSpec", "trialJobSpec"):
        report_misplaced(reader, node, "scheduling")
    if kind == "trialJobSpec":
        count = node.get("parallelTrialCount")
        for name in ("parallelTrialCount", "maxTrialCount"):
            if whole_number(node.get(name).value) == 0:
                judgement.report_malformed(step, node.get(name), name, "a whole number of 1 or more")
        trials = reader.number(count, "parallelTrialCount") or (1 if count.known else None)
        rounds = _count_rounds(reader, node.get("maxTrialCount"), trials)
        custom_job.judge(
            judgement, step, inner, location=location, trials=trials, rounds=rounds, strict_list=strict
        )  # fmt: skip
    elif kind == "deployedModel":
        resources = reader.object(inner.get("dedicatedResources"), "dedicatedResources")
        if resources is not None:
            judge_resources(judgement, step, resources, location)
    elif kind == "dedicatedResources":
        judge_resources(judgement, step, inner, location)
    elif kind == "trainingTaskInputs" and not _is_custom(node, inner):
        return  # AutoML chooses its machines itself
    else:
        custom_job.judge(judgement, step, inner, location=location, strict_list=strict)


def _is_custom(node: Node, inputs: Node) -> bool:
    """Whether a training pipeline runs a custom job: its inputs have pools, or its definition names one."""
    definition = node.get("trainingTaskDefinition").text()
    return not definition or "custom_task" in definition or not inputs.get("workerPoolSpecs").missing


def _count_rounds(reader: Reader, most: Node, at_a_time: int | None) -> int | None:
    """Returns how many rounds of trials there are at most; the timeout applies to each round."""
    trials = reader.number(most, "maxTrialCount")
    return None if trials is None or at_a_time is None else max(1, math.ceil(trials / at_a_time))


def judge_pools(judgement: Judgement, step: str, pools: Node) -> None:
    """Judges a list of worker pools, or a mapping with a single pool."""
    around = Node(None, pools.path, pools.scope)
    custom_job.judge(judgement, step or judgement.document.default_step, around, pools=pools, strict_list=True)


_WORDS = {"standard": "on demand", "spot": "as Spot", "flex_start": "with Flex-start", "reservation": "by reservations"}
#: Names and numbers of the provisioning enum.
_RESERVED = ("ANY_RESERVATION", "SPECIFIC_RESERVATION", 2, 3)


def judge_resources(judgement: Judgement, step: str, resources: Node, location: Node | None) -> None:
    """Judges dedicatedResources or BatchDedicatedResources: one machine type and its number of replicas."""
    reader = Reader(judgement, step)
    spec = reader.object(resources.get("machineSpec"), "machineSpec")
    if spec is None:
        if resources.known and resources.value and not any(key in resources.value for key in spellings("machineSpec")):
            reader.keys(resources, "dedicatedResources")
            judgement.report_malformed(step, resources.get("machineSpec"), "machineSpec", "given")
        return
    machine_type = spec.get("machineType")
    if not _names_something(spec):
        if machine_type.assumed:
            text = f"machineType is not checkable: the default of '{machine_type.assumed}' is empty."
            judgement.add(step, machine_type, "GPU024", text, "Give the parameter a default.")
        return
    reader.keys(resources, "dedicatedResources")
    reader.keys(spec, "machineSpec")
    region = location.text() if location is not None else None
    regions = [region] if region else list(judgement.regions)
    conditions = Conditions(tuple(regions), serving=True)
    machine_spec = judge_machine(judgement, step, spec, serving=True, conditions=conditions)
    replicas = _count_serving_replicas(reader, resources)
    place = location if location is not None and region else machine_type
    judge_region(judgement, step, place, machine_spec, regions, serving=True)
    judge_reservation(reader, Terms(location if region else None, regions, Node(None), "STANDARD", False), spec)
    provisioning = _read_provisioning(reader, resources, spec)
    machine = machine_spec.machine
    if machine_spec.combination and machine and provisioning and provisioning not in machine.provisioning:
        text, fix = f"{machine.name} is not offered {_WORDS[provisioning]}.", "Choose another size."
        if "spot" in machine.provisioning:
            fix = "Set spot in dedicatedResources, or choose another size."
        judgement.add(step, machine_type, "GPU009", text, fix, "warning")
    usd, where = price_of(machine_spec, regions, provisioning or "standard")
    strategy = {"spot": "SPOT", "flex_start": "FLEX_START"}.get(provisioning or "", "STANDARD")
    judgement.steps.append(machine_spec.row(step, replicas, strategy, usd, where))


def _read_provisioning(reader: Reader, resources: Node, spec: Node) -> str | None:
    """Returns the provisioning that the fields of DedicatedResources select; None if only the run determines it."""
    spot, flex_start = resources.get("spot"), resources.get("flexStart")
    affinity = spec.get("reservationAffinity")
    kind = affinity.get("reservationAffinityType")
    if not (spot.known and flex_start.known and affinity.known and kind.known):
        return None
    if isinstance(spot.value, bool) and spot.value:
        return "spot"
    if spot.value is not None and not isinstance(spot.value, bool):
        reader.report_malformed(spot, "spot", "true or false")
        return None
    if flex_start.value is not None:
        return "flex_start"
    return "reservation" if kind.value in _RESERVED else "standard"


def _names_something(spec: Node) -> bool:
    """Whether the machineSpec has a value. GCPC sends an empty machineSpec for automatic resources."""
    names = ("machineType", "acceleratorType", "acceleratorCount")
    return any(not spec.get(name).known or spec.get(name).value not in (None, "", 0, 0.0) for name in names)


def _count_serving_replicas(reader: Reader, resources: Node) -> int | None:
    """Returns the maximum number of replicas; 0 is what clients send for an unset field."""
    counts = {}
    for name in ("startingReplicaCount", "minReplicaCount", "maxReplicaCount"):
        node = resources.get(name)
        counts[name] = reader.number(node, name)
        if not node.known:
            return None
    least = counts["startingReplicaCount"] or counts["minReplicaCount"] or 1
    most = counts["maxReplicaCount"] or least
    if most < least:
        text = f"maxReplicaCount is {most}, below the {least} that it starts with."
        reader.add(resources.get("maxReplicaCount"), "GPU007", text, f"Set it to {least} or more.")
    return max(most, least)
