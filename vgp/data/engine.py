"""The interface of an engine that runs a table's expressions, and the names of the columns that all engines return."""

from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import ibis.expr.types as ir
import pyarrow as pa

from vgp.base.exits import UserError

if TYPE_CHECKING:
    from vgp.data.events import Events
    from vgp.protocol.manifest import SourceFile

#: A row of a query's result, by column: each value has the type of its column.
Row: TypeAlias = Mapping[str, Any]
#: The name of the table or view that holds the declared columns in their canonical types.
SOURCE = "source"
#: Columns of a source of files: the number of a row's file, and of its record in the file.
PLACE = ("_file", "_record")
#: The column of a row's number (`vgp.data.identity`), from its key, else from all columns; some sources have it.
ID = "_row_id"
#: The column of the number of the declared columns that decide a row's split, if any do.
KIND = "_kind"


class Uncomputable(UserError):
    """An expression that an engine refuses or cannot compute, over a source that it can read.

    Args:
        reason: The engine's error in one line.
    """

    def __init__(self, message: str, reason: str):
        super().__init__(message)
        self.reason = reason


class Engine(Protocol):
    """An engine that runs Ibis expressions over one source. Expressions are unbound: they refer to tables by name.

    Canonical types, on every engine: int64, float64, string ("" = missing), boolean, date, timestamp (naive) and
    timestamp('UTC'); null = missing for all but strings.
    """

    #: The SQL dialect for `ibis.to_sql`: duckdb or bigquery.
    dialect: str

    @property
    def sources(self) -> "tuple[SourceFile, ...]":
        """The sources and their checksums: all that the prepared dataset depends on besides code and options."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Unusual facts about the source, one sentence each."""

    def source(self) -> ir.Table:
        """Returns the table of the declared columns in their canonical types. A source of files also has `_file` and
        `_record` (int64), which locate a row; no expression of a task sees them."""

    def create(self, name: str, expression: ir.Table) -> ir.Table:
        """Runs the expression, stores its result as a table and returns the unbound table. The table exists until the
        engine is closed or another one of that name replaces it.

        Raises:
            Uncomputable: The engine refuses the expression, or cannot compute it for a row.
            UserError: The disk or the memory is full.
        """

    def create_view(self, name: str, expression: ir.Table) -> ir.Table:
        """Returns a view of the expression, computed wherever it is used; replaces a view of that name."""

    def create_window_sums(self, name: str, sums: ir.Table, events: "Events") -> ir.Table:
        """Computes `vgp.data.events.sum_windows` and stores the result like `create`."""

    def read(self, expression: ir.Table) -> pa.Table:
        """Returns a small result at once; its columns have the expression's types. Raises the errors of `create`."""

    def has_few_values(self, rows: ir.Table, columns: Sequence[str]) -> bool:
        """Returns whether most rows share these columns with another row, so counting by them first saves work."""

    def find_repeated_values(self, rows: ir.Table, column: str, most: int) -> list[int]:
        """Returns the smallest `most` values that occur more than once in an integer column without nulls, sorted.
        Raises the errors of `create`."""

    def batches(self, expression: ir.Table) -> Generator[pa.RecordBatch]:
        """Yields a large result, in the order of the expression if it has one. Close the generator before another call.

        Raises the errors of `create`.
        """

    def place(self, row: Row) -> str:
        """Describes where a row of the source is: "flights.csv, line 12", or "a row of bq://p.d.t with id=7".

        Args:
            row: `_file` and `_record` if the source has them, else the key.
        """


def query_repeated_values(rows: ir.Table, column: str, most: int) -> ir.Table:
    """Returns the query of `Engine.find_repeated_values`, with one column."""
    counted = rows.group_by(column).agg(_rows=rows.count())
    return counted.filter(counted["_rows"] > 1).order_by(column).limit(most).select(column)
