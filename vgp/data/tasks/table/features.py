"""What a model learns from the columns of a task.toml, as Ibis expressions over one row each.

int, float, number, bool   the number
category                   its text; the network groups rare values (`vgp.networks.tabular`)
text                       how many letters, words and digits it has
date, timestamp            weekday, month, and the days from it to the row's own time; without a time the day itself
the time itself            weekday, and of a timestamp the hour
"""

from collections.abc import Sequence
from datetime import date
from typing import cast

import ibis.expr.types as ir
import pyarrow as pa

from vgp.data.tasks.table.declaration import Declared
from vgp.data.tasks.table.kinds import DATES, NEITHER, NUMBERS, PLAIN, Kind, NumberForm, amount, form_of
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


# ---- the values of a column of a task.toml: the type in which they are read, and Ibis expressions of them


#: Of each word the type in which the reader hands values on; of a date in a form of its own that is text.
STORED = {
    "int": pa.int64(),
    "float": pa.float64(),
    "number": pa.string(),
    "bool": pa.bool_(),
    "category": pa.string(),
    "category int": pa.int64(),
    "category float": pa.float64(),
    "category any case": pa.string(),
    "text": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamp UTC": pa.timestamp("us", tz="UTC"),
}
#: How whole numbers and others are written where a marker among them makes all of the column text.
PLAIN_FORMS = {"int": NumberForm(NEITHER), "float": NumberForm(PLAIN)}
ANY_CASE = "category any case"
#: Blanks between words; also those that do not break.
BLANKS = r"[\s\x{a0}]+"


def stored(kind: Kind) -> pa.DataType:
    if kind.form.startswith("int "):
        return pa.int64()
    return pa.string() if kind.form or kind.marked else STORED[kind.word]


def text_of(value: ir.Value, kind: Kind, missing: Sequence[str]) -> ir.StringValue:
    """A category or a text, "" where it is missing."""
    if stored(kind) == pa.string():
        text = cast(ir.StringValue, value).fill_null("").strip()
    else:  # 3, not 3.0, which engines write in more than one way
        whole = cast(ir.NumericValue, value).round() if value.type().is_floating() else value
        text = cast(ir.StringValue, whole.cast("int64").cast("string").fill_null(""))
    if markers := [*missing, *kind.missing] if stored(kind) == pa.string() else list(kind.missing):
        text = cast(ir.StringValue, text.isin(markers).ifelse("", text))
    return plain_case(text) if kind.word == ANY_CASE else text


def plain_case(text: ir.StringValue) -> ir.StringValue:
    """In small letters, and with one blank where there are several: `Yes`, `YES` and `yes` are one."""
    return cast(ir.StringValue, text.lower().re_replace(BLANKS, " ").strip())


def number_of(value: ir.Value, kind: Kind, missing: Sequence[str], decimal: str) -> ir.NumericValue:
    """A number, null where it is missing; a text that is not written as declared cannot be computed."""
    if stored(kind) == pa.string():
        known = cast(ir.StringValue, text_of(value, kind, missing).nullif(""))
        form = form_of(kind.form, decimal) if kind.word == "number" else PLAIN_FORMS[kind.word]
        return amount(known, cast(NumberForm, form), f'{value.get_name()} = "{kind.text}"')
    markers = [float(text) for text in kind.missing]
    return cast(ir.NumericValue, value.isin(markers).ifelse(None, value) if markers else value)


def date_of(value: ir.Value, kind: Kind, missing: Sequence[str]) -> ir.DateValue:
    """The day, null where it is missing."""
    return cast(ir.DateValue, moment_of(value, kind, missing).cast("date"))


def moment_of(value: ir.Value, kind: Kind, missing: Sequence[str]) -> ir.Value:
    if not kind.form:
        markers = [date.fromisoformat(text) for text in kind.missing]
        return value.cast("date").isin(markers).ifelse(None, value) if markers else value
    form = kind.form.removeprefix("int ")
    text = cast(ir.StringValue, text_of(value, kind, missing).nullif(""))
    if "%Y" in form:  # engines read 26 as the year 26
        text = cast(ir.StringValue, text.re_search(r"\d{4}").ifelse(text, "a year of two digits: " + text))
    return text.as_date(form) if kind.name == "date" else text.as_timestamp(form)
