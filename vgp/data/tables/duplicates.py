"""The id of every row, and keys that occur twice: one count of the ids tells both."""

from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any, cast

import ibis
import ibis.expr.types as ir

from vgp.base.exits import UserError
from vgp.base.text.printable import listed
from vgp.data.canonical import FLOAT64_DIGITS
from vgp.data.engine import ID, PLACE, Engine
from vgp.data.identity import numbered

#: Repeated ids that are looked at; with a key the first is an error, unless two keys share one by chance.
MOST_REPEATED = 1_000


def identified(engine: Engine, rows: ir.Table, key: Sequence[str], columns: Sequence[str]) -> ir.Table:
    """The rows with their `_row_id` (int64): of their key, else of all declared columns.

    Without a key equal rows are numbered, and all but the first have ids of their number too.

    Args:
        rows: A source. If it has `_row_id` already, that is the number of the key or of the columns.
        columns: All declared columns.

    Raises:
        UserError: a key occurs twice.
    """
    named = rows if ID in rows.columns else numbered(rows, key or columns, engine.dialect, ID)
    ids = engine.repeated(named, ID, MOST_REPEATED)
    if not ids:
        return named
    if not key:
        return _copies_numbered(named, engine.dialect)
    _check(engine, named, key, ids)
    return _apart(named, key, engine.dialect, ids)


def _copies_numbered(rows: ir.Table, dialect: str) -> ir.Table:
    copies = rows.mutate(_copy=ibis.row_number().over(group_by=ID).cast("int64"))
    return _renumbered(copies, [ID, "_copy"], dialect, copies["_copy"] > 0).drop("_copy")


def _apart(rows: ir.Table, key: Sequence[str], dialect: str, ids: Sequence[int]) -> ir.Table:
    """Different keys that share a number, as two of a billion may, have one of another text."""
    again = rows.mutate(_again=ibis.literal("again"))
    return _renumbered(again, [*key, "_again"], dialect, again[ID].isin(ids)).drop("_again")


def _renumbered(rows: ir.Table, columns: Sequence[str], dialect: str, where: ir.BooleanValue) -> ir.Table:
    names = [name for name in rows.columns if name != ID]
    other = numbered(rows.mutate(_where=where), columns, dialect, "_other")
    chosen = cast(ir.IntegerValue, other["_where"].ifelse(other["_other"], other[ID]))
    return other.select(*names, **{ID: chosen})


def _check(engine: Engine, rows: ir.Table, key: Sequence[str], ids: Sequence[int]) -> None:
    """Raises UserError if two rows of these ids have the same key."""
    place = [name for name in PLACE if name in rows.columns]
    found = rows.filter(rows[ID].isin(ids)).select(ID, *place, *(name for name in key if name not in place))
    order = [ID, *key, *place]
    seen = engine.read(found.order_by(order).limit(2 * MOST_REPEATED)).to_pylist()
    for _, same in groupby(seen, lambda row: [row[ID], *(_comparable(row[name]) for name in key)]):
        for first, second in pairwise(same):
            raise UserError(_repeated(engine, key, first, second))


def _comparable(value: Any) -> Any:
    """Both zeros alike, and a NaN like another."""
    return str(value + 0.0) if isinstance(value, float) else value


def _repeated(engine: Engine, key: Sequence[str], first: Mapping[str, Any], second: Mapping[str, Any]) -> str:
    written = ", ".join(f"{name}={listed([str(first[name])])}" for name in key)
    here, there = engine.place(second), engine.place(first)
    same = f"{here} occurs twice" if here == there else f"{here} repeats the key of {there}"
    hint = ""
    if rounded := [name for name in key if _may_be_rounded(first[name])]:
        hint = (
            f" {listed(rounded)} is compared as float64, of which {FLOAT64_DIGITS} digits are exact: if the data has "
            "more, declare pa.int64(), or write it as text and declare pa.string()."
        )
    return f"{same}: {written}. A key must occur once: keep one of the two.{hint}"


def _may_be_rounded(value: Any) -> bool:
    if not isinstance(value, float):
        return False
    digits = repr(value).partition("e")[0].strip("-0.")
    return len(digits.replace(".", "")) > FLOAT64_DIGITS
