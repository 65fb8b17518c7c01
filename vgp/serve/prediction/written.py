"""The shards of a prediction as they were written, read back."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from vgp.data.columns import elements
from vgp.data.task import Task
from vgp.serve.prediction import output
from vgp.serve.prediction.folder import Predicted, shard_name


@dataclass(frozen=True)
class Part:
    """What was predicted of a shard's rows: as evaluation has it, floats (B, C), (B, 1 + Q) or (B,)."""

    number: int
    predicted: np.ndarray


def parts(task: Task, folder: Predicted, count: int) -> Iterator[Part]:
    """Every shard, in order."""
    for number in range(count):
        table = pq.read_table(pa.BufferReader(folder.store.read(shard_name(number))))
        yield Part(number, predicted(task, table))


def predicted(task: Task, table: pa.Table) -> np.ndarray:
    """The columns of predictions, as `output.predictions` wrote them."""
    if "probabilities" in table.column_names:
        return elements(table["probabilities"].combine_chunks())
    if task.likelihood:
        return np.asarray(table["loss"].to_numpy())
    if task.regression:
        names = ["mean", *(f"quantile_{share:g}".replace(".", "_") for share in task.quantiles)]
    else:
        names = output.class_columns(task.classes)
    return np.stack([table[name].to_numpy() for name in names], axis=1)
