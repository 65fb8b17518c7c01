"""Saved predictions, the only input of metrics, comparison and decision.

`predictions.parquet` has one row per scored row, in the order of the split:

    row_id       int64                       as in the dataset
    label        int64                       class code, in [0, C); double for a regression; absent for a likelihood
    weight       int64                       weight of the row, such as its bytes; only for a likelihood
    group        dictionary of strings       rows of one group are not independent; absent for independent rows
    group_2      "                           the group by a second column
    challenger   float, or float[C]          probability of the second of two classes, or of each of C classes;
                                             double[1 + Q] for a regression: mean, then quantiles;
                                             double for a likelihood: the row's loss in nats
    champion     "                           absent without a champion
    baseline     "                           absent if it was not fitted
    boosting     "                           absent if it was not fitted
    NAME         dictionary of strings       one column for each slice of the task

The meaning of the columns (`Header`) is JSON under the key `predictions` of the Parquet schema's metadata.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from vgp.base.exits import UserError
from vgp.base.storage import files
from vgp.evaluation import regression
from vgp.evaluation.collected import Collected
from vgp.evaluation.ranked import Scored, normalise, pack, score_rows, take
from vgp.evaluation.regression import Loss
from vgp.evaluation.thresholds import OperatingPoint
from vgp.protocol import file_names
from vgp.protocol.manifest import Frozen

FILE_NAME = file_names.PREDICTIONS
#: The reason of a decision without predictions of the model.
UNDECIDED = f"Not decided: the script wrote no {FILE_NAME}, so its model cannot be compared."
MODELS = ("challenger", "champion", "baseline", "boosting")
GROUPS = ("group", "group_2")
METADATA_KEY = b"predictions"
#: Name of a missing value; a missing category is "" in a group column.
MISSING = "(missing)"
#: Maximum rows and bytes of a row group, which reading and writing hold in memory.
GROUP_ROWS, GROUP_BYTES = 1 << 18, 64 << 20
#: Maximum bytes of the probabilities that one-vs-rest metrics hold in memory.
MOST_CLASS_BYTES = 256 << 20
#: Maximum number of groups whose names are read; more groups, such as users, are not days and need no names.
MOST_NAMED = 50_000
#: Largest absolute value; the mean of larger squares could be infinite.
LARGEST = 1e150


class Header(Frozen):
    """The meaning of the columns of a predictions file."""

    task: str
    #: Name of the scored split; "" for rows with a script's own labels.
    split: str
    #: Empty for a regression and for a likelihood.
    classes: tuple[str, ...]
    #: Name of the label; "" for rows with a script's own labels.
    target: str = ""
    #: For a regression: the predicted quantiles, the unit of the label ("" = unknown), and the loss of the decision.
    quantiles: tuple[float, ...] = ()
    unit: str = ""
    decided_by: Loss = "pinball"
    #: For a likelihood: dataset column of `weight`; "" if every row counts as one.
    weight: str = ""
    #: The scored models, of `MODELS`.
    models: tuple[str, ...]
    #: Whether challenger and champion have equal weights.
    same: bool = False
    #: Why the champion was not scored; and whether the reason is that its files are gone.
    champion_problem: str = ""
    champion_gone: bool = False
    #: Source of `group`: a column of the dataset, or the day of one; "" for independent rows.
    group: str = ""
    #: Source of `group_2`.
    second_group: str = ""
    #: Whether the task declares no group, so that rows are grouped by the day of their time.
    group_assumed: bool = False
    slices: tuple[str, ...] = ()
    #: Notes for readers, such as on a baseline fitted on a sample.
    notes: tuple[str, ...] = ()
    #: The constant prediction from the train labels: class frequencies, or mean, median and quantiles. () = unknown.
    constant: tuple[float, ...] = ()
    #: Reasons why all metrics may be too good, from the dataset's manifest.
    doubts: tuple[str, ...] = ()
    #: Name of the baseline, unless it is a logistic regression.
    baseline: str = ""
    #: The collected output, if the challenger is a script's model.
    script: Collected | None = None
    #: For two classes: the challenger's threshold by the task's rule.
    operating: OperatingPoint | None = None


@dataclass(frozen=True)
class Names:
    """A name for each row: `values[codes[i]]` for row i; codes are integers of shape (N,)."""

    codes: np.ndarray
    values: Sequence[str]

    def __getitem__(self, rows: np.ndarray | slice) -> "Names":
        return Names(take(self.codes, rows), self.values)

    def rows(self, most: int | None = None) -> "Iterator[tuple[str, np.ndarray]]":
        """Yields each value in the order of its code, with the ascending row numbers that have it, int (n,).

        Args:
            most: Number of values, the most frequent ones; None = all.
        """
        counts = np.bincount(self.codes, minlength=len(self.values))
        ends = np.cumsum(counts)
        order = np.argsort(self.codes, kind="stable").astype(np.int32 if len(self.codes) < 1 << 31 else np.int64)
        frequent = np.argsort(-counts, kind="stable")[:most]
        for code in np.sort(frequent[counts[frequent] > 0]):
            yield self.values[code], order[ends[code] - counts[code] : ends[code]]


@dataclass(frozen=True)
class Predictions:
    """A predictions file of N rows, with C classes or Q quantiles.

    The columns of the models are large and are read on demand.
    """

    path: Path
    header: Header
    rows: int
    #: (N,) in [0, C), of the smallest type; float64 for a regression; empty for a likelihood.
    label: np.ndarray
    #: The present columns of `GROUPS`.
    groupings: tuple[Names, ...]
    slices: dict[str, Names]
    #: float64 (N,) for a likelihood, else None.
    weight: np.ndarray | None

    def __len__(self) -> int:
        return self.rows

    @property
    def group(self) -> Names | None:
        """Returns the first grouping, or None."""
        return self.groupings[0] if self.groupings else None

    @property
    def binary(self) -> bool:
        return len(self.header.classes) == 2

    def losses(self, model: str) -> np.ndarray:
        """Returns the loss of each row, float64 (N,): in nats, or for a regression the loss of the decision."""
        if self.header.classes:
            return self.read_scores(model).losses()
        if self.header.quantiles:
            return regression.losses(
                self.header.decided_by, self.label, self.read_regression(model), self.header.quantiles
            )
        return _fill(np.empty(self.rows), (_numbers(part) for part in _parts(self.path, model)))

    def read_regression(self, model: str) -> np.ndarray:
        """Returns mean and quantiles of a regression, float64 (1 + Q, N)."""
        width = 1 + len(self.header.quantiles)
        parts = (_numbers(part.flatten()).reshape(len(part), width) for part in _parts(self.path, model))
        whole = np.empty((width, self.rows))
        _fill(whole.T, parts)
        return whole

    def read_scores(self, model: str) -> Scored:
        """Returns the values from which the metrics of a classifier are computed."""
        if self.binary:
            second = (_probabilities(part) for part in _parts(self.path, model))
            return Scored(pack(_fill(np.empty(self.rows, np.float32), second), self.label))
        rows, start = Scored.empty(self.rows, len(self.header.classes)), 0
        for part in _parts(self.path, model):
            piece = slice(start, start + len(part))
            rows.fill(piece, score_rows(self.label[piece], _table(part)))
            start = piece.stop
        return rows

    def by_class(self, model: str) -> Iterator[tuple[range, np.ndarray]]:
        """Yields ranges of classes with their probabilities, float32 (classes, N); for more than two classes."""
        classes = len(self.header.classes)
        batch = max(1, MOST_CLASS_BYTES // (4 * self.rows))
        for first in range(0, classes, batch):
            table = np.empty((min(batch, classes - first), self.rows), np.float32)
            columns = slice(first, first + len(table))
            _fill(table.T, (normalise(_table(part))[:, columns] for part in _parts(self.path, model)))
            yield range(first, first + len(table)), table


def _fill(array: np.ndarray, parts: Iterable[np.ndarray]) -> np.ndarray:
    """Copies consecutive parts into the array and returns it."""
    start = 0
    for part in parts:
        array[start : start + len(part)] = part
        start += len(part)
    return array


def read(directory: str | Path) -> Predictions:
    """Opens a predictions file and reads all columns except those of the models.

    Raises:
        UserError: the directory has no predictions file, or `evaluate` did not write it.
    """
    path = Path(directory) / FILE_NAME
    header, rows = _read_header(path)
    weight = None if header.classes or header.quantiles else _read_doubles(path, "weight", rows)
    if weight is not None and not (weight.min() >= 0 and weight.max() > 0):
        raise UserError(
            f"the row weights in {header.weight} are negative or all 0: the mean loss is undefined. Correct the data."
        )
    return Predictions(
        path=path,
        header=header,
        rows=rows,
        label=_read_labels(path, header, rows),
        groupings=tuple(_group_names(path, column) for column in groups(header)),
        slices={name: _names(path, name) for name in header.slices},
        weight=weight,
    )


def groups(header: Header) -> tuple[str, ...]:
    """Returns the grouping columns of the file."""
    return tuple(column for column, source in zip(GROUPS, (header.group, header.second_group), strict=True) if source)


def _read_labels(path: Path, header: Header, rows: int) -> np.ndarray:
    if header.quantiles:
        return _read_doubles(path, "label", rows)
    classes = len(header.classes)
    label = np.empty(rows if classes else 0, np.min_scalar_type(classes))
    return _fill(label, (_check_label(part, classes, path) for part in _parts(path, "label"))) if classes else label


def _read_doubles(path: Path, column: str, rows: int) -> np.ndarray:
    return _fill(np.empty(rows), (_numbers(part) for part in _parts(path, column)))


def _read_header(path: Path) -> tuple[Header, int]:
    with _open_predictions(path) as file:
        metadata = file.schema_arrow.metadata or {}
        if METADATA_KEY not in metadata:
            raise UserError(f"{path} has no {METADATA_KEY.decode()!r} metadata: evaluate did not write it.")
        return Header.model_validate_json(metadata[METADATA_KEY]), file.metadata.num_rows


@contextmanager
def _open_predictions(path: Path) -> Iterator[pq.ParquetFile]:
    try:
        files.open_file(path).close()  # refuses a pipe, which would block
        with pq.ParquetFile(path) as file:
            yield file
    except FileNotFoundError:
        raise UserError(f"{path.parent} has no {FILE_NAME}: it is not a finished evaluation.") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise UserError(f"{path} cannot be read as predictions: {error}") from None


def _parts(path: Path, column: str) -> Iterator[pa.Array]:
    """Yields a column in batches of rows."""
    with _open_predictions(path) as file:
        for batch in file.iter_batches(GROUP_ROWS, columns=[column]):
            yield batch.column(0)


def _check_label(part: pa.Array, classes: int, path: Path) -> np.ndarray:
    label = part.to_numpy()
    if len(label) and not 0 <= label.min() <= label.max() < classes:
        raise UserError(f"{path} has labels outside of its {classes} classes: evaluate did not write it.")
    return np.asarray(label)


def _names(path: Path, name: str) -> Names:
    """Reads a column of names, with codes of the smallest type."""
    codes, dictionary = _codes(path, name)
    return Names(codes, tuple(dictionary.to_pylist()))


def _group_names(path: Path, name: str) -> Names:
    """Reads a grouping column without unused names; a row without a value is a group of its own.

    More than `MOST_NAMED` names are not read.
    """
    codes, dictionary = _codes(path, name)
    is_used = np.bincount(codes, minlength=len(dictionary)) > 0
    used = dictionary.filter(pa.array(is_used))
    codes = (np.cumsum(is_used) - 1)[codes]
    has_no_value = pc.is_in(used, pa.array(["", MISSING, None], pa.string())).to_numpy(zero_copy_only=False)
    alone = np.flatnonzero(has_no_value[codes])
    count = len(used) + len(alone)
    codes[alone] = np.arange(len(used), count)
    values = (*used.to_pylist(), *[""] * len(alone)) if count <= MOST_NAMED else ()
    return Names(codes.astype(np.min_scalar_type(count)), values)


def _codes(path: Path, name: str) -> tuple[np.ndarray, pa.Array]:
    """Returns the codes of a column of names, of the smallest type, and its dictionary."""
    with _open_predictions(path) as file:
        column = file.read([name])[name].unify_dictionaries()
    dictionary = column.chunk(0).dictionary
    codes = np.empty(len(column), np.min_scalar_type(len(dictionary)))
    return _fill(codes, (chunk.indices.to_numpy() for chunk in column.chunks)), dictionary


def _numbers(part: pa.Array) -> np.ndarray:
    """Returns finite values, float64 (B,), whose squares have a finite mean."""
    values = np.asarray(part.to_numpy(), np.float64)
    if len(values) and not -LARGEST <= values.min() <= values.max() <= LARGEST:
        raise UserError(
            f"the predictions have values that are not finite or exceed {LARGEST:.0e}. For such large labels, return "
            "their logarithm from `labels`, or use a larger unit."
        )
    return values


def _table(part: pa.Array) -> np.ndarray:
    """Returns probabilities of classes, float32 (B, C)."""
    return _probabilities(part.flatten()).reshape(len(part), -1)


def _probabilities(part: pa.Array) -> np.ndarray:
    """Returns non-negative values, float32 (B,)."""
    values = part.to_numpy()
    if len(values) and not 0 <= values.min() <= values.max() < np.inf:
        raise UserError("the predictions have values that are not probabilities: evaluate did not write them.")
    return np.asarray(values)
