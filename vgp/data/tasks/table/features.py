"""What a model learns from the columns of a task.toml, as Ibis expressions over one row each.

int, float, number, bool   the number
category                   its text; the network groups rare values (`vgp.networks.networks`)
text                       how many letters, words and digits it has
date, timestamp            weekday, month, and the days from it to the row's own time; without a time the day itself
the time itself            weekday, and of a timestamp the hour
"""

from collections.abc import Sequence
from typing import cast

import ibis.expr.types as ir

from vgp.data.tasks.table.declaration import Declared
from vgp.data.tasks.table.kinds import DATES, NUMBERS, Kind
from vgp.data.tasks.table.values import date_of, moment_of, number_of, text_of
from vgp.protocol.outcome import PREDICTED

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
#: Columns of ours that every dataset has.
_TAKEN = ("row_id", "label")
_PARTS = {
    "text": ("letters", "words", "digits"),
    "date": ("weekday", "month", "days"),
    "timestamp": ("weekday", "month", "days"),
}


def of(declared: Declared, rows: ir.Table) -> dict[str, ir.Value]:
    """Every feature, by the names that `names` gives."""
    values: dict[str, ir.Value] = {}
    for column, features in names(declared).items():
        values |= zip(features, _values(declared, column, rows), strict=True)
    return values


def names(declared: Declared) -> dict[str, list[str]]:
    """The names of the features that each column becomes; none occurs twice, in whatever case."""
    taken = {name.lower() for name in declared.columns}
    made: dict[str, list[str]] = {}
    reserved = {name: {*_TAKEN, *(PREDICTED if name in declared.slices else ())} for name in declared.columns}
    kinds = {**declared.features, **({declared.time: declared.kinds[declared.time]} if declared.time else {})}
    for column, kind in kinds.items():
        for part in _parts(declared, column, kind):
            name = f"{column}_{part}" if part else column
            while name.lower() in reserved[column] or (name != column and name.lower() in taken):
                name += "_"
            taken.add(name.lower())
            made.setdefault(column, []).append(name)
    return made


def _parts(declared: Declared, column: str, kind: Kind) -> Sequence[str]:
    if column == declared.time:
        return ("weekday", "hour") if kind.name == "timestamp" else ("weekday",)
    return _PARTS.get(kind.name, ("",))


def _values(declared: Declared, column: str, rows: ir.Table) -> list[ir.Value]:
    kind, missing = declared.kinds[column], declared.missing
    if kind.name == "category":
        return [text_of(rows[column], kind, missing)]
    if kind.name == "text":
        return _text(text_of(rows[column], kind, missing))
    if kind.name in DATES:
        return _date(declared, column, rows)
    if kind.name in NUMBERS:
        return [number_of(rows[column], kind, missing, declared.reading.decimal)]
    return [rows[column]]


def _text(text: ir.StringValue) -> list[ir.Value]:
    """How much there is of it; of one that is missing nothing is known."""
    known = cast(ir.StringValue, text.nullif(""))
    words = known.length() - known.replace(" ", "").length() + 1
    return [known.length(), words, known.length() - known.re_replace("[0-9]", "").length()]


def _date(declared: Declared, column: str, rows: ir.Table) -> list[ir.Value]:
    kind = declared.kinds[column]
    moment = moment_of(rows[column], kind, declared.missing)
    day = cast(ir.DateValue, moment.cast("date"))
    weekday = day.day_of_week.index().cases(*enumerate(WEEKDAYS), else_="")
    if column == declared.time:
        return [weekday, cast(ir.TimestampValue, moment).hour()] if kind.name == "timestamp" else [weekday]
    days: ir.Value = day.epoch_days()
    if declared.time:
        own = date_of(rows[declared.time], declared.kinds[declared.time], declared.missing)
        days = own.epoch_days() - day.epoch_days()
    return [weekday, day.month(), days]
