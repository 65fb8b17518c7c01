"""Probabilities of classes, row by row: their losses, and bins of rows that are equally sure.

Shapes: N rows, C classes; `probabilities` float (N, C), `label` int (N,).
"""

import numpy as np

#: Bins of the calibration error and of its plot; 15 as in Guo et al. 2017, https://arxiv.org/abs/1706.04599
CALIBRATION_BINS = 15
LN_2 = float(np.log(2))
#: Probabilities are stored as float32: below its resolution a logarithm measures rounding, not the model.
SMALLEST_PROBABILITY = float(np.finfo(np.float32).eps)
#: Probabilities computed in bfloat16 sum to 1 only about so far.
SUM_TOLERANCE = 0.02


def row_losses(label: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Log loss of each row in nats, float64 (N,)."""
    chosen = probabilities[np.arange(len(label)), label]
    return np.asarray(-np.log(np.clip(chosen, SMALLEST_PROBABILITY, 1.0)))


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
