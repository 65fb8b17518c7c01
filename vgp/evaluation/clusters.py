"""The mean difference over clustered rows with its robust standard error: the parts of the t statistic.

Rows of one day are dependent, so a day counts as one observation. With two grouping columns, such as day and user, the
variance is two-way cluster-robust. Neighbouring days are correlated too: with a correlation r between neighbours the
variance of the mean is (1 + r) / (1 - r) times that of independent days (an autoregression of order 1; Zwiers & von
Storch 1995, https://doi.org/10.1175/1520-0442(1995)008<0336:TSCIAI>2.0.CO;2).

Shapes: N rows, G clusters, S samples at once: every function of clusters takes (..., G).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vgp.evaluation.predictions import Names

#: Largest correlation: with a higher one the clusters amount to a single observation.
MOST_CORRELATION = 0.95


def in_order(names: Names) -> np.ndarray | None:
    """Returns a code for each row, int (N,), that rises with time; None if the group names have no order in time.

    Whole numbers have an order, and texts of equal length that begin with a year and a dash.
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
    """Returns the lag-1 correlation of ordered errors (..., G), (...): between -1 and 1, nearly unbiased.

    Corrects the bias of -(1 + 3 r) / G that subtracting the mean causes: Kendall 1954,
    https://doi.org/10.1093/biomet/41.3-4.403
    """
    count = errors.shape[-1]
    squares = (errors**2).sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        plain = np.where(squares > 0, (errors[..., 1:] * errors[..., :-1]).sum(axis=-1) / squares, 0.0)
    return np.asarray(np.clip(plain + (1 + 3 * plain) / count, -1.0, 1.0))


def assume_correlation(seen: np.ndarray | float, count: int, caution: float) -> np.ndarray:
    """Returns the assumed correlation of neighbours, 0 to `MOST_CORRELATION`: the estimate plus `caution` errors.

    Args:
        seen: The estimate of `neighbour_correlation`.
        count: Number of groups.
    """
    error = np.sqrt((1 - np.square(seen)) / count)
    return np.asarray(np.clip(seen + caution * error, 0.0, MOST_CORRELATION))


def error_stretch(assumed: np.ndarray | float) -> np.ndarray:
    """Returns the factor, 1 or more, on the standard error of the mean of independent groups."""
    return np.asarray(np.sqrt((1 + np.asarray(assumed)) / (1 - np.asarray(assumed))))


#: Rounding error relative to the loss: probabilities are float32 (6e-8), and averaging reduces it.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Contrast:
    """A mean difference with its standard error; floats, or arrays (S,)."""

    estimate: float
    #: Cluster-robust standard error; above 0.
    error: float
    #: Degrees of freedom of the standard error.
    degrees: float
    #: Third cumulant of the estimate over the cubed error: negative if a few clusters are far worse than most.
    skew: float
    #: Number of clusters of each grouping, or of rows if they are independent.
    clusters: tuple[int, ...]
    #: Correlation of neighbouring clusters of the first ordered grouping, and their number; None without an order.
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
    """Computes the mean difference of N rows; with `sizes` (N,), the sum of differences over the sum of sizes.

    Args:
        groupings: Codes of each grouping column, int (N,); none for independent rows, at most two.
        orders: Codes of these columns that rise with time; None for a column without an order.
        scale: A typical loss; the standard error is at least `ROUNDING` times this value.
    """
    ways = [renumber(codes) for codes in groupings] or [(np.arange(len(differences)), len(differences))]
    parts = [estimate_mean(*_sum_clusters(differences, sizes, *way)) for way in ways]
    found = parts[0]
    if len(parts) == 2:
        cells = renumber(_combine_codes(*ways))
        found = two_way(parts[0], parts[1], estimate_mean(*_sum_clusters(differences, sizes, *cells)))
    ordered = next((codes for codes in orders if codes is not None), None)
    carried, in_order = (None, 0) if ordered is None else _correlate_neighbours(differences, sizes, ordered)
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


def _correlate_neighbours(differences: np.ndarray, sizes: np.ndarray | None, codes: np.ndarray) -> tuple[float, int]:
    """Returns the correlation of neighbouring clusters, and the number of clusters."""
    totals, whole = _sum_clusters(differences, sizes, *renumber(codes))
    return float(neighbour_correlation(_errors(totals, whole))), len(totals)


def _errors(totals: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Returns each cluster's influence on the mean, (..., G)."""
    whole = sizes.sum(axis=-1, keepdims=True)
    return np.asarray(totals / whole - totals.sum(axis=-1, keepdims=True) / whole * (sizes / whole))


@dataclass(frozen=True)
class Moments:
    """The estimate of a mean from clusters, with its moments; each (...)."""

    estimate: np.ndarray
    variance: np.ndarray
    degrees: np.ndarray
    #: Third cumulant of the estimate.
    third: np.ndarray


def estimate_mean(totals: np.ndarray, sizes: np.ndarray) -> Moments:
    """Estimates a mean from the clusters' sums of differences and of sizes, both (..., G), linearised as a ratio of
    sums (Cochran 1977, section 6.3).

    Unequal clusters carry less information than equal ones. Variance and degrees of freedom are corrected for cluster
    means of equal variance (Bell & McCaffrey 2002; Imbens & Kolesár 2016, https://doi.org/10.1162/REST_a_00552): the
    variance is unbiased and matches two moments of a chi-squared. For equal clusters the factor is G / (G - 1) and the
    degrees are G - 1.
    """
    whole = sizes.sum(axis=-1, keepdims=True)
    estimate, share = totals.sum(axis=-1, keepdims=True) / whole, sizes / whole
    errors = _errors(totals, sizes)
    p2, p3, p4, p5 = ((share**power).sum(axis=-1) for power in (2, 3, 4, 5))
    first = p2 - 2 * p3 + p2**2
    second = p4 + 4 * p2 * p4 - 4 * p5 + p2**4 - 4 * p2**2 * p3 + 2 * p3**2
    with np.errstate(invalid="ignore", divide="ignore"):  # a single cluster has no variance
        variance = np.where(first > 0, (errors**2).sum(axis=-1) * p2 / first, np.inf)
        degrees = np.where(second > 0, first**2 / second, 0.0)
    return Moments(estimate[..., 0], variance, np.minimum(degrees, sizes.shape[-1] - 1), (errors**3).sum(axis=-1))


def two_way(first: Moments, second: Moments, cells: Moments) -> Moments:
    """Combines the estimates by two groupings and by their intersection into a two-way robust one.

    The variance is the sum of both less that of the intersection (Cameron, Gelbach & Miller 2011,
    https://doi.org/10.1198/jbes.2010.07136). With few clusters it can be too small or negative, so it is at least each
    one-way variance (the "max-se" of MacKinnon, Nielsen & Webb 2024, https://arxiv.org/abs/2406.08880). The degrees of
    freedom are the smaller ones.
    """
    both = first.variance + second.variance - cells.variance
    return Moments(
        first.estimate,
        np.maximum(both, np.maximum(first.variance, second.variance)),
        np.minimum(first.degrees, second.degrees),
        np.minimum(first.third, second.third),
    )


def renumber(codes: np.ndarray) -> tuple[np.ndarray, int]:
    """Renumbers the codes that occur from 0, in order; returns them and their number."""
    most = int(codes.max()) + 1 if len(codes) else 0
    if most > 8 * len(codes):  # few of many possible codes: sorting is cheaper than counting
        distinct, numbers = np.unique(codes, return_inverse=True)
        return numbers, len(distinct)
    present = np.flatnonzero(np.bincount(codes, minlength=most))
    numbers = np.empty(most, np.int32)
    numbers[present] = np.arange(len(present))
    return numbers[codes], len(present)


def _combine_codes(first: tuple[np.ndarray, int], second: tuple[np.ndarray, int]) -> np.ndarray:
    """Returns one code for each pair of codes, int64 (N,)."""
    return np.asarray(first[0].astype(np.int64) * second[1] + second[0])


def _sum_clusters(
    differences: np.ndarray, sizes: np.ndarray | None, codes: np.ndarray, count: int
) -> tuple[np.ndarray, ...]:
    """Sums differences and sizes by cluster, each float64 (G,), independent of the number of threads."""
    return np.bincount(codes, differences, count), np.bincount(codes, sizes, count).astype(np.float64, copy=False)
