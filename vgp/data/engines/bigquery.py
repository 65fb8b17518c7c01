"""BigQuery as an engine: expressions run where the tables lie, and only finished rows come here.

A table is read as it was pinned; a view or a query is computed once, into a table of ours, and read from there.
"""

import re
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import cast

import ibis
import ibis.expr.operations as ops
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from vgp.base.engine_settings import BigQuery as Settings
from vgp.base.exits import UserError
from vgp.base.storage.bigquery import client, stream
from vgp.base.storage.bigquery.jobs import Jobs, Owner, size, stoppable
from vgp.base.storage.bigquery.names import TableName
from vgp.base.storage.pinned import PinnedRelation
from vgp.data.engine import SOURCE, Row, Uncomputable, repeated
from vgp.data.engines.bigquery_source import NEVER_EMPTY, Source, opened_sources, row_of
from vgp.data.events import Events, windowed
from vgp.data.schema import Field, arrow_schema, canonical_schema
from vgp.data.sources.files import NoRows
from vgp.protocol.manifest import SourceFile


class BigQuery:
    """One preparation's tables and jobs; see `vgp.data.engine.Engine`."""

    dialect = "bigquery"
    #: As of files.
    notes: tuple[str, ...] = ()

    def __init__(self, jobs: Jobs, sources: Sequence[Source], fields: Sequence[Field]):
        self._jobs, self._relations, self._fields = jobs, sources, fields
        self._source = ibis.table(canonical_schema(fields), name=SOURCE)
        self._own: dict[str, TableName] = {}
        self._source_sql = "\nUNION ALL\n".join(source.select(fields) for source in sources)

    @classmethod
    @contextmanager
    def opened(
        cls,
        relations: Sequence[PinnedRelation],
        fields: Sequence[Field],
        settings: Settings,
        owner: Owner,
        *,
        values: bool = True,
    ) -> Iterator["BigQuery"]:
        """The engine over these relations, each of which has the columns of `fields`.

        Args:
            values: Whether all values are checked against `fields`, which reads them.

        Raises:
            UserError: a relation cannot be read as it was pinned, lacks a column, holds an empty value where there may
                be none, has no rows, or reading it is more than the settings allow. Nothing was billed but for the
                last three.
        """
        with stoppable(), opened_sources(relations, fields, settings, owner) as (jobs, sources):
            engine = cls(jobs, sources, fields)
            if values:
                engine._check_values()
            yield engine
            said = f"BigQuery: the queries of this step read {size(jobs.read_bytes)}."
            print(said, file=sys.stderr, flush=True)

    @property
    def sources(self) -> tuple[SourceFile, ...]:
        return tuple(source.file for source in self._relations)

    def source(self) -> ir.Table:
        return self._source

    def create(self, name: str, expression: ir.Table) -> ir.Table:
        with _refusals_named():
            table = self._jobs.table(name, self._sql(expression), name)
        self._own[table.table] = table
        return ibis.table(expression.schema(), name=table.table, catalog=table.project, database=table.dataset)

    def named(self, name: str, expression: ir.Table) -> ir.Table:
        return expression

    def looked_back(self, name: str, sums: ir.Table, events: Events) -> ir.Table:
        return self.create(f"{name}_lately", windowed(sums, name, events))

    def read(self, expression: ir.Table) -> pa.Table:
        with _refusals_named():
            rows = self._jobs.rows("a query of the data", self._sql(expression))
        return pa.Table.from_batches([_typed(batch, expression) for batch in rows.to_batches()],
                                     _schema(expression))  # fmt: skip

    def few(self, rows: ir.Table, columns: Sequence[str]) -> bool:
        """Always: each query over the source is billed by the bytes of its columns, and one over few rows by few."""
        return True

    def repeated(self, rows: ir.Table, column: str, most: int) -> list[int]:
        return list(self.read(repeated(rows, column, most))[column].to_pylist())

    def batches(self, expression: ir.Table) -> Generator[pa.RecordBatch]:
        """All rows, in no order: where one is needed, it is made here."""
        operation = expression.op()
        made = self._own.get(operation.name) if isinstance(operation, ops.UnboundTable) else None
        with _refusals_named():
            table = made or self._jobs.table("rows", self._sql(expression), "rows")
        rows = stream.open_rows(table.uri, self._jobs.project, table, expression.columns)
        for batch in rows.batches():
            if batch.num_rows:
                yield _typed(batch, expression)

    def place(self, row: Row) -> str:
        return row_of(", ".join(source.name for source in self._relations), row)

    def _sql(self, expression: ir.Table) -> str:
        """The expression's SQL; its source is what the relations are at their moments."""
        text = str(ibis.to_sql(expression, dialect="bigquery"))
        names = {table.name for table in expression.op().find(ops.UnboundTable)}
        if SOURCE not in names:
            return text
        first = f"WITH `{SOURCE}` AS (\n{self._source_sql}\n)"
        with_others = re.match(r"\s*WITH\s", text)
        return f"{first},\n{text[with_others.end() :]}" if with_others else f"{first}\n{text}"

    def _check_values(self) -> None:
        """Raises UserError if there is no row, or a value is missing or too large for what the schema says."""
        wrong = {field.name: _wrong(self._source[field.name], field) for field in self._fields}
        asked = {name: condition for name, condition in wrong.items() if condition is not None}
        counts = self.read(
            self._source.agg(
                **{"rows": self._source.count(), **{f"n{i}": c.sum() for i, c in enumerate(asked.values())}}
            )
        ).to_pylist()[0]
        if not counts["rows"]:
            raise NoRows(f"{', '.join(source.name for source in self._relations)}: there are no rows.")
        for i, (name, condition) in enumerate(asked.items()):
            if counts[f"n{i}"]:
                row = self.read(self._source.filter(condition).limit(1)).to_pylist()[0]
                raise UserError(self._complaint(name, row, counts[f"n{i}"]))

    def _complaint(self, name: str, row: Row, count: int) -> str:
        field = next(field for field in self._fields if field.name == name)
        value = row[name]
        others = {column: value for column, value in row.items() if column != name and value not in (None, "")}
        more = f" So do {count - 1:,} more." if count > 1 else ""
        if value is None or value == "":
            return f"{self.place(others)}: column {name} is empty, {NEVER_EMPTY}{more}"
        fix = " Declare it as pa.float64()." if isinstance(value, float) else ""
        return f"{self.place(others)}, column {name}: {value} is not of type {field.type}.{fix}{more}"


@contextmanager
def _refusals_named() -> Iterator[None]:
    """Raises Uncomputable for what BigQuery, or Ibis in its name, refuses."""
    try:
        yield
    except client.Refused as error:
        raise Uncomputable(str(error), error.reason) from None
    except ibis.IbisError as error:
        reason = " ".join(str(error).split())
        raise Uncomputable(f"BigQuery cannot compute that: {reason}", reason) from None


def _wrong(column: ir.Value, field: Field) -> ir.BooleanValue | None:
    """Whether a value is none that the schema allows; None if every value is."""
    conditions = []
    if not field.nullable:
        conditions.append((column == "") if column.type().is_string() else column.isnull())
    if pa.types.is_float32(field.type) or pa.types.is_decimal(field.type):
        conditions.append(_rounded(column, field.type).fill_null(False))
    if pa.types.is_integer(field.type) and field.type.bit_width < 64:
        bits, signed = field.type.bit_width, pa.types.is_signed_integer(field.type)
        least, most = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
        conditions.append(((column < least) | (column > most)).fill_null(False))
    if not conditions:
        return None
    return conditions[0] if len(conditions) == 1 else conditions[0] | conditions[1]


def _rounded(column: ir.FloatingValue, kind: pa.DataType) -> ir.BooleanValue:
    """Whether files would give another number for a float64, or none: as a float32, or a decimal.

    Of a float32 24 bits count: the upper half of Dekker's splitting (Numerische Mathematik 18, 1971) is the number
    itself if it has no more.
    """
    if pa.types.is_float32(kind):
        bound = float(np.finfo(np.float32).max)
        near = (column.abs() <= bound).ifelse(column, 0.0)
        turned = near * (2.0**29 + 1)
        return cast(ir.BooleanValue, ((turned - (turned - near)) != near) | (column.abs() > bound))
    scale, bound = 10.0**kind.scale, 10.0 ** (kind.precision - kind.scale)
    # Beyond, a float64 has no digits behind those.
    near = ((column * scale).abs() < 2.0**51).ifelse(column, 0.0)
    return cast(ir.BooleanValue, ((near * scale).round() / scale != near) | (column.abs() >= bound))


def _schema(expression: ir.Table) -> pa.Schema:
    return arrow_schema(expression.schema())


def _typed(batch: pa.RecordBatch, expression: ir.Table) -> pa.RecordBatch:
    """The batch in the expression's types and order: BigQuery has one kind of whole number, and one of float, and takes
    names in other letters for the same."""
    wanted = _schema(expression)
    given = {name.lower(): position for position, name in enumerate(batch.schema.names)}
    columns = [batch.column(given[f.name.lower()]).cast(f.type, safe=not pa.types.is_floating(f.type)) for f in wanted]
    return pa.record_batch(columns, schema=pa.schema([pa.field(f.name, f.type) for f in wanted]))
