"""Predictions of a trained model for raw rows, whose features follow from its task and card.

A prediction is bit-identical to that of evaluation on one kind of processor, whatever other rows come with it
(`vgp.evaluation.score`).
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
from vgp.serve.prediction import output_shards, row_encoding, row_shards
from vgp.serve.prediction.database import Database
from vgp.serve.prediction.prediction_folder import PredictionFolder, PredictionRequest, shard_name
from vgp.serve.prediction.row_shards import NewRows, feature_columns
from vgp.train.processes.rank import Rank

# ---- one process of several: scores and writes every n-th shard of new rows

# One thread per process, and batches that start with the shard, give the same bits on any number of processes.

#: Seconds between two lines of progress.
LINE_EVERY_S = 10.0


class ScoringRequest(BaseModel):
    """The request to each scoring process."""

    model: str
    #: `module:Class` of a shipped or requested task.
    task: str
    #: The new rows: their folder, manifest, and the columns copied to the output.
    rows: str
    dataset: Manifest
    carried: dict[str, str]
    #: Numbers of the shards to write.
    numbers: list[int]
    folder: str
    asked: PredictionRequest
    key: str


def run(request: ScoringRequest, rank: Rank) -> None:
    """Scores and writes the shards of this process.

    Raises:
        Preempted: SIGTERM or SIGINT; finished shards stay.
    """
    if rank.device.type == "cpu":
        torch.set_num_threads(1)
    own = request.numbers[rank.rank :: rank.world_size]
    if not own:
        return
    tasks.find(request.task)
    rows = NewRows(Path(request.rows), request.dataset, request.carried)
    model, folder = load_model(request.model, request.dataset), PredictionFolder(request.folder)
    began = printed = time.monotonic()
    for done, number in enumerate(own):
        if rank.stopping:
            raise Preempted(f"{done} of {len(own)} shards are finished; run the command again to resume.")
        folder.commit(shard_name(number), score_shard(model, rows, number, request.asked, request.key))
        if rank.leads and time.monotonic() - printed > LINE_EVERY_S:
            printed = time.monotonic()
            left = (printed - began) / (done + 1) * (len(own) - done - 1)
            print(f"predicted {done + 1} of {len(own)} shards, {left:.0f} s left", file=sys.stderr, flush=True)


def load_model(path: str, dataset: Manifest) -> TrainedModel:
    """Loads the model for rows that have its inputs; other columns of its training rows may be missing."""
    card = bundle.load_card(path)
    there = {column.name for column in dataset.columns}
    rest = tuple(column for column in card.columns if column.name not in there)
    model = score.load(path, dataset.model_copy(update={"columns": (*dataset.columns, *rest)}))
    return replace(model, columns={c.name: model.columns[c.name] for c in feature_columns(model.task, model.card)})


def score_shard(model: TrainedModel, rows: NewRows, number: int, asked: PredictionRequest, key: str) -> bytes:
    """Predicts a shard and returns its output file."""
    columns = rows.read(number)
    return output_shards.shard(
        model.task, asked, key, columns["row_id"], rows.read_carried(number), predict_batches(model, columns)
    )


def predict_batches(model: TrainedModel, columns: dict[str, np.ndarray]) -> np.ndarray:
    """Returns the predictions for rows, computed in batches."""
    size, count = model.task.batch_rows, len(columns["row_id"])
    starts = range(0, count, size)
    # Copied, because PyTorch warns of read-only memory.
    batches = ({name: v[start : start + size].copy() for name, v in columns.items()} for start in starts)
    return np.concatenate([model(batch) for batch in batches])


@dataclass(frozen=True)
class Predictor:
    """A loaded model that predicts raw rows of its task; thread-safe."""

    model: TrainedModel
    database: Database = field(default_factory=Database, repr=False, compare=False)

    @classmethod
    def load(cls, folder: str | Path) -> "Predictor":
        """Loads the model in a folder, local or gs://, onto the GPU if there is one.

        Raises:
            UserError: The folder holds no finished model, or its task neither ships nor is imported.
        """
        model = score.load(folder, bundle.load_card(folder).manifest())
        taken = {
            column.name: model.columns[column.name] for column in row_shards.feature_columns(model.task, model.card)
        }
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
        """Returns the prediction for each row as a JSON object.

        Classification: `class`, the most probable one, and `probabilities` by name. Regression: `mean`, and `quantiles`
        by their shares. Likelihood tasks: `loss`, in nats.

        Args:
            rows: Values by column, with the types of the task's schema: numbers, text, true, false and null; dates and
                times as text or Python objects. Columns that the model does not need are optional.
            history: Earlier rows with these columns and their outcomes, for tasks whose features use them; or None.

        Raises:
            UserError: A row lacks a required column, holds a value of another type, or needs a history.
        """
        if not rows:
            return []
        columns = row_encoding.encode_rows(self.task, self.card, rows, history, self.database)
        size = self.task.batch_rows
        parts = [
            self.model({name: values[start : start + size] for name, values in columns.items()})
            for start in range(0, len(rows), size)
        ]
        return [self._to_json(values) for values in np.concatenate(parts)]

    def _to_json(self, values: np.ndarray) -> JsonObject:
        """Returns the JSON object for the prediction of a row: floats (C,), (1 + Q,) or a single one."""
        if self.task.likelihood:
            return {"loss": float(values)}
        if self.task.regression:
            named = zip(self.task.quantiles, values[1:].tolist(), strict=True)
            return {"mean": float(values[0]), "quantiles": {f"{share:g}": value for share, value in named}}
        best = self.task.classes[int(values.argmax())]
        return {"class": best, "probabilities": dict(zip(self.task.classes, values.tolist(), strict=True))}
