"""Significance levels, critical values and bounds of the gate's test.

All decisions of a year share one error probability in equal parts (Bonferroni), which holds for any dependence between
nights: overlapping test windows, or one champion in all tests. At such small levels Student's t is too liberal for few,
skewed clusters, so the critical value is corrected. `benchmarks/gate` measures both; docs/explanation/the-gate.md
explains them.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy import special  # importing scipy.stats takes a second

from vgp.evaluation import clusters
from vgp.evaluation.clusters import Contrast
from vgp.evaluation.predictions import Predictions
from vgp.evaluation.ranked import LN_2

#: Power at which a difference counts as detectable.
POWER = 0.8
#: Standard errors by which the assumed skewness exceeds the estimate: a sample that misses the few bad days looks
#: symmetric, and would pass most easily.
PRUDENCE = 2.0
#: Factor on skewness to the left: 31 days of a lognormal show a third of its true skewness.
TAIL = 2.0
#: Largest critical value, as a multiple of Student's: with 15 or more lognormal clusters almost no sample without a
#: gain exceeds it (benchmarks/gate).
FARTHEST = 3.0
#: Standard errors by which the assumed correlation of neighbouring clusters exceeds the estimate, in decisions that
#: share a year's error: false promotions happen on nights that underestimate it.
CAUTION = 1.0
#: Fewer clusters give no reliable robust standard error:
#: Cameron, Gelbach & Miller 2008, https://doi.org/10.1162/rest.90.3.414, find tests far off at 5 and 10.
FEWEST_CLUSTERS = 10


def tonight(confidence: float, nights: int) -> float:
    """Returns the one-sided level of one of a year's decisions."""
    return (1 - confidence) / nights


def critical(level: float, degrees: ArrayLike, skew: ArrayLike = 0.0) -> np.ndarray:
    """Returns how many standard errors an estimate must lie above the margin; inf for too few clusters.

    Student's t is too liberal for an estimate that is skewed to the left, because the days that lower the mean also
    raise its error. Hall's monotone transformation (exp(2/3 k t) - 1) / (2/3 k) + k / 6 makes the t statistic
    symmetric, where k is the skewness of the estimate (Hall 1992, https://www.jstor.org/stable/2345955); this function
    solves it for t at Student's quantile. As k it takes the estimated skewness (times `TAIL` if it is to the left) less
    `PRUDENCE` standard errors, at most 0. The result is capped at `FARTHEST` times Student's value.

    Args:
        level: One-sided significance level.
        degrees: Degrees of freedom, (...).
        skew: Skewness as in `clusters.Contrast`, (...).
    """
    degrees = np.asarray(degrees, np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        student = -special.stdtrit(degrees, level)
        enough = np.isfinite(_bent(student, _assume_skewness(np.zeros(()), degrees + 1)))
        bent = _bent(student, _assume_skewness(np.asarray(skew, np.float64), degrees + 1))
    return np.asarray(np.where((degrees > 2) & enough, np.minimum(bent, FARTHEST * student), np.inf))


def _bent(student: np.ndarray, skew: np.ndarray) -> np.ndarray:
    """Returns the t statistic that Hall's transformation maps to Student's value; inf if there is none."""
    bend = 2 / 3 * skew
    reach = bend * (student + bend / 4)
    bent = np.where(reach < 1, -np.log1p(-reach) / bend, np.inf)
    return np.where(bend > 0, bent, student)


def _assume_skewness(skew: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Returns the skewness to the left that is assumed for an estimate from `count` clusters, 0 or more; (...).

    Uses the unbiased sample skewness and its standard error under normality: Joanes & Gill 1998,
    https://doi.org/10.1111/1467-9884.00122
    """
    unbiased = skew * np.sqrt(count * (count - 1)) / (count - 2)
    error = np.sqrt(6 * (count - 1) / ((count - 2) * (count + 1) * (count + 3)))
    return np.asarray(np.maximum(0.0, PRUDENCE * error - np.where(unbiased < 0, TAIL, 1.0) * unbiased))


def widen_error(contrast: Contrast, caution: float = 0.0) -> Contrast:
    """Returns the contrast with its error widened for correlated neighbouring clusters; unchanged if they have no
    order.

    Args:
        caution: Standard errors to add to the estimated correlation.
    """
    return replace(contrast, error=contrast.error * float(clusters.error_stretch(alike(contrast, caution))))


def alike(contrast: Contrast, caution: float = 0.0) -> float:
    """Returns the correlation assumed between neighbouring clusters, 0 or more; 0 if they have no order."""
    if contrast.carried is None:
        return 0.0
    return float(clusters.assume_correlation(contrast.carried, contrast.in_order, caution))


def fewest(level: float) -> int:
    """Returns how many clusters of equal size the test needs at this level."""
    count = FEWEST_CLUSTERS
    while np.isinf(critical(level, count - 1)):
        count += 1
    return count


def enough(level: float, contrast: Contrast) -> bool:
    """Whether there are enough clusters for a significant difference at this level, if they are not skewed."""
    worth = contrast.degrees + 1  # clusters of equal size
    return bool(round(worth) >= FEWEST_CLUSTERS and np.isfinite(critical(level, contrast.degrees)))


def lower(contrast: Contrast, level: float) -> float:
    """Returns the lower confidence bound of the difference at this level; -inf for too few clusters."""
    return contrast.estimate - float(critical(level, contrast.degrees, contrast.skew)) * contrast.error


def upper(contrast: Contrast, level: float) -> float:
    """Returns the upper confidence bound of the difference at this level."""
    return contrast.estimate + float(critical(level, contrast.degrees, -contrast.skew)) * contrast.error


def detectable(contrast: Contrast, level: float, margin: float) -> float:
    """Returns the true difference that the test would detect with the probability `POWER`."""
    spread = float(critical(level, contrast.degrees, contrast.skew) + special.stdtrit(contrast.degrees, POWER))
    return margin + spread * contrast.error


def within(contrast: Contrast, confidence: float) -> tuple[float, float]:
    """Returns a plain t interval for readers, each end at this one-sided confidence."""
    reach = float(special.stdtrit(contrast.degrees, confidence)) * contrast.error
    return contrast.estimate - reach, contrast.estimate + reach


def above(contrast: Contrast) -> float:
    """Returns the one-sided p-value of Student's t for a mean above 0."""
    return float(special.stdtr(contrast.degrees, -contrast.estimate / contrast.error))


# ---- the paired difference of two models' losses


@dataclass(frozen=True)
class Compared:
    """The mean losses of the challenger and another model, and their paired difference."""

    ours: float
    theirs: float
    gain: Contrast
    #: Challenger's loss less the other model's, per row, float64 (N,).
    increase: np.ndarray


def compared(data: Predictions, model: str) -> Compared:
    """Compares the challenger with the model of that name."""
    ours, theirs = _losses(data, "challenger"), _losses(data, model)
    increase = ours - theirs
    whole = len(data) if data.weight is None else data.weight.sum()
    value = float(theirs.sum() / whole)
    orders = [clusters.in_order(names) for names in data.groupings]
    gain = clusters.contrast(-increase, groupings(data), data.weight, scale=abs(value), orders=orders)
    return Compared(float(ours.sum() / whole), value, gain, increase)


def groupings(data: Predictions) -> list[np.ndarray]:
    """Returns each grouping column's codes, int (N,)."""
    return [names.codes for names in data.groupings]


def _losses(data: Predictions, model: str) -> np.ndarray:
    """Returns a model's loss per row, float64 (N,): nats for classes, the chosen loss of a regression, else bits."""
    return data.losses(model) / (1.0 if data.header.classes or data.header.quantiles else LN_2)
