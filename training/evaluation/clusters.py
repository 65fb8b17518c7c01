"""The mean of a difference over rows that come in clusters, and how far it is known: the t statistic's parts.

Rows of one day share its weather, so a day is one observation however many rows it has. Where two columns mark rows
that are not independent, such as day and user, no partition of the rows does: the variance is then two-way robust.

Shapes: N rows, G clusters, S samples at once: every function of clusters takes (..., G).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

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


def contrast(
    differences: np.ndarray,
    groupings: Sequence[np.ndarray] = (),
    sizes: np.ndarray | None = None,
    *,
    scale: float = 1.0,
) -> Contrast:
    """The mean of the differences of N rows; with `sizes` (N,) the sum of differences over the sum of sizes.

    Args:
        groupings: For each grouping column the code of each row, int (N,): none for independent rows, at most two.
        scale: A loss like those that differ, in their unit: an error below `ROUNDING` of it counts as that much.

    Two-way clusters: variance by the first, plus by the second, minus by both (Cameron, Gelbach & Miller 2011,
    https://doi.org/10.1198/jbes.2010.07136), which may come out too small, even below 0, where there are few. It is
    therefore no less than either one-way variance (the "max-se" of MacKinnon, Nielsen & Webb 2024,
    https://arxiv.org/abs/2406.08880), and has the fewer degrees of freedom of the two.
    """
    ways = [numbered(codes) for codes in groupings] or [(np.arange(len(differences)), len(differences))]
    sums = [_sums(differences, sizes, *way) for way in ways]
    parts = [one_way(*way) for way in sums]
    variance = max(part.variance for part in parts)
    if len(parts) == 2:
        both = one_way(*_sums(differences, sizes, *numbered(_crossed(*ways))))
        variance = max(variance, parts[0].variance + parts[1].variance - both.variance)
    error = max(float(np.sqrt(variance)), ROUNDING * (scale or 1.0))
    return Contrast(
        estimate=float(parts[0].estimate),
        error=error,
        degrees=float(min(part.degrees for part in parts)),
        skew=float(min(part.third for part in parts) / error**3),
        clusters=tuple(count for _, count in ways),
    )


@dataclass(frozen=True)
class OneWay:
    """What one grouping says of a mean; each (...)."""

    estimate: np.ndarray
    variance: np.ndarray
    degrees: np.ndarray
    #: Third cumulant of the estimate.
    third: np.ndarray


def one_way(totals: np.ndarray, sizes: np.ndarray) -> OneWay:
    """The mean of clusters with these sums of differences and of sizes, both (..., G); linearised, as a ratio of sums
    (Cochran 1977, section 6.3).

    Clusters of unequal size know less than their number says. Variance and degrees of freedom are corrected as if each
    cluster's mean had the same variance, which is so where what its rows share outweighs what they do not (Bell &
    McCaffrey 2002; Imbens & Kolesár 2016, https://doi.org/10.1162/REST_a_00552): the variance is then unbiased, and has
    the two moments of a chi-squared of so many degrees. Of equal clusters that is G / (G - 1) and G - 1.
    """
    whole = sizes.sum(axis=-1, keepdims=True)
    estimate, share = totals.sum(axis=-1, keepdims=True) / whole, sizes / whole
    errors = totals / whole - estimate * share
    p2, p3, p4, p5 = ((share**power).sum(axis=-1) for power in (2, 3, 4, 5))
    first = p2 - 2 * p3 + p2**2
    second = p4 + 4 * p2 * p4 - 4 * p5 + p2**4 - 4 * p2**2 * p3 + 2 * p3**2
    with np.errstate(invalid="ignore", divide="ignore"):  # a single cluster knows nothing
        variance = np.where(first > 0, (errors**2).sum(axis=-1) * p2 / first, np.inf)
        degrees = np.where(second > 0, first**2 / second, 0.0)
    return OneWay(estimate[..., 0], variance, np.minimum(degrees, sizes.shape[-1] - 1), (errors**3).sum(axis=-1))


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
