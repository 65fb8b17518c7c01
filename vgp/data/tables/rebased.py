"""A task's methods are asked over a table that has only the columns they may see; what they say is then said of the
table that has more."""

import re
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

import ibis
import ibis.expr.types as ir
from ibis import Deferred
from ibis.common.exceptions import IntegrityError

import vgp
from vgp.base.exits import UserError
from vgp.base.text.nearest import did_you_mean
from vgp.base.text.printable import quoted
from vgp.data.events import Events
from vgp.data.schema import Field, canonical_schema
from vgp.data.tables import agreeing
from vgp.data.tabular import TabularTask

#: What Ibis says of a column that a table does not have.
NO_COLUMN = re.compile(r"(?:'Table' object has no attribute|Column) '(.*?)'")
#: Methods that give several values.
BY_NAME = ("events", "features")
Value = TypeVar("Value", bound=ir.Value)
Expression = TypeVar("Expression", ir.Value, ir.Table)


def visible(table: ir.Table, names: Iterable[str]) -> ir.Table:
    """A table of these columns alone, which stands for `table`."""
    kinds = table.schema()
    return ibis.table(ibis.schema({name: kinds[name] for name in names}), name="rows")


def rows_of(fields: Iterable[Field]) -> ir.Table:
    """What stands for all columns, where there is no data yet."""
    return ibis.table(canonical_schema(list(fields)), name="rows")


def seen(fields: Iterable[Field], events: Mapping[str, Events]) -> ir.Table:
    """What stands for the rows that `features` is given: what is known before the outcome, and what is looked back
    on."""
    kinds = dict(canonical_schema([field for field in fields if field.known == "before"]))
    for name, event in ((name, event) for name, event in events.items() if isinstance(event, Events)):
        for first, last in event.windows:
            figures = ["count", "mean"] if event.value else ["count"]
            kinds |= {f"{name}_{figure}_{first}_{last}": "float64" for figure in figures}
    return ibis.table(ibis.schema(kinds), name="rows")


def said(task: TabularTask, method: str, rows: ir.Table) -> Any:
    """What a method of the task says of `rows`.

    Raises:
        UserError: it names a column that there is not, or that it may not see; it raises an error, or Ibis does; or it
            says something else every time.
    """
    where = f"{type(task).__name__}.{method}"
    try:
        answer = _bound(getattr(task, method)(rows), rows)
    except IntegrityError:
        raise UserError(
            f"{where} gives a column of another table than the `rows` that it was given. Join nothing: look back with "
            "`events`, or use a window (`.over(ibis.window(group_by=..., order_by=...))`)."
        ) from None
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
                f"{where}: the rows have no column {asked[1]!r}. {did_you_mean(asked[1], rows.columns)}"
            ) from None
        raise UserError(f"{where}: {spoken_error(error)}") from error
    except UserError:
        raise
    except Exception as error:  # whatever it is: the code is the user's
        raise UserError(f"{where}: {spoken_error(error)}") from error
    if method in BY_NAME and not isinstance(answer, Mapping):
        raise UserError(f"{where} gives a {type(answer).__name__}: it must be values by name.")
    for name, part in answer.items() if isinstance(answer, Mapping) else [("", answer)]:
        expression = part.table if isinstance(part, Events) else part
        if isinstance(expression, ir.Expr):
            agreeing.check_order(f"{where}: {name}" if name else where, expression)
    return _agreed(task, answer)


def _agreed(task: TabularTask, answer: object) -> object:
    """The answer with the same values on every engine."""
    if isinstance(answer, Mapping):
        return {name: _agreed(task, part) for name, part in answer.items()}
    if isinstance(answer, Events):
        return replace(answer, table=_agreed(task, answer.table))
    never_null = frozenset(field.name for field in task.schema if not field.nullable)
    return agreeing.agreed(answer, never_null) if isinstance(answer, ir.Value | ir.Table) else answer


def _bound(answer: object, rows: ir.Table) -> object:
    """The answer, without what waits for a table. Raises IntegrityError for columns of another one."""
    if isinstance(answer, Mapping):
        answer = {name: part.resolve(rows) if isinstance(part, Deferred) else part for name, part in answer.items()}
    values = answer.values() if isinstance(answer, Mapping) else [answer]
    rows.select(*(value.name(f"_{i}") for i, value in enumerate(values) if isinstance(value, ir.Value)), _rows=1)
    return answer


#: What a method must give, in words.
KINDS = {ir.DateValue: "a date", ir.IntegerValue: "a whole number", ir.NumericValue: "a number"}


def value(task: TabularTask, method: str, rows: ir.Table, kind: type[Value]) -> Value:
    """What a method says, if it is of this kind. Raises as `said`, and for another kind."""
    given = said(task, method, rows)
    if not isinstance(given, kind):
        is_of = given.type() if isinstance(given, ir.Value) else type(given).__name__
        raise UserError(f"{type(task).__name__}.{method} gives {is_of}: it must give {KINDS[kind]} for each row.")
    return given


def onto(table: ir.Table, stand_in: ir.Table, expression: Expression) -> Expression:
    """The expression over `stand_in`, over `table`."""
    return cast(Expression, expression.op().replace({stand_in.op(): table.op()}).to_expr())


# ---- errors that a task's own Python raises: in one line, with the line of their code that raised them


#: Code of others: the standard library, installed packages, and this library.
_LIBRARIES = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_PACKAGE = Path(vgp.__file__).resolve().parent


def spoken_error(error: BaseException) -> str:
    """`churn.py:31: ValueError: 'premium' is no plan`; without a place where no line of the user's led to it."""
    message = " ".join(str(error).split())
    what = f"{type(error).__name__}: {message}" if message else type(error).__name__
    place = _line(error)
    return f"{place}: {what}" if place else what


def _line(error: BaseException) -> str:
    """The innermost line of the user's, `file.py:12`."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if _is_own(frame.filename):
            return f"{frame.filename}:{frame.lineno}"
    return ""


def _is_own(filename: str) -> bool:
    path = Path(filename).resolve()
    if filename.startswith("<") or path.is_relative_to(Path(sys.prefix).resolve()):
        return False
    return not any(path.is_relative_to(library) for library in (_PACKAGE, *_LIBRARIES))


# ---- names that BigQuery's columns and tables cannot have, refused before anything runs there
#
# https://cloud.google.com/bigquery/docs/schemas#column_names, and #flexible-column-names for letters beyond ASCII;
# https://cloud.google.com/bigquery/docs/tables#table_naming


MOST_LETTERS = 300
NEVER = re.compile(r'[!"$()*,./;?@\[\\\]^`{}~\x00-\x1f]')
TAKEN = re.compile(
    r"_(table_|file_|partition|row_timestamp|_root__|colidentifier|change_(sequence_number|type|timestamp))", re.I
)


def check_bigquery_names(task: TabularTask) -> None:
    """Raises UserError for a column, declared or made, whose name BigQuery refuses."""
    for what, name in _named(task):
        if wrong := NEVER.search(name):
            why = f"holds {quoted(wrong[0])}, which a column of BigQuery cannot"
        elif taken := TAKEN.match(name):
            why = f"begins with {taken[0]}, which is BigQuery's own"
        elif len(name) > MOST_LETTERS:
            why = f"is longer than the {MOST_LETTERS} letters of a column of BigQuery"
        else:
            continue
        raise UserError(f"{type(task).__name__}: the name of {what} {quoted(name)} {why}. Rename it.")


def _named(task: TabularTask) -> Iterator[tuple[str, str]]:
    yield from (("the column", field.name) for field in task.schema)
    yield "the label", task.label
    events = said(task, "events", rows_of(task.schema))
    yield from (("the events", str(name)) for name in events)
    features = said(task, "features", seen(task.schema, events))
    yield from (("the feature", str(name)) for name in features)
