"""A column that tells the label by itself is most often made from it: measured on a sample before training.

A class is told by the area under the ROC curve of one column alone; a number by the share of the variance of its rank
that the column explains, so that neither a few huge values nor the shape of what ties the two matters.
"""

from collections.abc import Container
from hashlib import blake2b

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from training.data.shares import mixed
from training.errors import UserError

#: Area under the ROC curve of one column alone above which it is refused.
MAX_AUC = 0.995
#: Share of the variance of a number's rank that one column alone explains, above which it is refused.
MAX_EXPLAINED = 0.99
#: Rows over all shards that are looked at, and of each class the fewest that allow a verdict.
SAMPLE_ROWS = 100_000
MIN_OF_EACH_CLASS = 20
BINS = 256
#: Of a regression: the fewest rows for a verdict, and for each bin of a column.
MIN_ROWS, MIN_ROWS_OF_BIN = 100, 5

Sample = dict[str, NDArray[np.generic]]


def sample(table: pa.Table, number: int, rows: int) -> Sample:
    """Up to `rows` rows of a shard in an order that is random but always the same: numbers, and hashed strings."""
    chosen = table.take(pa.array(order(table.num_rows, number)[:rows]))
    arrays = {name: chosen[name].combine_chunks() for name in chosen.column_names}
    return {
        name: _hashed(array) if pa.types.is_dictionary(array.type) else array.to_numpy()
        for name, array in arrays.items()
        if pa.types.is_dictionary(array.type) or pa.types.is_floating(array.type) or pa.types.is_integer(array.type)
    }


def order(rows: int, number: int = 0) -> NDArray[np.int64]:
    """Positions in an order that is random but always the same; another one for each shard `number`."""
    positions = np.arange(rows, dtype=np.uint64) + (np.uint64(number) << np.uint64(32))
    return np.asarray(np.argsort(mixed(positions)))


def _hashed(categories: pa.DictionaryArray) -> NDArray[np.uint64]:
    """The same number for the same text in every shard."""
    digests = (blake2b(value.encode(), digest_size=8).digest() for value in categories.dictionary.to_pylist())
    return np.asarray(np.frombuffer(b"".join(digests), "<u8")[categories.indices.to_numpy()])


def check(columns: Sample, label: str, classes: tuple[str, ...], trusted: Container[str]) -> None:
    """Raises UserError for the first column of the sample that tells the label by itself.

    Args:
        columns: numbers (float) and hashed categories (uint64), each (rows,), and the label: codes, or floats.
        trusted: names that are not looked at.
    """
    labels = columns[label]
    number = labels.dtype.kind == "f"
    bins = min(BINS, max(2, len(labels) // 2 // MIN_ROWS_OF_BIN)) if number else BINS
    for name, values in columns.items():
        if name == label or name in trusted or values.dtype.kind == "i":
            continue
        coded = codes(values, bins)
        if number and (share := explained(coded, labels)) > MAX_EXPLAINED:
            raise UserError(
                f"the column {name} alone tells the label ({share:.2%} of the variance of its rank on held-out rows "
                "of the train split): it leaks the outcome. Leave it out of the features, or, if it is truly known "
                "beforehand, name it in the task's `trusted`."
            )
        # Of two classes each is told as well as the other.
        for code, title in enumerate(classes[: 1 if len(classes) == 2 else None]):
            auc = separation(coded, labels == code)
            if auc > MAX_AUC:
                raise UserError(
                    f"the column {name} alone tells whether the label is {title!r} (AUC {auc:.4f} on held-out rows "
                    "of the train split): it leaks the outcome. Leave it out of the features, or, if it is truly known "
                    f"beforehand, name it in the task's `trusted`."
                )


def explained(codes: NDArray[np.int64], label: NDArray[np.generic]) -> float:
    """Share of the variance of the label's rank that its mean among equal codes explains, on the second half of the
    rows by means of the first; 0 where rows are few."""
    half = len(codes) // 2
    if half < MIN_ROWS:
        return 0.0
    _, place, counts = np.unique(label, return_inverse=True, return_counts=True)
    rank = (np.cumsum(counts) - counts / 2)[place] / len(label)
    size = int(codes.max()) + 1
    seen = np.bincount(codes[:half], minlength=size)
    mean = np.bincount(codes[:half], weights=rank[:half], minlength=size) / np.maximum(seen, 1)
    mean[seen == 0] = rank[:half].mean()
    variance = rank[half:].var()
    return float(1 - np.square(rank[half:] - mean[codes[half:]]).mean() / variance) if variance > 0 else 0.0


def separation(codes: NDArray[np.int64], positive: NDArray[np.bool_]) -> float:
    """AUC on the second half of the rows of the score "rate of positives among equal codes in the first half".

    Two halves, so that a column of many values is not credited with having learnt them by heart.
    Returns 0.5 where a half has too few of either class.
    """
    half = len(codes) // 2
    learn, judge = slice(0, half), slice(half, None)
    if any(min(p.sum(), (~p).sum()) < MIN_OF_EACH_CLASS for p in (positive[learn], positive[judge])):
        return 0.5
    size = int(codes.max()) + 1
    seen = np.bincount(codes[learn], minlength=size)
    rate = np.bincount(codes[learn], weights=positive[learn], minlength=size) / np.maximum(seen, 1)
    rate[seen == 0] = positive[learn].mean()
    _, rank = np.unique(rate, return_inverse=True)
    hits = np.bincount(rank[codes[judge]], weights=positive[judge], minlength=size)
    misses = np.bincount(rank[codes[judge]], weights=~positive[judge], minlength=size)
    below = np.cumsum(misses) - misses
    return float((hits * (below + misses / 2)).sum() / (hits.sum() * misses.sum()))


def codes(values: NDArray[np.generic], bins: int = BINS) -> NDArray[np.int64]:
    """Codes from 0: one for each category, or for each of so many quantiles of a number and one for missing."""
    if values.dtype.kind == "u":
        if values.max(initial=0) < len(values):  # codes already
            return values.astype(np.int64)
        return np.asarray(np.unique(values, return_inverse=True)[1])
    order = np.argsort(values)  # nan last
    ranked = values[order]
    known = ranked[: len(ranked) - np.count_nonzero(np.isnan(ranked))]
    edges = np.unique(known[len(known) * np.arange(1, bins) // bins]) if len(known) else known
    ends = [*np.searchsorted(known, edges, side="right").tolist(), len(known), len(ranked)]
    coded = np.empty(len(values), np.int64)
    coded[order] = np.repeat(np.arange(len(ends)), np.diff([0, *ends]))
    return coded
