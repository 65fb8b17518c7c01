"""Scores the shards of new rows in one process of several: each takes every so-many-th, and writes it under its name.

A process computes in one thread, and a shard in batches that begin with it: the same bits on any number of processes.
"""

import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from pydantic import BaseModel

from vgp.base.exits import Preempted
from vgp.data import bundle, tasks
from vgp.evaluation import score
from vgp.evaluation.score import TrainedModel
from vgp.protocol.manifest import Manifest
from vgp.serve.prediction import output
from vgp.serve.prediction.folder import Asked, Predicted, shard_name
from vgp.serve.prediction.shards import NewRows, learned
from vgp.train.processes.rank import Rank

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
