"""Paired comparison of two models on the same rows, when rows come in groups that are not independent.

Rows of one day share its weather, so a test that treats them as independent finds differences that are not there.
Whole groups are resampled instead (cluster bootstrap: Field & Welsh 2007, https://doi.org/10.1111/j.1467-9868.2007.00593.x).
Every statistic is a function of sums per group, so a replicate costs a product of small matrices, not a pass
over the rows. Independent rows, and groups beyond `MOST_BLOCKS`, are put at random into that many blocks, which
are independent again.

Shapes: N rows, G blocks, R replicates, B calibration bins. `weights_RG` counts how often a replicate drew a block.
"""

from dataclasses import dataclass

import numpy as np
from scipy import special  # scipy.stats says the same, and takes a second to import

from training.evaluation.predictions import Names
from training.evaluation.probabilities import bin_codes, confidence_and_outcome

SEED = 20130701
REPLICATES = 2_000
#: The relative error of a standard error from 250 blocks is 1 / sqrt(2 * 249), under 5 %.
MOST_BLOCKS = 250
#: Bounds the memory and the time of the AUC's replicates: blocks times distinct scores, 8 bytes each.
MOST_CELLS = 4_000_000


@dataclass(frozen=True)
class Interval:
    """An estimate with its bounds at the confidence that was asked for, in the estimate's unit."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class Blocks:
    """Independent sets of rows: `codes[i]` in [0, count) is the block of row i."""

    codes: np.ndarray
    count: int


def blocks(group: Names | None, rows: int) -> Blocks:
    """One block a group; independent rows and numerous groups are put into `MOST_BLOCKS` at random, fixed seed."""
    codes = np.arange(rows) if group is None else np.unique(group.codes, return_inverse=True)[1]
    count = int(codes.max(initial=-1)) + 1
    if count <= MOST_BLOCKS:
        return Blocks(codes, count)
    block = np.random.default_rng(SEED).permutation(count) % MOST_BLOCKS
    return Blocks(block[codes], MOST_BLOCKS)


def resample(count: int, replicates: int = REPLICATES) -> np.ndarray:
    """`weights_RG` of the bootstrap: G draws with replacement from G blocks, fixed seed; float64 (R, G)."""
    random = np.random.default_rng(SEED)
    return random.multinomial(count, np.full(count, 1 / count), size=replicates).astype(np.float64)


def interval(estimate: float, replicates_R: np.ndarray, count: int, confidence: float) -> Interval:
    """One-sided bounds, each at `confidence`: percentiles of the replicates, moved out for few blocks.

    The expanded percentile interval of Hesterberg 2015, section 3.2 (https://doi.org/10.1080/00031305.2015.1089789)
    has the width of a t interval, where plain percentiles of 30 blocks are too narrow.
    """
    replicates_R = replicates_R[np.isfinite(replicates_R)]
    if count < 2 or not len(replicates_R):
        return Interval(estimate, -np.inf, np.inf)
    tail = special.ndtr(-np.sqrt(count / (count - 1)) * special.stdtrit(count - 1, confidence))
    low, high = np.quantile(replicates_R, [tail, 1 - tail])
    return Interval(estimate, float(low), float(high))


# ---- statistics of weighted blocks: (R,) from weights_RG


def wins_by_block(positive: np.ndarray, score: np.ndarray, rows: Blocks) -> np.ndarray:
    """How often a positive row of block g outranks a negative row of block h, ties a half; float64 (G, G).

    The Mann-Whitney form of the AUC (Hanley & McNeil 1982, https://doi.org/10.1148/radiology.143.1.7063747),
    kept apart by block: with it a replicate's AUC is a quadratic form. Beyond `MOST_CELLS` distinct scores by
    blocks, neighbouring scores count as ties, which moves an AUC by less than 1e-4.
    """
    ranks = np.unique(score, return_inverse=True)[1]
    distinct, most = int(ranks.max()) + 1, MOST_CELLS // rows.count
    if distinct > most:
        ranks, distinct = ranks * most // distinct, most
    cells, shape = rows.codes * distinct + ranks, (rows.count, distinct)
    hits = np.bincount(cells[positive], minlength=rows.count * distinct).reshape(shape).astype(np.float64)
    misses = np.bincount(cells[~positive], minlength=rows.count * distinct).reshape(shape).astype(np.float64)
    return np.asarray(hits @ (misses.cumsum(axis=1) - misses / 2).T)


def auc_replicates(weights_RG: np.ndarray, positive: np.ndarray, score: np.ndarray, rows: Blocks) -> np.ndarray:
    """AUC of each replicate, (R,); not a number where a replicate drew one class only."""
    wins = wins_by_block(positive, score, rows)
    hits = weights_RG @ np.bincount(rows.codes[positive], minlength=rows.count)
    misses = weights_RG @ np.bincount(rows.codes[~positive], minlength=rows.count)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(((weights_RG @ wins) * weights_RG).sum(axis=1) / (hits * misses))


def mean_replicates(
    weights_RG: np.ndarray, values: np.ndarray, rows: Blocks, sizes: np.ndarray | None = None
) -> np.ndarray:
    """Mean over rows of each replicate, (R,); with `sizes` (N,) the sum of values over the sum of sizes."""
    totals = np.bincount(rows.codes, values, rows.count)
    counts = np.bincount(rows.codes, sizes, rows.count)
    return np.asarray((weights_RG @ totals) / (weights_RG @ counts))


def calibration_replicates(
    weights_RG: np.ndarray, label: np.ndarray, probabilities: np.ndarray, rows: Blocks
) -> np.ndarray:
    """Mean squared calibration error of each replicate, (R,), over the bins of the whole sample."""
    confidence, outcome = confidence_and_outcome(label, probabilities)
    codes = bin_codes(confidence)
    bins = int(codes.max()) + 1
    cells = rows.codes * bins + codes
    excess_GB = np.bincount(cells, confidence - outcome, rows.count * bins).reshape(rows.count, bins)
    counts_GB = np.bincount(cells, minlength=rows.count * bins).reshape(rows.count, bins)
    excess_RB, counts_RB = weights_RG @ excess_GB, weights_RG @ counts_GB
    squares_RB = excess_RB**2 / np.maximum(counts_RB, 1)  # count * mean ** 2; an empty bin has no excess
    return np.asarray(squares_RB.sum(axis=1) / counts_RB.sum(axis=1))


def without_noise(plain: float, replicates_R: np.ndarray) -> tuple[float, np.ndarray]:
    """A mean of squares and its replicates, both freed of what sampling noise adds on average.

    Even a perfect model's bins miss by chance, the more the finer the bins and the fewer the rows. Each replicate
    adds that noise once more, so the replicates show how much it is (bootstrap bias correction, exact for squares).
    The debiased calibration error of Kumar, Liang & Ma 2019, https://arxiv.org/abs/1909.10155, for grouped rows.
    """
    noise = float(replicates_R.mean()) - plain
    return plain - noise, replicates_R - 2 * noise


# ---- many small comparisons


def worse_p_value(difference: np.ndarray, group: np.ndarray, sizes: np.ndarray | None = None) -> float:
    """One-sided p-value that the mean difference is above 0, with a standard error robust to groups.

    With `sizes` (N,) it is the sum of differences over the sum of sizes, linearised (Cochran 1977, section 6.3).

    The cluster-robust variance of a mean with the G / (G - 1) correction and a t distribution with G - 1 degrees
    of freedom: Cameron & Miller 2015, https://doi.org/10.3368/jhr.50.2.317
    """
    codes = np.unique(group, return_inverse=True)[1]
    sizes = np.ones(len(difference)) if sizes is None else sizes
    count, mean = int(codes.max()) + 1, float(difference.sum() / sizes.sum())
    totals = np.bincount(codes, difference - mean * sizes)
    error = np.sqrt(count / (count - 1) * np.sum(totals**2)) / sizes.sum()
    if error < 1e-12:  # equal predictions, or a difference that is the same in every row
        return 0.0 if mean > 1e-9 else 1.0
    return float(special.stdtr(count - 1, -mean / error))


def holm(p_values: list[float]) -> list[float]:
    """Adjusted p-values that bound the chance of any false alarm: Holm 1979, https://www.jstor.org/stable/4615733"""
    order = np.argsort(p_values, kind="stable")
    factors = len(p_values) - np.arange(len(p_values))
    adjusted = np.minimum(1.0, np.maximum.accumulate(np.asarray(p_values)[order] * factors))
    result = np.empty(len(p_values))
    result[order] = adjusted
    return [float(p) for p in result]
