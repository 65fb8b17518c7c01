"""What each column is worth to the new model: how much the decision's loss grows when its values are shuffled.

Permutation importance (Breiman 2001, https://doi.org/10.1023/A:1010933404324; of any model: Fisher, Rudin & Dominici
2019, https://arxiv.org/abs/1801.01489). A column is a column of the prepared data, a category or a vector as a whole.
Columns that say the same stand in for each other, so each alone may look worth little.

The work is bounded by counting, not by the clock: the same rows, draws and figures on any machine.
"""

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from vgp.data.rows import read_sample
from vgp.data.task import Task
from vgp.evaluation import regression
from vgp.evaluation.ranked import scored
from vgp.evaluation.regression import LOSSES, Loss
from vgp.protocol import outcome
from vgp.protocol.manifest import Frozen, Manifest

if TYPE_CHECKING:
    from torch import nn

    from vgp.evaluation.score import TrainedModel

SEED = 20130701
REPEATS = 3
#: Rows of the sample, and multiplications for all of it, by which they are fewer for a large model.
MOST_ROWS, LEAST_ROWS = 5_000, 500
OPERATIONS = 7e9
#: With the fewest rows a model may take this many times as many, which is some 10 s of a core; a larger one gets none.
MOST_TIMES = 20
MOST_COLUMNS = 300


class ColumnImportance(Frozen):
    """How much the mean loss grows without the column: its mean over the repeats, and their standard deviation."""

    column: str
    increase: float
    deviation: float


class Importance(Frozen):
    """The new model's columns, the most important first. With a `note` in place of columns it was not computed."""

    #: Rows of the sample, and shuffles of each column.
    rows: int = 0
    repeats: int = 0
    #: What the loss is, in words, and its mean over the sample.
    unit: str = ""
    loss: float = 0.0
    columns: tuple[ColumnImportance, ...] = ()
    note: str = ""


def importance(model: "TrainedModel", data: str | Path, dataset: Manifest, split: str) -> Importance | None:
    """Shuffles the columns of a sample one by one; None where there are fewer than two, and of likelihoods."""
    if model.task.likelihood:
        return None
    names = [c.name for c in model.card.columns if c.kind in ("number", "category", "vector")]
    names = [name for name in names if name not in (model.task.label, *model.task.groups)]
    if len(names) < 2:
        return None
    if len(names) > MOST_COLUMNS:
        return Importance(note=f"Not computed for more than {MOST_COLUMNS} columns; there are {len(names):,}.")
    weights = _multiplied(model.module)
    rows = int(OPERATIONS / (max(1, weights) * len(names) * REPEATS))
    if rows * MOST_TIMES < LEAST_ROWS:
        return Importance(note=f"Not computed for a model of this size: {weights:,} weights multiply each row.")
    batch = read_sample(data, dataset.splits[split], dataset.columns, min(MOST_ROWS, max(LEAST_ROWS, rows)))
    plain = _mean_loss(model, batch)
    grown = {name: np.array([_mean_loss(model, _shuffled(batch, name, n)) - plain for n in range(REPEATS)])
             for name in names}  # fmt: skip
    columns = [ColumnImportance(column=n, increase=float(g.mean()), deviation=float(g.std(ddof=1)))
               for n, g in grown.items()]  # fmt: skip
    return Importance(
        rows=len(batch[names[0]]), repeats=REPEATS, unit=loss_unit(model.task), loss=plain,
        columns=tuple(sorted(columns, key=lambda column: (-column.increase, column.column))),
    )  # fmt: skip


def _multiplied(module: "nn.Module") -> int:
    """Weights that each row is multiplied by: all but tables, of which a row reads a few."""
    from torch import nn

    tables = (nn.Embedding, nn.EmbeddingBag)
    parts = [part for part in module.modules() if not isinstance(part, tables)]
    return sum(p.numel() for part in parts for p in part.parameters(recurse=False))


def _shuffled(batch: Mapping[str, np.ndarray], name: str, repeat: int) -> dict[str, np.ndarray]:
    """The batch with one column's values in another order, which no other column has any say in."""
    random = np.random.default_rng([SEED, zlib.crc32(name.encode()), repeat])
    return {**batch, name: batch[name][random.permutation(len(batch[name]))]}


def _mean_loss(model: "TrainedModel", batch: Mapping[str, np.ndarray]) -> float:
    rows, task = len(next(iter(batch.values()))), model.task
    losses = [_losses(model, {name: values[start : start + task.batch_rows] for name, values in batch.items()})
              for start in range(0, rows, task.batch_rows)]  # fmt: skip
    return float(np.concatenate(losses).mean())


def _losses(model: "TrainedModel", batch: dict[str, np.ndarray]) -> np.ndarray:
    return row_losses(model.task, model(batch), batch)


# ---- the loss of single rows that the decision tests, from what a model says of them


def row_losses(task: Task, predicted: np.ndarray, batch: Mapping[str, np.ndarray]) -> np.ndarray:
    """Losses, float64 (B,).

    Args:
        predicted: What a scorer gives for the rows: probabilities (B, C), or mean and quantiles (B, 1 + Q).
        batch: Columns of the rows, with the label.
    """
    if task.regression:
        kind = cast(Loss, task.decided_by)
        return regression.losses(kind, batch[task.label].astype(np.float64), predicted.T, task.quantiles)
    return scored(batch[task.label].astype(np.int64), predicted.astype(np.float32)).losses()


def loss_unit(task: Task) -> str:
    """What the mean of the losses is, in words."""
    return f"{LOSSES[task.decided_by]} in {outcome.unit(task)}" if task.regression else "log loss in nats"
