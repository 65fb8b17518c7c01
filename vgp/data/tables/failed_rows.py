"""Finds the expression of a task that an engine could not compute, and the row.

The search starts after a computation has failed: it computes each expression separately, and bisects the rows of the
first one that fails. The message does not depend on the row at which the engine failed.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import ibis.expr.operations as ops
import ibis.expr.types as ir

from vgp.base.exits import UserError
from vgp.base.text.printable import quote
from vgp.data.columns import Infinite
from vgp.data.engine import ID, PLACE, Engine, Uncomputable
from vgp.data.events import Events
from vgp.data.identity import number_rows
from vgp.data.tables import engine_agreement, features, task_methods
from vgp.data.tabular import TabularTask

#: The name of an expression's column in a table of its values.
VALUE = "_value"
#: The remaining rows are stored after this many bisections, so that the table is read about six times in all.
HALVED = 4
#: The most values of a row in a message.
MOST_SHOWN = 4


@dataclass(frozen=True)
class TaskExpression:
    """An expression of a task."""

    #: The name in messages, such as "Churn.features: spend".
    name: str
    #: The source rows; the table of the expression, which is or derives from these rows; and the expression.
    rows: ir.Table
    table: ir.Table
    value: ir.Value

    def over(self, rows: ir.Table) -> ir.Table:
        """Returns a table with the column `_value`, computed from `rows` instead of all rows."""
        return task_methods.move_to(rows, self.rows, self.table.select(**{VALUE: self.value}))

    @property
    def columns(self) -> list[str]:
        """The columns of the rows that the expression uses."""
        names = _list_columns(self.value.op(), self.rows.op())
        return [name for name in self.rows.columns if name in names and name not in features.INTERNAL]


@contextmanager
def name_errors(task: TabularTask, engine: Engine) -> Iterator[None]:
    """Names the expression and the row of an error inside the block.

    Raises:
        UserError: in place of `Uncomputable` and `Infinite`.
    """
    try:
        yield
    except Uncomputable as error:
        raise UserError(_Search(task, engine).uncomputable(error)) from None
    except Infinite as error:
        raise UserError(_Search(task, engine).infinite(error)) from None


class _Search:
    def __init__(self, task: TabularTask, engine: Engine):
        rows = engine.source()
        if not {ID, *PLACE} & set(rows.columns):
            key = task.key if set(task.key) <= set(rows.columns) else rows.columns
            rows = number_rows(rows, key, engine.dialect, ID)
        self._task, self._engine, self._rows = task, engine, rows
        self._kept = 0
        #: The columns that identify rows.
        self._order = [name for name in PLACE if name in rows.columns] or [ID]

    def uncomputable(self, error: Uncomputable) -> str:
        try:
            for said in self._list_expressions():
                if self._find_failure(said, said.rows):
                    return self._describe_failure(said)
        except Uncomputable as other:  # all events together
            return str(other)
        except UserError:  # the search would exceed a limit on the bytes read
            pass
        return str(error)

    def infinite(self, error: Infinite) -> str:
        for said in self._list_expressions():
            if said.name == self._format_title("features", error.column):
                value = said.value.cast("float64").isinf()
                rows = said.rows.filter(value).order_by(self._order)
                return f"{error} The first is in {self._locate(said, rows.limit(1))}."
        return str(error)

    # ---- the expressions of the task

    def _format_title(self, method: str, name: str) -> str:
        return f"{type(self._task).__name__}.{method}" + (f": {name}" if name else "")

    def _list_expressions(self) -> Iterator[TaskExpression]:
        """Yields the expressions in the order of computation. Raises Uncomputable for the events as a whole."""
        task, rows = self._task, self._rows
        names = [field.name for field in task.schema if field.name in rows.columns]
        seen = task_methods.visible_table(rows, names)
        whole = len(names) == len(task.schema)  # otherwise the source has only the columns of `days`
        for method in ["days"] * bool(task.time) + ["labels"] * whole:
            value = task_methods.move_to(rows, seen, task_methods.call_method(task, method, seen))
            yield TaskExpression(self._format_title(method, ""), rows, rows, value)
        if whole:
            yield from self._list_feature_expressions(seen)

    def _list_feature_expressions(self, seen: ir.Table) -> Iterator[TaskExpression]:
        task, rows = self._task, self._rows
        for name, events in task_methods.call_method(task, "events", seen).items():
            yield from self._list_event_expressions(
                name, replace(events, table=task_methods.move_to(rows, seen, events.table))
            )
        joined = self._join_events()
        for name, value in features.compute_values(task, joined).items():
            yield TaskExpression(self._format_title("features", name), joined, joined, value)

    def _list_event_expressions(self, name: str, events: Events) -> Iterator[TaskExpression]:
        for column in (*events.by, events.hour, *([events.value] if events.value else [])):
            title = f"{self._format_title('events', name)}, {column}"
            yield TaskExpression(title, self._rows, events.table, events.table[column])

    def _join_events(self) -> ir.Table:
        try:
            return features.join_events(self._task, self._engine, self._rows)
        except Uncomputable as error:
            message = f"{self._format_title('events', '')} cannot be computed: {error.reason}"
            raise Uncomputable(message, error.reason) from None

    # ---- the search for the row

    def _find_failure(self, expression: TaskExpression, rows: ir.Table) -> str:
        """Returns the reason why the expression cannot be computed for these rows, or "" if it can."""
        values = expression.over(rows)
        try:
            self._engine.read(values.agg(**{VALUE: values[VALUE].max()}))
        except Uncomputable as error:
            return error.reason
        return ""

    def _describe_failure(self, expression: TaskExpression) -> str:
        for part in (*_split_expression(expression), expression):
            row = self._find_failing_row(part)
            if row is not None and (reason := self._find_failure(part, row)):
                return f"{expression.name} cannot be computed for {self._locate(part, row)}: {_explain_reason(reason)}"
        reason = self._find_failure(expression, expression.rows)
        return f"{expression.name} cannot be computed: {_explain_reason(reason)}"

    def _find_failing_row(self, expression: TaskExpression) -> ir.Table | None:
        """Returns the first row for which the expression fails, as a table, or None if the search reads too much."""
        rows = expression.rows
        try:
            for column in self._order:
                rows = self._narrow(expression, rows, column)
        except Uncomputable:
            raise
        except UserError:  # the search would exceed a limit on the bytes read
            return None
        return rows

    def _narrow(self, expression: TaskExpression, rows: ir.Table, column: str) -> ir.Table:
        """Returns the rows with the first value of the column for which the expression fails."""
        while True:
            ends = rows.agg(low=rows[column].min(), high=rows[column].max())
            low, high = self._engine.read(ends).to_pylist()[0].values()
            if low == high:
                return rows
            for _ in range(HALVED):
                middle = (low + high) // 2
                if self._find_failure(expression, rows.filter(rows[column].between(low, middle))):
                    high = middle
                elif low < high:
                    low = middle + 1
            self._kept += 1
            rows = self._engine.create(f"blamed_{self._kept}", rows.filter(rows[column].between(low, high)))

    def _locate(self, expression: TaskExpression, row: ir.Table) -> str:
        """Returns the place of a row and the inputs of the expression: "churn.csv, line 7 (plan = 'x')"."""
        key = [name for name in self._task.key if name in row.columns]
        own = list(PLACE) if self._order == list(PLACE) else key or expression.columns or row.columns
        values = self._engine.read(row.select(*dict.fromkeys([*own, *expression.columns]))).to_pylist()[0]
        place = self._engine.place({name: values[name] for name in own})
        shown = [f"{name} = {_format(values[name])}" for name in expression.columns[:MOST_SHOWN] if name not in own]
        return f"{place} ({', '.join(shown)})" if shown else place


def _list_columns(node: ops.Node, rows: ops.Node) -> set[str]:
    """Returns the columns of `rows` that a value uses, through the tables in between."""
    if not isinstance(node, ops.Field):
        return set().union(*(_list_columns(child, rows) for child in node.__children__ if isinstance(child, ops.Value)))
    if node.rel == rows:
        return {node.name}
    value = node.rel.values.get(node.name)
    return _list_columns(value, rows) if value else set()


def _split_expression(expression: TaskExpression) -> Iterator[TaskExpression]:
    """Yields the largest parts of an expression over several rows that depend on a single row each."""
    waiting = [expression.value.op()]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ops.SortKey) or engine_agreement.takes_several_rows(node):
            waiting += [child for child in node.__children__ if isinstance(child, ops.Value)]
        elif not isinstance(node, ops.Field) and node.find(ops.Field):
            yield replace(expression, value=node.to_expr())


def _explain_reason(reason: str) -> str:
    """Returns the reason of the engine, with a fix."""
    said = reason.rstrip(".!") + "."
    if "the TOML's" in said:
        return f"{said} Change that line, or the file."
    if not re.search("(?i)conver|cast|parse|bad .* value|format", reason):
        return said
    return f"{said} Where a value may be none, `try_cast` makes it missing; `ibis.cases` can leave it out before."


def _format(value: object) -> str:
    return quote(value) if isinstance(value, str) else "missing" if value is None else str(value)
