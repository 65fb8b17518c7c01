"""Figures of merit of one model on one set of rows, from probabilities and labels alone.

Shapes: N rows, C classes; `probabilities` float (N, C), `label` int (N,).
"""

import numpy as np
from sklearn.metrics import confusion_matrix, roc_auc_score, roc_curve

from training.data.manifest import Frozen

#: Bins of the calibration error and of its plot; 15 as in Guo et al. 2017, https://arxiv.org/abs/1706.04599
CALIBRATION_BINS = 15
#: Points kept of a ROC curve: artifact metadata is limited.
ROC_POINTS = 200
LN_2 = float(np.log(2))
#: Probabilities are stored as float32: below its resolution a logarithm measures rounding, not the model.
SMALLEST_PROBABILITY = float(np.finfo(np.float32).eps)


class Scores(Frozen):
    """One model in six numbers; in the first and the last without classes."""

    #: Log loss in nats, per row or per unit of weight; lower is better.
    loss: float
    #: Area under the ROC curve; one-vs-rest macro average for more than two classes. None: a class is absent.
    auc: float | None = None
    accuracy: float | None = None
    #: Expected calibration error over bins of equal mass; 0 is best.
    calibration_error: float | None = None
    #: Mean squared error of the probabilities, over the second of two classes or summed over all.
    brier: float | None = None
    #: Mean predicted minus observed rate: of the second class, or of being right. Above 0 is overconfident.
    calibration_gap: float | None = None
    #: The loss in bits per unit of weight, such as a byte: only without classes.
    bits: float | None = None

    @property
    def compression(self) -> float | None:
        """How many times smaller a coder with this model makes bytes: 8 bits over the bits that it needs."""
        return 8 / self.bits if self.bits else None


class Roc(Frozen):
    """A ROC curve of at most `ROC_POINTS` points, from (0, 0) to (1, 1)."""

    false_positive_rate: tuple[float, ...]
    true_positive_rate: tuple[float, ...]
    #: Falling, finite, in [0, 1].
    threshold: tuple[float, ...]


class CalibrationBin(Frozen):
    """Rows of similar confidence: what was predicted and what came true, as rates."""

    rows: int
    predicted: float
    observed: float


def scores(label: np.ndarray, probabilities: np.ndarray) -> Scores:
    confidence, outcome = confidence_and_outcome(label, probabilities)
    bins = calibration_bins(confidence, outcome)
    return Scores(
        loss=float(row_losses(label, probabilities).mean()),
        auc=auc(label, probabilities),
        accuracy=float(np.mean(probabilities.argmax(axis=1) == label)),
        calibration_error=calibration_error(bins),
        brier=brier(label, probabilities),
        calibration_gap=float(confidence.mean() - outcome.mean()),
    )


def likelihood(losses: np.ndarray, weight: np.ndarray) -> Scores:
    """Scores from losses in nats and weights of rows, float64 (N,)."""
    loss = float(losses.sum() / weight.sum())
    return Scores(loss=loss, bits=loss / LN_2)


def row_losses(label: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Log loss of each row in nats, float64 (N,)."""
    chosen = probabilities[np.arange(len(label)), label]
    return -np.log(np.clip(chosen, SMALLEST_PROBABILITY, 1.0))


def auc(label: np.ndarray, probabilities: np.ndarray) -> float | None:
    """Area under the ROC curve, macro one-vs-rest above two classes; None if a class does not occur."""
    classes = probabilities.shape[1]
    if len(np.unique(label)) < classes:
        return None
    if classes == 2:
        return float(roc_auc_score(label, probabilities[:, 1]))
    return float(roc_auc_score(label, probabilities, multi_class="ovr", average="macro"))


def brier(label: np.ndarray, probabilities: np.ndarray) -> float:
    if probabilities.shape[1] == 2:
        return float(np.mean((probabilities[:, 1] - label) ** 2))
    return float(np.mean(((probabilities - np.eye(probabilities.shape[1])[label]) ** 2).sum(axis=1)))


def confidence_and_outcome(label: np.ndarray, probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What calibration compares, each float64 (N,).

    Two classes: probability of the second, and whether it was the second. More: probability of the predicted
    class, and whether it was right (top-label calibration, Guo et al. 2017).
    """
    if probabilities.shape[1] == 2:
        return probabilities[:, 1], label.astype(np.float64)
    return probabilities.max(axis=1), (probabilities.argmax(axis=1) == label).astype(np.float64)


def bin_codes(confidence: np.ndarray, bins: int = CALIBRATION_BINS) -> np.ndarray:
    """Puts rows into bins of equal mass, int (N,); equal confidences share a bin, so row order does not matter.

    Equal mass rather than equal width, because the estimate is less biased: Nguyen & O'Connor 2015,
    https://aclanthology.org/D15-1182
    """
    edges = np.unique(np.quantile(confidence, np.linspace(0, 1, bins + 1)[1:-1]))
    return np.searchsorted(edges, confidence, side="right")


def calibration_bins(confidence: np.ndarray, outcome: np.ndarray) -> list[CalibrationBin]:
    codes = bin_codes(confidence)
    rows = np.bincount(codes)
    predicted, observed = np.bincount(codes, confidence), np.bincount(codes, outcome)
    means = zip(rows[rows > 0], predicted[rows > 0], observed[rows > 0], strict=True)
    return [CalibrationBin(rows=int(n), predicted=float(p / n), observed=float(o / n)) for n, p, o in means]


def calibration_error(bins: list[CalibrationBin]) -> float:
    """Mean absolute difference of predicted and observed rate, weighted by rows."""
    rows = sum(b.rows for b in bins)
    return sum(b.rows * abs(b.predicted - b.observed) for b in bins) / rows


def confusion(label: np.ndarray, probabilities: np.ndarray) -> list[list[int]]:
    """Counts, actual class by predicted class (the likeliest), C x C."""
    codes = np.arange(probabilities.shape[1])
    counts: list[list[int]] = confusion_matrix(label, probabilities.argmax(axis=1), labels=codes).tolist()
    return counts


def roc(label: np.ndarray, probabilities: np.ndarray) -> Roc | None:
    """The ROC curve; above two classes the one-vs-rest curves averaged at equal false positive rate.

    Vertical averaging (Fawcett 2006, https://doi.org/10.1016/j.patrec.2005.10.010, section 8.1): the area under it
    is the macro AUC, and its thresholds are the classes' mean thresholds. None if a class does not occur.
    """
    classes = probabilities.shape[1]
    if len(np.unique(label)) < classes:
        return None
    if classes == 2:
        return _thin(*_curve(label == 1, probabilities[:, 1]))
    grid = np.linspace(0, 1, ROC_POINTS)
    curves = [_curve(label == c, probabilities[:, c]) for c in range(classes)]
    hits = np.mean([np.interp(grid, false, true) for false, true, _ in curves], axis=0)
    thresholds = np.mean([np.interp(grid, false, threshold) for false, _, threshold in curves], axis=0)
    return _thin(np.r_[0.0, grid], np.r_[0.0, hits], np.r_[1.0, thresholds])


def _curve(positive: np.ndarray, score: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    false, true, threshold = roc_curve(positive, score)
    threshold[0] = 1.0  # scikit-learn starts at infinity, which is not JSON
    return false, true, np.clip(threshold, 0.0, 1.0)


def _thin(false: np.ndarray, true: np.ndarray, threshold: np.ndarray) -> Roc:
    """Keeps the points nearest to equal steps along the curve."""
    length = false + true
    keep = np.unique(np.searchsorted(length, np.linspace(0, length[-1], ROC_POINTS)))
    return Roc(
        false_positive_rate=tuple(false[keep].tolist()),
        true_positive_rate=tuple(true[keep].tolist()),
        threshold=tuple(threshold[keep].tolist()),
    )
