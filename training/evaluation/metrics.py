"""Figures of merit of one model on one set of rows, from probabilities and labels alone.

Shapes: N rows, C classes; `probabilities` float (N, C), `label` int (N,).
"""

import numpy as np
from sklearn.metrics import confusion_matrix, roc_auc_score, roc_curve

from training.evaluation.probabilities import LN_2, bin_codes, confidence_and_outcome, row_losses
from training.evaluation.record import CalibrationBin, Roc, Scores

#: Points kept of a ROC curve: artifact metadata is limited.
ROC_POINTS = 200


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
