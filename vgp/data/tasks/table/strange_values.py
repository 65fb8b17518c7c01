"""Which values of a column may mean something else: numbers for a missing value, and one name in two spellings."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vgp.data.tasks.table.kinds import kind, with_missing

#: Blanks between words; also those that do not break.
BLANKS = r"[\s\x{a0}]+"
#: What stands for a missing number where no number may.
NINES = (-1.0, *(sign * (10.0**digits - 1) for digits in range(1, 7) for sign in (1, -1)))
#: A marker stands so far from the other values, as a share of their range, or comes so often as the most frequent one.
APART, OFTEN, LEAST_OFTEN = 0.5, 5, 5


def markers_of(numbers: np.ndarray) -> dict[float, int]:
    """Numbers that may stand for a missing one by the rule of the proposal, each with how often it comes."""
    values, counts = np.unique(numbers[~np.isnan(numbers)], return_counts=True)
    strange = is_strange(values)
    others, often = values[~strange], counts[~strange]
    if len(others) < 2 or not strange.any():
        return {}
    pairs = zip(values[strange].tolist(), counts[strange].tolist(), strict=True)
    return {value: int(n) for value, n in pairs if _is_marker(value, int(n), others, often)}


def is_strange(values: np.ndarray) -> np.ndarray:
    """Whether each is a number of nines only, or -1."""
    return np.isin(values, NINES)


def missing_too(declared: str, value: float) -> str:
    """The declared type of a column of numbers, with the value among those that stand for a missing one."""
    return with_missing(declared.partition(" missing ")[0], (*kind(declared).missing, f"{value:g}"))


def spellings_of(names: Sequence[str]) -> list[list[str]]:
    """Names that differ in case or blanks only, those of one name together."""
    together: dict[str, list[str]] = {}
    for name, text in zip(plain_case(pa.array(names, pa.string())).to_pylist(), names, strict=True):
        together.setdefault(name, []).append(text)
    return [same for same in together.values() if len(same) > 1]


def _is_marker(value: float, count: int, others: np.ndarray, often: np.ndarray) -> bool:
    text, low, high = f"{value:g}", others.min(), others.max()
    if text == "-1":  # the only number below zero, of many
        return bool(low >= 0 and len(others) >= 10 and count >= 2)
    if text == "9":  # as answers to a question are coded
        coded = len(others) <= 7 and low >= 0 and high == low + len(others) - 1 and (others % 1 == 0).all()
        return bool(coded and high <= 7 and count >= 2)
    if value < 0 <= low:
        return True
    apart = (value < low or value > high) and min(abs(value - low), abs(value - high)) > APART * (high - low)
    return bool((apart and (value < 0 or count > 1)) or count >= max(LEAST_OFTEN, OFTEN * often.max()))


def plain_case(texts: pa.Array) -> pa.Array:
    """As `features.plain_case`, of Arrow's."""
    return pc.utf8_trim(pc.replace_substring_regex(pc.utf8_lower(texts), BLANKS, " "), " ")
