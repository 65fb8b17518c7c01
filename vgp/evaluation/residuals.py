"""Figures of a regression, from labels and what a model predicted for them.

Shapes: N rows, Q quantiles; `label` float64 (N,), `predicted` float64 (1 + Q, N): the mean, then the quantiles.
`vgp.evaluation.regression` says what each figure is.
"""

from collections.abc import Sequence

import numpy as np

from vgp.evaluation.regression import CentralInterval, Loss, QuantileCalibration, RegressionScores, ResidualBin

#: Bars of the histogram of residuals, and the share of residuals that lie outside of it on each side.
RESIDUAL_BARS, OUTSIDE = 40, 0.005
#: Bins by prediction.
PREDICTION_BINS = 20


def absolute_of(quantiles: Sequence[float]) -> int:
    """Which row of `predicted` absolute errors are of: the median's if there is one, else the mean's."""
    return 1 + list(quantiles).index(0.5) if 0.5 in quantiles else 0


def central(quantiles: Sequence[float]) -> tuple[CentralInterval, ...]:
    """The intervals between quantiles that lie symmetrically, outermost first."""
    pairs = zip(quantiles, reversed(quantiles), strict=True)
    some = ((low, high) for low, high in pairs if low < 0.5)
    by_value = [(low, next((h for h in quantiles if abs(1 - low - h) < 1e-9), None)) for low, _ in some]
    return tuple(CentralInterval(low=a, high=b, expected=round(b - a, 9)) for a, b in by_value if b is not None)


def pinball(label: np.ndarray, predicted: np.ndarray, quantile: float) -> np.ndarray:
    """Pinball loss of each row, float64 (N,): Koenker & Bassett 1978, https://doi.org/10.2307/1913643"""
    error = label - predicted
    return np.asarray(np.maximum(quantile * error, (quantile - 1) * error))


def losses(kind: Loss, label: np.ndarray, predicted: np.ndarray, quantiles: Sequence[float]) -> np.ndarray:
    """The loss of each row that a decision may test, float64 (N,)."""
    if kind == "squared":
        return np.asarray(np.square(label - predicted[0]))
    if kind == "absolute":
        return np.asarray(np.abs(label - predicted[absolute_of(quantiles)]))
    total = np.zeros(len(label))
    for quantile, values in zip(quantiles, predicted[1:], strict=True):
        total += pinball(label, values, quantile)
    return total / len(quantiles)


def scores(label: np.ndarray, predicted: np.ndarray, quantiles: Sequence[float]) -> RegressionScores:
    """The scores of one model on some rows, one at least."""
    error, apart = predicted[0] - label, np.abs(label - predicted[absolute_of(quantiles)])
    squared, variance = float(np.square(error).mean()), float(label.var()) if label.min() < label.max() else 0.0
    of_quantiles = tuple(float(pinball(label, p, q).mean()) for q, p in zip(quantiles, predicted[1:], strict=True))
    own = [float(pinball(label, at, q).mean()) for q, at in zip(quantiles, np.quantile(label, quantiles), strict=True)]
    ends = [(predicted[1 + low], predicted[1 + high]) for low, high in _ends(quantiles)]
    return RegressionScores(
        rmse=squared**0.5,
        mae=float(apart.mean()),
        median_absolute_error=float(np.median(apart)),
        r2=1 - squared / variance if variance > 0 else None,
        bias=float(error.mean()),
        pinball=of_quantiles,
        mean_pinball=float(np.mean(of_quantiles)),
        d2=1 - sum(of_quantiles) / sum(own) if sum(own) > 0 else None,
        coverage=tuple(float(((low <= label) & (label <= high)).mean()) for low, high in ends),
        width=tuple(float((high - low).mean()) for low, high in ends),
    )


def _ends(quantiles: Sequence[float]) -> list[tuple[int, int]]:
    """The numbers of the quantiles that bound each central interval."""
    places = list(quantiles)
    return [(places.index(interval.low), places.index(interval.high)) for interval in central(quantiles)]


def calibration(
    label: np.ndarray, predicted: np.ndarray, quantiles: Sequence[float]
) -> tuple[QuantileCalibration, ...]:
    """How often labels fall below each quantile."""
    result = []
    for quantile, values in zip(quantiles, predicted[1:], strict=True):
        below, tied = float((label < values).mean()), float((label == values).mean())
        observed = float(np.clip(quantile, below, below + tied))
        result.append(QuantileCalibration(quantile=quantile, observed=observed, tied=tied))
    return tuple(result)


def residual_edges(residuals: np.ndarray) -> np.ndarray:
    """Ends of the bars of a histogram of residuals, float64 (RESIDUAL_BARS + 1,)."""
    low, high = np.quantile(residuals, [OUTSIDE, 1 - OUTSIDE])
    if not low < high:
        low, high = residuals.min(), residuals.max()
    if not low < high:
        low, high = low - (abs(low) or 1.0), high + (abs(high) or 1.0)
    return np.linspace(low, high, RESIDUAL_BARS + 1)


def residual_counts(residuals: np.ndarray, edges: np.ndarray) -> tuple[tuple[int, ...], int, int]:
    """Rows of each bar, the last of which is closed, and those below and above all bars."""
    counts = np.histogram(residuals, edges)[0]
    return tuple(counts.tolist()), int((residuals < edges[0]).sum()), int((residuals > edges[-1]).sum())


def by_prediction(label: np.ndarray, mean: np.ndarray) -> tuple[ResidualBin, ...]:
    """Residuals of rows of similar prediction: bins of equal rows, equal predictions in the same bin."""
    order = np.argsort(mean, kind="stable")
    rising = mean[order]
    starts = np.unique(np.searchsorted(rising, rising[len(rising) * np.arange(PREDICTION_BINS) // PREDICTION_BINS]))
    return tuple(_bin(label[rows], mean[rows]) for rows in np.split(order, starts[1:]))


def _bin(label: np.ndarray, mean: np.ndarray) -> ResidualBin:
    residuals = label - mean
    lower, upper = np.quantile(residuals, [0.25, 0.75])
    return ResidualBin(
        rows=len(label), predicted=float(mean.mean()), mean=float(residuals.mean()), spread=float(residuals.std()),
        lower_quartile=float(lower), upper_quartile=float(upper),
    )  # fmt: skip
