"""How far new rows are from those that a model was trained on, column by column, and whether chance explains it.

The measure is the population stability index, as in the report (`vgp.evaluation.drift`), of the bins and counts
that the model's card keeps. What it is without any drift follows from how much days differ: the rows of a day have
weather, prices and weekday in common, so that a thousand of them may say as little as one. So chance is told from
Pearson's statistic for clustered rows: with the pooled shares p of the bins and V the covariance of the difference d
of the two samples' shares, sum(d^2 / p), which the index is close to where it is small, is a sum of chi-square
variables weighted with the eigenvalues of diag(p)^-1/2 V diag(p)^-1/2 (Rao & Scott 1981,
https://doi.org/10.1080/01621459.1981.10477633). Over its mean it is taken as F, with Satterthwaite's degrees of
freedom and these times the number of days less one, for V is known from the new days alone (Thomas & Rao 1987,
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
#: Fewer days do not tell how much days differ: a week has each weekday once.
FEWEST_DAYS = 7


class Shift(Frozen):
    """One column in the rows that the champion was trained on, and in new rows."""

    column: str
    kind: Literal["feature", "label"] = "feature"
    index: float
    #: What the index would be on average without any drift, with these rows and days.
    expected: float
    #: Of an index as large as this or larger, without any drift.
    p_value: float
    #: The same, adjusted for the number of columns that are looked at (Holm).
    adjusted: float = 1.0
    drifted: bool = False
    #: Missing shares then and now.
    missing: tuple[float, float] = (0.0, 0.0)
    #: Share of new rows with values that the champion never saw, and the most frequent of these.
    unseen: float = 0.0
    unseen_values: tuple[str, ...] = ()


def shift(column: Column, counts_DB: Counts, train_days: int, *, by_day: bool) -> Shift:
    """The new rows of one column against the card's bins.

    Args:
        column: As the champion's card has it, with its counts or its tally.
        counts_DB: New rows by day and bin, int64 (D, B); without days, one row a line or all in one.
        train_days: Days that the champion was trained on.
        by_day: Whether the lines are days, whose rows are not independent.
    """
    before, after = tally_of(column), counts_DB.sum(axis=0)
    used = (before + after) > 0
    mean, freedom, lines = _chance(before[used], counts_DB[:, used], train_days, by_day)
    statistic = _pearson(before[used], after[used])
    return Shift(
        column=column.name, kind="label" if column.kind == "label" else "feature", index=drift.index(before, after),
        expected=mean,
        p_value=_p_value(statistic / mean, freedom, lines) if mean > 0 else 1.0,
        missing=(float(before[-1] / max(1, before.sum())), float(after[-1] / max(1, after.sum()))),
    )  # fmt: skip


def judged(shifts: Sequence[Shift], adjusted: Sequence[float], threshold: float, level: float) -> tuple[Shift, ...]:
    """The shifts, those that drifted first, then by their index: one has drifted if its index reaches the threshold and
    chance explains it with a probability of at most `level`.

    Args:
        adjusted: The p-value of each, adjusted for all that is looked at, in the order of `shifts`.
    """
    told = [
        one.model_copy(update={"adjusted": p, "drifted": one.index >= threshold and p <= level})
        for one, p in zip(shifts, adjusted, strict=False)
    ]
    return tuple(sorted(told, key=lambda one: (not one.drifted, -one.index, one.column)))


def is_comparable(column: Column) -> bool:
    """Whether the card says how the values of the column were spread: older ones do not say it of numbers."""
    return bool(column.tally) or (column.kind in ("category", "label") and sum(column.counts) > 0)


def tally_of(column: Column) -> Counts:
    """The train rows of a column by bin."""
    if column.tally:
        return np.asarray(column.tally, np.int64)
    weights = np.asarray(column.counts, np.int64)
    return np.bincount(drift.places(column), weights, drift.FREQUENT_VALUES + 3).astype(np.int64)


def of_values(column: Column, values: NDArray[np.generic], days: Counts | None, train_days: int) -> Shift:
    """The shift of N new values: numbers, or codes of a category or class, -1 for one that the champion has not.

    Args:
        days: Of each value, int64 (N,); None = they have none.
    """
    if column.tally:
        bin_of, count = columns.bins(values, np.asarray(column.edges)), len(column.tally)
    else:
        places = np.append(drift.places(column), drift.FREQUENT_VALUES + 1)  # -1 is the last
        bin_of, count = places[values.astype(np.int64)].astype(np.int64), drift.FREQUENT_VALUES + 3
    return shift(column, _counted(bin_of, days, count), train_days, by_day=days is not None)


def _counted(bin_of: Counts, days: Counts | None, bins: int) -> Counts:
    """Rows by day, in the order of the days, and bin; without days all in one line."""
    if days is None:
        return np.bincount(bin_of, minlength=bins)[np.newaxis]
    _, numbers = np.unique(days, return_inverse=True)
    lines = int(numbers.max()) + 1
    return np.bincount(numbers * bins + bin_of, minlength=lines * bins).reshape(lines, bins)


def unseen(column: Column, texts: pa.ChunkedArray) -> tuple[float, tuple[str, ...]]:
    """The share of the rows with values that the champion never saw, and the most frequent of these."""
    known = {value for value, count in zip(column.values, column.counts, strict=False) if count} | {"", None}
    counted = [(row["values"], row["counts"]) for row in texts.value_counts().to_pylist()]
    new = sorted(((-count, text) for text, count in counted if text not in known))
    return -sum(count for count, _ in new) / max(1, len(texts)), tuple(text for _, text in new[: drift.SHOWN_VALUES])


def _pearson(before: Counts, after: Counts) -> float:
    shares = (before + after) / (before.sum() + after.sum())
    return float(np.sum((after / max(1, after.sum()) - before / max(1, before.sum())) ** 2 / shares))


def _chance(before: Counts, counts_DB: Counts, train_days: int, by_day: bool) -> tuple[float, float, float]:
    """What the statistic is without drift: its mean, the degrees of freedom, and those of the covariance itself."""
    rows, trained = float(counts_DB.sum()), float(before.sum())
    if not rows or not trained or counts_DB.shape[1] < 2:
        return 0.0, 0.0, 0.0
    shares = (before + counts_DB.sum(axis=0)) / (rows + trained)
    within = (np.diag(shares) - np.outer(shares, shares)) * (1 / rows + 1 / trained)
    lines = len(counts_DB)
    if not by_day:
        return _moments(within, shares, np.inf)
    # Residuals of each day about the pooled shares of all days: the linearised variance of a ratio (Cochran 1977, 6.3).
    own = counts_DB.sum(axis=0) / rows
    residuals_DB = counts_DB - counts_DB.sum(axis=1, keepdims=True) * own
    between = lines / (lines - 1) * residuals_DB.T @ residuals_DB / rows**2
    mean, freedom, inner = _moments(between * (1 + lines / max(1, train_days)), shares, lines - 1)
    # A column that is alike on all days varies by its rows, not less.
    plain = _moments(within, shares, np.inf)
    return (mean, freedom, inner) if mean > plain[0] else plain


def _moments(covariance_BB: Shares, shares: Shares, lines: float) -> tuple[float, float, float]:
    scaled = covariance_BB / np.sqrt(np.outer(shares, shares))
    trace, squares = float(np.trace(scaled)), float(np.sum(scaled**2))
    return trace, trace**2 / squares if squares else 0.0, lines


def _p_value(ratio: float, freedom: float, lines: float) -> float:
    if freedom <= 0:
        return 1.0
    if not np.isfinite(lines):
        return float(special.chdtrc(freedom, ratio * freedom))
    return float(special.fdtrc(freedom, freedom * lines, ratio))
