"""The base of the GPU hour's tasks: rows drawn from a seed, and a stopwatch that every optimizer calls after each step.

So this library's loop and a plain loop are timed between the same steps, and a training can kill itself at a step.
"""

import hashlib
import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor, nn

from tools.gpu_hour.older_torch import add_missing_names
from vgp.data import tasks
from vgp.data.task import Batch, Task, WeightedLoss
from vgp.protocol import manifest as manifests
from vgp.protocol.manifest import Column, Manifest, ShardFile

#: `STEP:FOLDER` = a training kills itself after its step STEP, once FOLDER holds a checkpoint; `STEP:` = at once.
KILL_VARIABLE = "GPU_HOUR_KILL"
#: Steps between the measured and the traced ones of a timed run, in which the profiler starts; and the traced steps.
#: The device is idle before the first traced step and after the last.
GAP, TRACED = 2, 5


class Stopwatch:
    """The moments at which two steps of a training end, when the device is idle."""

    def __init__(self) -> None:
        self.start(0, 0)

    def start(self, first: int, last: int) -> None:
        """Starts to count steps; the time from the end of step `first` to the end of step `last` is measured."""
        self.first, self.last, self.steps, self.moments = first, last, 0, list[float]()

    def tick(self, *_: object) -> None:
        """Counts a step; the hook of every optimizer."""
        self.steps += 1
        kill_at, _colon, folder = os.environ.get(KILL_VARIABLE, "0:").partition(":")
        traced = self.last + GAP
        if self.steps in (self.first, self.last, traced, traced + TRACED, int(kill_at)) and torch.cuda.is_available():
            torch.cuda.synchronize()
        if self.steps in (self.first, self.last):
            self.moments.append(time.perf_counter())
        if self.steps == int(kill_at):
            while folder and not any(Path(folder).glob("run*.json")):
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)

    @property
    def steps_per_s(self) -> float:
        return (self.last - self.first) / (self.moments[1] - self.moments[0])


STOPWATCH = Stopwatch()
add_missing_names()  # here, because every process that trains one of the tasks imports this module


class Drawn(Task):
    """A base class for tasks whose rows come from `draw`."""

    settings = None

    def draw(self, rows: int, random: np.random.Generator) -> dict[str, np.ndarray]:
        """Returns the columns of new rows: (rows,) or (rows, width)."""
        raise NotImplementedError

    def shards(self, data: str) -> Sequence[str]:
        return [file.path for file in self.files(data)]

    def rows(self, shard: str, statistics: Mapping[str, Any]) -> dict[str, pa.Table]:
        return {"test": pq.read_table(shard)}

    def optimizer(self, model: nn.Module, learning_rate: float, weight_decay: float) -> torch.optim.Optimizer:
        optimizer = super().optimizer(model, learning_rate, weight_decay)
        assert isinstance(optimizer, torch.optim.Optimizer)
        optimizer.register_step_post_hook(STOPWATCH.tick)
        return optimizer

    def plain_loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Returns the loss as a hand-written loop computes it."""
        loss = self.loss(model, batch)
        return loss.total / loss.weight if isinstance(loss, WeightedLoss) else loss

    def predict(self, model: nn.Module, batch: Batch) -> Tensor:
        return model(batch).float().softmax(dim=1)


def write(name: str, options: Mapping[str, Any], rows: int, folder: Path) -> Manifest:
    """Draws rows for the split `train` and writes them as a prepared dataset, as `vgp.data.prepare` would."""
    task = tasks.load(name, options)
    assert isinstance(task, Drawn)
    columns = {"row_id": np.arange(rows), **task.draw(rows, np.random.default_rng(0))}
    table = pa.table({column: _arrow(values) for column, values in columns.items()})
    folder.mkdir(parents=True)
    path = folder / "train-00000.parquet"
    pq.write_table(table, path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    shard = ShardFile(path=path.name, rows=rows, bytes=path.stat().st_size, sha256=digest)
    described = tuple(_describe(task, field, columns[field.name]) for field in table.schema)
    statistics = {name: value for name, value in task.combine([]).items() if name != "split"}
    dataset = Manifest(task=name, options=dict(options), columns=described, splits={"train": (shard,)},
                       statistics=statistics, fingerprint=digest)  # fmt: skip
    manifests.save(dataset, folder)
    return dataset


def _arrow(values: np.ndarray) -> pa.Array:
    return pa.array(values) if values.ndim == 1 else pa.FixedSizeListArray.from_arrays(values.ravel(), values.shape[1])


def _describe(task: Task, field: pa.Field, values: np.ndarray) -> Column:
    kind = {"row_id": "id", task.label: "label"}.get(field.name, "vector" if values.ndim > 1 else "number")
    figures = {"mean": float(values.mean()), "std": float(values.std())} if kind == "number" else {}
    return Column(name=field.name, kind=kind, type=str(field.type), width=values[0].size, count=len(values),
                  values=task.classes if kind == "label" else (), **figures)  # fmt: skip
