"""A task over CSV files: declare the columns, and what is left to write is what is special about yours.

class Churn(TabularTask):
    schema = (
        Field("customer", pa.string()),
        Field("week", pa.date32()),
        Field("plan", pa.string()),
        Field("spend", pa.float64(), nullable=True),
        Field("churned", pa.bool_(), known="after"),
    )
    key = ("customer", "week")
    time = "week"
    target = "churned"
    slices = ("plan",)
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from training.data import alike, cutting, keys, schema, splits
from training.data.alike import CountFile
from training.data.cutting import Chunk
from training.data.declaration import Declaration
from training.data.keys import KeyFile
from training.data.schema import Field
from training.data.shares import NAMES
from training.data.split_column import WrongRow
from training.data.split_hash import ByHash
from training.errors import UserError
from training.printable import listed, quoted
from training.storage.storage import File
from training.task import Task

if TYPE_CHECKING:
    from torch import Tensor, nn

    from training.data.manifest import Manifest
    from training.task import Batch


@dataclass
class Scan:
    """What one chunk tells before any row is written, or all chunks together."""

    rows: int = 0
    #: Labelled and unlabelled rows by the mark that decides their split, such as their day.
    labelled: Counter[int] = field(default_factory=Counter)
    unlabelled: Counter[int] = field(default_factory=Counter)
    keys: list[KeyFile] = field(default_factory=list)
    kinds: list[CountFile] = field(default_factory=list)
    summary: Any = None
    #: Of all chunks together: the position of each one's first row.
    first_rows: list[int] = field(default_factory=list)

    def summaries(self, scans: "Iterable[Scan]") -> Iterator[Any]:
        """Adds up the scans as they come and passes their summaries on, so that these are never all held."""
        for scan in scans:
            self.first_rows.append(self.rows)
            self.rows += scan.rows
            self.labelled.update(scan.labelled)
            self.unlabelled.update(scan.unlabelled)
            self.keys += scan.keys
            self.kinds += scan.kinds
            yield scan.summary


class TabularTask(Task):
    """A task over CSV files. Declare the columns; override `labels`, `features`, `summary` where you differ.

    Raises:
        UserError: the declaration is inconsistent, or an option or a window is not one.
    """

    #: The columns to read; others in the files are ignored.
    schema: ClassVar[tuple[Field, ...]] = ()
    #: Columns that together occur once; checked over all files.
    key: ClassVar[tuple[str, ...]] = ()
    #: Date or timestamp column that the windows `train` and `test` cut; without one, rows are split by a hash of
    #: `group`, of the key, or of all columns known before the outcome.
    time: ClassVar[str] = ""
    #: Column that holds the outcome: bool, class names, or class codes. Unneeded if `labels` is overridden.
    target: ClassVar[str] = ""
    #: Why a row may have no label, for the report.
    unlabelled: ClassVar[str] = "no label"
    #: Options and their defaults; a task may add its own, and change these (`training.data.splits` says what they do).
    settings: ClassVar[Mapping[str, Any]] = {"hidden": [256, 128], "dropout": 0.1, **splits.OPTIONS}

    def __init__(self, options: Mapping[str, Any] | None = None):
        super().__init__(options)
        declaration = Declaration(
            type(self).__name__, self.schema, self.key, self.time, self.group, self.target,
            own_dates=type(self).dates is not TabularTask.dates,
            own_labels=type(self).labels is not TabularTask.labels,
        )  # fmt: skip
        declaration.check()
        self.split = splits.choose(declaration, self.unlabelled, self.defaults(), self.options)
        self.chunks: Sequence[Chunk] = ()

    def defaults(self) -> Mapping[str, Any]:
        return {**splits.OPTIONS, **self.settings}

    # ---- what a task of its own may override

    def default_data(self) -> str:
        """The input when none is given."""
        raise UserError(f"{type(self).__name__} has no input of its own: give CSV files, folders or globs.")

    def dates(self, table: pa.Table) -> pa.Array:
        """The day of each row, date32, for the windows."""
        return _column(table, self.time).cast(pa.date32())

    def labels(self, table: pa.Table) -> pa.Array:
        """The class code of each row, int64; null if its outcome is unknown, and the row is left out."""
        column = _column(table, self.target)
        if pa.types.is_string(column.type):
            return pc.index_in(column, pa.array(self.classes)).cast(pa.int64())
        return column.cast(pa.int64())

    def features(self, table: pa.Table, statistics: Mapping[str, Any]) -> dict[str, Any]:
        """What the model learns from, by name: numbers or strings (rows,), as Arrow or numpy arrays.

        `table` holds the columns known before the outcome, no others. By default all of them but the key's,
        the time, the group and a column that says the split.
        """
        spare = {*self.key, self.time, self.group, self.split.column}
        return {name: _column(table, name) for name in table.column_names if name not in spare}

    def summary(self, table: pa.Table) -> Any:
        """What `merge` needs to know of one chunk; `table` holds all columns."""
        return None

    def merge(self, summaries: Iterable[Any]) -> dict[str, Any]:
        """Statistics over the whole input, from the summaries in order; `features` receives them.

        Take the summaries one by one where the input may be large.
        """
        return {}

    # ---- the contract of Task

    def files(self, data: str) -> Sequence[File]:
        return cutting.resolve(data.strip() or self.default_data())

    def days(self, chunk: Chunk) -> NDArray[np.int32]:
        """The days of a chunk's rows, each once; no more columns are read than they need."""
        own = type(self).dates is not TabularTask.dates
        fields = self.schema if own else [field for field in self.schema if field.name == self.time]
        return np.unique(self._days(schema.read(chunk, fields)))

    def __getstate__(self) -> dict[str, Any]:
        """What goes to the workers with every call."""
        return {**self.__dict__, "chunks": ()}

    def shards(self, data: str) -> Sequence[Chunk]:
        self.chunks, self.sources = cutting.cut(data.strip() or self.default_data(), self.scratch)
        for source, columns in dict.fromkeys((chunk.source, chunk.columns) for chunk in self.chunks):
            schema.check_header(source, columns, self.schema)
        return self.chunks

    def scan(self, shard: Chunk) -> Scan:
        table = schema.read(shard, self.schema)
        labels = self._checked_labels(shard, table)
        known = labels.is_valid().to_numpy(zero_copy_only=False)
        marks = self._marks(shard, table)
        return Scan(
            rows=table.num_rows,
            labelled=_counted(marks[known]),
            unlabelled=_counted(marks[~known]),
            keys=self._write_keys(shard, table),
            kinds=self._write_kinds(shard, table),
            summary=self.summary(table),
        )

    def combine(self, scans: Iterable[Scan]) -> dict[str, Any]:
        whole = Scan()
        summaries = whole.summaries(scans)
        merged = self.merge(summaries)
        deque(summaries, maxlen=0)  # those that `merge` had no use for
        self._check_duplicates(whole.keys)
        kinds = alike.count(whole.kinds) if whole.kinds else None
        planned = self.split.plan(whole.labelled, whole.unlabelled, kinds)
        return {**planned, "rows_read": whole.rows, "_first_rows": whole.first_rows, **merged}

    def rows(self, shard: Chunk, statistics: Mapping[str, Any]) -> dict[str, pa.Table]:
        table = schema.read(shard, self.schema)
        columns = self._row_columns(shard, table, statistics)
        group = columns[self.group] if self.group else None
        first_row = statistics["_first_rows"][shard.number]
        split = self.split.assign(table, self._marks(shard, table), group, first_row, statistics)
        split[~columns[self.label].is_valid().to_numpy(zero_copy_only=False)] = -1
        finished = pa.table(columns)
        return {name: finished.take(pa.array(np.flatnonzero(split == code))) for code, name in enumerate(NAMES)}

    # ---- a network that fits any table

    def model(self, data: "Manifest") -> "nn.Module":
        from training.models.networks import TabularNetwork

        columns = [c for c in data.columns if c.kind in ("number", "category") and c.name != self.group]
        setting = {**self.settings, **self.options}
        return TabularNetwork(columns, len(self.classes), hidden=setting["hidden"], dropout=setting["dropout"])

    def loss(self, model: "nn.Module", batch: "Batch") -> "Tensor":
        from torch.nn.functional import cross_entropy

        return cross_entropy(model(batch).float(), batch[self.label])

    def predict(self, model: "nn.Module", batch: "Batch") -> "Tensor":
        return cast("Tensor", model(batch).float().softmax(dim=-1))

    # ---- one chunk

    def _days(self, table: pa.Table) -> NDArray[np.int32]:
        """The day of each row, counted from 1970-01-01."""
        return np.asarray(self.dates(table).cast(pa.int32()))

    def _marks(self, shard: Chunk, table: pa.Table) -> NDArray[np.int32]:
        """What decides the split of each row."""
        try:
            return self.split.marks(table, self._days)
        except WrongRow as error:
            raise UserError(f"{shard.source}, line {schema.line_of(shard, error.record)}: {error}") from None

    def _checked_labels(self, shard: Chunk, table: pa.Table) -> pa.Array:
        labels = _array(self.labels(table)).cast(pa.int64())
        wrong = pc.or_(pc.less(labels, 0), pc.greater_equal(labels, len(self.classes)))
        if self.target and pa.types.is_string(table.schema.field(self.target).type):
            wrong = pc.and_(labels.is_null(), pc.not_equal(_column(table, self.target), ""))
        record = pc.index(wrong, True).as_py()
        if record >= 0:
            label = table[self.target][record].as_py() if self.target else labels[record].as_py()
            shown = quoted(label) if isinstance(label, str) else label
            raise UserError(
                f"{shard.source}, line {schema.line_of(shard, record)}: the label {shown} is none of "
                f"{', '.join(self.classes)}{'' if self.target else f' (codes 0 to {len(self.classes) - 1})'}."
            )
        return labels

    def _row_columns(self, shard: Chunk, table: pa.Table, statistics: Mapping[str, Any]) -> dict[str, pa.Array]:
        before = table.select([f.name for f in self.schema if f.known == "before"])
        features = self._checked_features(before, statistics)
        rest = {"row_id": pa.array(np.arange(table.num_rows) + statistics["_first_rows"][shard.number])}
        if self.group and self.group not in features:
            rest[self.group] = self._group(before)
        return {**rest, **features, self.label: _array(self.labels(table)).cast(pa.int64())}

    def _checked_features(self, before: pa.Table, statistics: Mapping[str, Any]) -> dict[str, pa.Array]:
        after = {f.name for f in self.schema if f.known == "after"}
        try:
            features = {name: _feature(name, _array(v)) for name, v in self.features(before, statistics).items()}
        except KeyError as error:
            if not (asked := [name for name in after if f'"{name}"' in str(error)]):
                raise
            raise UserError(
                f"{type(self).__name__}.features asks for {asked[0]}, which is known only after the outcome: "
                "the model would learn from what it is to predict."
            ) from None
        if not features:
            raise UserError(f"{type(self).__name__}.features gives no column: there is nothing to learn from.")
        if leaks := sorted(after & features.keys()):
            raise UserError(f"the feature {leaks[0]} has the name of a column that is known only after the outcome.")
        if lacking := [name for name in self.slices if name not in features]:
            raise UserError(f"the slice {lacking[0]} is none of the features {', '.join(features)}.")
        return features

    def _group(self, before: pa.Table) -> pa.Array:
        if self.group == "day" and self.time:
            return pa.array(self._days(before))
        if self.group not in before.column_names:
            raise UserError(
                f"{type(self).__name__}.group is {self.group!r}: neither a feature, nor a column known before the "
                "outcome, nor 'day' of a task with a time."
            )
        return _column(before, self.group)

    def _write_keys(self, shard: Chunk, table: pa.Table) -> list[KeyFile]:
        if not self.key:
            return []
        hashes = keys.hashed([_column(table, name) for name in self.key])
        return [KeyFile.write(self.scratch / f"keys-{shard.number}", hashes)]

    def _write_kinds(self, shard: Chunk, table: pa.Table) -> list[CountFile]:
        if not (isinstance(self.split, ByHash) and self.split.counts_kinds and table.num_rows):
            return []
        return [CountFile.write(self.scratch / f"kinds-{shard.number}", self.split.hashes(table))]

    # ---- all chunks

    def _check_duplicates(self, files: Sequence[KeyFile]) -> None:
        for first, second in keys.duplicates(files):
            here, there = (self._key_at(row) for row in (second, first))
            if here[1] == there[1]:  # else two keys share a hash
                written = ", ".join(f"{k}={listed([str(v)])}" for k, v in here[1].items())
                raise UserError(f"{here[0]} repeats the key of {there[0]}: {written}. A key must occur once.")

    def _key_at(self, row: keys.Row) -> tuple[str, dict[str, Any]]:
        chunk = self.chunks[row.shard]
        values = schema.read(chunk, self.schema).select(list(self.key)).slice(row.row, 1).to_pylist()[0]
        return f"{chunk.source}, line {schema.line_of(chunk, row.row)}", values


def _column(table: pa.Table, name: str) -> pa.Array:
    return _array(table[name])


def _array(values: Any) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)
    return values if isinstance(values, pa.Array) else pa.array(values)


def _feature(name: str, values: pa.Array) -> pa.Array:
    """Numbers as float32, strings as they are; anything else needs a decision that only the task can take."""
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type) or pa.types.is_boolean(values.type):
        return values.cast(pa.float32(), safe=False)
    if pa.types.is_string(values.type) or pa.types.is_dictionary(values.type):
        return values
    raise UserError(f"the feature {name} is of type {values.type}: make numbers or strings of it in `features`.")


def _counted(days: NDArray[np.int32]) -> Counter[int]:
    values, counts = np.unique(days, return_counts=True)
    return Counter(dict(zip(values.tolist(), counts.tolist(), strict=True)))
