"""The mean of a difference over rows that come in clusters, and how far it is known: the t statistic's parts.

Rows of one day share its weather, so a day is one observation however many rows it has. Where two columns mark rows
that are not independent, such as day and user, no partition of the rows does: the variance is then two-way robust.

Days on which a new model does well come in spells: the next day's observation is another one only as far as it is not
like the day before. Where neighbours have a correlation r, the mean of many has (1 + r) / (1 - r) times the variance
of independent ones (an autoregression of order 1; Zwiers & von Storch 1995,
https://doi.org/10.1175/1520-0442(1995)008<0336:TSCIAI>2.0.CO;2).

Shapes: N rows, G clusters, S samples at once: every function of clusters takes (..., G).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vgp.evaluation.predictions import Names

#: More than this says that hardly more than one group was seen, and no spread can be told any more.
MOST_CORRELATION = 0.95


def in_order(names: Names) -> np.ndarray | None:
    """A code for each row, int (N,), that rises with time; None where the names of the groups tell no time.

    Numbers do, such as days counted from some day on, and texts of one length that begin with a year and a dash.
    """
    values = list(names.values)
    if not values or None in values:
        return None
    if all(re.fullmatch(r"-?\d{1,18}", value) for value in values):
        ranks = np.argsort(np.argsort([int(value) for value in values], kind="stable"), kind="stable")
    elif all(re.match(r"\d{4}-", value) for value in values) and len(set(map(len, values))) == 1:
        ranks = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    else:
        return None
    return np.asarray(ranks.astype(np.min_scalar_type(len(values)))[names.codes])


def neighbour_correlation(errors: np.ndarray) -> np.ndarray:
    """The correlation of neighbours among errors (..., G) in their order, (...): between -1 and 1, about unbiased.

    What is left when the mean of all is taken off is too low by (1 + 3 r) / G: Kendall 1954,
    https://doi.org/10.1093/biomet/41.3-4.403
    """
    count = errors.shape[-1]
    squares = (errors**2).sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        plain = np.where(squares > 0, (errors[..., 1:] * errors[..., :-1]).sum(axis=-1) / squares, 0.0)
    return np.asarray(np.clip(plain + (1 + 3 * plain) / count, -1.0, 1.0))


def assumed_correlation(seen: np.ndarray | float, count: int, caution: float) -> np.ndarray:
    """The correlation that neighbours are taken to have, 0 to `MOST_CORRELATION`: the seen one plus `caution` errors.

    Args:
        seen: As `neighbour_correlation` gives it.
        count: Groups.
    """
    error = np.sqrt((1 - np.square(seen)) / count)
    return np.asarray(np.clip(seen + caution * error, 0.0, MOST_CORRELATION))


def error_stretch(assumed: np.ndarray | float) -> np.ndarray:
    """By what the standard error of the mean is longer than that of independent groups, 1 or more."""
    return np.asarray(np.sqrt((1 + np.asarray(assumed)) / (1 - np.asarray(assumed))))


#: Beside a loss of 1, what may be rounding: probabilities are float32, whose digits end at 6e-8, and a mean of many
#: roundings is smaller.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Contrast:
    """A mean difference; floats, or arrays (S,)."""

    estimate: float
    #: Its standard error, robust to clusters; above 0.
    error: float
    #: Degrees of freedom of that error.
    degrees: float
    #: Third cumulant of the estimate over the error's cube: below 0 where a few clusters are far worse than most.
    skew: float
    #: Clusters of each grouping; the rows, if they are independent.
    clusters: tuple[int, ...]
    #: Correlation of neighbours, as `neighbour_correlation` gives it, of the first clusters that have an order; None if
    #: none have. And how many those are.
    carried: float | None = None
    in_order: int = 0


def contrast(
    differences: np.ndarray,
    groupings: Sequence[np.ndarray] = (),
    sizes: np.ndarray | None = None,
    *,
    scale: float = 1.0,
    orders: Sequence[np.ndarray | None] = (),
) -> Contrast:
    """The mean of the differences of N rows; with `sizes` (N,) the sum of differences over the sum of sizes.

    Args:
        groupings: For each grouping column the code of each row, int (N,): none for independent rows, at most two.
        orders: The same columns as codes that rise with time; None for one that tells no time.
        scale: A loss like those that differ, in their unit: an error below `ROUNDING` of it counts as that much.
    """
    ways = [numbered(codes) for codes in groupings] or [(np.arange(len(differences)), len(differences))]
    parts = [of_clusters(*_sums(differences, sizes, *way)) for way in ways]
    found = parts[0]
    if len(parts) == 2:
        cells = numbered(_crossed(*ways))
        found = two_way(parts[0], parts[1], of_clusters(*_sums(differences, sizes, *cells)))
    ordered = next((codes for codes in orders if codes is not None), None)
    carried, in_order = (None, 0) if ordered is None else _carried(differences, sizes, ordered)
    error = max(float(np.sqrt(found.variance)), ROUNDING * (scale or 1.0))
    return Contrast(
        estimate=float(found.estimate),
        error=error,
        degrees=float(found.degrees),
        skew=float(found.third / error**3),
        clusters=tuple(count for _, count in ways),
        carried=carried,
        in_order=in_order,
    )


def _carried(differences: np.ndarray, sizes: np.ndarray | None, codes: np.ndarray) -> tuple[float, int]:
    """The correlation of neighbouring clusters, and how many clusters there are."""
    totals, whole = _sums(differences, sizes, *numbered(codes))
    return float(neighbour_correlation(_errors(totals, whole))), len(totals)


def _errors(totals: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """How much each cluster takes the mean away from what it is, (..., G)."""
    whole = sizes.sum(axis=-1, keepdims=True)
    return np.asarray(totals / whole - totals.sum(axis=-1, keepdims=True) / whole * (sizes / whole))


@dataclass(frozen=True)
class Moments:
    """What clusters say of a mean; each (...)."""

    estimate: np.ndarray
    variance: np.ndarray
    degrees: np.ndarray
    #: Third cumulant of the estimate.
    third: np.ndarray


def of_clusters(totals: np.ndarray, sizes: np.ndarray) -> Moments:
    """The mean of clusters with these sums of differences and of sizes, both (..., G); linearised, as a ratio of sums
    (Cochran 1977, section 6.3).

    Clusters of unequal size know less than their number says. Variance and degrees of freedom are corrected as if each
    cluster's mean had the same variance, which is so where what its rows share outweighs what they do not (Bell &
    McCaffrey 2002; Imbens & Kolesár 2016, https://doi.org/10.1162/REST_a_00552): the variance is then unbiased, and has
    the two moments of a chi-squared of so many degrees. Of equal clusters that is G / (G - 1) and G - 1.
    """
    whole = sizes.sum(axis=-1, keepdims=True)
    estimate, share = totals.sum(axis=-1, keepdims=True) / whole, sizes / whole
    errors = _errors(totals, sizes)
    p2, p3, p4, p5 = ((share**power).sum(axis=-1) for power in (2, 3, 4, 5))
    first = p2 - 2 * p3 + p2**2
    second = p4 + 4 * p2 * p4 - 4 * p5 + p2**4 - 4 * p2**2 * p3 + 2 * p3**2
    with np.errstate(invalid="ignore", divide="ignore"):  # a single cluster knows nothing
        variance = np.where(first > 0, (errors**2).sum(axis=-1) * p2 / first, np.inf)
        degrees = np.where(second > 0, first**2 / second, 0.0)
    return Moments(estimate[..., 0], variance, np.minimum(degrees, sizes.shape[-1] - 1), (errors**3).sum(axis=-1))


def two_way(first: Moments, second: Moments, cells: Moments) -> Moments:
    """What two groupings and the cells of both say of one mean.

    The variance is that by the first, plus that by the second, less that by the cells (Cameron, Gelbach & Miller 2011,
    https://doi.org/10.1198/jbes.2010.07136). It may come out too small, even below 0, where clusters are few, so it is
    no less than either one-way variance (the "max-se" of MacKinnon, Nielsen & Webb 2024,
    https://arxiv.org/abs/2406.08880). The degrees of freedom are the fewer of the two.
    """
    both = first.variance + second.variance - cells.variance
    return Moments(
        first.estimate,
        np.maximum(both, np.maximum(first.variance, second.variance)),
        np.minimum(first.degrees, second.degrees),
        np.minimum(first.third, second.third),
    )


def numbered(codes: np.ndarray) -> tuple[np.ndarray, int]:
    """The codes that occur, numbered from 0 in their order, and how many they are."""
    most = int(codes.max()) + 1 if len(codes) else 0
    if most > 8 * len(codes):  # a few of very many: their own sort is cheaper than a list of all
        distinct, numbers = np.unique(codes, return_inverse=True)
        return numbers, len(distinct)
    present = np.flatnonzero(np.bincount(codes, minlength=most))
    numbers = np.empty(most, np.int32)
    numbers[present] = np.arange(len(present))
    return numbers[codes], len(present)


def _crossed(first: tuple[np.ndarray, int], second: tuple[np.ndarray, int]) -> np.ndarray:
    """One code for each pair of codes, int64 (N,)."""
    return np.asarray(first[0].astype(np.int64) * second[1] + second[0])


def _sums(differences: np.ndarray, sizes: np.ndarray | None, codes: np.ndarray, count: int) -> tuple[np.ndarray, ...]:
    """Of differences and of sizes by cluster, each float64 (G,): in the order of the rows, on any number of threads."""
    return np.bincount(codes, differences, count), np.bincount(codes, sizes, count).astype(np.float64, copy=False)
