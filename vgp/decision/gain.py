"""By how much the new model's loss is lower than another's on the same rows: what the test is about."""

from dataclasses import dataclass

import numpy as np

from vgp.evaluation import clusters, consecutive
from vgp.evaluation.clusters import Contrast
from vgp.evaluation.predictions import Predictions
from vgp.evaluation.probabilities import LN_2


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
    orders = [consecutive.in_order(names) for names in data.groupings]
    gain = clusters.contrast(-increase, groupings(data), data.weight, scale=abs(value), orders=orders)
    return Compared(float(ours.sum() / whole), value, gain, increase)


def groupings(data: Predictions) -> list[np.ndarray]:
    """The code of each row in each grouping column, int (N,)."""
    return [names.codes for names in data.groupings]


def _losses(data: Predictions, model: str) -> np.ndarray:
    """A model's loss of each row, float64 (N,): nats of classes, a regression's own, else bits."""
    return data.losses(model) / (1.0 if data.header.classes or data.header.quantiles else LN_2)
