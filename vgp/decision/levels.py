"""How sure a night's test must be, and what it takes to be that sure.

A year's decisions share one chance of promoting a model by luck: each takes an equal part of it (Bonferroni), which
holds however the nights depend on each other, by overlapping test windows or by one champion that all of them are held
against. In a tail that far out Student's t is off where clusters are few and skewed: the critical value is corrected.
`benchmarks/gate` measures both, docs/explanation/the-gate.md explains them.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy import special  # scipy.stats says the same, and takes a second to import

from vgp.evaluation import clusters
from vgp.evaluation.clusters import Contrast
from vgp.evaluation.predictions import Predictions
from vgp.evaluation.ranked import LN_2

#: With this probability a difference that is called detectable would have been seen.
POWER = 0.8
#: How many of its standard errors the skewness is taken to be worse than it was seen: a sample without the few bad
#: days that there are looks symmetric, and is then most likely to be believed.
PRUDENCE = 2.0
#: What counts double: of a tail as heavy as a lognormal's, 31 days show a third of the skewness that there is.
TAIL = 2.0
#: How much farther out than Student's a critical value may be: with 15 and more clusters hardly a sample without a gain
#: lies there, were they of a lognormal (benchmarks/gate), and a gain that does is plain to see.
FARTHEST = 3.0
#: How many of its standard errors the correlation of neighbouring clusters is taken to be higher than it was seen, in
#: decisions that share a year's error: the nights that would promote by luck are those on which it was seen too low.
CAUTION = 1.0
#: Fewer clusters than this carry no robust standard error at any level:
#: Cameron, Gelbach & Miller 2008, https://doi.org/10.1162/rest.90.3.414, find tests far off at 5 and 10.
FEWEST_CLUSTERS = 10


def tonight(confidence: float, nights: int) -> float:
    """The one-sided level of one decision of a year."""
    return (1 - confidence) / nights


def critical(level: float, degrees: ArrayLike, skew: ArrayLike = 0.0) -> np.ndarray:
    """How many standard errors above the margin an estimate must lie at this one-sided level; inf of too few clusters.

    Student's t is too liberal for an estimate whose distribution is skewed to the left: the days that would have
    lowered the mean are those that raise its error. The t statistic is made symmetric by the monotone transformation
    (exp(2/3 k t) - 1) / (2/3 k) + k / 6, where k is the skewness of the estimate (Hall 1992,
    https://www.jstor.org/stable/2345955), and compared with Student's quantile; that is solved here for t. Not the
    skewness that was seen is k, but that less `PRUDENCE` of its standard errors, where it is to the left `TAIL` times
    that before, and 0 where that is above 0. The transformation ends where its logarithm does: beyond `FARTHEST` times
    Student's value a gain is believed however skewed the clusters are.

    Args:
        degrees: Degrees of freedom, (...); and `skew` as of `clusters.Contrast`.
    """
    degrees = np.asarray(degrees, np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        student = -special.stdtrit(degrees, level)
        enough = np.isfinite(_bent(student, _assumed(np.zeros(()), degrees + 1)))
        bent = _bent(student, _assumed(np.asarray(skew, np.float64), degrees + 1))
    return np.asarray(np.where((degrees > 2) & enough, np.minimum(bent, FARTHEST * student), np.inf))


def _bent(student: np.ndarray, skew: np.ndarray) -> np.ndarray:
    """The t statistic that Hall's transformation takes to Student's value; inf where none is taken so far."""
    bend = 2 / 3 * skew
    reach = bend * (student + bend / 4)
    bent = np.where(reach < 1, -np.log1p(-reach) / bend, np.inf)
    return np.where(bend > 0, bent, student)


def _assumed(skew: np.ndarray, count: np.ndarray) -> np.ndarray:
    """How far to the left the estimate from `count` clusters is taken to be skewed, 0 or more; each (...).

    The unbiased skewness of a sample and its standard error under normality: Joanes & Gill 1998,
    https://doi.org/10.1111/1467-9884.00122
    """
    unbiased = skew * np.sqrt(count * (count - 1)) / (count - 2)
    error = np.sqrt(6 * (count - 1) / ((count - 2) * (count + 1) * (count + 3)))
    return np.asarray(np.maximum(0.0, PRUDENCE * error - np.where(unbiased < 0, TAIL, 1.0) * unbiased))


def widened(contrast: Contrast, caution: float = 0.0) -> Contrast:
    """The contrast with the error that it has where clusters resemble their neighbours; itself if they have no order.

    Args:
        caution: How many of its standard errors the correlation is taken to be higher than it was seen.
    """
    return replace(contrast, error=contrast.error * float(clusters.error_stretch(alike(contrast, caution))))


def alike(contrast: Contrast, caution: float = 0.0) -> float:
    """The correlation that neighbouring clusters are taken to have, 0 or more; 0 if they have no order."""
    if contrast.carried is None:
        return 0.0
    return float(clusters.assumed_correlation(contrast.carried, contrast.in_order, caution))


def fewest(level: float) -> int:
    """How many clusters of one size it takes for any difference at all to be sure at this level."""
    count = FEWEST_CLUSTERS
    while np.isinf(critical(level, count - 1)):
        count += 1
    return count


def enough(level: float, contrast: Contrast) -> bool:
    """Whether the clusters could show any difference at this level, were they not skewed."""
    worth = contrast.degrees + 1  # of clusters of one size
    return bool(round(worth) >= FEWEST_CLUSTERS and np.isfinite(critical(level, contrast.degrees)))


def lower(contrast: Contrast, level: float) -> float:
    """What the difference is above, but for a chance of `level`; -inf of too few clusters."""
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


# ---- by how much the new model's loss is lower than another's on the same rows: what the test is about


@dataclass(frozen=True)
class Compared:
    """Challenger and another model: their losses, and by how much the challenger's is lower."""

    ours: float
    theirs: float
    gain: Contrast
    #: By how much the challenger's loss of each row is higher, float64 (N,).
    increase: np.ndarray


def compared(data: Predictions, model: str) -> Compared:
    """The challenger beside the model of that name."""
    ours, theirs = _losses(data, "challenger"), _losses(data, model)
    increase = ours - theirs
    whole = len(data) if data.weight is None else data.weight.sum()
    value = float(theirs.sum() / whole)
    orders = [clusters.in_order(names) for names in data.groupings]
    gain = clusters.contrast(-increase, groupings(data), data.weight, scale=abs(value), orders=orders)
    return Compared(float(ours.sum() / whole), value, gain, increase)


def groupings(data: Predictions) -> list[np.ndarray]:
    """The code of each row in each grouping column, int (N,)."""
    return [names.codes for names in data.groupings]


def _losses(data: Predictions, model: str) -> np.ndarray:
    """A model's loss of each row, float64 (N,): nats of classes, a regression's own, else bits."""
    return data.losses(model) / (1.0 if data.header.classes or data.header.quantiles else LN_2)
