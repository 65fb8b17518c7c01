"""Shards of rows that a model takes, on this machine's scratch disk: what a process needs of them to score."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from vgp.data.bundle import ModelCard
from vgp.data.columns import elements
from vgp.data.rows import read_shard
from vgp.data.task import Task
from vgp.protocol.manifest import Column, Manifest, ShardFile

SPLIT = "rows"

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class NewRows:
    """Rows to be predicted, in shards."""

    folder: Path
    #: Of one split, `rows`; the label is float64.
    dataset: Manifest
    #: Columns that tell a row, by what they are called in the shards: what they are called in the output.
    carried: Mapping[str, str]
    #: Rows whose label is known.
    labelled: int = 0

    @property
    def shards(self) -> tuple[ShardFile, ...]:
        return self.dataset.splits[SPLIT]

    def read(self, number: int) -> Arrays:
        """The columns of a shard, its label and ids among them."""
        table = read_shard(self.folder, self.shards[number], self.dataset.columns)
        return {column.name: elements(table[column.name].combine_chunks()) for column in self.dataset.columns}

    def told(self, number: int) -> pa.Table:
        """What tells the rows of a shard."""
        table = pq.read_table(self.folder / self.shards[number].path, columns=list(self.carried))
        return table.rename_columns(list(self.carried.values()))


def learned(task: Task, card: ModelCard) -> list[Column]:
    """The columns that the model learned from; ids, the label and what only groups rows are none of them."""
    kinds, spare = ("number", "category", "vector"), (task.label, *task.carried)
    return [column for column in card.columns if column.kind in kinds and column.name not in spare]
