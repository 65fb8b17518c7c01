"""Saved predictions: the one thing that metrics, comparison and decision read.

`predictions.parquet` has one row per scored row, in the order of the split:

    row_id       int64                       as in the dataset
    label        int64                       class code, in [0, C); double of a regression; absent without either
    weight       int64                       how much the row counts, such as its bytes; only without classes
    group        dictionary of strings       rows of one group are not independent; absent if the task names none
    group_2      "                           likewise by a second column
    challenger   float, or float[C]          two classes: probability of the second; else of each class;
                                             double[1 + Q] of a regression: mean, then quantiles;
                                             double without either: the row's loss in nats
    champion     "                           absent if there is no champion
    baseline     "                           absent if none was fitted
    boosting     "                           likewise
    NAME         dictionary of strings       one column for each slice of the task

What the columns mean (`Header`) is JSON under the key `predictions` of the Parquet schema's metadata.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from vgp.base.exits import UserError
from vgp.base.storage import files
from vgp.evaluation import regression
from vgp.evaluation.collected import Collected
from vgp.evaluation.ranked import Scored, chosen, normalised, packed, scored
from vgp.evaluation.regression import Loss
from vgp.evaluation.thresholds import OperatingPoint
from vgp.protocol import file_names
from vgp.protocol.manifest import Frozen

FILE_NAME = file_names.PREDICTIONS
#: The reason of a decision where the model's predictions are not known.
UNDECIDED = f"Not decided: the script left no {FILE_NAME}, so nothing of it can be compared."
MODELS = ("challenger", "champion", "baseline", "boosting")
GROUPS = ("group", "group_2")
METADATA_KEY = b"predictions"
#: Rows of a row group, as far as they take no more bytes than this: what reading and writing hold at once.
GROUP_ROWS, GROUP_BYTES = 1 << 18, 64 << 20
#: Most bytes for the probabilities of some classes of all rows, during one-vs-rest figures.
MOST_CLASS_BYTES = 256 << 20
#: Groups whose names are kept: days are no more, and what is, such as users, tells no time.
MOST_NAMED = 50_000
#: Of numbers that are larger the mean of squares could be infinite.
LARGEST = 1e150


class Header(Frozen):
    """What the columns of a predictions file mean."""

    task: str
    #: Name of the split that was scored; "" for rows that a script labelled itself.
    split: str
    #: Empty for a regression, and for a task that is judged by a loss for each row.
    classes: tuple[str, ...]
    #: What the label is called; "" where a script labelled its rows itself.
    target: str = ""
    #: Of a regression: what each model predicts beside the mean, what the label is counted in ("" = not said), and the
    #: loss that the decision tests.
    quantiles: tuple[float, ...] = ()
    unit: str = ""
    decided_by: Loss = "pinball"
    #: Without classes: dataset column that `weight` was made from; "" if every row counts as one.
    weight: str = ""
    #: Models that were scored, of `MODELS`.
    models: tuple[str, ...]
    #: Whether challenger and champion are one model, weight for weight.
    same: bool = False
    #: Why there is a champion and none was scored; and whether that is because its files are not there any more.
    champion_problem: str = ""
    champion_gone: bool = False
    #: What `group` was made from: a column of the dataset, or the day of one; "" if rows are independent.
    group: str = ""
    #: Likewise of `group_2`.
    second_group: str = ""
    #: Whether the task names no group: then the day of the time is taken.
    group_assumed: bool = False
    slices: tuple[str, ...] = ()
    #: What a reader must know: a baseline fitted on a sample, a champion without some columns...
    notes: tuple[str, ...] = ()
    #: What the train labels give without a look at a row: how frequent each class is, or their mean, their median and
    #: their quantiles. () = not known.
    constant: tuple[float, ...] = ()
    #: Why all figures may be better than the truth, as the dataset's manifest has it.
    doubts: tuple[str, ...] = ()
    #: What the baseline is, if it is no logistic regression.
    baseline: str = ""
    #: Where the challenger is what a script left.
    script: Collected | None = None
    #: Of two classes: the challenger's threshold by the task's rule.
    operating: OperatingPoint | None = None


@dataclass(frozen=True)
class Names:
    """One name a row: `values[codes[i]]` of row i; codes are integers of shape (N,)."""

    codes: np.ndarray
    values: Sequence[str]

    def __getitem__(self, rows: np.ndarray | slice) -> "Names":
        return Names(chosen(self.codes, rows), self.values)

    def rows(self, most: int | None = None) -> "Iterator[tuple[str, np.ndarray]]":
        """The numbers of the rows with each value, rising, int (n,): of the most frequent values, by their codes.

        One stable sort finds the rows of all values.
        """
        counts = np.bincount(self.codes, minlength=len(self.values))
        ends = np.cumsum(counts)
        order = np.argsort(self.codes, kind="stable").astype(np.int32 if len(self.codes) < 1 << 31 else np.int64)
        frequent = np.argsort(-counts, kind="stable")[:most]
        for code in np.sort(frequent[counts[frequent] > 0]):
            yield self.values[code], order[ends[code] - counts[code] : ends[code]]


@dataclass(frozen=True)
class Predictions:
    """A file of N rows, C classes or Q quantiles.

    What takes much memory, the columns of the models, is read when it is asked for.
    """

    path: Path
    header: Header
    rows: int
    #: (N,) in [0, C), of the smallest type; float64 of a regression; empty without either.
    label: np.ndarray
    #: By the columns `GROUPS`, as far as they are there; their values are not read.
    groupings: tuple[Names, ...]
    slices: dict[str, Names]
    #: float64 (N,); None with classes, and of a regression.
    weight: np.ndarray | None

    def __len__(self) -> int:
        return self.rows

    @property
    def group(self) -> Names | None:
        """The first grouping."""
        return self.groupings[0] if self.groupings else None

    @property
    def binary(self) -> bool:
        return len(self.header.classes) == 2

    def losses(self, model: str) -> np.ndarray:
        """Loss of each row in nats, or of a regression the one that the decision tests, float64 (N,)."""
        if self.header.classes:
            return self.scored(model).losses()
        if self.header.quantiles:
            return regression.losses(self.header.decided_by, self.label, self.predicted(model), self.header.quantiles)
        return _filled(np.empty(self.rows), (_numbers(part) for part in _parts(self.path, model)))

    def predicted(self, model: str) -> np.ndarray:
        """Of a regression: mean and quantiles, float64 (1 + Q, N)."""
        width = 1 + len(self.header.quantiles)
        parts = (_numbers(part.flatten()).reshape(len(part), width) for part in _parts(self.path, model))
        whole = np.empty((width, self.rows))
        _filled(whole.T, parts)
        return whole

    def scored(self, model: str) -> Scored:
        """What the figures of a model are made of; there are classes."""
        if self.binary:
            second = (_probabilities(part) for part in _parts(self.path, model))
            return Scored(packed(_filled(np.empty(self.rows, np.float32), second), self.label))
        rows, start = Scored.empty(self.rows, len(self.header.classes)), 0
        for part in _parts(self.path, model):
            piece = slice(start, start + len(part))
            rows.fill(piece, scored(self.label[piece], _table(part)))
            start = piece.stop
        return rows

    def by_class(self, model: str) -> Iterator[tuple[range, np.ndarray]]:
        """The probabilities of some classes at a time, float32 (classes, N): above two."""
        classes = len(self.header.classes)
        together = max(1, MOST_CLASS_BYTES // (4 * self.rows))
        for first in range(0, classes, together):
            table = np.empty((min(together, classes - first), self.rows), np.float32)
            some = slice(first, first + len(table))
            _filled(table.T, (normalised(_table(part))[:, some] for part in _parts(self.path, model)))
            yield range(first, first + len(table)), table


def _filled(array: np.ndarray, parts: Iterable[np.ndarray]) -> np.ndarray:
    start = 0
    for part in parts:
        array[start : start + len(part)] = part
        start += len(part)
    return array


def read(directory: str | Path) -> Predictions:
    """Opens a predictions file, and reads all of it but the columns of the models.

    Raises:
        UserError: there is none in the directory, or it is not one of ours.
    """
    path = Path(directory) / FILE_NAME
    header, rows = _header(path)
    weight = None if header.classes or header.quantiles else _doubles(path, "weight", rows)
    if weight is not None and not (weight.min() >= 0 and weight.max() > 0):
        raise UserError(
            f"the weights of the rows, {header.weight}, are all 0 or some are below: no loss is their mean."
        )
    return Predictions(
        path=path,
        header=header,
        rows=rows,
        label=_labels(path, header, rows),
        groupings=tuple(_names(path, column, most=MOST_NAMED) for column in groups(header)),
        slices={name: _names(path, name) for name in header.slices},
        weight=weight,
    )


def groups(header: Header) -> tuple[str, ...]:
    """The grouping columns of the file."""
    return tuple(column for column, source in zip(GROUPS, (header.group, header.second_group), strict=True) if source)


def _labels(path: Path, header: Header, rows: int) -> np.ndarray:
    if header.quantiles:
        return _doubles(path, "label", rows)
    classes = len(header.classes)
    label = np.empty(rows if classes else 0, np.min_scalar_type(classes))
    return _filled(label, (_label(part, classes, path) for part in _parts(path, "label"))) if classes else label


def _doubles(path: Path, column: str, rows: int) -> np.ndarray:
    return _filled(np.empty(rows), (_numbers(part) for part in _parts(path, column)))


def _header(path: Path) -> tuple[Header, int]:
    with _readable(path) as file:
        metadata = file.schema_arrow.metadata or {}
        if METADATA_KEY not in metadata:
            raise UserError(f"{path} carries no {METADATA_KEY.decode()!r} metadata: evaluate did not write it.")
        return Header.model_validate_json(metadata[METADATA_KEY]), file.metadata.num_rows


@contextmanager
def _readable(path: Path) -> Iterator[pq.ParquetFile]:
    try:
        files.open_file(path).close()  # a pipe would be waited for
        with pq.ParquetFile(path) as file:
            yield file
    except FileNotFoundError:
        raise UserError(f"{path.parent} holds no {FILE_NAME}: it is not a finished evaluation.") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise UserError(f"{path} cannot be read as predictions: {error}") from None


def _parts(path: Path, column: str) -> Iterator[pa.Array]:
    """A column, as many rows at a time as are worth one call."""
    with _readable(path) as file:
        for batch in file.iter_batches(GROUP_ROWS, columns=[column]):
            yield batch.column(0)


def _label(part: pa.Array, classes: int, path: Path) -> np.ndarray:
    label = part.to_numpy()
    if len(label) and not 0 <= label.min() <= label.max() < classes:
        raise UserError(f"{path} holds labels beyond its {classes} classes: evaluate did not write it.")
    return np.asarray(label)


def _names(path: Path, name: str, *, most: int | None = None) -> Names:
    """A column of names, its codes in the smallest type; without the names themselves if there are more than `most`."""
    with _readable(path) as file:
        column = file.read([name])[name].unify_dictionaries()
    dictionary = column.chunk(0).dictionary
    codes = np.empty(len(column), np.min_scalar_type(len(dictionary)))
    _filled(codes, (chunk.indices.to_numpy() for chunk in column.chunks))
    named = most is None or len(dictionary) <= most
    return Names(codes, tuple(dictionary.to_pylist()) if named else ())


def _numbers(part: pa.Array) -> np.ndarray:
    """Float64 (B,), of which no figure becomes infinite."""
    values = np.asarray(part.to_numpy(), np.float64)
    if len(values) and not -LARGEST <= values.min() <= values.max() <= LARGEST:
        raise UserError(
            f"the predictions hold numbers that are none, or beyond {LARGEST:.0e}: if the labels are so large, let "
            "`labels` give their logarithm, or count them in a larger unit."
        )
    return values


def _table(part: pa.Array) -> np.ndarray:
    """Float32 (B, C)."""
    return _probabilities(part.flatten()).reshape(len(part), -1)


def _probabilities(part: pa.Array) -> np.ndarray:
    """Float32 (B,), none below 0."""
    values = part.to_numpy()
    if len(values) and not 0 <= values.min() <= values.max() < np.inf:
        raise UserError("the predictions hold numbers that are no probabilities: evaluate did not write them.")
    return np.asarray(values)
