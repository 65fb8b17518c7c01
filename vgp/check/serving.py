"""Judges the machines of predictions: batch prediction jobs and models deployed to endpoints."""

from vgp.base.documents.node import Node, spellings
from vgp.check.fields import Reader
from vgp.check.job_terms import Terms
from vgp.check.judgement import Judgement
from vgp.check.machine_spec import judge
from vgp.check.offer import judge_region, price_of
from vgp.check.worker_pool import judge_reservation
from vgp.machines.placement.nearest import Conditions

_WORDS = {"standard": "on demand", "spot": "as Spot", "flex_start": "with Flex-start", "reservation": "by reservations"}
#: Names and numbers of the enum.
_RESERVED = ("ANY_RESERVATION", "SPECIFIC_RESERVATION", 2, 3)


def judge_resources(judgement: Judgement, step: str, resources: Node, location: Node | None) -> None:
    """dedicatedResources or BatchDedicatedResources: one machine, and how many of it."""
    reader = Reader(judgement, step)
    spec = reader.object(resources.get("machineSpec"), "machineSpec")
    if spec is None:
        if resources.known and resources.value and not any(key in resources.value for key in spellings("machineSpec")):
            reader.keys(resources, "dedicatedResources")
            judgement.malformed(step, resources.get("machineSpec"), "machineSpec", "given")
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
    machine_spec = judge(judgement, step, spec, serving=True, conditions=conditions)
    replicas = _replicas(reader, resources)
    place = location if location is not None and region else machine_type
    judge_region(judgement, step, place, machine_spec, regions, serving=True)
    judge_reservation(reader, Terms(location if region else None, regions, Node(None), "STANDARD", False), spec)
    way = _way(reader, resources, spec)
    machine = machine_spec.machine
    if machine_spec.combination and machine and way and way not in machine.provisioning:
        text, fix = f"{machine.name} is not offered {_WORDS[way]}.", "Choose another size."
        if "spot" in machine.provisioning:
            fix = "Set spot in dedicatedResources, or choose another size."
        judgement.add(step, machine_type, "GPU009", text, fix, "warning")
    usd, where = price_of(machine_spec, regions, way or "standard")
    strategy = {"spot": "SPOT", "flex_start": "FLEX_START"}.get(way or "", "STANDARD")
    judgement.steps.append(machine_spec.row(step, replicas, strategy, usd, where))


def _way(reader: Reader, resources: Node, spec: Node) -> str | None:
    """How the machines are got, by the fields of DedicatedResources; None where only the run knows that."""
    spot, flex_start = resources.get("spot"), resources.get("flexStart")
    affinity = spec.get("reservationAffinity")
    kind = affinity.get("reservationAffinityType")
    if not (spot.known and flex_start.known and affinity.known and kind.known):
        return None
    if isinstance(spot.value, bool) and spot.value:
        return "spot"
    if spot.value is not None and not isinstance(spot.value, bool):
        reader.judgement.malformed(reader.step, spot, "spot", "true or false")
        return None
    if flex_start.value is not None:
        return "flex_start"
    return "reservation" if kind.value in _RESERVED else "standard"


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
