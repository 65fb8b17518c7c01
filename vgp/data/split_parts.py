"""Parts that all splits share: names of splits, shares in per cent, counts of equal rows, and groups in two splits.

For a task that makes its own rows and names a `group`, such as a user, each split keeps the smallest hashes of its
groups. They estimate the share of groups that are also in the train split (Broder 1997, bottom-k sketches).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypedDict

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vgp.base.exits import UserError
from vgp.data.engine import Engine
from vgp.data.periods import Spans

#: The splits of a table; the code of a split is its position, and a row without a split has -1.
NAMES = ("train", "validation", "test")


class Planned(TypedDict, total=False):
    """The plan of a split: statistics for the manifest, and, with an underscore, values for the assignment of rows."""

    split: dict[str, str]
    notes: Sequence[str]
    rows_dropped: dict[str, int]
    validation_days: list[str]
    #: For a split by time: the days that train and test, and the days that validate.
    _spans: tuple[Spans, Spans]
    _held_out: list[int]
    #: For a split by a hash: the common kinds, and the units of rare classes that leave the split of their hash.
    _common: tuple[int, ...]
    _moved_kinds: dict[int, list[int]]
    _moved_rows: dict[int, list[int]]


def parse_percent(name: str, share: object) -> int:
    """Returns a share of the rows in whole per cent. Raises UserError if the option `name` is not such a share."""
    if isinstance(share, int | float) and not isinstance(share, bool) and 0 <= share < 1:
        percents = round(100 * share)
        if abs(100 * share - percents) <= 1e-6:
            return percents
    raise UserError(f"{name} = {share!r}: it must be a share of the rows in whole per cent, such as 0.2, below 1.")


def require_labelled(labelled: bool, where: str, reason: str) -> None:
    if not labelled:
        raise UserError(f"{where} has no row with a label ({reason}), so no model can be trained or tested.")


def nonzero(counts: dict[str, int]) -> dict[str, int]:
    return {reason: count for reason, count in counts.items() if count}


def mix_bits(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Applies the output function of SplitMix64 (Steele, Lea, Flood 2014, https://doi.org/10.1145/2714064.2660195)."""
    z = values + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


# ---- kinds of rows: rows of one kind have equal values in the columns that decide the split (`identity.number_rows`)


#: A kind of rows is common if it has more rows than FEW_ROWS, and more than 1 / FEW_SHARE of all. Other kinds go to a
#: split as a whole: by chance a split of a fifth is then off by at most .4 * sqrt(1 / 400), two percentage points, or
#: in a small table by twice its error if all rows differed.
FEW_ROWS = 4
FEW_SHARE = 400


@dataclass(frozen=True)
class Kinds:
    """The counts of a table's rows by kind."""

    rows: int
    kinds: int = 0
    #: Rows of kinds with at least two rows.
    alike: int = 0
    #: The sum of the squares of the kinds' shares: 1 / kinds if they are equally frequent.
    concentration: float = 0.0
    #: The numbers of the common kinds, sorted, and the count of their rows.
    common: tuple[int, ...] = ()
    common_rows: int = 0


def count_kinds(engine: Engine, rows: ir.Table, column: str) -> Kinds:
    """Counts the rows of each value of an integer column."""
    counted = rows.group_by(kind=rows[column]).agg(rows=rows.count())
    # The number of kinds of each size: a short table of integers, whose sums are equal on every engine.
    sizes = engine.read(counted.group_by("rows").agg(kinds=counted.count())).to_pylist()
    total = sum(size["rows"] * size["kinds"] for size in sizes)
    many = max(FEW_ROWS, total // FEW_SHARE)
    common = counted.filter(counted.rows > many).order_by("kind") if any(s["rows"] > many for s in sizes) else None
    return Kinds(
        rows=total,
        kinds=sum(size["kinds"] for size in sizes),
        alike=sum(size["rows"] * size["kinds"] for size in sizes if size["rows"] > 1),
        concentration=sum(size["rows"] ** 2 * size["kinds"] for size in sizes) / max(1, total) ** 2,
        common=tuple(engine.read(common)["kind"].to_pylist()) if common is not None else (),
        common_rows=sum(size["rows"] * size["kinds"] for size in sizes if size["rows"] > many),
    )


#: The most hashes of groups that each split keeps.
MOST_MARKS = 4096
#: Sorted distinct hashes.
Marks = NDArray[np.uint64]


def group_marks(column: pa.ChunkedArray) -> Marks:
    """Returns the smallest hashes of a group column of integers or categories; none for other types."""
    values = column.unique()
    if pa.types.is_dictionary(values.type):
        texts = values.cast(values.type.value_type).to_pylist()
        digests = b"".join(blake2b(text.encode(), digest_size=8).digest() for text in texts)
        return _select_smallest(np.frombuffer(digests, "<u8"))
    if not pa.types.is_integer(values.type):
        return np.zeros(0, np.uint64)
    return _select_smallest(mix_bits(values.cast(pa.int64()).to_numpy().astype(np.uint64)))


def merge_marks(first: Mapping[str, Marks], second: Mapping[str, Marks]) -> dict[str, Marks]:
    """Merges the hashes of two sets of shards, by split."""
    parts = {split: [marks[split] for marks in (first, second) if split in marks] for split in {**first, **second}}
    return {split: _select_smallest(np.concatenate(marks)) for split, marks in parts.items()}


def notes_on_groups(group: str, splits: Mapping[str, Marks]) -> Iterator[str]:
    """Yields a sentence for each split that shares groups with the train split."""
    train = splits.get("train", np.zeros(0, np.uint64))
    for split, marks in splits.items():
        last = min((m[-1] for m in (train, marks) if len(m) == MOST_MARKS), default=np.uint64(2**64 - 1))
        compared = marks[marks <= last]
        shared = np.count_nonzero(np.isin(compared, train))
        if split != "train" and shared:
            yield (
                f"Of the values of {group} in the {split} split {shared / len(compared):.1%} are in the train split "
                f"too: the test measures predictions for a known {group}. If you will predict rows of new values, keep "
                f"all rows of a {group} in one split."
            )


def _select_smallest(hashes: NDArray[np.generic]) -> Marks:
    return np.unique(np.asarray(hashes, np.uint64))[:MOST_MARKS]
