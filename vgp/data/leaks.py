"""Finds columns that predict the label alone, on a sample before training, because most of them leak the outcome.

For classes the measure is the area under the ROC curve of one column alone. For numbers it is the share of the variance
of the label's rank that the column explains, so neither outliers nor the shape of the relation matters.
"""

from collections.abc import Container, Iterator, Sequence
from hashlib import blake2b

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vgp.base.exits import UserError
from vgp.data.split_parts import mix_bits

#: Area under the ROC curve of one column alone above which it is refused.
MAX_AUC = 0.995
#: Share of the variance of a number's rank that one column alone explains, above which it is refused.
MAX_EXPLAINED = 0.99
#: A column with an AUC or explained share above these is named in a warning: it may be known only after the outcome.
NEAR_AUC, NEAR_EXPLAINED = 0.9, 0.8
#: An AUC that is more than this many standard errors above 0.5 is not luck, even for the best of many columns.
BEYOND_LUCK = 3.7
#: Maximum number of columns that a warning names.
MOST_NAMED = 8
#: Rows of the sample over all shards, and the fewest rows of each class for a verdict.
SAMPLE_ROWS = 100_000
MIN_OF_EACH_CLASS = 20
BINS = 256
#: The fewest rows of a regression for a verdict, and for each bin of a column.
MIN_ROWS, MIN_ROWS_OF_BIN = 100, 5

Sample = dict[str, NDArray[np.generic]]
Counted = NDArray[np.int64] | NDArray[np.float64]


def sample(table: pa.Table, number: int, rows: int) -> Sample:
    """Samples up to `rows` rows of the shard `number`, in a fixed random order: numbers, and strings as hashes."""
    subset = table.take(pa.array(order(table.num_rows, number)[:rows]))
    arrays = {name: subset[name].combine_chunks() for name in subset.column_names}
    return {
        name: _hash_categories(array) if pa.types.is_dictionary(array.type) else array.to_numpy()
        for name, array in arrays.items()
        if pa.types.is_dictionary(array.type) or pa.types.is_floating(array.type) or pa.types.is_integer(array.type)
    }


def order(rows: int, number: int = 0) -> NDArray[np.int64]:
    """Returns the positions 0 to `rows` - 1 in a random order that depends only on the shard `number`."""
    positions = np.arange(rows, dtype=np.uint64) + (np.uint64(number) << np.uint64(32))
    return np.asarray(np.argsort(mix_bits(positions)))


def sort_by_group(rows: NDArray[np.int64], groups: NDArray[np.generic]) -> NDArray[np.int64]:
    """Sorts rows by group, in random order of the groups, so two halves share at most one group."""
    codes = np.unique(groups, return_inverse=True)[1].reshape(-1).astype(np.uint64)
    return rows[np.argsort(mix_bits(codes)[rows], kind="stable")]


def _hash_categories(categories: pa.DictionaryArray) -> NDArray[np.uint64]:
    """Returns a hash of each text, equal for equal texts of all shards."""
    digests = (blake2b(value.encode(), digest_size=8).digest() for value in categories.dictionary.to_pylist())
    return np.asarray(np.frombuffer(b"".join(digests), "<u8")[categories.indices.to_numpy()])


def check(
    columns: Sample, label: str, classes: tuple[str, ...], trusted: Container[str], group: str = ""
) -> tuple[str, ...]:
    """Returns a warning about columns that nearly predict the label alone; () if there are none.

    Args:
        columns: The sample: numbers (float) and hashed categories (uint64), each (rows,), and the label: codes, or
            floats.
        trusted: Names of columns that are not checked.
        group: The column whose rows stay together, such as a patient: rows of one patient predict each other. "" or a
            column that is not in the sample = none.

    Raises:
        UserError: A column predicts the label alone.
    """
    if group in columns:
        grouped = sort_by_group(np.arange(len(columns[label])), columns[group])
        columns = {name: values[grouped] for name, values in columns.items()}
    labels = columns[label]
    is_number = labels.dtype.kind == "f"
    bins = min(BINS, max(2, len(labels) // 2 // MIN_ROWS_OF_BIN)) if is_number else BINS
    near: list[tuple[float, str]] = []
    for name, values in columns.items():
        if name == label or name in trusted or values.dtype.kind == "i":
            continue
        coded = codes(values, bins)
        share = measure_explained_variance(coded, labels) if is_number else 0.0
        if share > MAX_EXPLAINED:
            raise UserError(
                f"the column {name} alone predicts the label ({share:.2%} of the variance of its rank on held-out rows "
                "of the train split): it leaks the outcome. Leave it out of the features, or, if it is truly known "
                "beforehand, name it in the task's `trusted`."
            )
        ordered = values.dtype.kind == "f"
        areas = [] if is_number else list(_list_areas(coded, labels, classes, ordered))
        for title, held_out, _ in areas:
            if held_out > MAX_AUC:
                raise UserError(
                    f"the column {name} alone predicts the label {title!r} (AUC {held_out:.4f} on held-out "
                    "rows of the train split): it leaks the outcome. Leave it out of the features, or, if it is truly "
                    "known beforehand, name it in the task's `trusted`."
                )
        strength, figures = (
            _judge_number(coded, labels, ordered, share) if is_number else _judge_class(areas, labels, classes)
        )
        near += [(strength, f"{name} ({figures})")] if figures else []
    return _format_warning([text for _, text in sorted(near, key=lambda pair: -pair[0])])


def _format_warning(columns: list[str]) -> tuple[str, ...]:
    if not columns:
        return ()
    several, rest = len(columns) > 1, len(columns) - MOST_NAMED
    warning = (
        f"{'Columns' if several else 'A column'} alone nearly predict{'' if several else 's'} the label: "
        f"{', '.join(columns[:MOST_NAMED])}{f' and {rest} more' if rest > 0 else ''}. If "
        f"{'one of them is' if several else 'it is'} known only after the outcome, it leaks, and the model is worth "
        "less than its figures: leave it out of the features, or name it in the task's `trusted`."
    )
    return (warning,)


def measure_near_leak(
    codes: NDArray[np.int64], labels: NDArray[np.generic], classes: Sequence[str], *, ordered: bool
) -> tuple[float, str]:
    """Returns how well a column alone predicts the label, and a text with the figure: "" below `NEAR_AUC` and
    `NEAR_EXPLAINED`, or if the figure may be luck.

    Args:
        codes: The column's values, coded by `codes`.
        labels: Codes of classes, or numbers if `classes` is empty.
        ordered: Whether the column is a number.
    """
    if not classes:
        return _judge_number(codes, labels, ordered, measure_explained_variance(codes, labels))
    return _judge_class(list(_list_areas(codes, labels, classes, ordered)), labels, classes)


def _judge_number(
    codes: NDArray[np.int64], labels: NDArray[np.generic], ordered: bool, share: float
) -> tuple[float, str]:
    few = MIN_OF_EACH_CLASS <= len(codes) < 2 * MIN_ROWS
    if ordered and few and labels.min() < labels.max() and codes.min() < codes.max():
        share = float(np.corrcoef(compute_ranks(codes), compute_ranks(labels))[0, 1]) ** 2
    return share, f"R2 {share:.2f} of its rank" if share >= NEAR_EXPLAINED else ""


def _judge_class(
    areas: Sequence[tuple[str, float, float]], labels: NDArray[np.generic], classes: Sequence[str]
) -> tuple[float, str]:
    title, _, auc = max(areas, key=lambda area: area[2])
    if auc < NEAR_AUC:
        return auc, ""
    hits = int((labels == list(classes).index(title)).sum())
    low, high = _auc_interval(auc, hits, len(labels) - hits)
    of = "" if len(classes) == 2 else f" of {title!r}"
    return auc, f"AUC {auc:.3f}{of}, 95% interval {low:.2f} to {high:.2f}"


def _list_areas(
    codes: NDArray[np.int64], labels: NDArray[np.generic], classes: Sequence[str], ordered: bool
) -> Iterator[tuple[str, float, float]]:
    """Yields each class with two AUCs: on held-out rows, and one that also uses small samples and is 0.5 if it may be
    luck. Two classes have equal AUCs, so only the first is measured."""
    for code, title in enumerate(classes[: 1 if len(classes) == 2 else None]):
        positive = labels == code
        held_out = separation(codes, positive)
        yield title, held_out, _subtract_luck(codes, positive, ordered, held_out)


def _subtract_luck(codes: NDArray[np.int64], positive: NDArray[np.bool_], ordered: bool, best: float) -> float:
    hits = int(positive.sum())
    rest = len(positive) - hits
    if not hits or not rest:
        return 0.5
    if min(hits, rest) < 4 * MIN_OF_EACH_CLASS:
        best = max(best, (separation(codes, positive, 1) + separation(codes[::-1], positive[::-1], 1)) / 2)
        if ordered:
            area = _compute_auc(*(np.bincount(codes[p], minlength=int(codes.max()) + 1) for p in (positive, ~positive)))
            best = max(best, area, 1 - area)
    luck = ((hits + rest + 1) / (12 * hits * rest)) ** 0.5
    return best if best - 0.5 > BEYOND_LUCK * luck else 0.5


def _auc_interval(auc: float, hits: int, rest: int) -> tuple[float, float]:
    """Returns the 95% interval of Hanley and McNeil 1982 (https://doi.org/10.1148/radiology.143.1.7063747)."""
    first, second = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    variance = auc * (1 - auc) + (hits - 1) * (first - auc**2) + (rest - 1) * (second - auc**2)
    error = 1.96 * (max(0.0, variance) / (hits * rest)) ** 0.5
    return max(0.0, auc - error), min(1.0, auc + error)


def measure_explained_variance(codes: NDArray[np.int64], label: NDArray[np.generic]) -> float:
    """Returns the share of the variance of the label's rank on the second half of the rows that the mean rank of equal
    codes in the first half explains; 0 for few rows."""
    half = len(codes) // 2
    if half < MIN_ROWS:
        return 0.0
    rank = compute_ranks(label) / len(label)
    size = int(codes.max()) + 1
    seen = np.bincount(codes[:half], minlength=size)
    mean = np.bincount(codes[:half], weights=rank[:half], minlength=size) / np.maximum(seen, 1)
    mean[seen == 0] = rank[:half].mean()
    variance = rank[half:].var()
    return float(1 - np.square(rank[half:] - mean[codes[half:]]).mean() / variance) if variance > 0 else 0.0


def compute_ranks(values: NDArray[np.generic]) -> NDArray[np.float64]:
    """Returns the rank of each value, from 0; equal values share their mean rank."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - counts / 2)[place.reshape(-1)])


def separation(codes: NDArray[np.int64], positive: NDArray[np.bool_], least: int = MIN_OF_EACH_CLASS) -> float:
    """Returns the AUC, on the second half of the rows, of the rate of positives among equal codes in the first half.

    Two halves, because a column of many distinct values would fit its own rows perfectly.
    Returns 0.5 if a half has fewer than `least` rows of either class.
    """
    half = len(codes) // 2
    learn, judge = slice(0, half), slice(half, None)
    if any(min(p.sum(), (~p).sum()) < least for p in (positive[learn], positive[judge])):
        return 0.5
    size = int(codes.max()) + 1
    seen = np.bincount(codes[learn], minlength=size)
    rate = np.bincount(codes[learn], weights=positive[learn], minlength=size) / np.maximum(seen, 1)
    rate[seen == 0] = positive[learn].mean()
    _, rank = np.unique(rate, return_inverse=True)
    hits = np.bincount(rank[codes[judge]], weights=positive[judge], minlength=size)
    misses = np.bincount(rank[codes[judge]], weights=~positive[judge], minlength=size)
    return _compute_auc(hits, misses)


def _compute_auc(hits: Counted, misses: Counted) -> float:
    """Returns the area under the ROC curve of a score, from the counts of both classes for each of its values."""
    below = np.cumsum(misses) - misses
    return float((hits * (below + misses / 2)).sum() / (hits.sum() * misses.sum()))


def codes(values: NDArray[np.generic], bins: int = BINS) -> NDArray[np.int64]:
    """Returns codes from 0: one for each category, or one for each quantile bin of a number and one for missing."""
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
