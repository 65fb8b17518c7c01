"""Expressions that would not give the same values again: chance, clocks, windows whose rows have no order, and names
of which engines take one or the other."""

from collections.abc import Iterator

import ibis.expr.operations as ops
import ibis.expr.types as ir

from vgp.base.exits import UserError
from vgp.data.tables import agreeing

#: What engines compute in ways of their own: other hashes and sketches; hours that begin, or that are over.
_OWN = (ops.Hash, ops.ApproxCountDistinct, ops.ApproxMedian, ops.ApproxQuantile, ops.ApproxMultiQuantile,
        ops.TimestampDelta)  # fmt: skip
#: Of several rows that are equal in what is asked these take any.
_ANY_OF = (ops.ArgMax, ops.ArgMin, ops.Mode)
#: Of rows in no stated order these take whichever come.
_ORDERED = (ops.First, ops.Last, ops.ArrayCollect, ops.GroupConcat)


def check(where: str, expression: ir.Expr) -> None:
    """Raises UserError for an expression that an engine may answer differently every time."""
    for problem in _problems(expression):
        raise UserError(f"{where} {problem} The same input must give the same dataset.")


def _problems(expression: ir.Expr) -> Iterator[str]:
    operation = expression.op()
    if impure := [found for found in operation.find(ops.Impure) if not isinstance(found, ops.ScalarUDF)]:
        yield f"uses {type(impure[0]).__name__}, which is another value every time."
    if own := operation.find(_OWN):
        yield f"uses {type(own[0]).__name__}, which each engine computes in its own way."
    if any(cast.arg.dtype.is_floating() and cast.to.is_integer() for cast in operation.find((ops.Cast, ops.TryCast))):
        yield "casts a float to a whole number, which one engine rounds and another cuts off: say round, floor or ceil."
    for cast in operation.find((ops.Cast, ops.TryCast)):
        if cast.to.is_string() and (cast.arg.dtype.is_floating() or cast.arg.dtype.is_timestamp()):
            say = "say strftime." if cast.arg.dtype.is_timestamp() else 'say round().cast("int64") before.'
            yield f"makes a text of a {cast.arg.dtype}, which engines write differently: {say}"
    for pattern in (found for found in operation.find(ops.RegexExtract)):
        if not all(isinstance(part, ops.Literal) for part in (pattern.pattern, pattern.index)):
            yield "has a re_extract whose pattern or group is no constant, which engines take differently."
        elif not 0 <= pattern.index.value <= (most := agreeing.groups(pattern.pattern.value)):
            yield f"has a re_extract of group {pattern.index.value}, where its pattern has {most}."
    if several := operation.find(_ANY_OF):
        yield f"takes {type(several[0]).__name__}, which takes any of several that are equal: say first(order_by=...)."
    for first, second in _in_other_letters(expression):
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
            yield f"has a window without an order ({type(function).__name__}): say order_by, down to the last tie."
    for reduction in operation.find(_ORDERED):
        if not reduction.order_by and reduction not in ordered:
            yield f"takes {type(reduction).__name__} of rows without an order: say order_by, down to the last tie."


def _in_other_letters(expression: ir.Expr) -> Iterator[tuple[str, str]]:
    """Columns of a table on the way that differ in case only: engines take both for the same, mostly the first."""
    for table in expression.op().find(ops.Relation):
        spelled = dict[str, str]()
        for name in table.schema:
            if (other := spelled.setdefault(name.lower(), name)) != name:
                yield other, name


def takes_several_rows(value: ops.Node) -> bool:
    """Whether a row's value depends on other rows of its table: an aggregate, or a window; whatever made the table."""
    if isinstance(value, (ops.Reduction, ops.Analytic, ops.WindowFunction, ops.Subquery)):
        return True
    parts = () if isinstance(value, ops.Field) else value.__children__
    return any(takes_several_rows(part) for part in parts if isinstance(part, ops.Value))
