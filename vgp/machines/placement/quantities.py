"""Kubernetes quantities, in which plain steps ask for vCPU and memory."""

import math
import re

from vgp.base.documents.json_text import MAX_DIGITS

_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "m": 1e-3}
_UNITS |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
_QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?(?:[eE]\d+)?)\s*([a-zA-Z]{0,2})\s*")


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
