"""A trained model on raw rows: their features, by its task and its card, and what it predicts of them.

Bits: a row is predicted as evaluation predicts it, whatever other rows are asked for with it, on the same kind of
processor (`vgp.evaluation.score`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from vgp.data import bundle
from vgp.data.bundle import ModelCard
from vgp.data.task import Task
from vgp.evaluation import score
from vgp.evaluation.score import TrainedModel
from vgp.serve.prediction import encoding, shards
from vgp.serve.prediction.database import Database


@dataclass(frozen=True)
class Predictor:
    """A model, ready to predict raw rows of its task; several threads may ask at once."""

    model: TrainedModel
    database: Database = field(default_factory=Database, repr=False, compare=False)

    @classmethod
    def load(cls, folder: str | Path) -> "Predictor":
        """The model in a folder, here or gs://, on the GPU if there is one.

        Raises:
            UserError: the folder holds no finished model, or one of a task that neither ships nor is imported.
        """
        model = score.load(folder, bundle.load_card(folder).manifest())
        taken = {column.name: model.columns[column.name] for column in shards.learned(model.task, model.card)}
        return cls(replace(model, columns=taken))

    @property
    def task(self) -> Task:
        return self.model.task

    @property
    def card(self) -> ModelCard:
        return self.model.card

    def raw(
        self, rows: Sequence[Mapping[str, Any]], history: Sequence[Mapping[str, Any]] | None = None
    ) -> list[dict[str, Any]]:
        """What the model predicts of each row, as JSON has it.

        Classes: `class`, the most probable one, and `probabilities` by name. A regression: `mean`, and `quantiles` by
        their shares. A task that is judged by its likelihood: `loss`, in nats.

        Args:
            rows: Values by column, as the task's schema has them: numbers, text, true, false and null; dates and times
                as text, or Python's own. Columns that the model does not need may be left out.
            history: Of a task that looks back: earlier rows of the same columns, with their outcomes. None = none.

        Raises:
            UserError: a row lacks a column that the model needs, holds a value of another type, or needs a history.
        """
        if not rows:
            return []
        columns = encoding.encoded(self.task, self.card, rows, history, self.database)
        size = self.task.batch_rows
        parts = [
            self.model({name: values[start : start + size] for name, values in columns.items()})
            for start in range(0, len(rows), size)
        ]
        return [self._spoken(values) for values in np.concatenate(parts)]

    def _spoken(self, values: np.ndarray) -> dict[str, Any]:
        """One row's predictions: floats (C,), (1 + Q,), or one."""
        if self.task.likelihood:
            return {"loss": float(values)}
        if self.task.regression:
            named = zip(self.task.quantiles, values[1:].tolist(), strict=True)
            return {"mean": float(values[0]), "quantiles": {f"{share:g}": value for share, value in named}}
        best = self.task.classes[int(values.argmax())]
        return {"class": best, "probabilities": dict(zip(self.task.classes, values.tolist(), strict=True))}
