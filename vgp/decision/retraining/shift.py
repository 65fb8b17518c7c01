"""Drift of each column between training rows and new rows, with a test against chance.

The measure is the population stability index (`vgp.evaluation.drift`) over the bins and counts in the model card. Rows
of one day share weather, prices and weekday, so the test is Pearson's statistic for clustered rows: with pooled bin
shares p and V the covariance of the difference d of the samples' shares, sum(d^2 / p), which approximates a small
index, is a sum of chi-square variables weighted by the eigenvalues of diag(p)^-1/2 V diag(p)^-1/2 (Rao & Scott 1981,
https://doi.org/10.1080/01621459.1981.10477633). Divided by its mean it is treated as F with Satterthwaite's degrees of
freedom and these times the number of days less one, because V is estimated from the new days (Thomas & Rao 1987,
https://doi.org/10.1080/01621459.1987.10478482). Rows without days count as independent.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import special

from vgp.data import columns
from vgp.evaluation import drift
from vgp.protocol.manifest import Column, Frozen

Counts = NDArray[np.int64]
Shares = NDArray[np.float64]
#: Fewer days give no estimate of how days differ: a week has each weekday once.
FEWEST_DAYS = 7


class Shift(Frozen):
    """The drift of one column from the champion's training rows to new rows."""

    column: str
    kind: Literal["feature", "label"] = "feature"
    index: float
    #: Expected index without drift, with these rows and days.
    expected: float
    #: Probability of this index or a larger one without drift.
    p_value: float
    #: P-value adjusted for the number of columns (Holm).
    adjusted: float = 1.0
    drifted: bool = False
    #: Shares of missing values in training and in new rows.
    missing: tuple[float, float] = (0.0, 0.0)
    #: Share of new rows with values unknown to the champion, and the most frequent such values.
    unseen: float = 0.0
    unseen_values: tuple[str, ...] = ()


def shift(column: Column, counts_DB: Counts, train_days: int, *, by_day: bool) -> Shift:
    """Tests the new rows of one column against the bins of the model card.

    Args:
        column: Column of the champion's card, with its counts or tally.
        counts_DB: New rows by day and bin, int64 (D, B); without days, one line for all rows.
        train_days: Days that the champion was trained on.
        by_day: Whether the lines are days, so that rows of a line are dependent.
    """
    before, after = tally_of(column), counts_DB.sum(axis=0)
    used = (before + after) > 0
    mean, freedom, lines = _chance(before[used], counts_DB[:, used], train_days, by_day)
    statistic = _compute_pearson(before[used], after[used])
    return Shift(
        column=column.name, kind="label" if column.kind == "label" else "feature", index=drift.index(before, after),
        expected=mean,
        p_value=_compute_p_value(statistic / mean, freedom, lines) if mean > 0 else 1.0,
        missing=(float(before[-1] / max(1, before.sum())), float(after[-1] / max(1, after.sum()))),
    )  # fmt: skip


def judge_shifts(
    shifts: Sequence[Shift], adjusted: Sequence[float], threshold: float, level: float
) -> tuple[Shift, ...]:
    """Returns the shifts with verdicts, drifted columns first, then by index.

    A column has drifted if its index reaches the threshold and its adjusted p-value is at most `level`.

    Args:
        adjusted: Adjusted p-values, in the order of `shifts`.
    """
    verdicts = [
        one.model_copy(update={"adjusted": p, "drifted": one.index >= threshold and p <= level})
        for one, p in zip(shifts, adjusted, strict=False)
    ]
    return tuple(sorted(verdicts, key=lambda one: (not one.drifted, -one.index, one.column)))


def is_comparable(column: Column) -> bool:
    """Whether the card holds the column's distribution; older cards lack it for numbers."""
    return bool(column.tally) or (column.kind in ("category", "label") and sum(column.counts) > 0)


def tally_of(column: Column) -> Counts:
    """Returns a column's train rows by bin."""
    if column.tally:
        return np.asarray(column.tally, np.int64)
    weights = np.asarray(column.counts, np.int64)
    return np.bincount(drift.places(column), weights, drift.FREQUENT_VALUES + 3).astype(np.int64)


def test_values(column: Column, values: NDArray[np.generic], days: Counts | None, train_days: int) -> Shift:
    """Tests N new values: numbers, or codes of a category or class, -1 for a value unknown to the champion.

    Args:
        days: Day of each value, int64 (N,); None without days.
    """
    if column.tally:
        bin_of, count = columns.assign_bins(values, np.asarray(column.edges)), len(column.tally)
    else:
        places = np.append(drift.places(column), drift.FREQUENT_VALUES + 1)  # -1 is the last
        bin_of, count = places[values.astype(np.int64)].astype(np.int64), drift.FREQUENT_VALUES + 3
    return shift(column, _count_by_day(bin_of, days, count), train_days, by_day=days is not None)


def _count_by_day(bin_of: Counts, days: Counts | None, bins: int) -> Counts:
    """Counts rows by day and bin; without days in one line."""
    if days is None:
        return np.bincount(bin_of, minlength=bins)[np.newaxis]
    _, numbers = np.unique(days, return_inverse=True)
    lines = int(numbers.max()) + 1
    return np.bincount(numbers * bins + bin_of, minlength=lines * bins).reshape(lines, bins)


def unseen(column: Column, texts: pa.ChunkedArray) -> tuple[float, tuple[str, ...]]:
    """Returns the share of rows with values unknown to the champion, and the most frequent such values."""
    known = {value for value, count in zip(column.values, column.counts, strict=False) if count} | {"", None}
    counted = [(row["values"], row["counts"]) for row in texts.value_counts().to_pylist()]
    new = sorted(((-count, text) for text, count in counted if text not in known))
    return -sum(count for count, _ in new) / max(1, len(texts)), tuple(text for _, text in new[: drift.SHOWN_VALUES])


def _compute_pearson(before: Counts, after: Counts) -> float:
    shares = (before + after) / (before.sum() + after.sum())
    return float(np.sum((after / max(1, after.sum()) - before / max(1, before.sum())) ** 2 / shares))


def _chance(before: Counts, counts_DB: Counts, train_days: int, by_day: bool) -> tuple[float, float, float]:
    """Returns the statistic's mean without drift, its degrees of freedom, and those of the covariance."""
    rows, trained = float(counts_DB.sum()), float(before.sum())
    if not rows or not trained or counts_DB.shape[1] < 2:
        return 0.0, 0.0, 0.0
    shares = (before + counts_DB.sum(axis=0)) / (rows + trained)
    within = (np.diag(shares) - np.outer(shares, shares)) * (1 / rows + 1 / trained)
    lines = len(counts_DB)
    if not by_day:
        return _compute_moments(within, shares, np.inf)
    # Residuals of each day from the pooled shares: the linearised variance of a ratio (Cochran 1977, 6.3).
    own = counts_DB.sum(axis=0) / rows
    residuals_DB = counts_DB - counts_DB.sum(axis=1, keepdims=True) * own
    between = lines / (lines - 1) * residuals_DB.T @ residuals_DB / rows**2
    mean, freedom, inner = _compute_moments(between * (1 + lines / max(1, train_days)), shares, lines - 1)
    # The variance is at least that of independent rows.
    plain = _compute_moments(within, shares, np.inf)
    return (mean, freedom, inner) if mean > plain[0] else plain


def _compute_moments(covariance_BB: Shares, shares: Shares, lines: float) -> tuple[float, float, float]:
    scaled = covariance_BB / np.sqrt(np.outer(shares, shares))
    trace, squares = float(np.trace(scaled)), float(np.sum(scaled**2))
    return trace, trace**2 / squares if squares else 0.0, lines


def _compute_p_value(ratio: float, freedom: float, lines: float) -> float:
    if freedom <= 0:
        return 1.0
    if not np.isfinite(lines):
        return float(special.chdtrc(freedom, ratio * freedom))
    return float(special.fdtrc(freedom, freedom * lines, ratio))
