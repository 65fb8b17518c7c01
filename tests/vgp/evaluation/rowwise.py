"""The figures as one writes them from their definitions, row by row: what the fast ones are held against.

Slow, and in memory of many times the rows: the first form of this product had them so.
"""

import numpy as np
from sklearn.metrics import roc_auc_score

from vgp.evaluation.ranked import CALIBRATION_BINS, SMALLEST_PROBABILITY


def scores(label, table) -> dict[str, float]:
    """Float64 (N, C), rows of sum 1."""
    confidence, outcome = confidence_and_outcome(label, table)
    binary = table.shape[1] == 2
    codes = [1] if binary else range(table.shape[1])
    every = len(np.unique(label)) == table.shape[1]
    return {
        "loss": -np.log(np.clip(table[np.arange(len(label)), label], SMALLEST_PROBABILITY, 1)).mean(),
        "auc": np.mean([roc_auc_score(label == c, single(table[:, c])) for c in codes]) if every else None,
        "accuracy": np.mean(table.argmax(axis=1) == label),
        "calibration_error": sum(n * abs(p - o) for n, p, o in bins(confidence, outcome)) / len(label),
        "brier": ((table - np.eye(table.shape[1])[label]) ** 2).sum(axis=1).mean() / (2 if binary else 1),
        "calibration_gap": confidence.mean() - outcome.mean(),
    }


def confidence_and_outcome(label, table):
    if table.shape[1] == 2:
        return table[:, 1], label.astype(float)
    return single(table.max(axis=1)), (table.argmax(axis=1) == label).astype(float)


def single(values):
    """Rounded to float32, in which scores are ranked and put into bins."""
    return values.astype(np.float32).astype(float)


def bin_codes(confidence):
    edges = np.unique(np.quantile(confidence, np.linspace(0, 1, CALIBRATION_BINS + 1)[1:-1]))
    return np.searchsorted(edges, confidence, side="right")


def bins(confidence, outcome) -> list[tuple[int, float, float]]:
    codes = bin_codes(confidence)
    members = [codes == code for code in np.unique(codes)]
    return [(int(m.sum()), confidence[m].mean(), outcome[m].mean()) for m in members]


def auc_replicates(weights_RG, positive, score, codes, count):
    """Over all distinct scores, by the Mann-Whitney form kept apart by block."""
    ranks = np.unique(score, return_inverse=True)[1]
    distinct = int(ranks.max()) + 1
    shape, cells = (count, distinct), codes * distinct + ranks
    hits = np.bincount(cells[positive], minlength=count * distinct).reshape(shape).astype(float)
    misses = np.bincount(cells[~positive], minlength=count * distinct).reshape(shape).astype(float)
    wins = hits @ (misses.cumsum(axis=1) - misses / 2).T
    pairs = (weights_RG @ hits.sum(axis=1)) * (weights_RG @ misses.sum(axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return ((weights_RG @ wins) * weights_RG).sum(axis=1) / pairs


def calibration_replicates(weights_RG, label, table, codes, count):
    confidence, outcome = confidence_and_outcome(label, table)
    members = bin_codes(confidence)
    total = 0.0
    for code in np.unique(members):
        excess = np.bincount(codes, (confidence - outcome) * (members == code), count)
        rows = np.bincount(codes, members == code, count)
        total = total + (weights_RG @ excess) ** 2 / np.maximum(weights_RG @ rows, 1)
    return total / (weights_RG @ np.bincount(codes, minlength=count))


def clustered(difference, group, sizes):
    """Mean, variance, degrees of freedom and third cumulant, by the matrices of Bell & McCaffrey."""
    groups = np.unique(group)
    totals, whole = np.array([difference[group == g].sum() for g in groups]), sizes.sum()
    shares = np.array([sizes[group == g].sum() for g in groups]) / whole
    mean = difference.sum() / whole
    errors = totals / whole - mean * shares
    residual = np.eye(len(groups)) - np.outer(np.ones(len(groups)), shares)  # a cluster's mean less that of all
    form = residual.T @ np.diag(shares**2) @ residual
    variance = (errors**2).sum() * (shares**2).sum() / np.trace(form)
    return mean, variance, np.trace(form) ** 2 / np.trace(form @ form), (errors**3).sum()
