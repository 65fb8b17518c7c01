"""What a column of a sample seems to hold: its type, and why."""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vgp.base.exits import UserError
from vgp.base.text.printable import quoted
from vgp.data.sources import parquet
from vgp.data.sources.values import is_text
from vgp.data.tasks.table import kinds as numbers
from vgp.data.tasks.table.doubts import Doubt
from vgp.data.tasks.table.kinds import Kind, NumberForm, kind
from vgp.data.tasks.table.strange_values import plain_case
from vgp.data.tasks.table.task import ANY_CASE, PLAIN_FORMS, stored
from vgp.data.tasks.table.text_types import (
    CODES,
    FLOAT,
    INT,
    ISO_DATE,
    ISO_TIME,
    ISO_ZONE,
    as_dates,
    days_as_numbers,
    matching,
    mixed_doubts,
    spelled_type,
)

#: What people write for a missing value; in a column of text only those that are no word.
MARKERS_IN_TEXT = ("?", "-", "--", ".", "\\N", "#N/A", "N/A", "n/a", "NULL", "null", "NaN", "nan")
MARKERS = (*MARKERS_IN_TEXT, "NA", "na", "Null", "None", "none", "unknown", "missing")
#: Free text has at least so many words, or letters, a value, on average.
WORDS, LETTERS = 4, 40
#: A text that has another value in more of the rows than this is no category.
MOSTLY_UNIQUE = 0.5
#: What an engine takes off the ends of a text.
BLANK = " \t\n\r\v\f"


@dataclass(frozen=True)
class Guess:
    """A column of the sample, and what it seems to hold."""

    name: str
    #: The values, all of one type; of text without blanks around, and null where a marker says that one is missing.
    values: pa.Array
    #: In the words of a task.toml; "" for what cannot be learned from.
    type: str
    why: str = ""
    #: Markers for a missing value that occur.
    markers: tuple[str, ...] = ()
    #: What its values may be otherwise.
    doubts: tuple[Doubt, ...] = ()

    @cached_property
    def known(self) -> pa.Array:
        return self.values.drop_null()

    @cached_property
    def distinct(self) -> int:
        return int(pc.count_distinct(self.known).as_py())

    @property
    def missing(self) -> float:
        """The share of the rows that have no value."""
        return 1 - len(self.known) / len(self.values)

    @property
    def unique(self) -> bool:
        """Whether every row has a value of its own."""
        return self.distinct == len(self.values)

    @property
    def word(self) -> str:
        return self.type.partition(" ")[0]

    @cached_property
    def kind(self) -> Kind:
        return kind(self.type)

    @cached_property
    def numbers(self) -> np.ndarray:
        """The values as float64, nan for missing; of a column that is a number."""
        if self.word == "number":
            return numbers.parsed(self.values, _form(self.kind))
        values = self.values.cast(pa.float64(), safe=False)
        return np.asarray(pc.fill_null(values, np.nan).to_numpy(zero_copy_only=False))

    @cached_property
    def days(self) -> pa.Array:
        """The days, without those that are missing; of a column of dates."""
        known, form = self.known, self.kind.form.removeprefix("int ")
        if form:
            known = pc.strptime(known.cast(pa.string()), format=form, unit="s", error_is_null=True)
        elif pa.types.is_string(known.type):
            known = pc.strptime(pc.utf8_slice_codeunits(known, 0, 10), format="%Y-%m-%d", unit="s", error_is_null=True)
        return known.cast(pa.timestamp("us"), safe=False).cast(pa.date32(), safe=False)


def guess(name: str, column: pa.ChunkedArray, declared: str = "") -> Guess:
    """What the column holds, by all its values in the sample.

    Args:
        declared: The type that the user gives, in the words of a task.toml; "" = none.

    Raises:
        UserError: that is no type, or a value is not of it.
    """
    values = column.combine_chunks()
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_decimal(values.type) and values.type.scale <= 0:  # as Oracle and Snowflake store whole numbers
        with suppress(pa.ArrowInvalid):
            values = values.cast(pa.int64())
    if is_text(values.type):
        values = pc.utf8_trim(values.cast(pa.string()), BLANK)
        values = pc.if_else(pc.equal(values, ""), None, values)
    if declared:
        return _declared(name, values, declared)
    return _text(name, values) if is_text(values.type) else _stored(name, values)


def _stored(name: str, values: pa.Array) -> Guess:
    """Of values that are no text."""
    kinds = pa.types
    if kinds.is_boolean(values.type):
        return Guess(name, values, "bool")
    if kinds.is_integer(values.type):
        found = Guess(name, values, "int")
        if _is_code(found):
            return Guess(name, values, "category int", "named like a code")
        return replace(found, doubts=days_as_numbers(name, pc.unique(found.known).cast(pa.string()), "int "))
    if kinds.is_floating(values.type) or kinds.is_decimal(values.type):
        known = pc.fill_null(values.cast(pa.float64()), np.nan)
        return Guess(name, pc.if_else(pc.is_nan(known), None, known), "float")
    if kinds.is_date(values.type):
        return Guess(name, values, "date")
    if kinds.is_timestamp(values.type):
        return Guess(name, values, "timestamp UTC" if values.type.tz else "timestamp")
    if kinds.is_null(values.type):
        return Guess(name, values.cast(pa.string()), "")
    return Guess(name, pa.nulls(len(values), pa.string()), "", f"of the type {values.type}, which is no single value")


def _declared(name: str, values: pa.Array, declared: str) -> Guess:
    """The column in the type that the user gives it."""
    option = f"--read {name}={declared}"
    try:
        wanted = kind(declared)
    except ValueError as error:
        raise UserError(f"{option}: {error}") from None
    if not is_text(values.type):
        if not parquet.fits(values.type, stored(wanted)):
            raise UserError(f"{option}: the file stores {values.type}, which is not read as {declared}.")
        marked = pc.is_in(values.cast(pa.string()), pa.array(wanted.missing, pa.string()))
        found = _stored(name, pc.if_else(marked, None, values))
        return replace(found, type=declared, why="as given", doubts=())
    usual = () if wanted.name in ("category", "text") else MARKERS
    markers = tuple(text for text in pc.unique(values.drop_null()).to_pylist() if text in usual)
    known = _without(values, {*markers, *wanted.missing})
    fits = _fits(pc.unique(known.drop_null()), wanted)
    if (at := fits.index(False).as_py()) >= 0:
        wrong = pc.unique(known.drop_null())[at].as_py()
        row = pc.index(values, wrong).as_py() + 1
        raise UserError(f"{option}: {quoted(wrong)}, in row {row:,} of those that were read, is not written so.")
    if wanted.word == ANY_CASE:
        known = plain_case(known)
    if wanted.word in ("category int", "category float"):
        known = known.cast(stored(wanted))
    return Guess(name, known, declared, "as given", markers)


def _fits(every: pa.Array, wanted: Kind) -> pa.Array:
    """Whether each text is a value of the type."""
    if wanted.name in ("int", "float", "number"):
        form = _form(wanted) if wanted.name == "number" or wanted.marked else None
        return (
            pa.array(numbers.matches(every, form)) if form else matching(every, INT if wanted.name == "int" else FLOAT)
        )
    if wanted.word == "category int":
        return matching(every, INT)
    if wanted.word == "category float":
        return matching(every, r"^[+-]?\d{1,15}(\.0*)?$")
    if wanted.name == "bool":
        return matching(every, "(?i)^(true|false|0|1)$")
    if wanted.form:
        return as_dates(every, wanted.form.removeprefix("int ")).is_valid()
    iso = {"date": ISO_DATE, "timestamp": ISO_TIME, "timestamp UTC": ISO_ZONE}
    return matching(every, iso.get(wanted.word, ""))


def _form(wanted: Kind) -> NumberForm:
    return PLAIN_FORMS.get(wanted.word) or cast(NumberForm, numbers.form_of(wanted.form))


def _is_code(found: Guess) -> bool:
    return bool(CODES.search(found.name)) and found.distinct <= max(20, len(found.values) // 10)


def _text(name: str, values: pa.Array) -> Guess:
    """Of text: numbers, dates and booleans that it spells, else a category or free text."""
    every = pc.unique(values.drop_null())
    found = spelled_type(name, every)
    markers: tuple[str, ...] = ()
    if not found:
        markers = tuple(value for value in every.to_pylist() if value in MARKERS) if len(every) < 100_000 else ()
        found = spelled_type(name, _without(every, markers).drop_null()) if markers else None
    if found:
        made = Guess(name, _without(values, markers), found.type, found.why, markers, found.doubts)
        if made.type == "int" and _is_code(made):
            return Guess(name, made.values, "category", "whole numbers, named like a code", markers)
        return made
    known = _without(every, markers).drop_null()
    markers = tuple(value for value in MARKERS_IN_TEXT if pc.index(every, value).as_py() >= 0)
    made = _words(Guess(name, _without(values, markers), "category", "", markers))
    return made if _is_code(made) else replace(made, doubts=mixed_doubts(name, known))


def _without(values: pa.Array, markers: Collection[str]) -> pa.Array:
    return pc.if_else(pc.is_in(values, pa.array(list(markers), pa.string())), None, values) if markers else values


def _words(found: Guess) -> Guess:
    """A category, free text, or what names its row."""
    known = found.known
    if not len(known):
        return Guess(found.name, found.values, "", "", found.markers)
    words = pc.mean(pc.add(pc.count_substring(known, " "), 1)).as_py()
    letters = pc.mean(pc.utf8_length(known)).as_py()
    if found.distinct > MOSTLY_UNIQUE * len(known) and (words >= WORDS or letters >= LETTERS):
        return Guess(found.name, found.values, "text", "free text: its letters, words and digits", found.markers)
    if found.distinct > 20 and words >= 2 * WORDS:
        return Guess(found.name, found.values, "text", "free text: its letters, words and digits", found.markers)
    return found
