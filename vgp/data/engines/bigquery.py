"""BigQuery as an engine: expressions run in BigQuery, and only finished rows are downloaded.

A table is read at its pinned moment; a view or a query is computed once, into a temporary table, and read from there.
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
from vgp.data.engine import SOURCE, Row, Uncomputable, query_repeated_values
from vgp.data.engines.bigquery_source import NEVER_EMPTY, Source, open_sources, row_of
from vgp.data.events import Events, sum_windows
from vgp.data.schema import Field, arrow_schema, canonical_schema
from vgp.data.sources.table_files import NoRows
from vgp.protocol.manifest import SourceFile


class BigQuery:
    """The tables and jobs of one preparation; see `vgp.data.engine.Engine`."""

    dialect = "bigquery"
    #: None; only files have notes.
    notes: tuple[str, ...] = ()

    def __init__(self, jobs: Jobs, sources: Sequence[Source], fields: Sequence[Field]):
        self._jobs, self._relations, self._fields = jobs, sources, fields
        self._source = ibis.table(canonical_schema(fields), name=SOURCE)
        self._own: dict[str, TableName] = {}
        self._source_sql = "\nUNION ALL\n".join(source.select(fields) for source in sources)

    @classmethod
    @contextmanager
    def open(
        cls,
        relations: Sequence[PinnedRelation],
        fields: Sequence[Field],
        settings: Settings,
        owner: Owner,
        *,
        values: bool = True,
    ) -> Iterator["BigQuery"]:
        """Opens the engine over these relations, each of which must have the columns of `fields`.

        Args:
            values: Whether to check all values against `fields`, which reads them.

        Raises:
            UserError: A relation cannot be read at its pinned moment, lacks a column, has a missing value in a column
                that is not nullable, has no rows, or is larger than the settings allow. Only the last three may have
                been billed.
        """
        with stoppable(), open_sources(relations, fields, settings, owner) as (jobs, sources):
            engine = cls(jobs, sources, fields)
            if values:
                engine._check_values()
            yield engine
            line = f"BigQuery: the queries of this step read {size(jobs.read_bytes)}."
            print(line, file=sys.stderr, flush=True)

    @property
    def sources(self) -> tuple[SourceFile, ...]:
        return tuple(source.file for source in self._relations)

    def source(self) -> ir.Table:
        return self._source

    def create(self, name: str, expression: ir.Table) -> ir.Table:
        with _explaining_refusals():
            table = self._jobs.table(name, self._compile_sql(expression), name)
        self._own[table.table] = table
        return ibis.table(expression.schema(), name=table.table, catalog=table.project, database=table.dataset)

    def create_view(self, name: str, expression: ir.Table) -> ir.Table:
        return expression

    def create_window_sums(self, name: str, sums: ir.Table, events: Events) -> ir.Table:
        return self.create(f"{name}_lately", sum_windows(sums, name, events))

    def read(self, expression: ir.Table) -> pa.Table:
        with _explaining_refusals():
            rows = self._jobs.rows("a query of the data", self._compile_sql(expression))
        return pa.Table.from_batches([_cast(batch, expression) for batch in rows.to_batches()],
                                     _build_schema(expression))  # fmt: skip

    def has_few_values(self, rows: ir.Table, columns: Sequence[str]) -> bool:
        """Returns True, because a query over counts is billed for fewer bytes than one over the source."""
        return True

    def find_repeated_values(self, rows: ir.Table, column: str, most: int) -> list[int]:
        return list(self.read(query_repeated_values(rows, column, most))[column].to_pylist())

    def batches(self, expression: ir.Table) -> Generator[pa.RecordBatch]:
        """Yields all rows, in no order; the caller sorts them if needed."""
        operation = expression.op()
        existing = self._own.get(operation.name) if isinstance(operation, ops.UnboundTable) else None
        with _explaining_refusals():
            table = existing or self._jobs.table("rows", self._compile_sql(expression), "rows")
        rows = stream.open_rows(table.uri, self._jobs.project, table, expression.columns)
        for batch in rows.batches():
            if batch.num_rows:
                yield _cast(batch, expression)

    def place(self, row: Row) -> str:
        return row_of(", ".join(source.name for source in self._relations), row)

    def _compile_sql(self, expression: ir.Table) -> str:
        """Returns the expression's SQL, with the relations at their pinned moments as its source."""
        text = str(ibis.to_sql(expression, dialect="bigquery"))
        names = {table.name for table in expression.op().find(ops.UnboundTable)}
        if SOURCE not in names:
            return text
        source = f"WITH `{SOURCE}` AS (\n{self._source_sql}\n)"
        other_ctes = re.match(r"\s*WITH\s", text)
        return f"{source},\n{text[other_ctes.end() :]}" if other_ctes else f"{source}\n{text}"

    def _check_values(self) -> None:
        """Raises UserError if there are no rows, or a value is missing or does not fit its declared type."""
        wrong = {field.name: _is_wrong(self._source[field.name], field) for field in self._fields}
        conditions = {name: condition for name, condition in wrong.items() if condition is not None}
        counts = self.read(
            self._source.agg(
                **{"rows": self._source.count(), **{f"n{i}": c.sum() for i, c in enumerate(conditions.values())}}
            )
        ).to_pylist()[0]
        if not counts["rows"]:
            raise NoRows(f"{', '.join(source.name for source in self._relations)}: there are no rows.")
        for i, (name, condition) in enumerate(conditions.items()):
            if counts[f"n{i}"]:
                row = self.read(self._source.filter(condition).limit(1)).to_pylist()[0]
                raise UserError(self._describe_failure(name, row, counts[f"n{i}"]))

    def _describe_failure(self, name: str, row: Row, count: int) -> str:
        field = next(field for field in self._fields if field.name == name)
        value = row[name]
        others = {column: value for column, value in row.items() if column != name and value not in (None, "")}
        more = f" {count - 1:,} more rows have this problem." if count > 1 else ""
        if value is None or value == "":
            return f"{self.place(others)}: column {name} is empty, {NEVER_EMPTY}{more}"
        fix = " Declare it as pa.float64()." if isinstance(value, float) else ""
        return f"{self.place(others)}, column {name}: {value} is not of type {field.type}.{fix}{more}"


@contextmanager
def _explaining_refusals() -> Iterator[None]:
    """Turns a query that BigQuery or Ibis refuses into Uncomputable."""
    try:
        yield
    except client.Refused as error:
        raise Uncomputable(str(error), error.reason) from None
    except ibis.IbisError as error:
        reason = " ".join(str(error).split())
        raise Uncomputable(f"BigQuery cannot compute that: {reason}", reason) from None


def _is_wrong(column: ir.Value, field: Field) -> ir.BooleanValue | None:
    """Returns whether the schema forbids a value, as an expression; None if it allows every value."""
    conditions = []
    if not field.nullable:
        conditions.append((column == "") if column.type().is_string() else column.isnull())
    if pa.types.is_float32(field.type) or pa.types.is_decimal(field.type):
        conditions.append(_is_rounded(column, field.type).fill_null(False))
    if pa.types.is_integer(field.type) and field.type.bit_width < 64:
        bits, signed = field.type.bit_width, pa.types.is_signed_integer(field.type)
        least, most = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
        conditions.append(((column < least) | (column > most)).fill_null(False))
    if not conditions:
        return None
    return conditions[0] if len(conditions) == 1 else conditions[0] | conditions[1]


def _is_rounded(column: ir.FloatingValue, kind: pa.DataType) -> ir.BooleanValue:
    """Returns whether a float64 changes or overflows as a float32 or a decimal, as it would in files.

    A float32 has 24 bits: a number fits if it equals the upper half of Dekker's splitting (Numerische Mathematik 18,
    1971).
    """
    if pa.types.is_float32(kind):
        bound = float(np.finfo(np.float32).max)
        near = (column.abs() <= bound).ifelse(column, 0.0)
        turned = near * (2.0**29 + 1)
        return cast(ir.BooleanValue, ((turned - (turned - near)) != near) | (column.abs() > bound))
    scale, bound = 10.0**kind.scale, 10.0 ** (kind.precision - kind.scale)
    # From 2**51 on, a float64 has no digits after the decimal's scale.
    near = ((column * scale).abs() < 2.0**51).ifelse(column, 0.0)
    return cast(ir.BooleanValue, ((near * scale).round() / scale != near) | (column.abs() >= bound))


def _build_schema(expression: ir.Table) -> pa.Schema:
    return arrow_schema(expression.schema())


def _cast(batch: pa.RecordBatch, expression: ir.Table) -> pa.RecordBatch:
    """Casts the batch to the expression's types and order, because BigQuery has one integer and one float type, and
    ignores the case of names."""
    schema = _build_schema(expression)
    positions = {name.lower(): position for position, name in enumerate(batch.schema.names)}
    columns = [
        batch.column(positions[f.name.lower()]).cast(f.type, safe=not pa.types.is_floating(f.type)) for f in schema
    ]
    return pa.record_batch(columns, schema=pa.schema([pa.field(f.name, f.type) for f in schema]))
