"""Judges an object of the API, whoever wrote it: custom job, tuning job, batch prediction, deployment, pools."""

import math
from typing import Any

from vgp.check import custom_job
from vgp.check.fields import Reader
from vgp.check.judgement import Judgement
from vgp.check.serving import judge_resources
from vgp.documents.node import Node, spellings

#: Fields by which an object is recognised, most telling first.
TELLING = (
    "trialJobSpec", "jobSpec", "deployedModel", "dedicatedResources", "trainingTaskInputs", "workerPoolSpecs",
    "machineSpec",
)  # fmt: skip


def telling_field(value: Any) -> str | None:
    """The field that tells what the object is; None if it is nothing of ours."""
    if not isinstance(value, dict):
        return None
    return next((name for name in TELLING if any(spelled in value for spelled in spellings(name))), None)


def is_pool_list(value: Any) -> bool:
    """worker_pool_specs as the SDK takes them."""
    return isinstance(value, list) and any(telling_field(item) == "machineSpec" for item in value)


def judge(judgement: Judgement, step: str, node: Node, *, location: Node | None = None, strict: bool = False) -> bool:
    """Judges the object; False if it is nothing that has machines.

    `strict`: the object goes to the REST API as it is, which refuses what only gcloud accepts.
    """
    node = node.decoded()
    kind = telling_field(node.value)
    if kind is None:
        return False
    location = location if location is not None else node.get("location")
    step = step or node.get("displayName").text() or judgement.document.default_step
    if kind == "machineSpec":
        judge_pools(judgement, step, Node([node.value], node.path[:-1] if node.path else (), node.scope))
    elif kind == "workerPoolSpecs":
        custom_job.judge(judgement, step, node, location=location, strict_list=strict)
    elif (inner := Reader(judgement, step).object(node.get(kind), kind)) is not None:
        _inside(judgement, step, kind, node, inner, location, strict)
    elif node.get(kind).missing:
        judgement.malformed(step, node.get(kind), kind, "an object")
    return True


def _inside(judgement: Judgement, step: str, kind: str, node: Node, inner: Node, location: Node, strict: bool) -> None:
    """What the telling field holds."""
    reader = Reader(judgement, step)
    if kind == "trialJobSpec":
        trials = reader.number(node.get("parallelTrialCount"), "parallelTrialCount") or 1
        rounds = _rounds(reader, node.get("maxTrialCount"), trials)
        custom_job.judge(
            judgement, step, inner, location=location, trials=trials, rounds=rounds, strict_list=strict
        )  # fmt: skip
    elif kind == "deployedModel":
        resources = reader.object(inner.get("dedicatedResources"), "dedicatedResources")
        if resources is not None:
            judge_resources(judgement, step, resources, location)
    elif kind == "dedicatedResources":
        judge_resources(judgement, step, inner, location)
    else:
        custom_job.judge(judgement, step, inner, location=location, strict_list=True)


def _rounds(reader: Reader, most: Node, at_a_time: int) -> int | None:
    """How often the timeout of a trial begins anew."""
    trials = reader.number(most, "maxTrialCount")
    return None if trials is None else max(1, math.ceil(trials / at_a_time))


def judge_pools(judgement: Judgement, step: str, pools: Node) -> None:
    """A bare list of worker pools: as the SDK takes them, or the one pool of a mapping."""
    around = Node(None, pools.path, pools.scope)
    custom_job.judge(judgement, step or judgement.document.default_step, around, pools=pools, strict_list=True)
