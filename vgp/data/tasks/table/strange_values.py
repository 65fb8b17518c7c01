"""Rules that find suspicious values: numbers that may mean a missing value, and second spellings of a name."""

import re
import unicodedata
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vgp.data.tasks.table.column_types import parse_kind, with_missing

#: Blanks between words, with non-breaking ones.
BLANKS = r"[\s\x{a0}]+"
#: Numbers that files without empty fields write for a missing value: -1, 9, 99, 999, ... and -9, -99, ...
NINES = (-1.0, *(sign * (10.0**digits - 1) for digits in range(1, 7) for sign in (1, -1)))
#: A marker is this share of the other values' range away from them, or this many times as frequent as the most frequent
#: other value, and occurs at least `LEAST_OFTEN` times.
APART, OFTEN, LEAST_OFTEN = 0.5, 5, 5
#: Zeros are strange only beside this many different numbers, and in at most this share of the rows: the zeros of
#: customers without a bonus, or of houses without a garage, are amounts.
LEAST_AROUND, MOST_ZEROS = 20, 0.15


def count_markers(numbers: np.ndarray) -> dict[float, int]:
    """Counts the numbers in a column that may mean a missing value, such as -999."""
    values, counts = np.unique(numbers[~np.isnan(numbers)], return_counts=True)
    zeros = {0.0: count} if (count := _count_strange_zeros(numbers)) else {}
    strange = is_strange(values)
    others, often = values[~strange], counts[~strange]
    if len(others) < 2 or not strange.any():
        return zeros
    pairs = zip(values[strange].tolist(), counts[strange].tolist(), strict=True)
    return zeros | {value: int(n) for value, n in pairs if _is_marker(value, int(n), others, often)}


def _count_strange_zeros(numbers: np.ndarray) -> int:
    """Counts the zeros in a column of positive numbers if they are far from all of them, as in a weight of 0."""
    others = numbers[~np.isnan(numbers) & (numbers != 0)]
    zeros = int((numbers == 0).sum())
    if not 1 < zeros <= MOST_ZEROS * (zeros + len(others)) or len(np.unique(others)) < LEAST_AROUND:
        return 0
    least, low, middle = np.quantile(others, (0, 0.01, 0.5))
    return zeros if least > middle / 4 and low > middle / 2 > 0 else 0


def is_strange(values: np.ndarray) -> np.ndarray:
    """Returns a mask of the values that are -1 or consist of nines."""
    return np.isin(values, NINES)


def add_marker(declared: str, value: float) -> str:
    """Returns a type of a column of numbers with `value` added to its markers of missing values."""
    return with_missing(declared.partition(" missing ")[0], (*parse_kind(declared).missing, f"{value:g}"))


def find_spellings(names: Sequence[str]) -> list[list[str]]:
    """Returns the groups of names that differ only in case or blanks, without groups of one name."""
    spellings: dict[str, list[str]] = {}
    for name, text in zip(plain_case(pa.array(names, pa.string())).to_pylist(), names, strict=True):
        spellings.setdefault(name, []).append(text)
    return [group for group in spellings.values() if len(group) > 1]


def find_accents(names: Sequence[str]) -> list[str]:
    """Returns the first names that differ only in accents, such as Köln, Koln and Koeln."""
    groups: dict[str, list[str]] = {}
    for name in names:
        letters = unicodedata.normalize("NFKD", re.sub("(?<=[aou])e", "", name.casefold()))
        groups.setdefault("".join(c for c in letters if not unicodedata.combining(c)), []).append(name)
    return next((group for group in groups.values() if len(group) > 1 and not "".join(group).isascii()), [])


def _is_marker(value: float, count: int, others: np.ndarray, often: np.ndarray) -> bool:
    text, low, high = f"{value:g}", others.min(), others.max()
    if text == "-1":  # the only negative one among many numbers
        return bool(low >= 0 and len(others) >= 10 and count >= 2)
    if text == "9":  # questionnaires code a missing answer as 9
        coded = len(others) <= 7 and low >= 0 and high == low + len(others) - 1 and (others % 1 == 0).all()
        return bool(coded and high <= 7 and count >= 2)
    if value < 0 <= low:
        return True
    apart = (value < low or value > high) and min(abs(value - low), abs(value - high)) > APART * (high - low)
    return bool((apart and (value < 0 or count > 1)) or count >= max(LEAST_OFTEN, OFTEN * often.max()))


def plain_case(texts: pa.Array) -> pa.Array:
    """Lowers the case and collapses blanks, as `task.plain_case` does in an engine."""
    return pc.utf8_trim(pc.replace_substring_regex(pc.utf8_lower(texts), BLANKS, " "), " ")
