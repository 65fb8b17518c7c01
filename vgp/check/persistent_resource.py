"""Judges a persistent resource, whose machines stay: its pools, and the runtime of a pipeline's job that names one.

https://docs.cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.persistentResources#ResourcePool
runtimeConfig.defaultRuntime of a pipeline's job, a field of v1beta1 alone:
https://cloud.google.com/python/docs/reference/aiplatform/latest/google.cloud.aiplatform_v1beta1.types.PipelineJob.RuntimeConfig.PersistentResourceRuntimeDetail
"""

from vgp.base.documents.budget import spend
from vgp.base.documents.node import Node
from vgp.base.text import google_names
from vgp.check.judgement import Judgement, Reader
from vgp.check.machine_spec import judge_machine
from vgp.check.terms import Terms, judge_region, price_of
from vgp.check.worker_pool import judge_disk, judge_reservation
from vgp.machines.placement.machine_rules import Problem
from vgp.machines.placement.nearest_machine import Conditions


def judge(judgement: Judgement, step: str, resource: Node, location: Node | None) -> None:
    """Every pool; without quota and strategy, of which a persistent resource has its own."""
    reader, pools = Reader(judgement, step), resource.get("resourcePools").decoded()
    if not pools.known:
        judgement.unknown(step, pools, "resourcePools")
    elif not isinstance(pools.value, list) or not pools.value:
        judgement.malformed(step, pools, "resourcePools", "a list with at least one pool")
    region = location.text() if location is not None else None
    regions = [region] if region else list(judgement.regions)
    terms = Terms(location if region else None, regions, Node(None), "STANDARD", False)
    is_ray = bool(resource.get("resourceRuntimeSpec").get("raySpec").value)
    for index, item in enumerate(pools.items()):
        spend("steps")
        pool = reader.object(item, f"resourcePools[{index}]")
        if pool is not None:
            _pool(reader, terms, pool, is_ray)


def _pool(reader: Reader, terms: Terms, pool: Node, is_ray: bool) -> None:
    reader.keys(pool, "resourcePool")
    replicas = _replicas(reader, pool, 0 if is_ray else 1)
    node = reader.object(pool.get("machineSpec"), "machineSpec")
    if node is None:
        if pool.get("machineSpec").missing:
            reader.judgement.malformed(reader.step, pool.get("machineSpec"), "machineSpec", "given")
        return
    reader.keys(node, "machineSpec")
    is_reserved = judge_reservation(reader, terms, node)
    spec = judge_machine(reader.judgement, reader.step, node, conditions=Conditions(tuple(terms.regions)))
    judge_region(
        reader.judgement, reader.step, terms.location or node.get("machineType"), spec, terms.regions, serving=False
    )  # fmt: skip
    judge_disk(reader, pool, spec)
    usd, region = price_of(spec, terms.regions, "reservation" if is_reserved else "standard")
    # It costs until somebody deletes it: there is no most.
    reader.judgement.steps.append(spec.row(reader.step, replicas, "STANDARD", usd, region))


def _replicas(reader: Reader, pool: Node, least_allowed: int) -> int | None:
    """The most machines that the pool can have; None where only the run knows."""
    count, scaling = pool.get("replicaCount"), reader.object(pool.get("autoscalingSpec"), "autoscalingSpec")
    replicas = reader.number(count, "replicaCount")
    if replicas == 0 and scaling is None:
        text = "The pool has 0 replicas: there is no machine to run a job on."
        reader.judgement.add(reader.step, count, "GPU007", text, "Set replicaCount to 1 or more.")
    if scaling is None:
        return replicas if replicas is not None or not count.missing else 1
    reader.keys(scaling, "autoscalingSpec")
    least, most = (reader.number(scaling.get(name), name) for name in ("minReplicaCount", "maxReplicaCount"))
    if least is not None and least < least_allowed:
        text = f"minReplicaCount is {least}; only Ray clusters may go down to 0."
        reader.judgement.add(reader.step, scaling.get("minReplicaCount"), "GPU007", text, "Set minReplicaCount to 1.")
    if least is not None and most is not None and most <= least:
        text = f"maxReplicaCount is {most}; it must be above minReplicaCount, which is {least}."
        reader.judgement.add(
            reader.step, scaling.get("maxReplicaCount"), "GPU007", text, f"Set it to {least + 1} or more."
        )
    elif replicas is not None and most is not None and most < replicas:
        text = f"maxReplicaCount is {most}, below the replicaCount of {replicas}."
        fix = f"Set it to {replicas} or more."
        reader.judgement.add(reader.step, scaling.get("maxReplicaCount"), "GPU007", text, fix)
    return most


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
        region = google_names.whole_persistent_resource(name)
    except ValueError as error:
        text = f"persistentResourceName: {error}"
    else:
        if not regions or region in regions:
            return
        text = f"persistentResourceName is in {region}, the run in {', '.join(regions)}."
    reader.judgement.report(_STEP, node, Problem("GPU035", "", text, severity="warning"))
