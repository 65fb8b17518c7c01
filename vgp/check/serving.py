"""Judges the machines of predictions: batch prediction jobs and models deployed to endpoints."""

from vgp.check.fields import Reader
from vgp.check.judgement import Judgement
from vgp.check.machine_spec import judge
from vgp.check.offer import judge_region, price_of
from vgp.documents.node import Node


def judge_resources(judgement: Judgement, step: str, resources: Node, location: Node | None) -> None:
    """dedicatedResources or BatchDedicatedResources: one machine, and how many of it."""
    reader = Reader(judgement, step)
    spec = reader.object(resources.get("machineSpec"), "machineSpec")
    if spec is None or not _names_something(spec):
        return
    reader.keys(spec, "machineSpec")
    machine_spec = judge(judgement, step, spec, serving=True)
    replicas = _replicas(reader, resources)
    region = location.text() if location is not None else None
    regions = [region] if region else list(judgement.regions)
    place = location if location is not None and region else spec.get("machineType")
    judge_region(judgement, step, place, machine_spec, regions, serving=True)
    machine = machine_spec.machine
    if machine_spec.combination and machine and "standard" not in machine.provisioning:
        text = f"{machine.name} is not offered on demand."
        judgement.add(step, spec.get("machineType"), "GPU009", text, "Choose another size.", "warning")
    usd, where = price_of(machine_spec, regions, "standard")
    judgement.steps.append(machine_spec.row(step, replicas, "STANDARD", usd, where))


def _names_something(spec: Node) -> bool:
    """GCPC sends an empty machineSpec where the author asked for automatic resources."""
    names = ("machineType", "acceleratorType", "acceleratorCount")
    return any(not spec.get(name).known or spec.get(name).value not in (None, "", 0, 0.0) for name in names)


def _replicas(reader: Reader, resources: Node) -> int | None:
    """The most replicas there can be; 0 is what clients send for 'not set'."""
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
        reader.judgement.add(
            reader.step, resources.get("maxReplicaCount"), "GPU007", text, f"Set it to {least} or more."
        )
    return max(most, least)
