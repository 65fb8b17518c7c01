"""Calls a task's methods over the columns that they may see, and moves their expressions to the full table."""

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
from vgp.base.text.printable import quote
from vgp.data.events import Events
from vgp.data.schema import Field, canonical_schema
from vgp.data.tables import engine_agreement
from vgp.data.tabular import TabularTask

#: The message of Ibis for a missing column.
NO_COLUMN = re.compile(r"(?:'Table' object has no attribute|Column) '(.*?)'")
#: Methods that return values by name.
BY_NAME = ("events", "features")
Value = TypeVar("Value", bound=ir.Value)
Expression = TypeVar("Expression", ir.Value, ir.Table)


def visible_table(table: ir.Table, names: Iterable[str]) -> ir.Table:
    """Returns an unbound table of these columns of `table`."""
    kinds = table.schema()
    return ibis.table(ibis.schema({name: kinds[name] for name in names}), name="rows")


def rows_of(fields: Iterable[Field]) -> ir.Table:
    """Returns an unbound table of the fields, for use before there is data."""
    return ibis.table(canonical_schema(list(fields)), name="rows")


def feature_rows(fields: Iterable[Field], events: Mapping[str, Events]) -> ir.Table:
    """Returns an unbound table like the argument of `features`: columns known before the outcome, and event figures."""
    kinds = dict(canonical_schema([field for field in fields if field.known == "before"]))
    for name, event in ((name, event) for name, event in events.items() if isinstance(event, Events)):
        for first, last in event.windows:
            figures = ["count", "mean"] if event.value else ["count"]
            kinds |= {f"{name}_{figure}_{first}_{last}": "float64" for figure in figures}
    return ibis.table(ibis.schema(kinds), name="rows")


def call_method(task: TabularTask, method: str, rows: ir.Table) -> Any:
    """Calls a method of the task with `rows` and returns its expressions, rewritten to agree between engines.

    Raises:
        UserError: the method uses a column that does not exist or that it may not see, fails, or returns an expression
            that is not deterministic.
    """
    where = f"{type(task).__name__}.{method}"
    try:
        answer = _resolve_deferred(getattr(task, method)(rows), rows)
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
        raise UserError(f"{where}: {format_error(error)}") from error
    except UserError:
        raise
    except Exception as error:  # any error of the user's code
        raise UserError(f"{where}: {format_error(error)}") from error
    if method in BY_NAME and not isinstance(answer, Mapping):
        raise UserError(f"{where} gives a {type(answer).__name__}: it must be values by name.")
    for name, part in answer.items() if isinstance(answer, Mapping) else [("", answer)]:
        expression = part.table if isinstance(part, Events) else part
        if isinstance(expression, ir.Expr):
            engine_agreement.check_order(f"{where}: {name}" if name else where, expression)
    return _rewrite(task, answer)


def _rewrite(task: TabularTask, answer: object) -> object:
    """Rewrites an answer so that every engine computes the same values."""
    if isinstance(answer, Mapping):
        return {name: _rewrite(task, part) for name, part in answer.items()}
    if isinstance(answer, Events):
        return replace(answer, table=_rewrite(task, answer.table))
    never_null = frozenset(field.name for field in task.schema if not field.nullable)
    return engine_agreement.make_agree(answer, never_null) if isinstance(answer, ir.Value | ir.Table) else answer


def _resolve_deferred(answer: object, rows: ir.Table) -> object:
    """Resolves deferred expressions of an answer. Raises IntegrityError for columns of another table."""
    if isinstance(answer, Mapping):
        answer = {name: part.resolve(rows) if isinstance(part, Deferred) else part for name, part in answer.items()}
    values = answer.values() if isinstance(answer, Mapping) else [answer]
    rows.select(*(value.name(f"_{i}") for i, value in enumerate(values) if isinstance(value, ir.Value)), _rows=1)
    return answer


#: The type that a method must return, in words.
KINDS = {ir.DateValue: "a date", ir.IntegerValue: "a whole number", ir.NumericValue: "a number"}


def call_value(task: TabularTask, method: str, rows: ir.Table, kind: type[Value]) -> Value:
    """Calls a method that returns one value for each row. Raises as `call_method`, and for a value of another type."""
    result = call_method(task, method, rows)
    if not isinstance(result, kind):
        returned = result.type() if isinstance(result, ir.Value) else type(result).__name__
        raise UserError(f"{type(task).__name__}.{method} gives {returned}: it must give {KINDS[kind]} for each row.")
    return result


def move_to(table: ir.Table, stand_in: ir.Table, expression: Expression) -> Expression:
    """Moves an expression over `stand_in` to `table`."""
    return cast(Expression, expression.op().replace({stand_in.op(): table.op()}).to_expr())


# ---- errors of a task's own Python, in one line with their place


#: Folders of code that is not the user's: the standard library and installed packages.
_LIBRARIES = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_PACKAGE = Path(vgp.__file__).resolve().parent


def format_error(error: BaseException) -> str:
    """Formats an error as `churn.py:31: ValueError: ...`, without a place if no line of the user's code is involved."""
    message = " ".join(str(error).split())
    what = f"{type(error).__name__}: {message}" if message else type(error).__name__
    place = _find_user_line(error)
    return f"{place}: {what}" if place else what


def _find_user_line(error: BaseException) -> str:
    """Returns the innermost line of the user's code, such as `file.py:12`, or ""."""
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
    """Raises UserError for a declared or computed column whose name BigQuery refuses."""
    for what, name in _list_feature_titles(task):
        if wrong := NEVER.search(name):
            why = f"holds {quote(wrong[0])}, which a column of BigQuery cannot"
        elif taken := TAKEN.match(name):
            why = f"begins with {taken[0]}, which is BigQuery's own"
        elif len(name) > MOST_LETTERS:
            why = f"is longer than the {MOST_LETTERS} letters of a column of BigQuery"
        else:
            continue
        raise UserError(f"{type(task).__name__}: the name of {what} {quote(name)} {why}. Rename it.")


def _list_feature_titles(task: TabularTask) -> Iterator[tuple[str, str]]:
    yield from (("the column", field.name) for field in task.schema)
    yield "the label", task.label
    events = call_method(task, "events", rows_of(task.schema))
    yield from (("the events", str(name)) for name in events)
    features = call_method(task, "features", feature_rows(task.schema, events))
    yield from (("the feature", str(name)) for name in features)
