"""Plain pipeline steps: KFP resource requests, and the machine that Vertex AI takes for them.

Vertex AI takes the closest machine type; how it measures that is not published. A step cannot ask for more than 96
vCPU and 624 GB, and has no strategy, boot disk or reservation.
https://docs.cloud.google.com/vertex-ai/docs/pipelines/machine-types (read 2026-08-22)
"""

import math
import re
from datetime import date
from functools import cache

from vgp.catalog import catalog
from vgp.catalog.catalog import Machine
from vgp.catalog.names import listed
from vgp.documents.json_text import MAX_DIGITS
from vgp.placement import combination
from vgp.placement.nearest import describe
from vgp.placement.rules import Problem

MAX_VCPU, MAX_MEMORY_GB = 96, 624
DEFAULT_MACHINE = "e2-standard-4"

#: CPU series; of equal machines the earlier one is taken to be chosen, as the default machine is an E2.
_FAMILIES = ("e2", "n1", "n2", "c2", "n4")

_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "m": 1e-3}
_UNITS |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
_QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?(?:[eE]\d+)?)\s*([a-zA-Z]{0,2})\s*")


def problems(
    vcpu: float | None, memory_gb: float | None, accelerator: str | None, count: int, *, as_of: date
) -> list[Problem]:
    """What is wrong with the request; None: no limit is set, or it is not known."""
    found = _limits(vcpu, memory_gb)
    accelerator = None if accelerator in combination.NO_ACCELERATOR else accelerator
    if not accelerator and not count:
        return found
    found += combination.problems(None, accelerator, count, as_of=as_of)
    if any(each.level == "error" for each in found) or accelerator is None:
        return found
    return found + _reachable(vcpu, memory_gb, accelerator, count)


@cache
def machine_for(vcpu: float | None, memory_gb: float | None, accelerator: str | None, count: int) -> Machine | None:
    """The closest machine with the accelerator that meets both limits, which Vertex AI is taken to choose."""
    if not accelerator or not count:
        if vcpu is None and memory_gb is None:
            return catalog.machine(DEFAULT_MACHINE)
        general = [row for row in catalog.machines().values() if row.family in _FAMILIES]
        return _closest(general, vcpu, memory_gb)
    return _closest([row for row in _having(accelerator, count) if _can_be_asked(row)], vcpu, memory_gb)


def vcpu_of(value: object) -> float | None:
    """vCPU of a CPU limit: 4, 4.0, '4', '500m'; None if it is none."""
    return _amount(value)


def memory_gb_of(value: object) -> float | None:
    """GB of a memory limit: '15G', '16Gi', 15.0 (GB, as compiled by kfp); None if it is none."""
    amount = _amount(value)
    return amount if amount is None or isinstance(value, int | float) else amount / 1e9


def _amount(value: object) -> float | None:
    """A finite number of 0 or more; None for everything else."""
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


def _limits(vcpu: float | None, memory_gb: float | None) -> list[Problem]:
    found = []
    if vcpu is not None and vcpu > MAX_VCPU:
        text = f"A plain step gets at most {MAX_VCPU} vCPU, not {vcpu:g}."
        found.append(Problem("GPU014", "cpuLimit", text, "Run it as a custom job with a machine type."))
    if memory_gb is not None and memory_gb > MAX_MEMORY_GB * 1.074:  # 624 GiB in GB: Google does not say which
        text = f"A plain step gets at most {MAX_MEMORY_GB} GB, not {memory_gb:g}."
        found.append(Problem("GPU014", "memoryLimit", text, "Run it as a custom job with a machine type."))
    return found


def _reachable(vcpu: float | None, memory_gb: float | None, accelerator: str, count: int) -> list[Problem]:
    having = _having(accelerator, count)
    if not having:
        text = f"The catalog has no machine with {accelerator}: whether a plain step gets {count} is not known."
        return [Problem("GPU014", "accelerator", text, "Run it as a custom job on a TPU machine.", severity="warning")]
    reachable = [row for row in having if _can_be_asked(row)]
    if not reachable:
        first = having[0]
        why = f"has {first.vcpu} vCPU" if first.vcpu > MAX_VCPU else f"comes with {listed(first.provisioning)} only"
        text = f"{count} x {accelerator} needs {first.name}, which {why}: a plain step cannot get it."
        return [Problem("GPU014", "accelerator", text, "Run it as a custom job with that machine type.")]
    if _closest(reachable, vcpu, memory_gb) is None:
        best = max(reachable, key=lambda row: (row.vcpu, row.memory_gb))
        text = f"No machine with {count} x {accelerator} has {_wanted(vcpu, memory_gb)}."
        near = describe((best.name, accelerator, count))
        return [
            Problem("GPU003", "accelerator", text, f"The largest: {near}, {best.vcpu} vCPU, {best.memory_gb:g} GB.")
        ]
    return []


def _wanted(vcpu: float | None, memory_gb: float | None) -> str:
    parts = [f"{vcpu:g} vCPU"] if vcpu is not None else []
    return " and ".join([*parts, *([f"{memory_gb:g} GB"] if memory_gb is not None else [])])


@cache
def _having(accelerator: str, count: int) -> list[Machine]:
    return [row for row in catalog.machines().values() if count in row.counts(accelerator)]


def _can_be_asked(row: Machine) -> bool:
    return row.vcpu <= MAX_VCPU and "standard" in row.provisioning


def _closest(rows: list[Machine], vcpu: float | None, memory_gb: float | None) -> Machine | None:
    # '16Gi' on a machine of 16 GB is what authors mean: Google's GB are GiB, so a limit within 7.4 % fits.
    def fits(row: Machine) -> bool:
        return (vcpu or 0) <= row.vcpu and (memory_gb or 0) <= row.memory_gb * 1.0738

    def distance(row: Machine) -> tuple[float, ...]:
        gap = abs(row.memory_gb - memory_gb) if memory_gb else row.memory_gb
        return (row.vcpu, gap, _FAMILIES.index(row.family) if row.family in _FAMILIES else 0)

    return min((row for row in rows if fits(row)), key=distance, default=None)
