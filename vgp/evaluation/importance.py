"""Permutation importance: the rise of the decision's loss when a column's values are shuffled.

Methods: Breiman 2001, https://doi.org/10.1023/A:1010933404324; for any model: Fisher, Rudin & Dominici 2019,
https://arxiv.org/abs/1801.01489. Categories and vectors are shuffled as a whole. Correlated columns can replace each
other, so each may look unimportant alone.

The work is bounded by counts, not by time, so every machine computes the same figures.
"""

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from vgp.data.rows import read_sample
from vgp.data.task import Task
from vgp.evaluation import regression
from vgp.evaluation.ranked import score_rows
from vgp.evaluation.regression import LOSSES, Loss
from vgp.protocol import outcome
from vgp.protocol.manifest import Frozen, Manifest

if TYPE_CHECKING:
    from torch import nn

    from vgp.evaluation.score import TrainedModel

SEED = 20130701
REPEATS = 3
#: Maximum number of rows of the sample, and of multiplications, which reduce the rows for a large model.
MOST_ROWS, LEAST_ROWS = 5_000, 500
OPERATIONS = 7e9
#: Factor on the multiplications at the least number of rows (about 10 s of one core); a larger model gets no
#: importance.
MOST_TIMES = 20
MOST_COLUMNS = 300


class ColumnImportance(Frozen):
    """The rise of the mean loss when the column is shuffled: mean and standard deviation over the repeats."""

    column: str
    increase: float
    deviation: float


class Importance(Frozen):
    """The importance of the new model's columns, highest first; a `note` instead of columns if not computed."""

    #: Rows of the sample, and shuffles of each column.
    rows: int = 0
    repeats: int = 0
    #: Name of the loss, and its mean over the sample.
    unit: str = ""
    loss: float = 0.0
    columns: tuple[ColumnImportance, ...] = ()
    note: str = ""


def importance(model: "TrainedModel", data: str | Path, dataset: Manifest, split: str) -> Importance | None:
    """Shuffles the columns of a sample one by one; returns None for fewer than two columns and for likelihoods."""
    if model.task.likelihood:
        return None
    names = [c.name for c in model.card.columns if c.kind in ("number", "category", "vector")]
    names = [name for name in names if name not in (model.task.label, *model.task.groups)]
    if len(names) < 2:
        return None
    if len(names) > MOST_COLUMNS:
        return Importance(note=f"Not computed for more than {MOST_COLUMNS} columns; there are {len(names):,}.")
    weights = _count_weights(model.module)
    rows = int(OPERATIONS / (max(1, weights) * len(names) * REPEATS))
    if rows * MOST_TIMES < LEAST_ROWS:
        return Importance(note=f"Not computed for a model of this size: {weights:,} weights multiply each row.")
    batch = read_sample(data, dataset.splits[split], dataset.columns, min(MOST_ROWS, max(LEAST_ROWS, rows)))
    plain = _compute_mean_loss(model, batch)
    grown = {
        name: np.array([_compute_mean_loss(model, _shuffle_column(batch, name, n)) - plain for n in range(REPEATS)])
        for name in names
    }
    columns = [ColumnImportance(column=n, increase=float(g.mean()), deviation=float(g.std(ddof=1)))
               for n, g in grown.items()]  # fmt: skip
    return Importance(
        rows=len(batch[names[0]]), repeats=REPEATS, unit=loss_unit(model.task), loss=plain,
        columns=tuple(sorted(columns, key=lambda column: (-column.increase, column.column))),
    )  # fmt: skip


def _count_weights(module: "nn.Module") -> int:
    """Returns the number of weights that each row is multiplied by: all except embedding tables."""
    from torch import nn

    tables = (nn.Embedding, nn.EmbeddingBag)
    parts = [part for part in module.modules() if not isinstance(part, tables)]
    return sum(p.numel() for part in parts for p in part.parameters(recurse=False))


def _shuffle_column(batch: Mapping[str, np.ndarray], name: str, repeat: int) -> dict[str, np.ndarray]:
    """Returns the batch with one column shuffled; the order depends on this column only."""
    random = np.random.default_rng([SEED, zlib.crc32(name.encode()), repeat])
    return {**batch, name: batch[name][random.permutation(len(batch[name]))]}


def _compute_mean_loss(model: "TrainedModel", batch: Mapping[str, np.ndarray]) -> float:
    rows, task = len(next(iter(batch.values()))), model.task
    losses = [_compute_losses(model, {name: values[start : start + task.batch_rows] for name, values in batch.items()})
              for start in range(0, rows, task.batch_rows)]  # fmt: skip
    return float(np.concatenate(losses).mean())


def _compute_losses(model: "TrainedModel", batch: dict[str, np.ndarray]) -> np.ndarray:
    return row_losses(model.task, model(batch), batch)


# ---- the decision's loss of single rows


def row_losses(task: Task, predicted: np.ndarray, batch: Mapping[str, np.ndarray]) -> np.ndarray:
    """Returns the decision's loss of each row, float64 (B,).

    Args:
        predicted: A scorer's output: probabilities (B, C), or mean and quantiles (B, 1 + Q).
        batch: Columns of the rows, with the label.
    """
    if task.regression:
        kind = cast(Loss, task.decided_by)
        return regression.losses(kind, batch[task.label].astype(np.float64), predicted.T, task.quantiles)
    return score_rows(batch[task.label].astype(np.int64), predicted.astype(np.float32)).losses()


def loss_unit(task: Task) -> str:
    """Returns the name of the mean loss."""
    return f"{LOSSES[task.decided_by]} in {outcome.unit(task)}" if task.regression else "log loss in nats"
