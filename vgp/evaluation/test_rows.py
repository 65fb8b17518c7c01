"""Aligns a script's predictions with the prepared test rows, which they must cover exactly once each."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vgp.base.exits import UserError
from vgp.data.rows import read_shard
from vgp.data.task import Task
from vgp.evaluation.script_predictions import Predictions
from vgp.protocol.manifest import Manifest

MOST_SHOWN = 3

Array = np.ndarray


def checksum(dataset: Manifest, split: str = "test") -> str:
    """Returns a checksum of a split's prepared rows and row_ids."""
    shards = [shard.sha256 for shard in dataset.splits.get(split, ())]
    return hashlib.sha256("".join(shards).encode()).hexdigest() if shards else ""


def read_prepared_rows(
    data: str | Path, dataset: Manifest, task: Task, split: str = "test"
) -> tuple[Array, Array | None]:
    """Returns row_id, int64 (N,), and label of every prepared row of a split; label is None without classes."""
    names = ["row_id"] if task.likelihood else ["row_id", task.label]
    columns = [dataset.column(name) for name in names]
    tables = [read_shard(Path(data), shard, columns) for shard in dataset.splits[split]]
    whole = [np.concatenate([table[name].to_numpy() for table in tables]) for name in names]
    return whole[0], None if task.likelihood else whole[1]


@dataclass(frozen=True)
class Aligned:
    """A function from rows of the dataset to a script's predictions, by row_id."""

    #: Ids of the rows, ascending.
    row_id: Array
    values: Array

    def __call__(self, batch: dict[str, Array]) -> Array:
        """Returns probabilities, float32 (B, C), or losses, float64 (B,), for the columns of B rows."""
        return np.asarray(self.values[np.searchsorted(self.row_id, batch["row_id"])])


def align(left: Predictions, row_id: Array, label: Array | None = None, *, of: str = "of the test split") -> Aligned:
    """Returns the predictions by row_id.

    Args:
        left: The script's predictions.
        row_id: Ids of the rows to predict, int64 (N,).
        label: Labels of these rows; None without classes.
        of: A description of the rows, for messages.

    Raises:
        UserError: rows are missing, unknown or duplicated, or the file's own labels differ.
    """
    order = np.argsort(left.row_id, kind="stable")
    rising = left.row_id[order]
    if not np.array_equal(rising, expected := np.sort(row_id)):
        raise UserError(
            f"{left.path} must have one prediction for each of the {len(row_id):,} rows {of}, and has {len(left):,}: "
            f"{_describe_faults(rising, expected)}. row_id is the column of that name in test-*.parquet of the data"
            f"{_hint_at_rounding(rising, expected)}."
        )
    if left.label is not None and label is not None:
        _check_labels(left, order, row_id, label)
    return Aligned(rising, left.values[order])


def _describe_faults(rising: Array, expected: Array) -> str:
    distinct, times = np.unique(rising, return_counts=True)
    faults = [
        _count_ids("missing", np.setdiff1d(expected, distinct)),
        _count_ids("not among them", np.setdiff1d(distinct, expected)),
        _count_ids("there more than once", distinct[times > 1]),
    ]
    return ", ".join(filter(None, faults))


def _hint_at_rounding(rising: Array, expected: Array) -> str:
    """Returns a hint if the ids differ only by float rounding."""
    if not np.array_equal(rising.astype(np.float64), expected.astype(np.float64)):
        return ""
    return ", an integer of up to 63 bits: a conversion to floating point has rounded it"


def _count_ids(fault: str, ids: Array) -> str:
    if not len(ids):
        return ""
    examples = ", ".join(map(str, ids[:MOST_SHOWN].tolist())) + (", ..." if len(ids) > MOST_SHOWN else "")
    return f"{len(ids):,} {'is' if len(ids) == 1 else 'are'} {fault} (row_id {examples})"


def _check_labels(left: Predictions, order: Array, row_id: Array, label: Array) -> None:
    assert left.label is not None
    places = np.argsort(row_id, kind="stable")
    in_file, in_data = left.label[order], label[places]
    wrong = np.flatnonzero(in_file != in_data)
    if len(wrong):
        first = wrong[0]
        raise UserError(
            f"{left.path}: its label differs from the label of the data in {len(wrong):,} of {len(in_data):,} rows "
            f"(row_id {row_id[places][first]}: {in_file[first]} in the file, {in_data[first]} in the data), so its "
            "row_id identifies other rows."
        )
