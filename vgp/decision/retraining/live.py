"""How the champion does on rows that came after those it was evaluated on, against what its evaluation said.

The mean loss of the new rows is compared with that of the evaluation by a one-sided t-test whose standard error is
robust to days (Cameron & Miller 2015, https://doi.org/10.3368/jhr.50.2.317): that of the new days, and the same for the
evaluation with as many days as it had. Rows whose label is late are left out until it comes, and counted.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import special

from vgp.base.exits import UserError
from vgp.base.text.printable import listed
from vgp.data.tabular import TabularTask
from vgp.evaluation import importance
from vgp.evaluation.score import TrainedModel
from vgp.protocol.manifest import Column, Frozen

#: Fewer days tell too little of how days differ.
FEWEST_DAYS = 5


class Live(Frozen):
    """The champion on labelled rows that are new to its evaluation."""

    rows: int
    days: int
    #: Rows of these days whose label is not known yet.
    unlabelled: int
    loss: float
    #: What its own evaluation said.
    evaluated: float
    #: Standard error of the difference.
    error: float
    #: Of a rise as large as this, if nothing had changed.
    p_value: float
    worse: bool = False

    @property
    def rise(self) -> float:
        return self.loss / self.evaluated - 1 if self.evaluated > 0 else 0.0


def live(
    losses: NDArray[np.float64], days: NDArray[np.int64], unlabelled: int, evaluated: float, test_days: int
) -> Live:
    """The losses of N labelled rows, float64 (N,), with their days, of which there are `FEWEST_DAYS`.

    Args:
        evaluated: The mean loss of its evaluation, on the rows of `test_days` days.
    """
    _, numbers = np.unique(days, return_inverse=True)
    count = int(numbers.max()) + 1
    mean = float(losses.mean())
    totals = np.bincount(numbers, losses - mean)
    variance = count / (count - 1) * float(np.sum(totals**2)) / len(losses) ** 2
    error = float(np.sqrt(variance * (1 + count / max(1, test_days))))
    p_value = float(special.stdtr(count - 1, (evaluated - mean) / error)) if error > 0 else float(mean <= evaluated)
    return Live(rows=len(losses), days=count, unlabelled=unlabelled, loss=mean, evaluated=evaluated, error=error,
                p_value=p_value)  # fmt: skip


def losses_of(
    model: TrainedModel, task: TabularTask, columns: pa.Table, labels: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The losses of the champion on rows with labels, float64 (N,)."""
    arrays, label = encoded(model.card.columns, columns), labels if task.regression else labels.astype(np.int64)
    unknown = np.zeros(len(label), np.int64)  # ids, which go with a row and into no prediction
    arrays = {column.name: unknown for column in model.card.columns} | arrays | {task.label: label}
    parts = []
    for start in range(0, len(label), task.batch_rows):
        batch = {name: values[start : start + task.batch_rows] for name, values in arrays.items()}
        parts.append(np.asarray(importance.row_losses(task, model(batch), batch), np.float64))
    return np.concatenate(parts)


def encoded(learned: tuple[Column, ...], columns: pa.Table) -> dict[str, NDArray[Any]]:
    """The champion's features in its own codes: 0 for text that it never saw.

    Raises:
        UserError: the data has no such column.
    """
    taken = [column for column in learned if column.kind in ("number", "category", "vector")]
    if lacking := [column.name for column in taken if column.name not in columns.column_names]:
        raise UserError(f"the champion takes {listed(lacking)}, which the data does not have any more.")
    return {column.name: np.maximum(codes(column, columns), 0).astype(np.int32) if column.values
            else numbers(columns[column.name]) for column in taken}  # fmt: skip


def codes(column: Column, columns: pa.Table) -> NDArray[np.int64]:
    """The champion's code of each text; -1 for one that it does not know."""
    known = {value: code for code, value in enumerate(column.values)}
    texts = columns[column.name].combine_chunks().fill_null("").dictionary_encode()
    own = np.array([known.get(text, -1) for text in texts.dictionary.to_pylist()] or [0], np.int64)
    return np.asarray(own[np.asarray(texts.indices)])


def numbers(column: pa.ChunkedArray) -> NDArray[np.float32]:
    """float32, NaN where missing."""
    return np.array(column.combine_chunks().cast(pa.float32()).fill_null(np.nan))
