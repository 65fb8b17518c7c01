"""Plain pipeline steps: KFP resource requests, and the machine that Vertex AI takes for them.

Vertex AI uses the closest machine type; its measure of closeness is not published. A step cannot request more than 96
vCPU and 624 GB, and has no strategy, boot disk or reservation.
https://docs.cloud.google.com/vertex-ai/docs/pipelines/machine-types (read 2026-08-22)
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import date
from functools import cache

from vgp.base.text.figures import GB_PER_GIB, join_words
from vgp.machines.catalog import catalog
from vgp.machines.placement import compatibility, job_fields, tpu_rules
from vgp.machines.placement.combination import Combination, combinations, without_gpus
from vgp.machines.placement.machine_rules import Problem, first_error
from vgp.machines.placement.search import Conditions, nearest_combination

MAX_VCPU, MAX_MEMORY_GB = 96, 624
#: Vertex AI ends a task after seven days and has no shorter limit, so the container's command reads this variable.
TIMEOUT_VARIABLE = "STEP_TIMEOUT_S"
#: Engines of a step that prepares data: vgp/machines/placement/request_parts.py.
ENGINES_VARIABLE = "PREPARE_ENGINES"
DEFAULT_TIMEOUT_S, MAX_TIMEOUT_S = 14_400, job_fields.MAX_TIMEOUT_S
#: Retries of a failing Python step; a custom job has none by default.
DEFAULT_RETRIES = 2
DEFAULT_MACHINE = "e2-standard-4"
#: CPU series; of equal machines the earlier one is assumed, because the default machine is an E2.
_FAMILIES = ("e2", "n1", "n2", "c2", "n4")


def problems(
    vcpu: float | None, memory_gb: float | None, accelerator: str | None, count: int, *, as_of: date,
    regions: tuple[str, ...] = (),
) -> list[Problem]:  # fmt: skip
    """Returns the problems of the request; None: unset or unknown. `regions`: regions of the proposals."""
    limits = _check_limits(vcpu, memory_gb)
    accelerator = None if accelerator in compatibility.NO_ACCELERATOR else accelerator
    if not accelerator and not count:
        return limits
    if accelerator and accelerator.startswith("TPU_") and accelerator in catalog.accelerators():
        return limits + tpu_rules.plain(accelerator, count)
    conditions = Conditions(regions, among=_list_by_limits(vcpu, memory_gb))
    problems_found = compatibility.problems(None, accelerator, count, as_of=as_of)
    limits += [_propose_gpus(problem, accelerator, count, as_of, conditions) for problem in problems_found]
    if first_error(limits) or accelerator is None:
        return limits
    return limits + _check_reachable(vcpu, memory_gb, accelerator, count)


def _propose_gpus(
    problem: Problem, accelerator: str | None, count: int, as_of: date, conditions: Conditions
) -> Problem:
    """Returns the problem with GPUs that a plain step can get."""
    row = catalog.accelerators().get(accelerator or "")
    if len(problem.nearest) < 2 or row is None:
        return problem
    near = nearest_combination(None, row, count or 1, as_of=as_of, conditions=conditions)
    fix = f"Nearest that works: {near.with_prices()}." if near else "Run it as a custom job with a machine type."
    return replace(problem, suggestion=fix, nearest=compatibility.fields_of(near) if near else ())


@cache
def closest(vcpu: float | None, memory_gb: float | None, accelerator: str | None, count: int) -> Combination | None:
    """Returns the closest machine with the accelerator that meets both limits, the presumed choice of Vertex AI."""
    if accelerator and count:
        return _find_closest(filter(_can_be_asked, _list_by_gpus(accelerator, count)), vcpu, memory_gb)
    if vcpu is None and memory_gb is None:
        return default()
    return _find_closest((row for row in without_gpus() if row.machine.family in _FAMILIES), vcpu, memory_gb)


def default() -> Combination:
    """Returns the machine of a step without requests."""
    return Combination(catalog.machines()[DEFAULT_MACHINE])


def limits_of(combination: Combination) -> tuple[int, float]:
    """Returns vCPU and GB that no smaller machine meets."""
    return combination.vcpu, min(combination.memory_gb, MAX_MEMORY_GB)


def choose_by_limits(combination: Combination) -> Combination | None:
    """Returns Vertex AI's choice for the limits of `combination`: itself, or a closer one; None above all limits."""
    vcpu, memory_gb = limits_of(combination)
    if vcpu > MAX_VCPU:
        return None
    return closest(vcpu, memory_gb, combination.accelerator_type, combination.count)


def can_get(combination: Combination) -> bool:
    """Whether a plain step can get exactly this machine."""
    return choose_by_limits(combination) == combination


@cache
def _list_by_limits(vcpu: float | None, memory_gb: float | None) -> frozenset[Combination]:
    """Returns the machines that meet these limits of a plain step."""
    large = (row for row in combinations() if (vcpu or 0) <= row.vcpu and _fits(memory_gb or 0, row.memory_gb))
    return frozenset(filter(_can_be_asked, large))


def _check_limits(vcpu: float | None, memory_gb: float | None) -> list[Problem]:
    above, fix = [], "Run it as a custom job with a machine type."
    if vcpu is not None and vcpu > MAX_VCPU:
        text = f"A plain step gets at most {MAX_VCPU} vCPU, not {vcpu:g}."
        above.append(Problem("GPU014", "cpuLimit", text, fix))
    if memory_gb is not None and not _fits(memory_gb, MAX_MEMORY_GB):
        text = f"A plain step gets at most {MAX_MEMORY_GB} GB, not {memory_gb:g}."
        above.append(Problem("GPU014", "memoryLimit", text, fix))
    return above


def _check_reachable(vcpu: float | None, memory_gb: float | None, accelerator: str, count: int) -> list[Problem]:
    having = _list_by_gpus(accelerator, count)
    reachable = [row for row in having if _can_be_asked(row)]
    if not reachable:
        first = having[0].machine
        why = f"has {first.vcpu} vCPU" if first.vcpu > MAX_VCPU else f"comes with {join_words(first.provisioning)} only"
        text = f"{count} x {accelerator} needs {first.name}, which {why}"
        fix = "Run it as a custom job with that machine type."
        if catalog.accelerators()[accelerator].only_plain_selector:
            text += f": Google's page lists {accelerator} for plain steps, but its limits leave no machine for it."
            return [Problem("GPU014", "accelerator", text, fix, severity="warning")]
        return [Problem("GPU014", "accelerator", f"{text}: a plain step cannot get it.", fix)]
    if _find_closest(reachable, vcpu, memory_gb) is None:
        best = max(reachable, key=lambda row: (row.vcpu, row.memory_gb))
        limits = [f"{vcpu:g} vCPU"] if vcpu is not None else []
        limits += [f"{memory_gb:g} GB"] if memory_gb is not None else []
        text = f"No machine with {count} x {accelerator} has {' and '.join(limits)}."
        fix = f"The largest: {best.with_prices()}, {best.vcpu} vCPU, {best.memory_gb:g} GB."
        return [Problem("GPU003", "accelerator", text, fix)]
    return []


@cache
def _list_by_gpus(accelerator: str, count: int) -> tuple[Combination, ...]:
    return tuple(row for row in combinations() if (row.accelerator_type, row.count) == (accelerator, count))


def _can_be_asked(combination: Combination) -> bool:
    return combination.vcpu <= MAX_VCPU and "standard" in combination.machine.provisioning


def _find_closest(rows: Iterable[Combination], vcpu: float | None, memory_gb: float | None) -> Combination | None:
    def distance(row: Combination) -> tuple[float, ...]:
        gap = abs(row.memory_gb - memory_gb) if memory_gb else row.memory_gb
        family = row.machine.family
        return row.vcpu, gap, _FAMILIES.index(family) if family in _FAMILIES else 0

    large = (row for row in rows if (vcpu or 0) <= row.vcpu and _fits(memory_gb or 0, row.memory_gb))
    return min(large, key=distance, default=None)


def _fits(memory_gb: float, machine_gb: float) -> bool:
    """Whether the memory fits. 16Gi fits a machine of 16 GB: Google's GB are GiB, although no page states it."""
    return memory_gb <= machine_gb * GB_PER_GIB * (1 + 1e-9)
