"""A trained model on raw rows: their features, by its task and its card, and what it predicts of them.

Bits: a row is predicted as evaluation predicts it, whatever other rows are asked for with it, on the same kind of
processor (`vgp.evaluation.score`).
"""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import Preempted
from vgp.data import bundle, tasks
from vgp.data.bundle import ModelCard
from vgp.data.task import Task
from vgp.evaluation import score
from vgp.evaluation.score import TrainedModel
from vgp.protocol.manifest import Manifest
from vgp.serve.prediction import cutting, encoding, output
from vgp.serve.prediction.cutting import NewRows, learned
from vgp.serve.prediction.database import Database
from vgp.serve.prediction.folder import Asked, Predicted, shard_name
from vgp.train.processes.rank import Rank

# ---- scores the shards of new rows in one process of several: each takes every so-many-th, and writes it

# A process computes in one thread, and a shard in batches that begin with it: the same bits on any number of processes.

#: Seconds between two lines of progress.
LINE_EVERY_S = 10.0


class ScoringRequest(BaseModel):
    """What every process is told."""

    model: str
    #: `module:Class`, which somebody asked for or which ships.
    task: str
    #: The new rows: their folder, manifest, and the columns that tell them.
    rows: str
    dataset: Manifest
    carried: dict[str, str]
    #: Shards that are to be written.
    numbers: list[int]
    folder: str
    asked: Asked
    key: str


def run(request: ScoringRequest, rank: Rank) -> None:
    """Writes this process's shards.

    Raises:
        Preempted: SIGTERM or SIGINT came; what is written stays.
    """
    if rank.device.type == "cpu":
        torch.set_num_threads(1)
    own = request.numbers[rank.rank :: rank.world_size]
    if not own:
        return
    tasks.find(request.task)
    rows = NewRows(Path(request.rows), request.dataset, request.carried)
    model, folder = loaded(request.model, request.dataset), Predicted(request.folder)
    began = said = time.monotonic()
    for done, number in enumerate(own):
        if rank.stopping:
            raise Preempted(f"{done} of {len(own)} shards were predicted; start it again to go on with the others.")
        folder.commit(shard_name(number), scored(model, rows, number, request.asked, request.key))
        if rank.leads and time.monotonic() - said > LINE_EVERY_S:
            said = time.monotonic()
            left = (said - began) / (done + 1) * (len(own) - done - 1)
            print(f"predicted {done + 1} of {len(own)} shards, {left:.0f} s left", file=sys.stderr, flush=True)


def loaded(path: str, dataset: Manifest) -> TrainedModel:
    """The model, for rows that have its inputs; whatever else its training rows had, no model takes."""
    card = bundle.load_card(path)
    there = {column.name for column in dataset.columns}
    rest = tuple(column for column in card.columns if column.name not in there)
    model = score.load(path, dataset.model_copy(update={"columns": (*dataset.columns, *rest)}))
    return replace(model, columns={c.name: model.columns[c.name] for c in learned(model.task, model.card)})


def scored(model: TrainedModel, rows: NewRows, number: int, asked: Asked, key: str) -> bytes:
    """The output of one shard."""
    columns = rows.read(number)
    return output.shard(model.task, asked, key, columns["row_id"], rows.told(number), predicted(model, columns))


def predicted(model: TrainedModel, columns: dict[str, np.ndarray]) -> np.ndarray:
    """What the model says of rows, batch by batch."""
    size, count = model.task.batch_rows, len(columns["row_id"])
    starts = range(0, count, size)
    # Copied, since PyTorch warns of memory that it may not write to.
    batches = ({name: v[start : start + size].copy() for name, v in columns.items()} for start in starts)
    return np.concatenate([model(batch) for batch in batches])


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
        taken = {column.name: model.columns[column.name] for column in cutting.learned(model.task, model.card)}
        return cls(replace(model, columns=taken))

    @property
    def task(self) -> Task:
        return self.model.task

    @property
    def card(self) -> ModelCard:
        return self.model.card

    def raw(
        self, rows: Sequence[Mapping[str, Any]], history: Sequence[Mapping[str, Any]] | None = None
    ) -> list[JsonObject]:
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

    def _spoken(self, values: np.ndarray) -> JsonObject:
        """One row's predictions: floats (C,), (1 + Q,), or one."""
        if self.task.likelihood:
            return {"loss": float(values)}
        if self.task.regression:
            named = zip(self.task.quantiles, values[1:].tolist(), strict=True)
            return {"mean": float(values[0]), "quantiles": {f"{share:g}": value for share, value in named}}
        best = self.task.classes[int(values.argmax())]
        return {"class": best, "probabilities": dict(zip(self.task.classes, values.tolist(), strict=True))}
