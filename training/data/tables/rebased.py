"""A task's methods are asked over a table that has only the columns they may see; what they say is then said of the
table that has more."""

import re
from collections.abc import Iterable
from typing import Any, TypeVar, cast

import ibis
import ibis.expr.types as ir

from training.data.tabular import TabularTask
from training.errors import UserError
from training.options import nearest

#: What Ibis says of a column that a table does not have.
NO_COLUMN = re.compile(r"(?:'Table' object has no attribute|Column) '(.*?)'")
Expression = TypeVar("Expression", ir.Value, ir.Table)


def visible(table: ir.Table, names: Iterable[str]) -> ir.Table:
    """A table of these columns alone, which stands for `table`."""
    kinds = table.schema()
    return ibis.table(ibis.schema({name: kinds[name] for name in names}), name="rows")


def said(task: TabularTask, method: str, rows: ir.Table) -> Any:
    """What a method of the task says of `rows`.

    Raises:
        UserError: it names a column that there is not, or that it may not see; or Ibis refuses what it says.
    """
    where = f"{type(task).__name__}.{method}"
    try:
        return getattr(task, method)(rows)
    except (AttributeError, ibis.IbisError) as error:
        message = " ".join(str(error).split())
        asked = NO_COLUMN.match(message)
        if asked and asked[1] in {field.name for field in task.schema if field.known == "after"}:
            raise UserError(
                f"{where} asks for {asked[1]}, which is known only after the outcome: the model would learn from what "
                "it is to predict."
            ) from None
        if asked:
            raise UserError(
                f"{where}: the rows have no column {asked[1]!r}. {nearest(asked[1], rows.columns)}"
            ) from None
        if isinstance(error, ibis.IbisError):
            raise UserError(f"{where}: {message[:500]}") from None
        raise


def onto(table: ir.Table, stand_in: ir.Table, expression: Expression) -> Expression:
    """The expression over `stand_in`, over `table`."""
    return cast(Expression, expression.op().replace({stand_in.op(): table.op()}).to_expr())
