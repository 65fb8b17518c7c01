"""Rewrites expressions so that all engines compute the same values, and refuses those that are not deterministic.

DuckDB and BigQuery (https://cloud.google.com/bigquery/docs/reference/standard-sql/functions-all) differ in nulls in
`greatest`, `least` and window orders, in the sign of zero in `max` and `min`, in seconds of fractional moments, and in
the groups of a pattern; Ibis prints a `re_extract` for BigQuery only up to the first line break.

Refused are random values, clocks, windows without an order, and names that differ only in case.
"""

import re
from collections.abc import Iterator, Mapping
from typing import TypeVar, cast

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.operations as ops
import ibis.expr.types as ir

from vgp.base.exits import UserError

Expression = TypeVar("Expression", ir.Value, ir.Table)

#: Operations that engines compute differently for texts beyond ASCII.
_BEYOND_ASCII = (ops.Uppercase, ops.Lowercase, ops.Capitalize, ops.StringSQLILike, ops.Reverse, ops.Levenshtein,
                 ops.StringAscii)  # fmt: skip
#: Operations that return 0.0 or -0.0, which are equal, depending on the order of threads.
_OF_EQUALS = (ops.Max, ops.Min, ops.Median, ops.Quantile)
_COMPARING = (ops.Comparison, ops.Between, ops.Greatest, ops.Least, ops.SortKey, ops.Max, ops.Min)
#: Parts of a pattern that open no group: an escape, a quotation, a set of characters.
_NO_GROUP = r"\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]"
_PART = re.compile(rf"(?P<other>{_NO_GROUP})|(?P<group>\((?!\?)|\(\?P?<\w+>)|(?P<rest>.)", re.DOTALL)


@ibis.udf.scalar.builtin(name="regexp_extract", signature=(("string", "string", "int64"), "string"))
def _extract_group(text, pattern, one):  # type: ignore[no-untyped-def]
    """Returns the only group of the first match. `one` is the group in DuckDB, and the start position in BigQuery."""


def make_agree(expression: Expression, never_null: frozenset[str]) -> Expression:
    """Rewrites an expression so that every engine computes the same values.

    Args:
        never_null: Columns without nulls.
    """

    def one(node: ops.Node, changed: Mapping[str, object] | None) -> ops.Node:
        node = node.__recreate__(changed) if changed else node
        if isinstance(node, (ops.Greatest, ops.Least)):
            return node.copy(arg=_replace_nulls(node.arg))
        if isinstance(node, _OF_EQUALS) and node.arg.dtype.is_floating():
            return node.copy(arg=ops.Add(node.arg, ops.Literal(0.0, dt.float64)))  # -0.0 + 0.0 is 0.0
        if isinstance(node, ops.ExtractEpochSeconds) and node.arg.dtype.is_timestamp():
            return ops.Floor(node)  # truncating the moment would take DuckDB three times as long
        if isinstance(node, ops.RegexExtract):
            return _extract_only_group(node)
        if isinstance(node, ops.WindowFunction):
            return _place_nulls(node, never_null)
        return node

    return cast(Expression, expression.op().replace(one).to_expr())


def _replace_nulls(values: tuple[ops.Value, ...]) -> tuple[ops.Value, ...]:
    """Replaces each null by another value that is not null, so that nulls are ignored unless all values are null."""
    if len(values) < 2:
        return values
    return tuple(ops.Coalesce((*values[i:], *values[:i])) for i in range(len(values)))


def _place_nulls(window: ops.WindowFunction, never_null: frozenset[str]) -> ops.Node:
    """Makes the place of nulls in a window a key of its own, because BigQuery always puts them first.

    A window with a range of values has a single key. Engines agree that the frame of a null row is all nulls
    (`GetOffsetPrecedingRangeBoundariesAsc` of ZetaSQL's reference) but not on their side, which an unbounded end would
    include; so rows with nulls become a separate group.
    """
    keys = [key for key in window.order_by if _may_be_null(key.arg, never_null)]
    if not _is_offset_range(window):
        nulls = {key: ops.SortKey(ops.IsNull(key.arg), ascending=not key.nulls_first) for key in keys}
        return window.copy(order_by=tuple(part for key in window.order_by for part in (nulls.get(key), key) if part))
    if window.start and window.end:
        return window
    return window.copy(group_by=(*window.group_by, *(ops.IsNull(key.arg) for key in keys)))


def _may_be_null(value: ops.Value, never_null: frozenset[str]) -> bool:
    return not (isinstance(value, ops.IsNull) or isinstance(value, ops.Field) and value.name in never_null)


def _is_offset_range(window: ops.WindowFunction) -> bool:
    """Whether the window is a range of key values around the row's own, other than 0."""
    ends = [end.value for end in (window.start, window.end) if end]
    return window.how == "range" and any(not isinstance(end, ops.Literal) or end.value for end in ends)


def _extract_only_group(node: ops.RegexExtract) -> ops.Node:
    """Extracts the group with a pattern in which it is the only one; "" without a match."""
    pattern = _capture_only(node.pattern.value, node.index.value)
    return ops.Coalesce((_extract_group(node.arg.to_expr(), pattern, 1).op(), ops.Literal("", dt.string)))


def _capture_only(pattern: str, index: int) -> str:
    """Returns the pattern with only this group capturing; index 0 captures the whole pattern."""
    parts, opened = [], 0
    for part in _PART.finditer(pattern):
        opened += part.lastgroup == "group"
        parts.append("(?:" if part.lastgroup == "group" and opened != index else part[0])
    whole = "".join(parts)
    return f"({whole})" if index == 0 else whole


def count_groups(pattern: str) -> int:
    return sum(part.lastgroup == "group" for part in _PART.finditer(pattern))


def find_differences(expression: ir.Expr) -> list[str]:
    """Returns phrases for the parts of an expression that engines may compute differently for some values."""
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


def _may_be_nan(value: object) -> bool:
    if isinstance(value, ops.Add):
        return any(_may_be_nan(part) for part in value.__children__)
    divided = [value, *getattr(value, "__children__", ())]
    return any(
        isinstance(node, ops.Divide)
        and not isinstance(node.right, ops.NullIf)
        and not (isinstance(node.right, ops.Literal) and node.right.value)
        for node in divided
    )


#: Operations that differ between engines: hashes, sketches, and hours counted when they begin or when they end.
_OWN = (ops.Hash, ops.ApproxCountDistinct, ops.ApproxMedian, ops.ApproxQuantile, ops.ApproxMultiQuantile,
        ops.TimestampDelta)  # fmt: skip
#: Operations that take any of several tied rows.
_ANY_OF = (ops.ArgMax, ops.ArgMin, ops.Mode)
#: Operations that depend on the order of rows.
_ORDERED = (ops.First, ops.Last, ops.ArrayCollect, ops.GroupConcat)


def check_order(where: str, expression: ir.Expr) -> None:
    """Raises UserError for an expression whose values are not deterministic."""
    for problem in _find_disagreements(expression):
        raise UserError(f"{where} {problem} The same input must give the same dataset.")


def _find_disagreements(expression: ir.Expr) -> Iterator[str]:
    operation = expression.op()
    if impure := [found for found in operation.find(ops.Impure) if not isinstance(found, ops.ScalarUDF)]:
        yield f"uses {type(impure[0]).__name__}, which is another value every time."
    if own := operation.find(_OWN):
        yield f"uses {type(own[0]).__name__}, which each engine computes in its own way."
    if any(
        casting.arg.dtype.is_floating() and casting.to.is_integer()
        for casting in operation.find((ops.Cast, ops.TryCast))
    ):
        yield "casts a float to an integer, which some engines round and others truncate: use round, floor or ceil."
    for casting in operation.find((ops.Cast, ops.TryCast)):
        if casting.to.is_string() and (casting.arg.dtype.is_floating() or casting.arg.dtype.is_timestamp()):
            fix = "use strftime." if casting.arg.dtype.is_timestamp() else 'use round().cast("int64") before.'
            yield f"casts a {casting.arg.dtype} to text, which engines format differently: {fix}"
    for pattern in (found for found in operation.find(ops.RegexExtract)):
        if not all(isinstance(part, ops.Literal) for part in (pattern.pattern, pattern.index)):
            yield "has a re_extract whose pattern or group is not a constant, which engines treat differently."
        elif not 0 <= pattern.index.value <= (most := count_groups(pattern.pattern.value)):
            yield f"has a re_extract of group {pattern.index.value}, where its pattern has {most}."
    if several := operation.find(_ANY_OF):
        yield f"uses {type(several[0]).__name__}, which returns any of several equal rows: use first(order_by=...)."
    for first, second in _find_case_twins(expression):
        yield f"makes a table with both {first} and {second}: no two names may differ in case only."
    if operation.find(ops.Arbitrary):
        yield "takes an arbitrary value of some rows: take the `min` or the `max`, or the `first` by an order."
    for some in operation.find((ops.Sample, ops.Limit)):
        if not isinstance(some.parent, ops.Sort):
            yield f"takes some rows of a table without an order ({type(some).__name__})."
    windows = operation.find(ops.WindowFunction)
    ordered = {window.func for window in windows if window.order_by}
    by_row = {window.func for window in windows if window.how == "rows" and (window.start or window.end)}
    for function in (*operation.find(ops.Analytic), *by_row):
        if function not in ordered:
            yield f"has a window without an order ({type(function).__name__}): add order_by, without ties."
    for reduction in operation.find(_ORDERED):
        if not reduction.order_by and reduction not in ordered:
            yield f"uses {type(reduction).__name__} on rows without an order: add order_by, without ties."


def _find_case_twins(expression: ir.Expr) -> Iterator[tuple[str, str]]:
    """Yields pairs of columns of an intermediate table that differ only in case, which engines confuse."""
    for table in expression.op().find(ops.Relation):
        spelled = dict[str, str]()
        for name in table.schema:
            if (other := spelled.setdefault(name.lower(), name)) != name:
                yield other, name


def takes_several_rows(value: ops.Node) -> bool:
    """Whether a value depends on other rows of its table, by an aggregate or a window."""
    if isinstance(value, (ops.Reduction, ops.Analytic, ops.WindowFunction, ops.Subquery)):
        return True
    parts = () if isinstance(value, ops.Field) else value.__children__
    return any(takes_several_rows(part) for part in parts if isinstance(part, ops.Value))
