"""Judges a plain step of a compiled pipeline: the resources of its container, and its image."""

from vgp.catalog import catalog
from vgp.check import images
from vgp.check.fields import Reader
from vgp.check.finding import Judgement, StepRow
from vgp.documents.node import Node
from vgp.placement import compatibility, job_fields, plain, provisioning, quantities, quota
from vgp.placement.combination import Combination
from vgp.placement.rules import first_error


def judge(judgement: Judgement, step: str, container: Node) -> None:
    """A container with resources: cpu and memory limits, accelerator type and count."""
    reader = Reader(judgement, step)
    resources = reader.object(container.get("resources"), "resources") or Node(None, (*container.path, "resources"))
    asked = reader.object(resources.get("accelerator"), "accelerator") or Node(None, (*resources.path, "accelerator"))
    kind, number = _newer(asked, "resourceType", "type"), _newer(asked, "resourceCount", "count")
    accelerator, count = reader.accelerator(kind), reader.number(number, "accelerator count")
    accelerator = None if accelerator in compatibility.NO_ACCELERATOR else accelerator
    vcpu = _amount(reader, resources, "resourceCpuLimit", "cpuLimit")
    memory_gb = _amount(reader, resources, "resourceMemoryLimit", "memoryLimit")
    known = kind.known and number.known and (count is not None or number.value in (None, ""))
    found = []
    if known:
        found = plain.problems(vcpu, memory_gb, accelerator, count or 0, as_of=judgement.as_of)
    elif accelerator and accelerator not in catalog.accelerators():
        found = [compatibility.unknown_accelerator(accelerator, judgement.as_of)]
    for each in found:
        judgement.report(step, _place(each.field, kind, number, resources), each)
    sound = known and first_error(found) is None
    combination = plain.closest(vcpu, memory_gb, accelerator, count or 0) if sound else None
    _region(judgement, step, kind, combination, accelerator if sound else None)
    _image(judgement, reader, container, accelerator if sound else None)
    _row(judgement, step, combination, accelerator, count or 0)


def _newer(node: Node, new: str, old: str) -> Node:
    """kfp writes an old and a new field; the new one can hold a placeholder."""
    found = node.get(new)
    return found if found.value not in (None, "") or not found.known else node.get(old)


def _amount(reader: Reader, resources: Node, new: str, old: str) -> float | None:
    node = _newer(resources, new, old)
    if not node.known:
        reader.judgement.unknown(reader.step, node, old)
        return None
    if node.value in (None, "", 0):
        return None
    amount = (quantities.vcpu_of if old == "cpuLimit" else quantities.memory_gb_of)(node.value)
    if amount is None:
        wanted = "a number of vCPU like '4' or '500m'" if old == "cpuLimit" else "an amount like '16G' or '512Mi'"
        reader.judgement.malformed(reader.step, node, old, wanted)
    return amount


def _place(field: str, kind: Node, number: Node, resources: Node) -> Node:
    if field in ("cpuLimit", "memoryLimit"):
        return _newer(resources, f"resource{field[0].upper()}{field[1:]}", field)
    chosen = number if field == compatibility.COUNT else kind
    return chosen if chosen.value is not None else resources


def _region(judgement: Judgement, step: str, at: Node, machine: Combination | None, accelerator: str | None) -> None:
    gpu = catalog.accelerators().get(accelerator or "")
    for region in judgement.regions:
        problems = provisioning.region_known(region)
        if gpu and not problems:
            problems = provisioning.region(machine.machine if machine else None, gpu, region)
        for problem in problems:
            judgement.report(step, at, problem)
    if machine and gpu:
        for problem in quota.problems(machine, machine.count, judgement.regions, "STANDARD"):
            judgement.report(step, at, problem)


def _image(judgement: Judgement, reader: Reader, container: Node, accelerator: str | None) -> None:
    node = container.get("image")
    image = reader.text(node, "image")
    for each in images.problems(image or "", reader.words(container, "command", "args"), accelerator, None):
        judgement.report(reader.step, node, each)


def _row(judgement: Judgement, step: str, machine: Combination | None, accelerator: str | None, count: int) -> None:
    region = judgement.regions[0] if judgement.regions else catalog.DEFAULT_REGION
    price = machine.price("standard", region) if machine else None
    usd = price.usd_per_hour if price else None
    # A pipeline task ends after seven days at the latest; a plain step has no timeout of its own.
    timeout_s, name = job_fields.MAX_TIMEOUT_S, machine.machine_type if machine else None
    judgement.steps.append(StepRow(step, name, accelerator, count, 1, "STANDARD", usd, region, timeout_s))
