"""Columns that the schema says are never empty, where no reader of files has looked."""

from collections.abc import Sequence

import ibis.expr.types as ir

from training.data.engines import Engine
from training.data.schema import Field
from training.errors import UserError


def check(engine: Engine, rows: ir.Table, fields: Sequence[Field]) -> None:
    """Raises UserError for the first column that is null or "" somewhere although it is not nullable."""
    never = [field.name for field in fields if not field.nullable]
    empty = {name: _empty(rows[name]) for name in never}
    if not never:
        return
    [counts] = engine.read(rows.agg(**{name: value.sum().fill_null(0) for name, value in empty.items()})).to_pylist()
    for name in never:
        if counts[name]:
            some = f"{counts[name]:,} row{'s' * (counts[name] != 1)}"
            first = engine.read(rows.filter(empty[name]).limit(1)).to_pylist()[0]
            raise UserError(
                f"{engine.place(first)}: column {name} is empty, in {some}, and the schema says that it never is. "
                "Declare it with nullable=True, or leave these rows out in a query."
            )


def _empty(value: ir.Value) -> ir.BooleanValue:
    return (value.fill_null("") == "") if value.type().is_string() else value.isnull()
