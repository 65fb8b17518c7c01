"""How far new rows are from those that the model learned from, by what its card keeps of them: no old row is read.

The measure and its marks are those of the report (`vgp.evaluation.drift`); all new rows are counted.
"""

from collections.abc import Sequence

import numpy as np

from vgp.data import columns as bins
from vgp.data.bundle import ModelCard
from vgp.data.columns import elements
from vgp.data.rows import read_shard
from vgp.data.task import Task
from vgp.evaluation.drift import FREQUENT_VALUES, MOST_COLUMNS, SHOWN_VALUES, ColumnDrift, compared, places
from vgp.protocol.manifest import Column, Frozen
from vgp.serve.prediction.shards import NewRows, learned


class NewDrift(Frozen):
    """All columns that can be compared, the largest shift first."""

    rows: int
    columns: tuple[ColumnDrift, ...]
    #: Columns of which the card does not say how their values were spread.
    unknown: tuple[str, ...] = ()

    @property
    def shifted(self) -> tuple[ColumnDrift, ...]:
        return tuple(column for column in self.columns if column.shift != "none")

    @property
    def sentence(self) -> str:
        """What is to be said of it in a line."""
        large = [column.column for column in self.columns if column.shift == "large"]
        if not self.columns:
            return "drift: the model's card does not tell how its columns were spread."
        told = f"drift: {len(self.shifted)} of {len(self.columns)} columns have shifted since training"
        shown = ", ".join(large[:5]) + (f" and {len(large) - 5} more" if len(large) > 5 else "")
        return f"{told}{f', these much: {shown}' if large else ''}."


def drift(task: Task, card: ModelCard, rows: NewRows) -> NewDrift:
    """The new rows against the rows that the model was trained on."""
    own = {column.name: column for column in rows.dataset.columns}
    measured = [column for column in learned(task, card) if column.name not in task.groups][:MOST_COLUMNS]
    known = [column for column in measured if column.tally or sum(column.counts)]
    counts = {column.name: np.zeros(_size(column), np.int64) for column in known}
    seen = {c.name: np.zeros(len(own[c.name].values), np.int64) for c in known if c.kind == "category"}
    bin_of = {name: _bins(next(c for c in known if c.name == name), own[name]) for name in seen}
    for shard in rows.shards:
        table = read_shard(rows.folder, shard, [own[column.name] for column in known], verify=False)
        for column in known:
            values = elements(table[column.name].combine_chunks())
            if column.kind == "category":
                seen[column.name] += np.bincount(values, minlength=len(own[column.name].values))
            else:
                counts[column.name] += bins.tally(values, np.asarray(column.edges))
    for name, codes in seen.items():
        np.add.at(counts[name], bin_of[name], codes)
    made = [compared(c.name, _before(c), counts[c.name], *_unseen(c, own[c.name], seen)) for c in known]
    return NewDrift(
        rows=sum(shard.rows for shard in rows.shards),
        columns=tuple(sorted(made, key=lambda one: (-one.index, one.column))),
        unknown=tuple(column.name for column in measured if column not in known),
    )


def _size(column: Column) -> int:
    return len(column.tally) if column.tally else FREQUENT_VALUES + 3


def _before(column: Column) -> np.ndarray:
    """The train rows by bin."""
    if column.tally:
        return np.asarray(column.tally, np.int64)
    return np.bincount(places(column), np.asarray(column.counts, np.int64), _size(column)).astype(np.int64)


def _bins(column: Column, own: Column) -> np.ndarray:
    """The bin of each value of the new data."""
    code = {value: number for number, value in enumerate(column.values)}
    where = np.append(places(column), FREQUENT_VALUES + 1)  # the last is for values that the card does not have
    return np.array([where[code.get(value, -1)] for value in own.values], np.int64)


def _unseen(column: Column, own: Column, seen: dict[str, np.ndarray]) -> tuple[float, tuple[str, ...]]:
    """The share of the new rows whose value training never saw, and the most frequent such values."""
    if column.kind != "category":
        return 0.0, ()
    known = {value for value, count in zip(column.values, column.counts, strict=True) if count}
    counts = seen[column.name]
    new: Sequence[int] = [i for i in np.argsort(-counts, kind="stable").tolist()
                          if counts[i] and own.values[i] and own.values[i] not in known]  # fmt: skip
    return float(counts[new].sum() / max(1, counts.sum())), tuple(own.values[i] for i in new[:SHOWN_VALUES])
