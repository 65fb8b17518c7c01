"""What a column of a sample seems to hold: its type, and why."""

import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from training.data.sources.values import is_text
from training.printable import quoted

#: What people write for a missing value; in a column of text only those that are no word.
MARKERS_IN_TEXT = ("?", "-", "--", ".", "\\N", "#N/A", "N/A", "n/a", "NULL", "null", "NaN", "nan")
MARKERS = (*MARKERS_IN_TEXT, "NA", "na", "Null", "None", "none", "unknown", "missing")
#: Of the values of a column that would else be numbers, so few different ones may be markers that nobody foresaw.
MOST_STRANGE = 2
#: Whole numbers whose names say that they are codes.
CODES = re.compile(
    r"(^|[_\s-])(id|code|zip|zipcode|plz|postcode|postal|phone|iban|sku|class|type|category|cluster|grade)$", re.I
)
#: Free text has at least so many words, or letters, a value, on average.
WORDS, LETTERS = 4, 40
#: A text that has another value in more of the rows than this is no category.
MOSTLY_UNIQUE = 0.5
INT = r"^[+-]?\d{1,18}$"
FLOAT = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
COMMA = r"^[+-]?\d+(,\d+)?$"
SIGNED = r"^[+-]?[$€£¥]?\s?[+-]?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?\s?[%$€£¥]?$"
SIGNED_COMMA = r"^[+-]?[$€£¥]?\s?[+-]?(\d{1,3}(\.\d{3})+|\d+)(,\d+)?\s?[%$€£¥]?$"
ISO_DATE = r"^\d{4}-\d{2}-\d{2}$"
ISO_TIME = r"^\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?$"
ISO_ZONE = r"^\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:?\d{2})$"
#: Other forms of dates, those with the month first before those with the day first.
_FORMS = ("%m/%d/%Y", "%d/%m/%Y", "%d.%m.%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y", "%d %b %Y", "%b %d, %Y", "%d-%b-%Y")
_SHORT = ("%d-%b-%y", "%m/%d/%y", "%d/%m/%y", "%d.%m.%y")
FORMS = (*_FORMS, *_SHORT)
CLOCKS = ("", " %H:%M", " %H:%M:%S")


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
    #: Whether its decimals follow a comma.
    comma: bool = False

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
    def numbers(self) -> np.ndarray:
        """The values as float64, nan for missing; of a column that is a number."""
        values: Any = self.values
        if is_text(values.type):
            plain = pc.replace_substring_regex(values, r"[$€£¥%\s']", "")
            plain = pc.replace_substring(pc.replace_substring(plain, "." if self.comma else ",", ""), ",", ".")
            values = plain if self.comma or self.word == "number" else values
        return np.asarray(pc.fill_null(values.cast(pa.float64(), safe=False), np.nan).to_numpy(zero_copy_only=False))


def guess(name: str, column: pa.ChunkedArray) -> Guess:
    """What the column holds, by all its values in the sample."""
    values = column.combine_chunks()
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_decimal(values.type) and values.type.scale <= 0:  # as Oracle and Snowflake store whole numbers
        with suppress(pa.ArrowInvalid):
            values = values.cast(pa.int64())
    if is_text(values.type):
        return _text(name, pc.utf8_trim_whitespace(values.cast(pa.string())))
    kinds = pa.types
    if kinds.is_boolean(values.type):
        return Guess(name, values, "bool")
    if kinds.is_integer(values.type):
        found = Guess(name, values, "int")
        return Guess(name, values, "category int", "named like a code") if _is_code(found) else found
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


def _is_code(found: Guess) -> bool:
    return bool(CODES.search(found.name)) and found.distinct <= max(20, len(found.values) // 10)


def _text(name: str, values: pa.Array) -> Guess:
    """Of text: numbers, dates and booleans that it spells, else a category or free text."""
    values = pc.if_else(pc.equal(values, ""), None, values)
    every = pc.unique(values.drop_null())
    found = _spelled(every, ())
    markers: tuple[str, ...] = ()
    if not found:
        markers = tuple(value for value in every.to_pylist() if value in MARKERS) if len(every) < 100_000 else ()
        found = _spelled(every, markers) if markers else None
    if not found:
        markers, found = _strange(every)
    if found:
        type_, why, comma = found
        made = Guess(name, _without(values, markers), type_, why, markers, comma)
        if type_ == "int" and _is_code(made):
            return Guess(name, made.values, "category", "whole numbers, named like a code", markers)
        return made
    markers = tuple(value for value in MARKERS_IN_TEXT if pc.index(every, value).as_py() >= 0)
    return _words(Guess(name, _without(values, markers), "category", "", markers))


def _without(values: pa.Array, markers: Collection[str]) -> pa.Array:
    return pc.if_else(pc.is_in(values, pa.array(list(markers), pa.string())), None, values) if markers else values


def _spelled(every: pa.Array, markers: Sequence[str]) -> tuple[str, str, bool] | None:
    """The type that all different values spell, but for the markers; why; and whether decimals follow a comma."""
    if markers:
        every = every.filter(pc.invert(pc.is_in(every, pa.array(markers, pa.string()))))
    if not len(every):
        return None
    if _all(every, INT):
        if pc.any(pc.match_substring_regex(every, r"^[+-]?0\d")).as_py():
            return "category", "digits with leading zeros", False
        return "int", "", False
    if _all(every, FLOAT):
        return "float", "", False
    if _all(every, COMMA):
        return "float", "decimals follow a comma", True
    if set(every[:5].to_pylist()) <= {"true", "false", "True", "False", "TRUE", "FALSE"}:
        return ("bool", "", False) if len(every) <= 2 else None
    if _all(every, SIGNED):
        return "number", f"written with signs, such as {quoted(every[0].as_py())}", False
    if _all(every, SIGNED_COMMA):
        return "number", f"written with signs, such as {quoted(every[0].as_py())}", True
    for form, type_ in ((ISO_DATE, "date"), (ISO_TIME, "timestamp"), (ISO_ZONE, "timestamp UTC")):
        if _all(every, form):
            return type_, "", False
    return _date(every)


def _all(values: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(values, pattern)).as_py())


def _date(every: pa.Array) -> tuple[str, str, bool] | None:
    """A date in a form of its own; where two forms fit all values, the first is taken and said."""
    if not _all(every, r"\d{2}"):
        return None
    fitting = []
    for clock in CLOCKS:
        for form in FORMS:
            parsed = pc.strptime(every, format=form + clock, unit="s", error_is_null=True)
            years = pc.year(parsed)
            if not parsed.null_count and pc.min(years).as_py() >= 1900 and pc.max(years).as_py() <= 2200:
                fitting.append(f"{'timestamp' if clock else 'date'} {form}{clock}")
    if not fitting:
        return None
    doubt = f"could also be {fitting[1].partition(' ')[2]}: look at it" if len(fitting) > 1 else ""
    return fitting[0], doubt, False


def _strange(every: pa.Array) -> tuple[tuple[str, ...], tuple[str, str, bool] | None]:
    """Numbers with a few words among them, which are then taken for markers."""
    words = every.filter(pc.invert(pc.match_substring_regex(every, r"\d")))
    if not 0 < len(words) <= MOST_STRANGE + sum(word in MARKERS for word in words[:20].to_pylist()):
        return (), None
    markers = tuple(words.to_pylist())
    found = _spelled(every, markers)
    if not found or len(every) < 10 * len(markers):
        return (), None
    shown = " and ".join(quoted(word) for word in markers if word not in MARKERS)
    return markers, (found[0], f"{shown} taken for missing" if shown else found[1], found[2])


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
