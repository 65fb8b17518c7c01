"""What an engine does with a table's expressions, wherever it runs them, and the columns that all engines give."""

from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import ibis.expr.types as ir
import pyarrow as pa

from vgp.base.exits import UserError

if TYPE_CHECKING:
    from vgp.data.events import Events
    from vgp.protocol.manifest import SourceFile

#: A row that a query has read, by column: each value has the type of its column.
Row: TypeAlias = Mapping[str, Any]
#: The name of the table or view that holds the declared columns in their canonical types.
SOURCE = "source"
#: Columns of a source of files that say where a row came from.
PLACE = ("_file", "_record")
#: The column of a row's number (`vgp.data.identity`): of its key, else of all columns; some sources have it.
ID = "_row_id"
#: The column of the number of what decides a row's split, where declared columns do.
KIND = "_kind"


class Uncomputable(UserError):
    """An engine can read its source, and not compute what is asked of it.

    Args:
        reason: What the engine says, in a line.
    """

    def __init__(self, message: str, reason: str):
        super().__init__(message)
        self.reason = reason


class Engine(Protocol):
    """Runs Ibis expressions over one source. Expressions are unbound: their tables are known by their names.

    Canonical types, on every engine: int64, float64, string ("" = missing), boolean, date, timestamp (naive) and
    timestamp('UTC'); null = missing for all but strings.
    """

    #: What `ibis.to_sql` prints for this engine: duckdb or bigquery.
    dialect: str

    @property
    def sources(self) -> "tuple[SourceFile, ...]":
        """What was read, and its checksums: all that the prepared dataset depends on besides code and options."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What was found in the source and is not usual, one sentence each."""

    def source(self) -> ir.Table:
        """The declared columns in their canonical types. Of files also `_file` and `_record` (int64), which say where
        a row came from; no expression of a task sees them."""

    def create(self, name: str, expression: ir.Table) -> ir.Table:
        """Runs the expression and keeps its result until the engine is closed, or one of the same name is made; the
        unbound table of that name.

        Raises:
            Uncomputable: the engine refuses the expression, or cannot compute it for some row.
            UserError: the disk or the memory is full.
        """

    def named(self, name: str, expression: ir.Table) -> ir.Table:
        """What stands for the expression in others, and is computed wherever it stands; of a name that was given
        before, it is the last one's."""

    def looked_back(self, name: str, sums: ir.Table, events: "Events") -> ir.Table:
        """`vgp.data.events.windowed`, kept as by `create`."""

    def read(self, expression: ir.Table) -> pa.Table:
        """A small result, at once; its columns have the expression's types. Raises as `create`."""

    def few(self, rows: ir.Table, columns: Sequence[str]) -> bool:
        """Whether most rows share these columns with another, so that counting by them first saves work."""

    def repeated(self, rows: ir.Table, column: str, most: int) -> list[int]:
        """The values of a column of whole numbers that occur more than once, of which none is null; the first ones, in
        their order. Raises as `create`."""

    def batches(self, expression: ir.Table) -> Generator[pa.RecordBatch]:
        """A large result, in the order of the expression, if it has one; close it before asking anything else.

        Raises as `create`.
        """

    def place(self, row: Row) -> str:
        """Where a row of the source is, for people: "flights.csv, line 12", or "a row of bq://p.d.t with id=7".

        Args:
            row: What a query has read of it: `_file` and `_record` where the source has them, else the key.
        """


def repeated(rows: ir.Table, column: str, most: int) -> ir.Table:
    """`Engine.repeated` as a query, of one column."""
    counted = rows.group_by(column).agg(_rows=rows.count())
    return counted.filter(counted["_rows"] > 1).order_by(column).limit(most).select(column)
