"""Checks of a task's parts on a few prepared rows: a batch, the loss, predictions, gradients."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor, nn

from vgp.data import task_names, tasks
from vgp.data.rows import open_rows
from vgp.data.task import Batch, Task, WeightedLoss
from vgp.evaluation.ranked import SUM_TOLERANCE
from vgp.protocol import manifest
from vgp.protocol.manifest import Manifest
from vgp.testing import learning
from vgp.testing.learning import require
from vgp.train.loop.batches import tensors
from vgp.train.loop.optimizers import build_optimizers
from vgp.train.loop.weighting import mean

if TYPE_CHECKING:
    from vgp.data.rows import Rows


CPU = torch.device("cpu")
SEED = 0


@dataclass(frozen=True)
class Parts:
    """A task with prepared rows, and checks of its parts. Every check creates a model with the same seed."""

    task: Task
    manifest: Manifest
    folder: Path

    @classmethod
    def opened(cls, folder: Path) -> "Parts":
        """Returns the parts for a prepared dataset, whose task the caller has imported."""
        dataset = manifest.load(folder)
        name = task_names.require_trusted(dataset.task, str(folder), dataset.task)
        return cls(tasks.load(name, dataset.options), dataset, folder)

    @cached_property
    def _splits(self) -> "dict[str, Rows]":
        return {split: open_rows(self.folder, split) for split in self.manifest.splits}

    def table(self, split: str = "train") -> pa.Table:
        """Returns the prepared rows of a split, with categories by name."""
        rows = self._rows(split)
        return pa.table({column.name: self._to_arrow(column.name, rows.columns[column.name])
                         for column in self.manifest.columns})  # fmt: skip

    def _to_arrow(self, name: str, values: np.ndarray) -> pa.Array:
        column = self.manifest.column(name)
        if column.kind in ("category", "label") and column.values:
            return pa.DictionaryArray.from_arrays(values.astype(np.int32), pa.array(column.values)).cast(pa.string())
        if values.ndim > 1:
            return pa.FixedSizeListArray.from_arrays(values.ravel(), values.shape[1])
        return pa.array(values)

    def batch(self, rows: int = 32, split: str = "train") -> Batch:
        """Returns the first rows of a split in the form of the argument of `loss` and `predict`."""
        split_rows = self._rows(split)
        return tensors(split_rows.take(np.arange(min(rows, len(split_rows)))), CPU)

    def _rows(self, split: str) -> "Rows":
        require(split in self._splits, f"there is no split {split!r}; there are {', '.join(self._splits)}.")
        rows = self._splits[split]
        require(len(rows) > 0, f"the split {split} has no rows: give more data, or other options of the split.")
        return rows

    def model(self) -> nn.Module:
        """A new model."""
        torch.manual_seed(SEED)
        model = self.task.model(self.manifest)
        require(isinstance(model, nn.Module), f"model gave a {type(model).__name__}; it must be an nn.Module.")
        return model

    def loss(self, model: nn.Module | None = None, batch: "Batch | None" = None) -> Tensor:
        """The loss of a batch, once it is known to be one: a finite float32 scalar that depends on the model."""
        loss = self.task.loss(model or self.model(), batch or self.batch())
        if isinstance(loss, WeightedLoss):
            loss = mean(loss)
        require(isinstance(loss, Tensor), f"loss gave a {type(loss).__name__}; it must be a tensor.")
        require(loss.ndim == 0, f"loss has the shape {tuple(loss.shape)}; it must be a scalar, the mean of the batch.")
        require(loss.dtype == torch.float32, f"loss is {loss.dtype}; it must be float32: end with .float().")
        require(bool(loss.isfinite()), f"loss is {loss.item()}: look for a missing value (nan), log(0) or 0/0.")
        require(loss.requires_grad, "loss does not depend on the model's weights: was it computed without gradients?")
        return loss

    def predictions(self, model: nn.Module | None = None, split: str = "train") -> np.ndarray:
        """Returns and checks the output of `predict` (or `score`) for the first rows.

        Probabilities (B, C) that sum to 1; for a regression (B, 1 + Q) with ascending quantiles; losses (B,) in nats.
        """
        model, batch = (model or self.model()).eval(), self.batch(split=split)
        whole = self._call_task(model, batch)
        name = "score" if self.task.likelihood else "predict"
        self._require_sound(name, whole, len(next(iter(batch.values()))))
        first = {column: values[:1] for column, values in batch.items()}
        alone = self._call_task(model, first)
        require(
            np.allclose(alone[0], whole[0], rtol=1e-3, atol=1e-5),
            f"{name} returns {alone[0]} for a row alone and {whole[0]} for the row in a batch: a row's prediction must "
            "not depend on the rest of the batch.",
        )
        return whole

    @torch.no_grad()
    def _call_task(self, model: nn.Module, batch: Batch) -> np.ndarray:
        values = (self.task.score if self.task.likelihood else self.task.predict)(model, batch)
        require(isinstance(values, Tensor), f"predict or score gave a {type(values).__name__}; it must be a tensor.")
        return np.asarray(values.float().numpy())

    def _require_sound(self, name: str, values: np.ndarray, rows: int) -> None:
        width = 1 + len(self.task.quantiles) if self.task.regression else len(self.task.classes)
        shape = (rows,) if self.task.likelihood else (rows, width)
        require(values.shape == shape, f"{name} gave the shape {values.shape} for {rows} rows; it must be {shape}.")
        require(bool(np.isfinite(values).all()), f"{name} gave values that are not finite numbers.")
        if self.task.regression:
            rising = bool((np.diff(values[:, 1:], axis=1) >= 0).all())
            require(rising, f"the quantiles that {name} gives must rise in every row.")
        elif not self.task.likelihood:
            require(values.min() >= 0, f"{name} gave a probability of {values.min():.3g}; none may be below 0.")
            off = float(np.abs(values.sum(axis=1) - 1).max())
            require(off < SUM_TOLERANCE, f"the probabilities of a row must sum to 1; they are off by {off:.3g}. Is "
                    "a softmax missing?")  # fmt: skip

    def gradients(self) -> dict[str, float]:
        """Returns the norm of each parameter's gradient. Raises `Failed` if no step against them lowers the loss."""
        return learning.gradients(self.model, self.loss, self.batch())

    def overfit(self, rows: int = 20, steps: int = 300, learning_rate: float = 1e-2) -> list[float]:
        """Overfits a few rows with the task's optimizer and without dropout; returns the loss of each step."""
        model = self.model().eval()
        optimizer = build_optimizers(self.task, model, learning_rate, 0.0)
        return learning.overfit(model, self.loss, self.batch(rows), optimizer, steps)

    def check(self) -> None:
        """Checks loss, predictions, gradients and overfitting. Raises `Failed` for the first one that fails."""
        self.loss()
        self.predictions()
        self.gradients()
        self.overfit()
