"""Guesses the type of a column from the values of a sample."""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vgp.base.exits import UserError
from vgp.base.text.printable import quote
from vgp.data.sources import parquet
from vgp.data.sources.values import is_text
from vgp.data.tasks.table import column_types as numbers
from vgp.data.tasks.table.ambiguities import Doubt
from vgp.data.tasks.table.column_types import Kind, NumberForm, parse_kind
from vgp.data.tasks.table.mixed_texts import find_mixed_texts
from vgp.data.tasks.table.strange_values import plain_case
from vgp.data.tasks.table.task import ANY_CASE, PLAIN_FORMS, choose_stored_type
from vgp.data.tasks.table.text_types import (
    CODES,
    FLOAT,
    INT,
    ISO_DATE,
    ISO_TIME,
    ISO_ZONE,
    MOMENT,
    as_dates,
    days_as_numbers,
    find_spelled_type,
    matches_pattern,
)

#: Texts that mean a missing value. In a column of text only those that are not words count.
MARKERS_IN_TEXT = ("?", "-", "--", ".", "\\N", "#N/A", "N/A", "n/a", "NULL", "null", "NaN", "nan")
MARKERS = (*MARKERS_IN_TEXT, "NA", "na", "Null", "None", "none", "unknown", "missing")
#: Free text has on average at least this many words, or letters, per value.
WORDS, LETTERS = 4, 40
#: A text column with a larger share of distinct values is not a category.
MOSTLY_UNIQUE = 0.5
#: Characters that engines strip from the ends of a text.
BLANK = " \t\n\r\v\f"


@dataclass(frozen=True)
class Guess:
    """A column of the sample with its guessed type."""

    name: str
    #: The values, all of one type: texts are stripped, and markers of missing values are null.
    values: pa.Array
    #: A type of `kinds`; "" if a model cannot learn from the column.
    type: str
    why: str = ""
    #: The markers of missing values that occur.
    markers: tuple[str, ...] = ()
    #: Other readings of the values.
    doubts: tuple[Doubt, ...] = ()

    @cached_property
    def known(self) -> pa.Array:
        return self.values.drop_null()

    @cached_property
    def distinct(self) -> int:
        return int(pc.count_distinct(self.known).as_py())

    @property
    def missing(self) -> float:
        """The share of the rows without a value."""
        return 1 - len(self.known) / len(self.values)

    @property
    def unique(self) -> bool:
        """Whether all rows have different values, and none is missing."""
        return self.distinct == len(self.values)

    @property
    def word(self) -> str:
        return self.type.partition(" ")[0]

    @cached_property
    def kind(self) -> Kind:
        return parse_kind(self.type)

    @cached_property
    def numbers(self) -> np.ndarray:
        """The values of a column of numbers as float64, nan for missing."""
        if self.word == "number":
            return numbers.parse_numbers(self.values, _find_number_form(self.kind))
        values = self.values.cast(pa.float64(), safe=False)
        return np.asarray(pc.fill_null(values, np.nan).to_numpy(zero_copy_only=False))

    @cached_property
    def days(self) -> pa.Array:
        """The days of a column of dates, without the missing ones."""
        known, form = self.known, self.kind.form.removeprefix("int ")
        if form:
            known = pc.strptime(known.cast(pa.string()), format=form, unit="s", error_is_null=True)
        elif pa.types.is_string(known.type):
            known = pc.strptime(pc.utf8_slice_codeunits(known, 0, 10), format="%Y-%m-%d", unit="s", error_is_null=True)
        return known.cast(pa.timestamp("us"), safe=False).cast(pa.date32(), safe=False)


def guess_column(name: str, column: pa.ChunkedArray, declared: str = "") -> Guess:
    """Guesses the type of a column from all its values in the sample.

    Args:
        declared: The type that the user gave, which replaces the guess; "" = none.

    Raises:
        UserError: `declared` is not a type, or a value does not fit it.
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
        return _read_declared(name, values, declared)
    return _guess_text(name, values) if is_text(values.type) else _guess_stored(name, values)


def _guess_stored(name: str, values: pa.Array) -> Guess:
    """Guesses the type of values that the file does not store as text."""
    kinds = pa.types
    if kinds.is_boolean(values.type):
        return Guess(name, values, "bool")
    if kinds.is_integer(values.type):
        column = Guess(name, values, "int")
        if _is_code(column):
            return Guess(name, values, "category int", "named like a code")
        return replace(column, doubts=days_as_numbers(name, pc.unique(column.known).cast(pa.string()), "int "))
    if kinds.is_floating(values.type) or kinds.is_decimal(values.type):
        known = pc.fill_null(values.cast(pa.float64()), np.nan)
        known = pc.if_else(pc.is_nan(known), None, known)
        texts = (f"{value:.15g}" for value in pc.unique(known.drop_null()).to_pylist())
        moments = days_as_numbers(name, pa.array(texts, pa.string()), "") if MOMENT.search(name) else ()
        return Guess(name, known, "float", doubts=moments)
    if kinds.is_date(values.type):
        return Guess(name, values, "date")
    if kinds.is_timestamp(values.type):
        return Guess(name, values, "timestamp UTC" if values.type.tz else "timestamp")
    if kinds.is_null(values.type):
        return Guess(name, values.cast(pa.string()), "")
    return Guess(name, pa.nulls(len(values), pa.string()), "", f"type {values.type}, which is not a single value")


def _read_declared(name: str, values: pa.Array, declared: str) -> Guess:
    """Reads the column in the type that the user gave. Raises UserError for a value that does not fit."""
    option = f"--read {name}={declared}"
    try:
        type_ = parse_kind(declared)
    except ValueError as error:
        raise UserError(f"{option}: {error}") from None
    if not is_text(values.type):
        if not parquet.fits(values.type, choose_stored_type(type_)):
            raise UserError(f"{option}: the file stores {values.type}, which cannot be read as {declared}.")
        marked = pc.is_in(values.cast(pa.string()), pa.array(type_.missing, pa.string()))
        column = _guess_stored(name, pc.if_else(marked, None, values))
        return replace(column, type=declared, why="as requested", doubts=())
    usual = () if type_.name in ("category", "text") else MARKERS
    markers = tuple(text for text in pc.unique(values.drop_null()).to_pylist() if text in usual)
    known = _drop_markers(values, {*markers, *type_.missing})
    fits = _matches_type(pc.unique(known.drop_null()), type_)
    if (at := fits.index(False).as_py()) >= 0:
        wrong = pc.unique(known.drop_null())[at].as_py()
        row = pc.index(values, wrong).as_py() + 1
        raise UserError(f"{option}: {quote(wrong)} in row {row:,} of the sample does not fit this type.")
    if type_.word == ANY_CASE:
        known = plain_case(known)
    if type_.word in ("category int", "category float"):
        known = known.cast(choose_stored_type(type_))
    return Guess(name, known, declared, "as requested", markers)


def _matches_type(texts: pa.Array, type_: Kind) -> pa.Array:
    """Whether each text is a value of the type."""
    if type_.name in ("int", "float", "number"):
        form = _find_number_form(type_) if type_.name == "number" or type_.marked else None
        return (
            pa.array(numbers.matches(texts, form))
            if form
            else matches_pattern(texts, INT if type_.name == "int" else FLOAT)
        )
    if type_.word == "category int":
        return matches_pattern(texts, INT)
    if type_.word == "category float":
        return matches_pattern(texts, r"^[+-]?\d{1,15}(\.0*)?$")
    if type_.name == "bool":
        return matches_pattern(texts, "(?i)^(true|false|0|1)$")
    if type_.form:
        return as_dates(texts, type_.form.removeprefix("int ")).is_valid()
    iso = {"date": ISO_DATE, "timestamp": ISO_TIME, "timestamp UTC": ISO_ZONE}
    return matches_pattern(texts, iso.get(type_.word, ""))


def _find_number_form(type_: Kind) -> NumberForm:
    return PLAIN_FORMS.get(type_.word) or cast(NumberForm, numbers.form_of(type_.form))


def _is_code(column: Guess) -> bool:
    return bool(CODES.search(column.name)) and column.distinct <= max(20, len(column.values) // 10)


def _guess_text(name: str, values: pa.Array) -> Guess:
    """Guesses the type of texts: numbers, dates or booleans if all of them are, else a category or free text."""
    texts = pc.unique(values.drop_null())
    spelled = find_spelled_type(name, texts)
    markers: tuple[str, ...] = ()
    if not spelled:
        markers = tuple(value for value in texts.to_pylist() if value in MARKERS) if len(texts) < 100_000 else ()
        spelled = find_spelled_type(name, _drop_markers(texts, markers).drop_null()) if markers else None
    if spelled:
        column = Guess(name, _drop_markers(values, markers), spelled.type, spelled.why, markers, spelled.doubts)
        if column.type == "int" and _is_code(column):
            return Guess(name, column.values, "category", "whole numbers, named like a code", markers)
        return column
    known = _drop_markers(texts, markers).drop_null()
    markers = tuple(value for value in MARKERS_IN_TEXT if pc.index(texts, value).as_py() >= 0)
    column = _split_words(Guess(name, _drop_markers(values, markers), "category", "", markers))
    return column if _is_code(column) else replace(column, doubts=find_mixed_texts(name, known))


def _drop_markers(values: pa.Array, markers: Collection[str]) -> pa.Array:
    return pc.if_else(pc.is_in(values, pa.array(list(markers), pa.string())), None, values) if markers else values


def _split_words(column: Guess) -> Guess:
    """Returns the column as a category or, if its values are long and mostly unique, as free text."""
    known = column.known
    if not len(known):
        return Guess(column.name, column.values, "", "", column.markers)
    words = pc.mean(pc.add(pc.count_substring(known, " "), 1)).as_py()
    letters = pc.mean(pc.utf8_length(known)).as_py()
    unique = column.distinct > MOSTLY_UNIQUE * len(known) and (words >= WORDS or letters >= LETTERS)
    if unique or (column.distinct > 20 and words >= 2 * WORDS):
        why = "free text: the model learns its numbers of letters, words and digits"
        return Guess(column.name, column.values, "text", why, column.markers)
    return column
