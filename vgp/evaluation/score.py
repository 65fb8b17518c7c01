"""A trained model as a function from rows of a dataset to class probabilities, mean and quantiles, or losses.

A champion may have been trained on other data: categories are matched by value, and columns unknown to it are ignored.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import UserError
from vgp.data import bundle
from vgp.data.bundle import ModelCard
from vgp.data.rows import recode
from vgp.data.task import Batch, Task
from vgp.evaluation.ranked import SUM_TOLERANCE
from vgp.protocol import outcome
from vgp.protocol.manifest import Column, Manifest
from vgp.train.loop.batches import tensors

#: Smaller batches are padded to this many rows: for few rows matrix products use other kernels with other rounding.
LEAST_ROWS = 32


@dataclass(frozen=True)
class TrainedModel:
    """A model in evaluation mode on `device`, with the conversion of dataset rows to its inputs."""

    path: str
    task: Task
    module: nn.Module
    device: torch.device
    #: Each input column by name: its description in the dataset, and in the training data.
    columns: dict[str, tuple[Column, Column]]
    card: ModelCard

    @torch.inference_mode()
    def __call__(self, batch: dict[str, np.ndarray]) -> np.ndarray:
        """Class probabilities, float32 (B, C), of the columns of B rows; mean and quantiles, float64 (B, 1 + Q); or
        losses in nats, float64 (B,).

        Raises:
            UserError: the task's `predict` does not return probabilities or rising quantiles, or its `score` no losses.
        """
        rows = len(next(iter(batch.values())))
        if 0 < rows < LEAST_ROWS:
            return self({name: _pad(values) for name, values in batch.items()})[:rows]
        known = {name: _translate(batch[name], *pair) for name, pair in self.columns.items()}
        if self.task.likelihood:
            return self._compute_losses(tensors(known, self.device), rows)
        if self.task.regression:
            return self._predict_numbers(tensors(known, self.device), rows)
        table = self.task.predict(self.module, tensors(known, self.device)).float().cpu().numpy()
        if table.shape != (rows, len(self.task.classes)):
            raise UserError(
                f"{self.card.task}.predict returned shape {table.shape} for {rows} rows and "
                f"{len(self.task.classes)} classes."
            )
        if not (np.isfinite(table).all() and table.min() >= 0 and np.abs(table.sum(1) - 1).max() < SUM_TOLERANCE):
            raise UserError(
                f"{self.card.task}.predict must return probabilities: finite, not below 0, each row summing to 1."
            )
        return np.asarray(table)

    @property
    def meaning(self) -> "Meaning":
        return meaning(self.card.manifest(), self.task)

    def _predict_numbers(self, batch: Batch, rows: int) -> np.ndarray:
        table = np.asarray(self.task.predict(self.module, batch).double().cpu().numpy())
        width, name = 1 + len(self.task.quantiles), f"{self.card.task}.predict"
        if table.shape != (rows, width):
            raise UserError(
                f"{name} returned shape {table.shape} for {rows} rows, a mean and {width - 1} quantiles: it must be "
                f"({rows}, {width})."
            )
        if not np.isfinite(table).all():
            raise UserError(f"{name} must return finite numbers; {np.isfinite(table).mean():.1%} of them are.")
        falls = (np.diff(table[:, 1:], axis=1) < 0).any(axis=1)
        if falls.any():
            raise UserError(
                f"{name} must return ascending quantiles; in {falls.sum():,} of {rows:,} rows a higher one is below a "
                "lower one. Sort them (`torch.sort`), or add a non-negative step to the previous one (softplus)."
            )
        return table

    def _compute_losses(self, batch: Batch, rows: int) -> np.ndarray:
        losses = self.task.score(self.module, batch).double().cpu().numpy()
        if losses.shape != (rows,) or not np.isfinite(losses).all():
            raise UserError(
                f"{self.card.task}.score must return a finite loss for each row, shape ({rows},); its shape is "
                f"{losses.shape}, and {np.isfinite(losses).mean():.1%} of it is finite."
            )
        return np.asarray(losses)


def load(model: str | Path, data: Manifest) -> TrainedModel:
    """Loads the model in a directory for scoring rows of `data`, on the GPU if there is one.

    Raises:
        UserError: the directory holds no model, or the data lacks a column of it.
    """
    task, module, card = bundle.load(model)
    columns = _pair_columns(model, task, card, data)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return TrainedModel(str(model), task, module.to(device), device, columns, card)


@dataclass(frozen=True)
class Meaning:
    """The meaning of a model's predictions; only models with equal meanings are compared."""

    task: str
    classes: tuple[str, ...]
    #: Quantiles of a regression, and name and unit of its label.
    number: JsonObject | None
    #: Statistics that define the columns, by name.
    encoding: JsonObject

    @property
    def outcome(self) -> str:
        """Returns a description of the prediction."""
        if self.number is None:
            return f"the classes {', '.join(self.classes)}" if self.classes else "the likelihood of rows"
        unit = f" in {self.number['unit']}" if self.number["unit"] else ""
        shares = ", ".join(f"{share:g}" for share in self.number["quantiles"])
        return f"the number {self.number['target']}{unit} with the quantiles {shares}"


def meaning(data: Manifest, task: Task) -> Meaning:
    """Returns the meaning of predictions of the rows of `data`."""
    number = data.statistics.get(outcome.STATISTIC)
    return Meaning(data.task, tuple(task.classes), number, {name: data.statistics.get(name) for name in task.encoding})


def check_comparable(champion: TrainedModel, challenger: Meaning) -> None:
    """Raises UserError unless both models have the same task, target and column definitions."""
    if champion.card.task != challenger.task:
        raise UserError(
            f"the champion in {champion.path} was trained for {champion.card.task}, the new model for "
            f"{challenger.task}: they cannot be compared."
        )
    old = champion.meaning
    if (old.classes, old.number) != (challenger.classes, challenger.number):
        raise UserError(
            f"the champion in {champion.path} predicts {old.outcome}, the new model {challenger.outcome}: they cannot "
            "be compared. Run without a champion."
        )
    for name, statistic in challenger.encoding.items():
        if champion.card.statistics.get(name) != statistic:
            raise UserError(
                f"the champion in {champion.path} was trained with another {name}: it reads the data "
                f"differently. Prepare the data with the champion's {name}, or run without a champion."
            )


def is_same(champion: TrainedModel, challenger: TrainedModel) -> bool:
    """Whether both models have the same weights and read the same columns in the same way."""
    old, new = champion.module.state_dict(), challenger.module.state_dict()
    # Ids are not inputs.
    read = [[column for column in model.card.columns if column.kind != "id"] for model in (champion, challenger)]
    alike = read[0] == read[1] and champion.card.statistics == challenger.card.statistics
    return alike and old.keys() == new.keys() and all(_is_equal(old[name], new[name]) for name in old)


def _is_equal(old: object, new: object) -> bool:
    if isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor):
        return torch.equal(old, new)
    return bool(old == new)


def _pair_columns(model: str | Path, task: Task, card: ModelCard, data: Manifest) -> dict[str, tuple[Column, Column]]:
    present = {column.name: column for column in data.columns}
    # Grouping columns are not inputs, and may differ.
    read = [column for column in card.columns if column.name not in task.carried]
    needed = [column for column in read if column.kind != "id" or column.name in present]
    if absent := [column.name for column in needed if column.name not in present]:
        shown = ", ".join(absent[:5]) + (f" and {len(absent) - 5} more" if len(absent) > 5 else "")
        raise UserError(f"the model in {model} needs {shown}, which the data lacks.")
    pairs = {column.name: (present[column.name], column) for column in needed}
    for name, (there, learnt) in pairs.items():
        if (there.kind, there.width) != (learnt.kind, learnt.width):
            raise UserError(
                f"the model in {model} was trained with {name} as {learnt.kind} of width {learnt.width}; "
                f"in the data it is {there.kind} of width {there.width}."
            )
    return pairs


def _translate(values: np.ndarray, data: Column, model: Column) -> np.ndarray:
    return recode(values, data, model) if data.kind == "category" else values


def _pad(values: np.ndarray) -> np.ndarray:
    """Pads the rows by repeating the last one."""
    return np.concatenate([values, np.repeat(values[-1:], LEAST_ROWS - len(values), axis=0)])
