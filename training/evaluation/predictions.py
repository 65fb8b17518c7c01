"""Saved predictions: the one thing that metrics, comparison and decision read.

`predictions.parquet` has one row per scored row, in the order of the split:

    row_id       int64                       as in the dataset
    label        int64                       class code, in [0, C); absent without classes
    weight       int64                       how much the row counts, such as its bytes; only without classes
    group        dictionary of strings       rows of one group are not independent; absent if the task names none
    challenger   float, or float[C]          two classes: probability of the second; else of each class;
                                             double without classes: the row's loss in nats
    champion     "                           absent if there is no champion
    baseline     "                           absent if none was fitted
    NAME         dictionary of strings       one column for each slice of the task

What the columns mean (`Header`) is JSON under the key `predictions` of the Parquet schema's metadata.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from training.data.manifest import Frozen
from training.errors import UserError
from training.evaluation.probabilities import row_losses
from training.script.collected import Collected
from training.storage import files

FILE_NAME = "predictions.parquet"
MODELS = ("challenger", "champion", "baseline")
RESERVED = ("row_id", "label", "weight", "group", *MODELS)
METADATA_KEY = b"predictions"


class Header(Frozen):
    """What the columns of a predictions file mean."""

    task: str
    #: Name of the split that was scored; "" for rows that a script labelled itself.
    split: str
    #: Empty for a task that is judged by a loss for each row.
    classes: tuple[str, ...]
    #: Without classes: dataset column that `weight` was made from; "" if every row counts as one.
    weight: str = ""
    #: Models that were scored, of `MODELS`.
    models: tuple[str, ...]
    #: Whether challenger and champion are one model, weight for weight.
    same: bool = False
    #: Dataset column that `group` was made from; "" if rows are independent.
    group: str = ""
    slices: tuple[str, ...] = ()
    #: What a reader must know: a baseline fitted on a sample, a champion without some columns...
    notes: tuple[str, ...] = ()
    #: What the baseline is, if it is no logistic regression.
    baseline: str = ""
    #: Where the challenger is what a script left.
    script: Collected | None = None


@dataclass(frozen=True)
class Names:
    """A column of names: `values[codes[i]]` is the name in row i; codes are int32 of shape (N,)."""

    codes: np.ndarray
    values: tuple[str, ...]


@dataclass(frozen=True)
class Predictions:
    """The file in memory. N rows, C classes; `probabilities[model]` is float64 (N, C).

    Without classes there are no labels and probabilities, but `losses[model]`, float64 (N,) nats, and weights.
    """

    header: Header
    row_id: np.ndarray
    label: np.ndarray
    group: Names | None
    probabilities: dict[str, np.ndarray]
    slices: dict[str, Names]
    losses: dict[str, np.ndarray] = field(default_factory=dict)
    #: float64 (N,): ones with classes.
    weight: np.ndarray = field(default_factory=lambda: np.ones(0))

    def __len__(self) -> int:
        return len(self.row_id)

    def row_losses(self, model: str) -> np.ndarray:
        """Loss of each row in nats, float64 (N,)."""
        if self.header.classes:
            return row_losses(self.label, self.probabilities[model])
        return self.losses[model]

    @property
    def binary(self) -> bool:
        return len(self.header.classes) == 2


def write(directory: str | Path, header: Header, batches: Iterable[dict[str, Any]]) -> Path:
    """Writes batches of columns (row_id, label, group and slices as `Names`, float (B, C) per model), atomically.

    Without classes weight in place of label, and float (B,) per model.

    Raises:
        UserError: no batch holds a row, or a slice is called like a column of this file.
    """
    if clash := sorted(set(header.slices) & set(RESERVED)):
        raise UserError(f"a slice may not be called {clash[0]!r}: predictions keep {', '.join(RESERVED)}.")
    path = Path(directory) / FILE_NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    with files.replacing(path) as scratch:
        _write(scratch, header, batches)
    return path


def _write(path: Path, header: Header, batches: Iterable[dict[str, Any]]) -> None:
    schema, rows = _schema(header), 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in batches:
            arrays = [_array(batch[field.name], field.type) for field in schema]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
            rows += len(arrays[0])
    if not rows:
        raise UserError(f"the {header.split} split has no rows: there is nothing to evaluate on.")


def _schema(header: Header) -> pa.Schema:
    width, names = len(header.classes), pa.dictionary(pa.int32(), pa.string())
    probability = pa.float32() if width == 2 else pa.list_(pa.float32(), width) if width else pa.float64()
    fields = [("row_id", pa.int64()), ("label" if width else "weight", pa.int64())]
    fields += [("group", names)] if header.group else []
    fields += [(model, probability) for model in header.models]
    fields += [(name, names) for name in header.slices]
    return pa.schema(fields, metadata={METADATA_KEY: header.model_dump_json().encode()})


def _array(column: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(column, Names):
        return pa.DictionaryArray.from_arrays(column.codes.astype(np.int32), list(column.values))
    if pa.types.is_fixed_size_list(kind):
        return pa.FixedSizeListArray.from_arrays(column.astype(np.float32).ravel(), kind.list_size)
    if pa.types.is_float32(kind):
        return pa.array(column[:, 1].astype(np.float32))
    return pa.array(column, type=kind)


def read(directory: str | Path) -> Predictions:
    """Reads a predictions file.

    Raises:
        UserError: there is none in the directory, or it is not one of ours.
    """
    path = Path(directory) / FILE_NAME
    try:
        files.open_file(path).close()  # a pipe would be waited for
        table = pq.read_table(path)
    except FileNotFoundError:
        raise UserError(f"{directory} holds no {FILE_NAME}: it is not a finished evaluation.") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise UserError(f"{path} cannot be read as predictions: {error}") from None
    if METADATA_KEY not in (table.schema.metadata or {}):
        raise UserError(f"{path} carries no {METADATA_KEY.decode()!r} metadata: evaluate did not write it.")
    header = Header.model_validate_json(table.schema.metadata[METADATA_KEY])
    return Predictions(
        header=header,
        row_id=table["row_id"].to_numpy(),
        group=_names(table["group"]) if header.group else None,
        slices={name: _names(table[name]) for name in header.slices},
        **(_classified(header, table) if header.classes else _scored(header, table)),
    )


def _classified(header: Header, table: pa.Table) -> dict[str, Any]:
    probabilities = {model: _probabilities(table[model]) for model in header.models}
    return {"label": table["label"].to_numpy(), "probabilities": probabilities, "weight": np.ones(len(table))}


def _scored(header: Header, table: pa.Table) -> dict[str, Any]:
    losses = {model: table[model].to_numpy() for model in header.models}
    weight = table["weight"].to_numpy().astype(np.float64)
    return {"label": np.zeros(0, np.int64), "probabilities": {}, "losses": losses, "weight": weight}


def _names(column: pa.ChunkedArray) -> Names:
    array = column.unify_dictionaries().combine_chunks()
    array = array.chunk(0) if isinstance(array, pa.ChunkedArray) else array
    return Names(array.indices.to_numpy(), tuple(array.dictionary.to_pylist()))


def _probabilities(column: pa.ChunkedArray) -> np.ndarray:
    """Float64 (N, C); the parts that float32 rounded are made to sum to 1 again."""
    if pa.types.is_fixed_size_list(column.type):
        flat = column.combine_chunks().flatten().to_numpy().astype(np.float64)
        table = flat.reshape(-1, column.type.list_size)
        return np.asarray(table / table.sum(axis=1, keepdims=True))
    second = column.to_numpy().astype(np.float64)
    return np.stack([1 - second, second], axis=1)
