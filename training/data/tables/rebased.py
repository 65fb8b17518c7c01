"""A task's methods are asked over a table that has only the columns they may see; what they say is then said of the
table that has more."""

from collections.abc import Iterable
from typing import TypeVar, cast

import ibis
import ibis.expr.types as ir

Expression = TypeVar("Expression", ir.Value, ir.Table)


def visible(table: ir.Table, names: Iterable[str]) -> ir.Table:
    """A table of these columns alone, which stands for `table`."""
    kinds = table.schema()
    return ibis.table(ibis.schema({name: kinds[name] for name in names}), name="rows")


def onto(table: ir.Table, stand_in: ir.Table, expression: Expression) -> Expression:
    """The expression over `stand_in`, over `table`."""
    return cast(Expression, expression.op().replace({stand_in.op(): table.op()}).to_expr())
