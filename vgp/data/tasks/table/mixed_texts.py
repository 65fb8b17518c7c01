"""Doubts about texts that are neither all numbers nor all dates, but look like them to a reader."""

import re
from collections.abc import Iterator, Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from vgp.base.text.printable import quote
from vgp.data.tasks.table import column_types as numbers
from vgp.data.tasks.table.ambiguities import Doubt, Reading
from vgp.data.tasks.table.column_types import DATES, NumberForm, with_missing
from vgp.data.tasks.table.text_types import (
    DATE_LIKE,
    MOST_STRAY,
    all_match,
    choose_number_type,
    matches_pattern,
    parse_dates,
)

#: A column of numbers or dates may have strays: it needs this many distinct values, with at most `MOST_STRAY` of them
#: and this number of strays.
LEAST_ALIKE, MOST_STRAYS = 10, 20
YEAR = r"\b(19|20)\d\d\b"
#: Numbers with a unit, or with a mark such as ~12, <5 or 12*.
UNITS = (r"^[+-]?\d[\d.,]* ?(k|K|m|M|kg|g|mg|t|cm|mm|km|h|min|s|ms|B|kB|KB|MB|GB|TB|lb|lbs|oz|ft|in)?$|"
         r"^[^\pL\d\s]{0,2} ?\d[\d.,]*[^\pL\d\s]{0,2}$")  # fmt: skip
#: Numbers in digits other than 0 to 9, such as Arabic ones.
OTHER_DIGITS = r"^[+\-\x{2212}]?[\p{Nd}.,\x{66B}\x{66C} ]*\p{Nd}$"
#: Times that no format of a date reads: quarters, weeks and days of a year, and dates with words between the numbers.
_PART = r"[ -]?(q|w|kw|h|t)[ -]?\d{1,2}"
_WORDS = r"(\pL{2,10}[.,]? )*"
TIMES = (rf"(?i)^((19|20)\d\d{_PART}|(q|w|kw|h|t)[ -]?\d{{1,2}}[ /-](19|20)\d\d|(19|20)\d\d-[0-3]\d\d|"
         rf"{_WORDS}\d{{1,2}}[.,]? {_WORDS}(19|20)\d\d( .*)?|\pL{{3,10}}[.]? (19|20)\d\d)$")  # fmt: skip
#: The most different words in such a column: months, weekdays and a time zone.
MOST_WORDS = 24


def find_mixed_texts(name: str, texts: pa.Array) -> tuple[Doubt, ...]:
    """Asks about texts that are nearly all numbers or dates of one form, or all of them in several or unknown forms."""
    if len(texts) > 1 and (doubts := [*_ask_about_digits(name, texts), *_times(name, texts)]):
        return tuple(doubts)
    if not len(texts) or pc.mean(matches_pattern(texts, r"\d").cast(pa.float64())).as_py() < 1 - MOST_STRAY:
        return ()
    fitting = [(f"{digits}", pa.array(numbers.matches(texts, NumberForm(digits, numbers.ANY))))
               for digits in (numbers.NEITHER, numbers.POINT, numbers.COMMA)]  # fmt: skip
    fitting += [(type_, dates.is_valid()) for type_, dates in parse_dates(texts)]
    least = min(len(texts) - pc.sum(fits).as_py() for _, fits in fitting)
    best = [(type_, fits) for type_, fits in fitting if len(texts) - pc.sum(fits).as_py() == least]
    names = Reading("names, not numbers", "category")
    if len(texts) >= LEAST_ALIKE and 0 < least <= MOST_STRAY * len(texts):
        strays = texts.filter(pc.invert(best[0][1])).to_pylist()
        return (
            Doubt(name, strays[0], (*_without_strays(texts, best, strays), names), "unlike nearly all other values"),
        )
    one_form = Reading("numbers, or dates", choice="write all of them in one form in the file")
    fits_any = pc.or_(
        reduce(pc.or_, [fits for _, fits in fitting]),
        pc.and_(matches_pattern(texts, DATE_LIKE), matches_pattern(texts, YEAR)),
    )
    if len(texts) > 1 and pc.all(fits_any).as_py():
        first = texts[0].as_py()
        other = texts[max(1, pc.index(best[0][1], not best[0][1][0].as_py()).as_py())].as_py()
        return (Doubt(name, first, (one_form, names), f"and {quote(other)} has another form"),)
    if len(texts) > 1 and all_match(texts, UNITS):
        plain = pc.index(matches_pattern(texts, r"^[+-]?\d[\d.,]*$"), False).as_py()
        one_unit = Reading("a number with a unit or a mark", choice="write plain numbers of one unit in the file")
        return (Doubt(name, texts[plain].as_py(), (one_unit, names)),)
    return ()


def _ask_about_digits(name: str, texts: pa.Array) -> Iterator[Doubt]:
    if all_match(texts, OTHER_DIGITS) and not all_match(texts, r"^[ -~]*$"):
        readings = (Reading("numbers", choice="write them with the digits 0 to 9 in the file"),
                    Reading("names, not numbers", "category"))  # fmt: skip
        yield Doubt(name, texts[0].as_py(), readings)


def _times(name: str, texts: pa.Array) -> Iterator[Doubt]:
    """Asks about quarters, weeks and dates in words."""
    if not all_match(texts, TIMES):
        return
    words = {word for text in texts.to_pylist() for word in re.findall(r"[^\W\d_]+", text.lower())}
    if len(words) <= MOST_WORDS:
        readings = (Reading("a time", choice="write it like 2026-01-31 in the file"),
                    Reading("a name, and the rows have no order", "category"))  # fmt: skip
        yield Doubt(name, texts[0].as_py(), readings)


def _without_strays(texts: pa.Array, best: Sequence[tuple[str, pa.Array]], strays: Sequence[str]) -> Iterator[Reading]:
    """Yields the types of the other values, with the strays as markers of missing values."""
    if len(strays) > MOST_STRAYS or not all(map(str.isprintable, strays)):
        count = "exception" if len(strays) == 1 else f"{len(strays):,} exceptions"
        yield Reading("numbers, or dates", choice=f"write the {count} like the rest in the file")
        return
    rest = texts.filter(best[0][1])
    dates = [type_ for type_, _ in best if "%" in type_]
    types = dates or [choose_number_type(rest, form) for form in numbers.find_forms(rest)]
    for type_ in dict.fromkeys(types):
        values = "dates" if type_.partition(" ")[0] in DATES else "numbers"
        yield Reading(f"missing, in a column of {values}", with_missing(type_, tuple(strays)))
