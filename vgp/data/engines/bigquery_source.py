"""What BigQuery's tables and queries are to a preparation: their columns checked, their cost told, their rows read."""

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
from vgp.data.sources.files import NoRows
from vgp.protocol.manifest import SourceFile

if TYPE_CHECKING:
    from google.cloud.bigquery import SchemaField  # takes half a second to import, and is for queries alone

#: BigQuery's types that may stand for a canonical one: as they are, or through a cast that loses nothing that counts.
KINDS: Mapping[str, tuple[str, ...]] = {
    "int64": ("INTEGER", "INT64"),
    "float64": ("FLOAT", "FLOAT64", "INTEGER", "INT64", "NUMERIC", "BIGNUMERIC"),
    "string": ("STRING",),
    "boolean": ("BOOLEAN", "BOOL"),
    "date": ("DATE",),
    "timestamp": ("DATETIME",),
    "timestamp('UTC')": ("TIMESTAMP",),
}
#: What a query casts a column of another type to.
CASTS = {
    "int64": "INT64", "float64": "FLOAT64", "string": "STRING", "boolean": "BOOL", "date": "DATE",
    "timestamp": "DATETIME", "timestamp('UTC')": "TIMESTAMP",
}  # fmt: skip


@dataclass(frozen=True)
class Source:
    """One relation, as it is read: its SELECT at the pinned moments, or the table that holds what it gave."""

    relation: PinnedRelation
    sql: str
    estimate: Estimate
    moments: Mapping[TableName, int]
    #: The table of ours, of what is no table as it is.
    made: TableName | None = None

    @property
    def name(self) -> str:
        return self.relation.name

    @property
    def file(self) -> SourceFile:
        return SourceFile(path=self.name, bytes=self.estimate.bytes, sha256=self.relation.sha256)

    @property
    def columns(self) -> dict[str, "SchemaField"]:
        """Its columns by their names in lower case: to BigQuery they are the same."""
        return {field.name.lower(): field for field in self.estimate.fields}

    def stored(self, field: Field) -> str:
        """The column's own name, which may have other letters."""
        return str(self.columns[field.name.lower()].name)

    def check(self, fields: Sequence[Field]) -> None:
        """Raises UserError if a declared column is missing, or of a type that cannot stand for the declared one."""
        present = self.columns
        known = {field.name: present[field.name.lower()] for field in fields if field.name.lower() in present}
        spare = {column.name for column in self.estimate.fields} - {column.name for column in known.values()}
        schema.check_header(self.name, [*known, *sorted(spare)], fields)
        for field in fields:
            if field.name not in known:  # an optional one
                continue
            column, kind = known[field.name], canonical_type(field)
            given = "ARRAY" if column.mode == "REPEATED" else column.field_type
            if given not in KINDS[kind]:
                raise UserError(
                    f"{self.name}: column {column.name} is of BigQuery's type {given}, and the schema says "
                    f"{field.type}, which is {CASTS[kind]} there. Declare it as it is, or convert it in a .sql file: "
                    f"SELECT * REPLACE (CAST({column.name} AS {CASTS[kind]}) AS {column.name}) FROM ..."
                )

    def select(self, fields: Sequence[Field]) -> str:
        """SQL of the declared columns in their canonical types."""
        inner = f"SELECT * FROM {self.made.sql}" if self.made else self.sql
        columns = ",\n  ".join(f"{self._cast(field)} AS `{field.name}`" for field in fields)
        return f"SELECT\n  {columns}\nFROM (\n{inner}\n)"

    def holds(self, field: Field) -> bool:
        """Whether there is a column for the field, which may be optional."""
        return field.name.lower() in self.columns

    def _cast(self, field: Field) -> str:
        kind = canonical_type(field)
        if not self.holds(field):
            return "''" if kind == "string" else f"CAST(NULL AS {CASTS[kind]})"
        column = self.columns[field.name.lower()]
        name = f"`{column.name}`"
        if kind == "string":
            return f"COALESCE({name}, '')"
        if kind == "float64":  # what is no number is missing
            given = name if column.field_type in ("FLOAT", "FLOAT64") else f"CAST({name} AS FLOAT64)"
            return f"IF(IS_NAN({given}), NULL, {given})" if given == name else given
        return name

    def rows(self, jobs: Jobs, fields: Sequence[Field]) -> stream.Rows:
        """The declared columns, streamed here."""
        table, moment, restriction = self.made, 0, ""
        if not table:
            table = names.parse(self.relation.tables[0].name)
            moment, restriction = self.moments[table], self.relation.restriction
        columns = [self.stored(field) for field in fields if self.holds(field)]
        return stream.open_rows(self.name, jobs.project, table, columns, as_of_ms=moment, restriction=restriction)


@contextmanager
def opened_sources(
    relations: Sequence[PinnedRelation], fields: Sequence[Field], settings: Settings, owner: Owner
) -> Iterator[tuple[Jobs, list[Source]]]:
    """The relations at their pinned moments, checked; tables of ours go when the work is done, and expire otherwise."""
    names.check_one_place(relations, settings.location)
    jobs = Jobs(settings, relations[0].location, owner)
    sources = looked_at(relations, fields, jobs)
    total = check_size(sources, jobs)
    print(f"BigQuery: reading {', '.join(s.name for s in sources)} once is {size(total)}.", file=sys.stderr, flush=True)
    yield jobs, [_kept(source, jobs) for source in sources]
    jobs.drop()


def looked_at(relations: Sequence[PinnedRelation], fields: Sequence[Field], jobs: Jobs) -> list[Source]:
    """The relations with what a dry run tells of each; their columns are checked. Nothing is billed."""
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
    """The bytes of the sources' declared columns. Raises UserError if these are more than the step may read."""
    total = sum(source.estimate.bytes for source in sources)
    jobs.check(sources[0].name if len(sources) == 1 else f"{len(sources)} sources", total)
    return total


def _kept(source: Source, jobs: Jobs) -> Source:
    """The source; what is no table as it is is computed once, so that all that is asked of it has the same rows."""
    if source.relation.plain:
        return source
    made = jobs.table(source.name, source.sql, "source")
    return Source(source.relation, source.sql, source.estimate, source.moments, made)


class TableRows:
    """Rows of BigQuery for an engine on this machine, in the form of `vgp.data.sources.files.Files`."""

    def __init__(self, jobs: Jobs, sources: Sequence[Source], fields: Sequence[Field]):
        self._jobs, self._sources, self._fields = jobs, sources, fields

    #: As of files.
    notes: tuple[str, ...] = ()

    @property
    def sources(self) -> tuple[SourceFile, ...]:
        return tuple(source.file for source in self._sources)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The declared columns, in no order, with `_file` and `_record`: the source, and the row as it came.

        Args:
            columns: Some of the declared ones; None = all.

        Raises:
            UserError: a value is missing where one must be, or there is no row.
        """
        fields = [field for field in self._fields if columns is None or field.name in columns]
        total = 0
        for number, source in enumerate(self._sources):
            record = 0
            for batch in source.rows(self._jobs, fields).batches():
                yield _placed(source, batch, fields, number, record)
                record += batch.num_rows
            total += record
        if not total:
            raise NoRows(f"{', '.join(source.name for source in self._sources)}: there are no rows.")

    def place(self, file: int, record: int) -> str:
        return f"{self._sources[file].name}, row {record + 1:,} as they were read"


def _placed(source: Source, batch: pa.RecordBatch, fields: Sequence[Field], number: int, first: int) -> pa.RecordBatch:
    columns = [_column(source, batch, field, fields) for field in fields]
    count = batch.num_rows
    places = [pa.array(np.full(count, number, np.int32)), pa.array(np.arange(first, first + count))]
    return pa.record_batch([*columns, *places], [*(field.name for field in fields), "_file", "_record"])


def _column(source: Source, batch: pa.RecordBatch, field: Field, fields: Sequence[Field]) -> pa.Array:
    """One column in its declared type. Raises UserError for a value that it has no room for, or that is missing."""
    if not source.holds(field):
        typed = pa.nulls(batch.num_rows, field.type)
        return pc.fill_null(typed, "") if pa.types.is_string(field.type) else typed
    try:
        exact = pa.types.is_integer(field.type) or pa.types.is_decimal(field.type)
        typed = batch.column(source.stored(field)).cast(field.type, safe=exact)
    except pa.ArrowInvalid as error:
        raise UserError(f"{source.name}, column {field.name}: {error}") from None
    if pa.types.is_floating(field.type):
        typed = pc.if_else(pc.is_nan(typed), None, typed)
    if pa.types.is_string(field.type):
        typed = pc.fill_null(typed, "")
    if not field.nullable:
        position = pc.index(pc.equal(typed, "") if pa.types.is_string(field.type) else pc.is_null(typed), True).as_py()
        if position >= 0:
            there = [other for other in fields if source.holds(other)]
            row = {other.name: batch.column(source.stored(other))[position].as_py() for other in there}
            raise UserError(f"{row_of(source.name, row)}: column {field.name} is empty, {NEVER_EMPTY}")
    return typed


#: Columns of a row that are shown to tell which it is.
MOST_SHOWN = 6
NEVER_EMPTY = "and the schema says that it never is. Declare it as nullable, or leave such rows out with a .sql file."


def row_of(name: str, row: Row) -> str:
    """Which row of a table: tables have no order, so its first values tell."""
    shown = [f"{column}={value}" for column, value in row.items() if value not in (None, "") and column[0] != "_"]
    return f"a row of {name} with {', '.join(shown[:MOST_SHOWN])}"


@contextmanager
def opened_rows(
    relations: Sequence[PinnedRelation], fields: Sequence[Field], settings: Settings, owner: Owner
) -> Iterator[TableRows]:
    """The rows of these relations, for as long as the block runs. Raises as `opened_sources`."""
    with stoppable(), opened_sources(relations, fields, settings, owner) as (jobs, sources):
        yield TableRows(jobs, sources, fields)
