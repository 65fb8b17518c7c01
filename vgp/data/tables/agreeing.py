"""Expressions of which engines would give other values, said so that all give the same; and what cannot be said so.

A null in `greatest`, `least` and in the order of a window; the sign of a zero in `max` and `min`; seconds of moments
with fractions; what a pattern finds.
https://cloud.google.com/bigquery/docs/reference/standard-sql/functions-all beside what DuckDB answers; how Ibis prints
a `re_extract` for BigQuery stops at the first line break.
"""

import re
from collections.abc import Mapping
from typing import Any, TypeVar, cast

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.operations as ops
import ibis.expr.types as ir

Expression = TypeVar("Expression", ir.Value, ir.Table)

#: Of texts beyond ASCII engines answer in ways of their own.
_BEYOND_ASCII = (ops.Uppercase, ops.Lowercase, ops.Capitalize, ops.StringSQLILike, ops.Reverse, ops.Levenshtein,
                 ops.StringAscii)  # fmt: skip
#: Of 0.0 and -0.0, which are equal, these take whichever comes first, in the order of threads.
_OF_EQUALS = (ops.Max, ops.Min, ops.Median, ops.Quantile)
_COMPARING = (ops.Comparison, ops.Between, ops.Greatest, ops.Least, ops.SortKey, ops.Max, ops.Min)
#: What stands in a pattern and opens no group: an escape, a quotation, a set of characters.
_NO_GROUP = r"\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]"
_PART = re.compile(rf"(?P<other>{_NO_GROUP})|(?P<group>\((?!\?)|\(\?P?<\w+>)|(?P<rest>.)", re.DOTALL)


@ibis.udf.scalar.builtin(name="regexp_extract", signature=(("string", "string", "int64"), "string"))
def _found(text, pattern, one):  # type: ignore[no-untyped-def]
    """The only group of the first match: DuckDB takes the group's number, BigQuery where it begins to look."""


def agreed(expression: Expression, never_null: frozenset[str]) -> Expression:
    """The expression, of which every engine gives the same values.

    Args:
        never_null: Columns that hold no null.
    """

    def one(node: Any, changed: Mapping[str, Any] | None) -> Any:
        node = node.__recreate__(changed) if changed else node
        if isinstance(node, (ops.Greatest, ops.Least)):
            return node.copy(arg=_not_null(node.arg))
        if isinstance(node, _OF_EQUALS) and node.arg.dtype.is_floating():
            return node.copy(arg=ops.Add(node.arg, ops.Literal(0.0, dt.float64)))  # -0.0 + 0.0 is 0.0
        if isinstance(node, ops.ExtractEpochSeconds) and node.arg.dtype.is_timestamp():
            return ops.Floor(node)  # a truncated moment would take DuckDB three times as long
        if isinstance(node, ops.RegexExtract):
            return _first_group(node)
        if isinstance(node, ops.WindowFunction):
            return _placed(node, never_null)
        return node

    return cast(Expression, expression.op().replace(one).to_expr())


def _not_null(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Each value or, where it is null, one that is not; so nulls are left out, and all is null where all are."""
    if len(values) < 2:
        return values
    return tuple(ops.Coalesce((*values[i:], *values[:i])) for i in range(len(values)))


def _placed(window: Any, never_null: frozenset[str]) -> Any:
    """Where nulls stand is a key of its own: BigQuery has no words for it in a window, and puts them first.

    With an offset of values a window has one key. Engines agree on a null row's frame, all nulls and no more
    (`GetOffsetPrecedingRangeBoundariesAsc` of ZetaSQL's reference); what they put on which side, an end without bound
    would reach, so rows with nulls are a group of their own.
    """
    keys = [key for key in window.order_by if _may_be_null(key.arg, never_null)]
    if not _by_offset(window):
        nulls = {key: ops.SortKey(ops.IsNull(key.arg), ascending=not key.nulls_first) for key in keys}
        return window.copy(order_by=tuple(part for key in window.order_by for part in (nulls.get(key), key) if part))
    if window.start and window.end:
        return window
    return window.copy(group_by=(*window.group_by, *(ops.IsNull(key.arg) for key in keys)))


def _may_be_null(value: Any, never_null: frozenset[str]) -> bool:
    return not (isinstance(value, ops.IsNull) or isinstance(value, ops.Field) and value.name in never_null)


def _by_offset(window: Any) -> bool:
    """Whether the window's rows are those whose key is so far from the row's own. So far as 0 is the row's own."""
    ends = [end.value for end in (window.start, window.end) if end]
    return window.how == "range" and any(not isinstance(end, ops.Literal) or end.value for end in ends)


def _first_group(node: Any) -> Any:
    """The group as the only one of its pattern; "" where nothing is found."""
    pattern = _alone(node.pattern.value, node.index.value)
    return ops.Coalesce((_found(node.arg.to_expr(), pattern, 1).op(), ops.Literal("", dt.string)))


def _alone(pattern: str, index: int) -> str:
    """The pattern in which that group is the only one that is kept; 0: all of it."""
    parts, opened = [], 0
    for part in _PART.finditer(pattern):
        opened += part.lastgroup == "group"
        parts.append("(?:" if part.lastgroup == "group" and opened != index else part[0])
    whole = "".join(parts)
    return f"({whole})" if index == 0 else whole


def groups(pattern: str) -> int:
    return sum(part.lastgroup == "group" for part in _PART.finditer(pattern))


def own_ways(expression: ir.Expr) -> list[str]:
    """What of an expression an engine may answer in its own way, for some values."""
    operation = expression.op()
    found = [f"{type(node).__name__} of texts beyond ASCII" for node in operation.find(_BEYOND_ASCII)]
    for node in operation.find((ops.Cast, ops.TryCast)):
        if node.arg.dtype.is_string() and node.to.is_numeric():
            found.append("texts read as numbers, where they are spelled otherwise than 12 or -1.5")
    if any(not isinstance(node.digits, ops.Literal) or node.digits.value for node in operation.find(ops.Round)):
        found.append("numbers half-way between two that are rounded to digits")
    if any(_may_be_nan(part) for node in operation.find(_COMPARING) for part in node.__children__):
        found.append("what is compared with 0 / 0 (divide by a `nullif(0)`)")
    return list(dict.fromkeys(found))


def _may_be_nan(value: Any) -> bool:
    if isinstance(value, ops.Add):
        return any(_may_be_nan(part) for part in value.__children__)
    divided = [value, *getattr(value, "__children__", ())]
    return any(
        isinstance(node, ops.Divide)
        and not isinstance(node.right, ops.NullIf)
        and not (isinstance(node.right, ops.Literal) and node.right.value)
        for node in divided
    )
