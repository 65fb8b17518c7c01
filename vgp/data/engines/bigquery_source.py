"""Tables and queries of BigQuery as a source: checks their columns, estimates their cost, and reads their rows."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vgp.base.engine_settings import BigQuery as Settings
from vgp.base.exits import UserError
from vgp.base.storage.bigquery import names, stream
from vgp.base.storage.bigquery.jobs import Estimate, Jobs, Owner, size, stoppable
from vgp.base.storage.bigquery.lookup import Lookup
from vgp.base.storage.bigquery.names import TableName
from vgp.base.storage.pinned import PinnedRelation
from vgp.data import schema
from vgp.data.engine import Row
from vgp.data.schema import Field, canonical_type
from vgp.data.sources.table_files import NoRows
from vgp.protocol.manifest import SourceFile

if TYPE_CHECKING:
    from google.cloud.bigquery import SchemaField  # takes half a second to import, and only queries need it

#: BigQuery's types for each canonical type, unchanged or through a cast without a loss that matters.
KINDS: Mapping[str, tuple[str, ...]] = {
    "int64": ("INTEGER", "INT64"),
    "float64": ("FLOAT", "FLOAT64", "INTEGER", "INT64", "NUMERIC", "BIGNUMERIC"),
    "string": ("STRING",),
    "boolean": ("BOOLEAN", "BOOL"),
    "date": ("DATE",),
    "timestamp": ("DATETIME",),
    "timestamp('UTC')": ("TIMESTAMP",),
}
#: BigQuery's type for the cast to each canonical type.
CASTS = {
    "int64": "INT64", "float64": "FLOAT64", "string": "STRING", "boolean": "BOOL", "date": "DATE",
    "timestamp": "DATETIME", "timestamp('UTC')": "TIMESTAMP",
}  # fmt: skip


@dataclass(frozen=True)
class Source:
    """A relation to read: its SELECT at the pinned moments, or the temporary table with its result."""

    relation: PinnedRelation
    sql: str
    estimate: Estimate
    moments: Mapping[TableName, int]
    #: The temporary table with the result of a view or query.
    made: TableName | None = None

    @property
    def name(self) -> str:
        return self.relation.name

    @property
    def file(self) -> SourceFile:
        return SourceFile(path=self.name, bytes=self.estimate.bytes, sha256=self.relation.sha256)

    @property
    def columns(self) -> dict[str, "SchemaField"]:
        """The columns by their names in lower case, because BigQuery ignores the case of names."""
        return {field.name.lower(): field for field in self.estimate.fields}

    def find_stored_name(self, field: Field) -> str:
        """Returns the column's name in BigQuery, which may differ in case."""
        return str(self.columns[field.name.lower()].name)

    def check(self, fields: Sequence[Field]) -> None:
        """Raises UserError if a declared column is missing, or its type cannot be converted to the declared one."""
        present = self.columns
        known = {field.name: present[field.name.lower()] for field in fields if field.name.lower() in present}
        spare = {column.name for column in self.estimate.fields} - {column.name for column in known.values()}
        schema.check_header(self.name, [*known, *sorted(spare)], fields)
        for field in fields:
            if field.name not in known:  # optional
                continue
            column, kind = known[field.name], canonical_type(field)
            stored = "ARRAY" if column.mode == "REPEATED" else column.field_type
            if stored not in KINDS[kind]:
                raise UserError(
                    f"{self.name}: column {column.name} has BigQuery's type {stored}, but the schema declares "
                    f"{field.type}, which is {CASTS[kind]} there. Declare its type, or convert it in a .sql file: "
                    f"SELECT * REPLACE (CAST({column.name} AS {CASTS[kind]}) AS {column.name}) FROM ..."
                )

    def select(self, fields: Sequence[Field]) -> str:
        """Returns the SQL that selects the declared columns in their canonical types."""
        inner = f"SELECT * FROM {self.made.sql}" if self.made else self.sql
        columns = ",\n  ".join(f"{self._cast(field)} AS `{field.name}`" for field in fields)
        return f"SELECT\n  {columns}\nFROM (\n{inner}\n)"

    def holds(self, field: Field) -> bool:
        """Returns whether the source has a column for the field, which may be optional."""
        return field.name.lower() in self.columns

    def _cast(self, field: Field) -> str:
        kind = canonical_type(field)
        if not self.holds(field):
            return "''" if kind == "string" else f"CAST(NULL AS {CASTS[kind]})"
        column = self.columns[field.name.lower()]
        name = f"`{column.name}`"
        if kind == "string":
            return f"COALESCE({name}, '')"
        if kind == "float64":  # NaN = missing
            is_float = column.field_type in ("FLOAT", "FLOAT64")
            return f"IF(IS_NAN({name}), NULL, {name})" if is_float else f"CAST({name} AS FLOAT64)"
        return name

    def rows(self, jobs: Jobs, fields: Sequence[Field]) -> stream.Rows:
        """Opens a stream of the declared columns."""
        table, moment, restriction = self.made, 0, ""
        if not table:
            table = names.parse(self.relation.tables[0].name)
            moment, restriction = self.moments[table], self.relation.restriction
        columns = [self.find_stored_name(field) for field in fields if self.holds(field)]
        return stream.open_rows(self.name, jobs.project, table, columns, as_of_ms=moment, restriction=restriction)


@contextmanager
def open_sources(
    relations: Sequence[PinnedRelation], fields: Sequence[Field], settings: Settings, owner: Owner
) -> Iterator[tuple[Jobs, list[Source]]]:
    """Opens the relations at their pinned moments and checks them. Drops the temporary tables at the end of the block;
    after a failure they expire."""
    names.check_one_place(relations, settings.location)
    jobs = Jobs(settings, relations[0].location, owner)
    sources = check_relations(relations, fields, jobs)
    total = check_size(sources, jobs)
    names_read = ", ".join(source.name for source in sources)
    print(f"BigQuery: reading {names_read} once takes {size(total)}.", file=sys.stderr, flush=True)
    yield jobs, [_materialize(source, jobs) for source in sources]
    jobs.drop()


def check_relations(relations: Sequence[PinnedRelation], fields: Sequence[Field], jobs: Jobs) -> list[Source]:
    """Checks the columns of the relations and estimates their bytes, with dry runs, which are not billed."""
    tables = Lookup(jobs.project)
    moments = tables.moments(relations)
    sources = []
    for relation in relations:
        sql = tables.sql(relation, moments)
        source = Source(relation, sql, jobs.estimate(relation.name, sql), moments)
        source.check(fields)
        narrow = jobs.estimate(relation.name, source.select(fields))
        sources.append(Source(relation, sql, Estimate(narrow.bytes, source.estimate.fields), moments))
    return sources


def check_size(sources: Sequence[Source], jobs: Jobs) -> int:
    """Returns the bytes of the sources' declared columns. Raises UserError if the step may not read so many."""
    total = sum(source.estimate.bytes for source in sources)
    jobs.check(sources[0].name if len(sources) == 1 else f"{len(sources)} sources", total)
    return total


def _materialize(source: Source, jobs: Jobs) -> Source:
    """Computes a view or query once into a temporary table, so that all later queries see the same rows."""
    if source.relation.plain:
        return source
    table = jobs.table(source.name, source.sql, "source")
    return Source(source.relation, source.sql, source.estimate, source.moments, table)


class TableRows:
    """The rows of BigQuery sources for DuckDB, with the interface of `vgp.data.sources.table_files.Files`."""

    def __init__(self, jobs: Jobs, sources: Sequence[Source], fields: Sequence[Field]):
        self._jobs, self._sources, self._fields = jobs, sources, fields

    #: None; only files have notes.
    notes: tuple[str, ...] = ()

    @property
    def sources(self) -> tuple[SourceFile, ...]:
        return tuple(source.file for source in self._sources)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yields the declared columns, in no order, with `_file` (number of the source) and `_record` (of the row).

        Args:
            columns: Some of the declared columns; None = all.

        Raises:
            UserError: A value is missing in a column that is not nullable, or there are no rows.
        """
        fields = [field for field in self._fields if columns is None or field.name in columns]
        total = 0
        for number, source in enumerate(self._sources):
            record = 0
            for batch in source.rows(self._jobs, fields).batches():
                yield _with_places(source, batch, fields, number, record)
                record += batch.num_rows
            total += record
        if not total:
            raise NoRows(f"{', '.join(source.name for source in self._sources)}: there are no rows.")

    def place(self, file: int, record: int) -> str:
        return f"{self._sources[file].name}, row {record + 1:,} in the order of reading"


def _with_places(
    source: Source, batch: pa.RecordBatch, fields: Sequence[Field], number: int, first: int
) -> pa.RecordBatch:
    columns = [_cast_column(source, batch, field, fields) for field in fields]
    count = batch.num_rows
    places = [pa.array(np.full(count, number, np.int32)), pa.array(np.arange(first, first + count))]
    return pa.record_batch([*columns, *places], [*(field.name for field in fields), "_file", "_record"])


def _cast_column(source: Source, batch: pa.RecordBatch, field: Field, fields: Sequence[Field]) -> pa.Array:
    """Casts a column to its declared type. Raises UserError for a value that does not fit, or is missing."""
    if not source.holds(field):
        typed = pa.nulls(batch.num_rows, field.type)
        return pc.fill_null(typed, "") if pa.types.is_string(field.type) else typed
    try:
        exact = pa.types.is_integer(field.type) or pa.types.is_decimal(field.type)
        typed = batch.column(source.find_stored_name(field)).cast(field.type, safe=exact)
    except pa.ArrowInvalid as error:
        raise UserError(f"{source.name}, column {field.name}: {error}") from None
    if pa.types.is_floating(field.type):
        typed = pc.if_else(pc.is_nan(typed), None, typed)
    if pa.types.is_string(field.type):
        typed = pc.fill_null(typed, "")
    if not field.nullable:
        position = pc.index(pc.equal(typed, "") if pa.types.is_string(field.type) else pc.is_null(typed), True).as_py()
        if position >= 0:
            present = [other for other in fields if source.holds(other)]
            row = {other.name: batch.column(source.find_stored_name(other))[position].as_py() for other in present}
            raise UserError(f"{row_of(source.name, row)}: column {field.name} is empty, {NEVER_EMPTY}")
    return typed


#: Columns that identify a row in a message.
MOST_SHOWN = 6
NEVER_EMPTY = "but the schema does not allow it. Declare it as nullable, or leave out these rows with a .sql file."


def row_of(name: str, row: Row) -> str:
    """Describes a row by its first values, because tables have no order."""
    values = [f"{column}={value}" for column, value in row.items() if value not in (None, "") and column[0] != "_"]
    return f"a row of {name} with {', '.join(values[:MOST_SHOWN])}"


@contextmanager
def open_table_rows(
    relations: Sequence[PinnedRelation], fields: Sequence[Field], settings: Settings, owner: Owner
) -> Iterator[TableRows]:
    """Opens the rows of these relations for the duration of the block. Raises the errors of `open_sources`."""
    with stoppable(), open_sources(relations, fields, settings, owner) as (jobs, sources):
        yield TableRows(jobs, sources, fields)
