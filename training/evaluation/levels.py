"""How sure a night's test must be, and what it takes to be that sure.

A year's decisions share one chance of promoting a model by luck: each takes an equal part of it (Bonferroni), which
holds however the nights depend on each other, by overlapping test windows or by one champion that all of them are held
against. In a tail that far out Student's t is off where clusters are few and skewed: the critical value is corrected.
`benchmarks/gate.py` measures both, docs/gate.md tells.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy import special  # scipy.stats says the same, and takes a second to import

from training.evaluation.clusters import Contrast

#: With this probability a difference that is called detectable would have been seen.
POWER = 0.8
#: How many of its standard errors the skewness is taken to be worse than it was seen: a sample without the few bad
#: days that there are looks symmetric, and is then most likely to be believed.
PRUDENCE = 2.0
#: Fewer clusters than this carry no robust standard error at any level:
#: Cameron, Gelbach & Miller 2008, https://doi.org/10.1162/rest.90.3.414, find tests far off at 5 and 10.
FEWEST_CLUSTERS = 10


def tonight(confidence: float, nights: int) -> float:
    """The one-sided level of one decision of a year."""
    return (1 - confidence) / nights


def critical(level: float, degrees: ArrayLike, skew: ArrayLike = 0.0) -> np.ndarray:
    """How many standard errors above the margin an estimate must lie at this one-sided level; inf if none is enough.

    Student's t is too liberal for an estimate whose distribution is skewed to the left: the days that would have
    lowered the mean are those that raise its error. The t statistic is made symmetric by the monotone transformation
    (exp(2/3 k t) - 1) / (2/3 k) + k / 6, where k is the skewness of the estimate (Hall 1992,
    https://www.jstor.org/stable/2345955), and compared with Student's quantile; that is solved here for t. Not the
    skewness that was seen is k, but that less `PRUDENCE` of its standard errors, and 0 where that is above 0.

    Args:
        degrees: Degrees of freedom, (...); and `skew` as of `clusters.Contrast`.
    """
    degrees = np.asarray(degrees, np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        student = -special.stdtrit(degrees, level)
        bend = 2 / 3 * _assumed(np.asarray(skew, np.float64), degrees + 1)
        reach = bend * (student + bend / 4)
        bent = np.where(reach < 1, -np.log1p(-reach) / bend, np.inf)
    return np.asarray(np.where(degrees > 2, np.where(bend > 0, bent, student), np.inf))


def _assumed(skew: np.ndarray, count: np.ndarray) -> np.ndarray:
    """How far to the left the estimate from `count` clusters is taken to be skewed, 0 or more; each (...).

    The unbiased skewness of a sample and its standard error under normality: Joanes & Gill 1998,
    https://doi.org/10.1111/1467-9884.00122
    """
    unbiased = skew * np.sqrt(count * (count - 1)) / (count - 2)
    error = np.sqrt(6 * (count - 1) / ((count - 2) * (count + 1) * (count + 3)))
    return np.maximum(0.0, PRUDENCE * error - unbiased)


def fewest(level: float) -> int:
    """How many clusters of one size it takes for any difference at all to be sure at this level."""
    count = FEWEST_CLUSTERS
    while np.isinf(critical(level, count - 1)):
        count += 1
    return count


def enough(level: float, contrast: Contrast) -> bool:
    """Whether the clusters could show any difference at this level, were they not skewed."""
    return min(contrast.clusters) >= FEWEST_CLUSTERS and bool(np.isfinite(critical(level, contrast.degrees)))


def lower(contrast: Contrast, level: float) -> float:
    """What the difference is above, but for a chance of `level`; -inf where the clusters are too skewed to tell."""
    return contrast.estimate - float(critical(level, contrast.degrees, contrast.skew)) * contrast.error


def upper(contrast: Contrast, level: float) -> float:
    """What the difference is below, but for a chance of `level`."""
    return contrast.estimate + float(critical(level, contrast.degrees, -contrast.skew)) * contrast.error


def detectable(contrast: Contrast, level: float, margin: float) -> float:
    """The difference that such rows show to be above the margin with the probability `POWER`."""
    spread = float(critical(level, contrast.degrees, contrast.skew) + special.stdtrit(contrast.degrees, POWER))
    return margin + spread * contrast.error


def within(contrast: Contrast, confidence: float) -> tuple[float, float]:
    """An ordinary t interval for readers, each end at this one-sided confidence."""
    reach = float(special.stdtrit(contrast.degrees, confidence)) * contrast.error
    return contrast.estimate - reach, contrast.estimate + reach


def above(contrast: Contrast) -> float:
    """One-sided p-value of Student's t that the mean is above 0."""
    return float(special.stdtr(contrast.degrees, -contrast.estimate / contrast.error))
