"""Judges a plain step of a compiled pipeline: the resources of its container, and its image."""

from vgp.catalog import prices
from vgp.catalog.catalog import Machine, accelerators
from vgp.check import images
from vgp.check.fields import Reader
from vgp.check.finding import StepRow
from vgp.check.judgement import Judgement
from vgp.documents.node import Node
from vgp.placement import combination, job_fields, plain, provisioning


def judge(judgement: Judgement, step: str, container: Node) -> None:
    """A container with resources: cpu and memory limits, accelerator type and count."""
    reader = Reader(judgement, step)
    resources = reader.object(container.get("resources"), "resources") or Node(None, (*container.path, "resources"))
    asked = reader.object(resources.get("accelerator"), "accelerator") or Node(None, (*resources.path, "accelerator"))
    kind, number = _newer(asked, "resourceType", "type"), _newer(asked, "resourceCount", "count")
    accelerator, count = reader.accelerator(kind), reader.number(number, "accelerator count")
    accelerator = None if accelerator in combination.NO_ACCELERATOR else accelerator
    vcpu = _amount(reader, resources, "resourceCpuLimit", "cpuLimit")
    memory_gb = _amount(reader, resources, "resourceMemoryLimit", "memoryLimit")
    known = kind.known and number.known and (count is not None or number.value in (None, ""))
    problems = []
    if known:
        problems = plain.problems(vcpu, memory_gb, accelerator, count or 0, as_of=judgement.as_of)
    elif accelerator and accelerator not in accelerators():
        problems = [combination.unknown_accelerator(accelerator, judgement.as_of)]
    for problem in problems:
        judgement.report(step, _place(problem.field, kind, number, resources), problem)
    sound = known and not any(problem.level == "error" for problem in problems)
    machine = plain.machine_for(vcpu, memory_gb, accelerator, count or 0) if sound else None
    _region(judgement, step, kind, machine, accelerator if sound else None, count or 0)
    _image(reader, container, accelerator if sound else None)
    _row(judgement, step, machine, accelerator, count or 0)


def _newer(node: Node, new: str, old: str) -> Node:
    """kfp writes an old and a new field; the new one can hold a placeholder."""
    newer = node.get(new)
    return newer if newer.value not in (None, "") or not newer.known else node.get(old)


def _amount(reader: Reader, resources: Node, new: str, old: str) -> float | None:
    node = _newer(resources, new, old)
    if not node.known:
        reader.judgement.unknown(reader.step, node, old)
        return None
    if node.value in (None, "", 0):
        return None
    amount = (plain.vcpu_of if old == "cpuLimit" else plain.memory_gb_of)(node.value)
    if amount is None:
        rule = "a number of vCPU like '4' or '500m'" if old == "cpuLimit" else "an amount like '16G' or '512Mi'"
        reader.judgement.malformed(reader.step, node, old, rule)
    return amount


def _place(field: str, kind: Node, number: Node, resources: Node) -> Node:
    if field in ("cpuLimit", "memoryLimit"):
        return _newer(resources, f"resource{field[0].upper()}{field[1:]}", field)
    node = number if field == combination.COUNT else kind
    return node if node.value is not None else resources


def _region(
    judgement: Judgement, step: str, at: Node, machine: Machine | None, accelerator: str | None, count: int
) -> None:
    for region in judgement.regions:
        problems = provisioning.region_known(region)
        if accelerator and not problems:
            problems = provisioning.region(machine, accelerators()[accelerator], region)
        judgement.report(step, at, *problems)
    if accelerator:
        problems = provisioning.quota(accelerators()[accelerator], count, judgement.regions, "STANDARD")
        judgement.report(step, at, *problems)


def _image(reader: Reader, container: Node, accelerator: str | None) -> None:
    node = container.get("image")
    image, command = reader.text(node, "image") or "", reader.words(container, "command", "args")
    reader.judgement.report(reader.step, node, *images.problems(image, command, accelerator, None))


def _row(judgement: Judgement, step: str, machine: Machine | None, accelerator: str | None, count: int) -> None:
    region = judgement.regions[0] if judgement.regions else "us-central1"
    price = prices.price(machine.name, accelerator, count, region, "standard") if machine else None
    # A pipeline task ends after seven days at the latest; a plain step has no timeout of its own.
    row = StepRow(
        step, machine.name if machine else None, accelerator, count, 1, "STANDARD",
        price.usd_per_hour if price else None, region, job_fields.MAX_TIMEOUT_S,
    )  # fmt: skip
    judgement.steps.append(row)
