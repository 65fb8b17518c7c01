"""The task `table`, whose columns, target and splits are declared in a TOML file instead of Python.

vgp new table titanic.csv --target survived        # proposes titanic.toml
vgp run training --set task=titanic.toml --set data=titanic.csv
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import ClassVar, cast

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from vgp.base.exits import UserError
from vgp.base.text.printable import quote
from vgp.data import splits
from vgp.data.schema import Field
from vgp.data.sources.data_files import Reading
from vgp.data.tabular import TabularTask
from vgp.data.task import Options
from vgp.data.tasks.table import parsing, strange_values
from vgp.data.tasks.table.column_types import DATES, NEITHER, NUMBERS, PLAIN, Kind, NumberForm, form_of, to_number
from vgp.data.tasks.table.declaration import Declared, Network
from vgp.data.tasks.table.parsing import parse
from vgp.data.tasks.table.strange_values import BLANKS
from vgp.protocol.outcome import PREDICTED

#: Tables of the TOML whose keys the options of a run may override.
_TABLES = ("split", "reading", "network")


class Table(TabularTask):
    """A tabular task that a task.toml declares. The option `declaration` is the whole text of the file."""

    settings: ClassVar[Options] = {**TabularTask.settings, "declaration": "", **Network().model_dump()}

    def __init__(self, options: Options | None = None):
        text = (options or {}).get("declaration", "")
        if not isinstance(text, str) or not text.strip():
            raise UserError(
                "the task table needs a declaration: give a file by --set task=FILE.toml. To write one, run "
                "vgp new table DATA --target COLUMN."
            )
        self.declared = parse(text)
        # Attributes of the object, because the class is shared by all tables.
        self.__dict__.update(_attributes(self.declared, text))
        super().__init__(options)
        self._check_split(text)

    def _check_split(self, text: str) -> None:
        """Raises UserError for a key of [split] that has no effect."""
        options = self.declared.split.model_dump(exclude_unset=True)
        try:
            splits.choose(self.declaration, self.unlabelled, TabularTask.settings, options)
        except UserError as error:
            raise UserError(f"the task's TOML, line {parsing.line_of(text, ['split'])}: [split]: {error}") from None

    def strange_values(self, sample: Mapping[str, np.ndarray], names: Mapping[str, Sequence[str]]) -> Iterator[str]:
        """Yields warnings about suspicious values in train rows, by the rules of `vgp new table`."""
        for column, (name, *_) in feature_names(self.declared).items():
            if name not in sample:
                continue
            kind, values, rows = self.declared.kinds[column], sample[name], f"{len(sample[name]):,} train rows"
            if kind.word in NUMBERS:
                for value, count in strange_values.count_markers(values).items():
                    missing = strange_values.add_marker(self.declared.columns[column], value)
                    yield (
                        f"{column} holds {value:g} in {count:,} of {rows}, which may mean a missing value. If it does, "
                        f'declare {column} = "{missing}".'
                    )
            elif kind.word == "category":
                for first, *more in strange_values.find_spellings([text for text in names.get(name, ()) if text]):
                    count = int(np.isin(values, [names[name].index(text) for text in more]).sum())
                    yield (
                        f"{column} holds {quote(first)} and {', '.join(map(quote, more))} ({count:,} of {rows}), "
                        f'which count as different names. If they are one, declare {column} = "category any case".'
                    )

    def default_data(self) -> str:
        raise UserError("the task table has no default data: give files, folders, globs or bq://... by --set data=...")

    @property
    def reading(self) -> Reading:
        return replace(super().reading, missing=tuple(self.declared.missing))

    def days(self, rows: ir.Table) -> ir.DateValue:
        return date_of(rows[self.time], self.declared.kinds[self.time], self.declared.missing)

    def labels(self, rows: ir.Table) -> ir.NumericValue:
        """Returns the code of each row's class or, for a regression, the number itself."""
        target, kind = rows[self.target], self.declared.kinds[self.target]
        if self.regression:
            return number_of(target, kind, self.declared.missing, self.declared.reading.decimal).cast("float64")
        if kind.word == "bool":
            return target.cast("int64")
        text = text_of(target, kind, self.declared.missing)
        codes = [(title, code) for code, title in enumerate(self.classes)]
        unknown = [(value, None) for value in ("", *self.declared.left_out)]
        return cast(ir.IntegerValue, text.cases(*codes, *unknown, else_=-1).cast("int64"))

    def features(self, rows: ir.Table) -> Mapping[str, ir.Value]:
        return feature_values(self.declared, rows)


def _attributes(declared: Declared, text: str) -> dict[str, object]:
    """Returns the attributes of `TabularTask` that the declaration sets."""
    fixed = {*declared.key, declared.time}
    features = feature_names(declared)
    schema = tuple(
        Field(
            name, choose_stored_type(kind), nullable=name not in fixed,
            known="after" if name == declared.target else "before", declared=_line(text, name),
        )
        for name, kind in declared.kinds.items()
    )  # fmt: skip
    options = {name: value for table in _TABLES for name, value in getattr(declared, table).model_dump().items()}
    regression = declared.kind == "regression"
    return {
        "schema": schema,
        "key": tuple(declared.key),
        "time": declared.time,
        "group": declared.groups,
        "target": declared.target,
        "classes": () if regression else tuple(declared.classes),
        "quantiles": tuple(declared.quantiles) if regression else (),
        "decided_by": declared.decided_by,
        "slices": tuple(features[column][0] for column in declared.slices),
        "trusted": tuple(name for column in declared.trusted for name in features.get(column, ())),
        "unlabelled": f"no {declared.target}",
        "remarks": tuple(_repeats_remarks(declared)),
        "settings": {**Table.settings, **options},
    }


def _repeats_remarks(declared: Declared) -> Iterator[str]:
    """Yields the report's remarks on columns with repeated values, and what they mean for the figures."""
    by_hash = declared.groups[:1] if not declared.time else ()
    not_new = "in the train and the test split, so the figures do not hold for new values"
    effects = {
        "All rows with one value are in one split, so the figures hold for new values": by_hash,
        f"The decision counts rows with one value as one. Such rows are {not_new}":
            [name for name in declared.groups if name not in by_hash],
        f"The model learns the value, and rows with one value are {not_new}": declared.features,
    }  # fmt: skip
    rest = f"The model does not learn the value, but rows with one value are {not_new}"
    for effect in (*effects, rest):
        names = [
            f"{name} ({words})" for name, words in declared.repeats.items()
            if next((other for other, columns in effects.items() if name in columns), rest) == effect
        ]  # fmt: skip
        if names:
            yield f"Repeated values of {', '.join(names)}. {'' if len(names) == 1 else 'For each column: '}{effect}."


def _line(text: str, column: str) -> str:
    """Returns the place and the text of the line that declares a column, for messages."""
    number = parsing.line_of(text, ("columns", column))
    return f"line {number} of the task's TOML, {parsing.strip_line(text, number)}"


# ---- what a model learns from the columns of a task.toml, as Ibis expressions over one row each


WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
#: Columns that every dataset has.
_RESERVED = ("row_id", "label")
_PARTS = {
    "text": ("letters", "words", "digits"),
    "date": ("weekday", "month", "days"),
    "timestamp": ("weekday", "month", "days"),
}


def feature_values(declared: Declared, rows: ir.Table) -> dict[str, ir.Value]:
    """Returns the features of a row as Ibis expressions, by the names of `feature_names`.

    int, float, number, bool   the number
    category                   the text; the network groups rare values (`vgp.networks.tabular`)
    text                       the numbers of letters, words and digits
    date, timestamp            weekday, month, and the days to the row's time (without a time, since 1970-01-01)
    the time column            weekday, and the hour of a timestamp
    """
    values: dict[str, ir.Value] = {}
    for column, features in feature_names(declared).items():
        values |= zip(features, _build_values(declared, column, rows), strict=True)
    return values


def feature_names(declared: Declared) -> dict[str, list[str]]:
    """Returns the names of the features of each column, which are unique when case is ignored."""
    taken = {name.lower() for name in declared.columns}
    features: dict[str, list[str]] = {}
    reserved = {name: {*_RESERVED, *(PREDICTED if name in declared.slices else ())} for name in declared.columns}
    kinds = {**declared.features, **({declared.time: declared.kinds[declared.time]} if declared.time else {})}
    for column, kind in kinds.items():
        for part in _list_parts(declared, column, kind):
            name = f"{column}_{part}" if part else column
            while name.lower() in reserved[column] or (name != column and name.lower() in taken):
                name += "_"
            taken.add(name.lower())
            features.setdefault(column, []).append(name)
    return features


def _list_parts(declared: Declared, column: str, kind: Kind) -> Sequence[str]:
    if column == declared.time:
        return ("weekday", "hour") if kind.name == "timestamp" else ("weekday",)
    return _PARTS.get(kind.name, ("",))


def _build_values(declared: Declared, column: str, rows: ir.Table) -> list[ir.Value]:
    kind, missing = declared.kinds[column], declared.missing
    if kind.name == "category":
        return [text_of(rows[column], kind, missing)]
    if kind.name == "text":
        return _text(text_of(rows[column], kind, missing))
    if kind.name in DATES:
        return _build_date_features(declared, column, rows)
    if kind.name in NUMBERS:
        return [number_of(rows[column], kind, missing, declared.reading.decimal)]
    return [rows[column]]


def _text(text: ir.StringValue) -> list[ir.Value]:
    """Returns the numbers of letters, words and digits, all null for a missing text."""
    known = cast(ir.StringValue, text.nullif(""))
    words = known.length() - known.replace(" ", "").length() + 1
    return [known.length(), words, known.length() - known.re_replace("[0-9]", "").length()]


def _build_date_features(declared: Declared, column: str, rows: ir.Table) -> list[ir.Value]:
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


# ---- the values of a column of a task.toml: the Arrow type in which they are read, and Ibis expressions of them


#: The Arrow type of each type of a task.toml. Numbers and dates in a form of their own are read as text.
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
#: Number forms of int and float columns that are read as text, because some values are markers such as `n/a`.
PLAIN_FORMS = {"int": NumberForm(NEITHER), "float": NumberForm(PLAIN)}
ANY_CASE = "category any case"


def choose_stored_type(kind: Kind) -> pa.DataType:
    if kind.form.startswith("int "):
        return pa.int64()
    return pa.string() if kind.form or kind.marked else STORED[kind.word]


def text_of(value: ir.Value, kind: Kind, missing: Sequence[str]) -> ir.StringValue:
    """Returns a category or a text, "" where it is missing."""
    if choose_stored_type(kind) == pa.string():
        text = cast(ir.StringValue, value).fill_null("").strip()
    else:  # through int64, because engines write 3.0 in different ways
        whole = cast(ir.NumericValue, value).round() if value.type().is_floating() else value
        text = cast(ir.StringValue, whole.cast("int64").cast("string").fill_null(""))
    if markers := [*missing, *kind.missing] if choose_stored_type(kind) == pa.string() else list(kind.missing):
        text = cast(ir.StringValue, text.isin(markers).ifelse("", text))
    return plain_case(text) if kind.word == ANY_CASE else text


def plain_case(text: ir.StringValue) -> ir.StringValue:
    """Lowers the case and collapses blanks, so that `Yes`, `YES` and `yes ` are one name."""
    return cast(ir.StringValue, text.lower().re_replace(BLANKS, " ").strip())


def number_of(value: ir.Value, kind: Kind, missing: Sequence[str], decimal: str) -> ir.NumericValue:
    """Returns a number, null where it is missing. A text that does not fit the declared form fails when computed."""
    if choose_stored_type(kind) == pa.string():
        known = cast(ir.StringValue, text_of(value, kind, missing).nullif(""))
        form = form_of(kind.form, decimal) if kind.word == "number" else PLAIN_FORMS[kind.word]
        return to_number(known, cast(NumberForm, form), f'{value.get_name()} = "{kind.text}"')
    markers = [float(text) for text in kind.missing]
    return cast(ir.NumericValue, value.isin(markers).ifelse(None, value) if markers else value)


def date_of(value: ir.Value, kind: Kind, missing: Sequence[str]) -> ir.DateValue:
    """Returns the day, null where it is missing."""
    return cast(ir.DateValue, moment_of(value, kind, missing).cast("date"))


def moment_of(value: ir.Value, kind: Kind, missing: Sequence[str]) -> ir.Value:
    if not kind.form:
        markers = [date.fromisoformat(text) for text in kind.missing]
        return value.cast("date").isin(markers).ifelse(None, value) if markers else value
    form = kind.form.removeprefix("int ")
    text = cast(ir.StringValue, text_of(value, kind, missing).nullif(""))
    if "%Y" in form:  # for engines 26 would be the year 26
        text = cast(ir.StringValue, text.re_search(r"\d{4}").ifelse(text, "a year of two digits: " + text))
    return text.as_date(form) if kind.name == "date" else text.as_timestamp(form)
