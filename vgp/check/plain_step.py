"""Judges a plain step of a compiled pipeline: the resources of its container, and its image."""

import math
import re

from vgp.base.documents.json_text import MAX_DIGITS
from vgp.base.documents.node import Node, whole_number
from vgp.check import container_facts
from vgp.check.check_finding import StepRow
from vgp.check.judgement import Judgement, Reader
from vgp.machines.catalog import catalog
from vgp.machines.placement import compatibility, job_fields, plain, provisioning
from vgp.machines.placement.combination import Combination
from vgp.machines.placement.machine_rules import first_error

_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "m": 1e-3}
_UNITS |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
_QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?(?:[eE]\d+)?)\s*([a-zA-Z]{0,2})\s*")


def vcpu_of(value: object) -> float | None:
    """Returns the vCPU of a CPU limit: 4, 4.0, '4' or '500m'; None if it is invalid."""
    return _parse_quantity(value)


def memory_gb_of(value: object) -> float | None:
    """Returns the GB of a memory limit: '15G', '16Gi' or 15.0 (GB, as compiled by kfp); None if it is invalid."""
    amount = _parse_quantity(value)
    return amount if amount is None or isinstance(value, int | float) else amount / 1e9


def _parse_quantity(value: object) -> float | None:
    """Returns a finite number of 0 or more; None for everything else."""
    match = _QUANTITY.fullmatch(value[:MAX_DIGITS]) if isinstance(value, str) else None
    try:
        if match is not None and match.group(2) in _UNITS:
            amount = float(match.group(1)) * _UNITS[match.group(2)]
        elif isinstance(value, int | float) and not isinstance(value, bool):
            amount = float(value)
        else:
            return None
    except OverflowError:
        return None
    return amount if 0 <= amount < math.inf else None


#: coreutils' timeout as the first program of a container, with the option that kills: without it the program may run
#: on.
_TIMEOUT = re.compile(
    r"(?:\S*/)?timeout (?:--?[a-z-]+ )*?(?:-k |--kill-after[= ])(?P<kill>[0-9]+(?:\.[0-9]+)?)(?P<kill_unit>[smhd]?) "
    r"(?:--[a-z-]+ )*(?P<limit>[0-9]+(?:\.[0-9]+)?)(?P<limit_unit>[smhd]?) \S"
)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def judge(judgement: Judgement, step: str, container: Node) -> None:
    """Judges a container and its cpu limit, memory limit, accelerator type and count."""
    reader = Reader(judgement, step)
    resources = reader.object(container.get("resources"), "resources") or Node(None, (*container.path, "resources"))
    limits = reader.object(resources.get("accelerator"), "accelerator") or Node(None, (*resources.path, "accelerator"))
    kind, number = (
        _choose_newer_field(limits, "resourceType", "type"),
        _choose_newer_field(limits, "resourceCount", "count"),
    )
    accelerator, count = reader.accelerator(kind), reader.number(number, "accelerator count")
    accelerator = None if accelerator in compatibility.NO_ACCELERATOR else accelerator
    vcpu = _read_amount(reader, resources, "resourceCpuLimit", "cpuLimit")
    memory_gb = _read_amount(reader, resources, "resourceMemoryLimit", "memoryLimit")
    known = kind.known and number.known and (count is not None or number.value in (None, ""))
    problems = []
    if known:
        problems = plain.problems(
            vcpu, memory_gb, accelerator, count or 0, as_of=judgement.as_of, regions=tuple(judgement.regions)
        )
    elif accelerator and accelerator not in catalog.accelerators():
        problems = [compatibility.unknown_accelerator(accelerator, judgement.as_of)]
    for problem in problems:
        judgement.report(step, _place(problem.field, kind, number, resources), problem)
    sound = first_error(problems) is None
    combination = plain.closest(vcpu, memory_gb, accelerator, count or 0) if sound and known else None
    if not judgement.on_resource:
        _check_region(judgement, step, kind, combination, accelerator if sound else None)
    _check_image(reader, container, accelerator if sound else None)
    reader.variables(container.get("env"))
    used, timeout_s = container_facts.services_of(container.get("env")), _find_timeout_s(container)
    judgement.report(
        step, container.get("env"), *container_facts.find_early_end(used, timeout_s or plain.MAX_TIMEOUT_S)
    )
    _add_row(judgement, step, combination, accelerator, count or 0, timeout_s, used)


def _choose_newer_field(node: Node, new: str, old: str) -> Node:
    """Returns the newer of kfp's two fields, which can hold a placeholder, or else the older one."""
    newer = node.get(new)
    return newer if newer.value not in (None, "") or not newer.known else node.get(old)


def _read_amount(reader: Reader, resources: Node, new: str, old: str) -> float | None:
    node = _choose_newer_field(resources, new, old)
    if not node.known:
        reader.report_unknown(node, old)
        return None
    if node.value in (None, "", 0):
        return None
    amount = (vcpu_of if old == "cpuLimit" else memory_gb_of)(node.value)
    if amount is None:
        rule = "a number of vCPU like '4' or '500m'" if old == "cpuLimit" else "an amount like '16G' or '512Mi'"
        reader.report_malformed(node, old, rule)
    return amount


def _place(field: str, kind: Node, number: Node, resources: Node) -> Node:
    if field in ("cpuLimit", "memoryLimit"):
        return _choose_newer_field(resources, f"resource{field[0].upper()}{field[1:]}", field)
    node = number if field == compatibility.COUNT else kind
    return node if node.value is not None else resources


def _check_region(
    judgement: Judgement, step: str, at: Node, combination: Combination | None, accelerator: str | None
) -> None:
    gpu = catalog.accelerators().get(accelerator or "")
    for region in judgement.regions:
        problems = provisioning.region_known(region)
        if gpu and not problems:
            problems = provisioning.region(combination.machine if combination else None, gpu, region)
        judgement.report(step, at, *problems)
    if combination and gpu:
        judgement.report(
            step, at, *provisioning.quota_problems(combination, combination.count, judgement.regions, "STANDARD")
        )


def _check_image(reader: Reader, container: Node, accelerator: str | None) -> None:
    node = container.get("image")
    image, command = reader.text(node, "image") or "", reader.words(container, "command", "args")
    reader.report(node, *container_facts.image_problems(image, command, accelerator, None))


def _find_timeout_s(container: Node) -> int | None:
    """Returns the limit in the step's own command: kfp's variable, or a command that begins with `timeout -k`."""
    keeps = any(f"${plain.TIMEOUT_VARIABLE}" in str(word.value) for word in container.get("command").items())
    pairs = container.get("env").items()
    limits = [pair.get("value") for pair in pairs if pair.get("name").text() == plain.TIMEOUT_VARIABLE]
    seconds = whole_number(limits[-1].value) if keeps and limits and limits[-1].known else None
    words = [word.text() or "" for key in ("command", "args") for word in container.get(key).items()]
    seconds = seconds or _parse_coreutils_timeout(words)
    return min(seconds, plain.MAX_TIMEOUT_S) if seconds and seconds > 0 else None


def _parse_coreutils_timeout(words: list[str]) -> int | None:
    """Returns the seconds after which `timeout -k 60 4h PROGRAM` kills the program; None without -k."""
    match = _TIMEOUT.match(" ".join(words))
    if not match:
        return None
    kill, limit = (float(match[name]) * _SECONDS[match[f"{name}_unit"] or "s"] for name in ("kill", "limit"))
    return math.ceil(kill + limit) if limit else None


def _add_row(
    judgement: Judgement,
    step: str,
    combination: Combination | None,
    accelerator: str | None,
    count: int,
    timeout_s: int | None,
    used: tuple[container_facts.Service, ...],
) -> None:
    region = judgement.regions[0] if judgement.regions else catalog.DEFAULT_REGION
    price = combination.price("standard", region) if combination else None
    row = StepRow(
        step, combination.machine_type if combination else None, accelerator, count, 1, "STANDARD",
        price.usd_per_hour if price else None, region, timeout_s or plain.MAX_TIMEOUT_S, services=used,
        is_persistent=judgement.on_resource, is_endless=timeout_s is None,
        boot_disk=job_fields.default_disk(combination.machine) if combination else None,
    )  # fmt: skip
    judgement.steps.append(row)
