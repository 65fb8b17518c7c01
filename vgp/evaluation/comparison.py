"""Intervals of figures at ordinary confidence, when rows come in groups that are not independent, by resampling.

Not the test that promotes: 2,000 replicates have a quarter of a draw beyond a level of 0.05 / 365 (`levels` has that).
AUC and calibration error are not means over rows; they are compared by bootstrap intervals at 95 %. Whole groups
are resampled (cluster bootstrap: Field & Welsh 2007, https://doi.org/10.1111/j.1467-9868.2007.00593.x). Every statistic
is a function of sums per group, so a replicate costs a product of small matrices, not a pass over the rows.
Independent rows, and groups beyond `MOST_BLOCKS`, are put at random into that many blocks, which are independent again.

Shapes: N rows, G blocks, R replicates, B calibration bins. `weights_RG` counts how often a replicate drew a block.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import special  # importing scipy.stats takes a second

from vgp.evaluation.clusters import renumber
from vgp.evaluation.predictions import Names, Predictions
from vgp.evaluation.ranked import Ranked, hits_of, scores_of, take

SEED = 20130701
REPLICATES = 2_000
#: Maximum number of blocks: the relative error of a standard error from 250 blocks is 1 / sqrt(2 * 249), under 5 %.
MOST_BLOCKS = 250
#: Maximum number of cells (blocks times score levels) for the AUC's replicates: 1,000 levels of 250 blocks.
MOST_CELLS = 250_000


@dataclass(frozen=True)
class Interval:
    """An estimate with its confidence bounds, in the estimate's unit."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class Blocks:
    """Independent blocks of rows: `codes[i]` in [0, count) is the block of row i."""

    codes: np.ndarray
    count: int


def blocks(group: Names | None, rows: int) -> Blocks:
    """Returns one block per group; many groups or independent rows are put into `MOST_BLOCKS` at random (fixed
    seed)."""
    codes, count = (None, rows) if group is None else renumber(group.codes)
    numbers = np.arange(count)
    if count > MOST_BLOCKS:
        numbers = (numbers % MOST_BLOCKS).astype(np.uint8)
        np.random.default_rng(SEED).shuffle(numbers)
    return Blocks(numbers if codes is None else numbers[codes], min(count, MOST_BLOCKS))


@lru_cache(maxsize=8)
def resample(count: int, replicates: int = REPLICATES) -> np.ndarray:
    """Returns bootstrap weights: G draws with replacement from G blocks, fixed seed; float64 (R, G)."""
    random = np.random.default_rng(SEED)
    weights_RG = random.multinomial(count, np.full(count, 1 / count), size=replicates).astype(np.float64)
    weights_RG.flags.writeable = False
    return weights_RG


def interval(estimate: float, replicates_R: np.ndarray, count: int, confidence: float) -> Interval:
    """Returns one-sided bounds, each at `confidence`: percentiles of the replicates, expanded for few blocks.

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


def auc_replicates(weights_RG: np.ndarray, ranked: Ranked, blocks: int, auc: float) -> np.ndarray:
    """Returns the AUC of each replicate, (R,); NaN if a replicate drew one class only.

    Args:
        ranked: Scores, whether they were hits, and their blocks.
        blocks: Number of blocks.
        auc: Exact AUC of all rows.

    The Mann-Whitney form of the AUC (Hanley & McNeil 1982, https://doi.org/10.1148/radiology.143.1.7063747), by
    block, is a quadratic form of the weights. Beyond `MOST_CELLS`, scores within levels of equal mass count as ties,
    and the replicates are shifted by the effect of this on the AUC of all rows.
    """
    hits_GL, misses_GL = _counts_by_level(ranked, blocks, ranked.levels(MOST_CELLS // blocks))
    wins_GG = hits_GL @ (misses_GL.cumsum(axis=1) - misses_GL / 2).T  # exact: halves below 2 ** 53
    hits_G, misses_G = hits_GL.sum(axis=1), misses_GL.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        coarse_R = ((weights_RG @ wins_GG) * weights_RG).sum(axis=1) / ((weights_RG @ hits_G) * (weights_RG @ misses_G))
    return np.asarray(np.clip(coarse_R + (auc - wins_GG.sum() / (hits_G.sum() * misses_G.sum())), 0, 1))


def _counts_by_level(ranked: Ranked, blocks: int, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Counts hits and misses by block and score level, each float64 (G, L)."""
    assert ranked.blocks is not None
    levels = len(starts)
    level = np.repeat(np.arange(levels, dtype=np.int32), np.diff(starts, append=len(ranked)))
    cells = (ranked.blocks.astype(np.int32) * levels + level) * 2 + hits_of(ranked.rows)
    counts = np.bincount(cells, minlength=blocks * levels * 2).reshape(blocks, levels, 2).astype(np.float64)
    return counts[:, :, 1], counts[:, :, 0]


def mean_replicates(
    weights_RG: np.ndarray, values: np.ndarray, rows: Blocks, sizes: np.ndarray | None = None
) -> np.ndarray:
    """Returns the mean of each replicate, (R,); with `sizes` (N,), the sum of values over the sum of sizes."""
    totals = np.bincount(rows.codes, values, rows.count)
    counts = np.bincount(rows.codes, sizes, rows.count)
    return np.asarray(_sums(weights_RG, totals) / _sums(weights_RG, counts))


def calibration_replicates(weights_RG: np.ndarray, packed: np.ndarray, rows: Blocks, edges: np.ndarray) -> np.ndarray:
    """Returns the mean squared calibration error of each replicate, (R,), over the bins of all rows.

    Args:
        packed: Packed confidences and hits; see `ranked.Scored`.
        edges: Bin edges; see `Ranked.bin_edges`.
    """
    confidence, bins = scores_of(packed), len(edges) + 1
    cells = rows.codes.astype(np.int64) * bins + np.searchsorted(edges, confidence, side="right")
    shape = (rows.count, bins)
    excess_GB = np.bincount(cells, confidence - hits_of(packed), rows.count * bins).reshape(shape)
    counts_GB = np.bincount(cells, minlength=rows.count * bins).reshape(shape).astype(np.float64)
    excess_RB, counts_RB = _sums(weights_RG, excess_GB), weights_RG @ counts_GB
    squares_RB = excess_RB**2 / np.maximum(counts_RB, 1)  # count * mean ** 2; an empty bin has no excess
    return np.asarray(squares_RB.sum(axis=1) / counts_RB.sum(axis=1))


def _sums(weights_RG: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Returns `weights_RG @ values` without BLAS, whose order of summation depends on the number of threads."""
    return np.asarray(np.einsum("rg,g...->r...", weights_RG, values))


def without_noise(plain: float, replicates_R: np.ndarray) -> tuple[float, np.ndarray]:
    """Removes the bias of sampling noise from a mean of squares and from its replicates.

    A perfect model's bins deviate by chance, more with finer bins and fewer rows. Each replicate adds this noise once
    more, so the replicates measure it (bootstrap bias correction, exact for squares). This is the debiased calibration
    error of Kumar, Liang & Ma 2019, https://arxiv.org/abs/1909.10155, for grouped rows.
    """
    noise = float(replicates_R.mean()) - plain
    return plain - noise, replicates_R - 2 * noise


# ---- many small comparisons


def holm(p_values: list[float]) -> list[float]:
    """Returns p-values adjusted for multiple tests: Holm 1979, https://www.jstor.org/stable/4615733"""
    order = np.argsort(p_values, kind="stable")
    factors = len(p_values) - np.arange(len(p_values))
    adjusted = np.minimum(1.0, np.maximum.accumulate(np.asarray(p_values)[order] * factors))
    result = np.empty(len(p_values))
    result[order] = adjusted
    return [float(p) for p in result]


# ---- parts of the rows (all, or a slice), and intervals of their figures


#: Maximum number of values of one slice column to measure, by frequency.
MOST_SLICE_VALUES = 50
#: Each side of a 95% interval.
INTERVAL_CONFIDENCE = 0.975
SLICE_REPLICATES = 1_000

Bounds = tuple[float, float] | None
#: Type of `map` over several threads, results in order.
Each = Callable[..., Iterable[Any]]


@dataclass(frozen=True)
class Part:
    """A part of the rows: all of them, or those with one value of a slice column."""

    #: Row numbers, ascending.
    rows: np.ndarray | slice
    #: Number of rows of each class, int (C,).
    counts: np.ndarray
    column: str = ""
    value: str = ""

    @property
    def replicates(self) -> int:
        return SLICE_REPLICATES if self.column else REPLICATES


def everything(data: Predictions) -> Part:
    return Part(slice(None), _count_classes(data, data.label))


def parts(data: Predictions, column: str, names: Names) -> Iterator[Part]:
    """Yields the parts of a column's most frequent values, in the order of their codes."""
    for value, rows in names.rows(MOST_SLICE_VALUES):
        labels = take(data.label, rows) if data.header.classes else data.label
        yield Part(rows, _count_classes(data, labels), column, value)


def _count_classes(data: Predictions, label: np.ndarray) -> np.ndarray:
    classes = len(data.header.classes)
    return np.bincount(label, minlength=classes) if classes else np.zeros(0, np.int64)


def mean_interval(
    data: Predictions, part: Part, estimate: float, values: np.ndarray, sizes: np.ndarray | None = None
) -> Bounds:
    """Returns the 95% interval of the mean of float (n,) values; with `sizes`, of a ratio of sums."""
    rows = part_blocks(data, part, len(values))
    means = mean_replicates(resample(rows.count, part.replicates), values, rows, sizes)
    return bounds(estimate, means, rows.count)


def part_blocks(data: Predictions, part: Part, rows: int) -> Blocks:
    return blocks(data.group[part.rows] if data.group else None, rows)


def bounds(estimate: float, values: np.ndarray, count: int) -> Bounds:
    """Returns the 95% interval from replicates of an estimate; None with too few blocks."""
    found = interval(estimate, values, count, INTERVAL_CONFIDENCE)
    return (found.low, found.high) if np.isfinite([found.low, found.high]).all() else None
