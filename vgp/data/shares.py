"""What the ways to split a table have in common: names, shares in per cent, and rows that count."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vgp.base.exits import UserError

#: The splits of a table; the code of one is its position, and a row of none has -1.
NAMES = ("train", "validation", "test")


def percent(name: str, share: Any) -> int:
    """A share of the rows in whole per cent. Raises UserError for another value of the option `name`."""
    number = isinstance(share, int | float) and not isinstance(share, bool) and 0 <= share < 1
    if not number or abs(100 * share - round(100 * share)) > 1e-6:
        raise UserError(f"{name} = {share!r}: a share of the rows in whole per cent, such as 0.2; below 1.")
    return int(round(100 * share))


def require_labelled(labelled: bool, where: str, reason: str) -> None:
    if not labelled:
        raise UserError(f"{where} has no row with a label ({reason}): there is nothing to learn or to test.")


def nonzero(counts: dict[str, int]) -> dict[str, int]:
    return {reason: count for reason, count in counts.items() if count}


def mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The output function of SplitMix64 (Steele, Lea, Flood 2014, https://doi.org/10.1145/2714064.2660195)."""
    z = values + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
