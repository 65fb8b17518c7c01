"""The types of columns in a task.toml.

int, float, bool                   numbers, true and false
number                             formatted numbers, with an example: number $1,234.5 or number 1.234,5
category                           names; category int and category float if the file stores numbers; category any case
                                   if Yes, YES and yes are one name
text                               free text
date, timestamp, timestamp UTC     in ISO 8601, or with a format, such as date %d.%m.%Y; date int %Y%m%d if the file
                                   stores numbers

All but bool may end with the texts that mean a missing value in this column: int missing -999 n.v.

The example of a `number` shows the thousands separator and the decimal mark (`number 1.234,5 €`, `number 1234%`); 1234
allows neither point nor comma. In each form a blank, an apostrophe or an underscore may separate thousands, and
parentheses or a trailing minus make a number negative. A text that does not fit the form is an error, never another
number.
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vgp.base.text.nearest import did_you_mean
from vgp.base.text.printable import quote

WORDS = (
    "int", "float", "number", "bool", "category", "category int", "category float", "text", "date", "timestamp",
    "timestamp UTC", "category any case",
)  # fmt: skip
NUMBERS = ("int", "float", "number")
DATES = ("date", "timestamp")


@dataclass(frozen=True)
class Kind:
    """The type of a column: its word, and the form of a `number` or of a date that is not in ISO 8601."""

    word: str
    form: str = ""
    #: Texts that mean a missing value in this column.
    missing: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The first word, such as `category` of `category int`."""
        return self.word.partition(" ")[0]

    @property
    def text(self) -> str:
        return with_missing(f"{self.word} {self.form}".strip(), self.missing)

    @property
    def marked(self) -> bool:
        """Whether numbers are read as text because a marker of missing values is not a number."""
        return self.word in ("int", "float") and not all(_NUMBER.fullmatch(text) for text in self.missing)


_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


def with_missing(text: str, missing: tuple[str, ...]) -> str:
    """Appends the markers of missing values to a type."""
    quoted = (shlex.quote(marker) if re.search(r"[\s'\"\\]", marker) else marker for marker in missing)
    return f"{text} missing {' '.join(quoted)}" if missing else text


def parse_kind(text: str) -> Kind:
    """Parses a type. Raises ValueError for a text that is not a type."""
    plain, behind, rest = text.partition(" missing ")
    try:
        missing = tuple(shlex.split(rest))
    except ValueError as error:
        raise ValueError(f'{quote(text)}: {error}. Quote the texts behind "missing" as in a shell.') from None
    if behind and (not missing or plain == "bool"):
        raise ValueError(f'{quote(text)}: "missing" needs texts, as in "int missing -999 n.v."; a bool cannot have it.')
    word, _, form = plain.partition(" ")
    if plain in WORDS and word in DATES and not all(_DAY.fullmatch(text) for text in missing):
        raise ValueError(f'{quote(text)}: a {word} without a format needs days behind "missing", such as 9999-12-31.')
    if plain in WORDS:
        return Kind(plain, "", missing)
    if word in DATES and re.search(r"%[a-zA-Z]", form):
        return Kind(word, form, missing)
    if word == "number" and form_of(form):
        return Kind(word, form, missing)
    raise ValueError(
        f"{quote(text)} is not a type. {did_you_mean(text, WORDS)} A date that is not written like 2026-01-31 needs "
        'its format: "date %d.%m.%Y"; a formatted number an example: "number $1,234.5" or "number 1.234,5".'
    )


POINT, COMMA, NEITHER, PLAIN = "1,234.5", "1.234,5", "1234", "1234.5"
CURRENCIES = r"[$€£¥₹₩₽]|USD|EUR|GBP|CHF|JPY|CAD|AUD|NZD|INR|CNY|SEK|NOK|DKK|PLN|BRL"
#: The sign "any": any sign or none. The sign "percent": a percent sign divides by 100.
ANY, PERCENT = "any", "percent"
_FORM = re.compile(rf"(?:({CURRENCIES}|{ANY}) ?)?(1,234\.5|1\.234,5|1234\.5|1234)(?: ?({CURRENCIES}|%|{PERCENT}))?")
_BLANK = r"[\s\x{a0}\x{202f}\x{2009}]"
_SIGN = r"[+\-\x{2212}]"
_POWER = r"(?:[eE][+-]?\d+)?"
_THIN = rf"(?:{_BLANK}|['\x{{2019}}_])"


def _digits(mark: str, decimal: str, group: str) -> str:
    """Returns an RE2 pattern of digits with optional thousands separators; 0,125 does not count as separated.

    Args:
        mark: The thousands separator.
        group: The digits between two separators.
    """
    parted = rf"[1-9]\d{{0,2}}(?:(?:{_THIN}\d{{3}})+|(?:{mark}{group})*{mark}\d{{3}})(?:{decimal}\d*)?"
    return rf"(?:{parted}|\d{{1,3}}(?:{mark}\d{{3}})+{decimal}\d+|(?:\d+{decimal}?\d*|{decimal}\d+){_POWER})"


_DIGITS = {
    POINT: _digits(",", r"\.", r"\d{2,3}"),  # India groups two digits
    COMMA: _digits(r"\.", ",", r"\d{3}"),
    NEITHER: rf"(?:[1-9]\d{{0,2}}(?:{_THIN}\d{{3}})+|\d+{_POWER})",
    PLAIN: rf"(?:(?:\d+\.?\d*|\.\d+){_POWER})",
}


@dataclass(frozen=True)
class NumberForm:
    """The form of the numbers in a column."""

    digits: str = POINT
    #: A currency, which values may omit; "%", which all values have; `any`; `percent`; or "".
    sign: str = ""
    before: bool = False

    @property
    def text(self) -> str:
        """The form as written after the word `number`."""
        if not self.sign:
            return self.digits
        gap = "" if len(self.sign) == 1 and (self.before or self.sign == "%") else " "
        return f"{self.sign}{gap}{self.digits}" if self.before else f"{self.digits}{gap}{self.sign}"

    @property
    def pattern(self) -> str:
        """An RE2 pattern that matches the texts of this form."""
        optional = {ANY: rf"(?:%|{CURRENCIES})?", PERCENT: "%?", "": ""}
        sign = optional.get(self.sign, f"(?:{re.escape(self.sign)}){'' if self.sign == '%' else '?'}")
        before = optional[""] if self.sign in ("%", PERCENT) else sign
        unit, number = rf"(?:{before}{_BLANK}?)", rf"{_DIGITS[self.digits]}{_BLANK}?{sign}"
        plain = rf"(?:{_SIGN}?{_BLANK}?{unit}|{unit}{_SIGN}{_BLANK}?){number}"
        return rf"^(?:{plain}|{unit}\({unit}{number}\)|{unit}{number}[\-\x{{2212}}])$"


#: A minus or a parenthesis before the first digit, or a minus at the end.
_NEGATIVE = r"^[^0-9]*[\-\x{2212}(]|[\-\x{2212}]$"
#: The characters to remove from a number, and the part that remains.
_REST, _OUTER = r"[^0-9.,eE+\-]", r"^[.,+\-]*?([.,]?[0-9].*?)[+\-]*$"


def form_of(text: str, decimal: str = "") -> NumberForm | None:
    """Parses the form after the word `number`; returns None if it is not one.

    Args:
        decimal: The decimal mark of an empty form.
    """
    if not text:
        return NumberForm(COMMA if decimal == "," else POINT, ANY, before=True)
    match = _FORM.fullmatch(text)
    if not match or (match[1] and match[3]):
        return None
    return NumberForm(match[2], match[1] or match[3] or "", before=bool(match[1]))


def find_forms(texts: pa.Array) -> list[NumberForm]:
    """Returns the forms that fit all texts: two if the texts are ambiguous, such as 1,250."""
    fitting = [digits for digits in (NEITHER, POINT, COMMA) if matches(texts, NumberForm(digits, ANY)).all()]
    sign = _signs(texts) if fitting else ("", False)
    return [NumberForm(digits, *sign) for digits in (fitting[:1] if NEITHER in fitting else fitting)]


def matches(texts: pa.Array, form: NumberForm) -> np.ndarray:
    """Returns a mask of the texts that fit the form."""
    return np.asarray(pc.match_substring_regex(texts, form.pattern).to_numpy(zero_copy_only=False))


def _signs(texts: pa.Array) -> tuple[str, bool]:
    """Returns the sign of the texts, and whether it comes before the number; `any` for several signs."""
    matches = [re.search(rf"{CURRENCIES}|%", text) for text in texts.to_pylist()]
    signs = {match[0] for match in matches if match}
    if not signs:
        return "", False
    if len(signs) > 1 or ("%" in signs and not all(matches)):
        return ANY, True
    return signs.pop(), "%" not in signs and any(
        match and not re.search(r"\d", match.string[: match.start()]) for match in matches
    )


def parse_numbers(texts: pa.Array, form: NumberForm) -> np.ndarray:
    """Returns the texts as float64, nan for null and for a text that does not fit the form."""
    digits = pc.replace_substring_regex(texts, CURRENCIES, "")
    digits = pc.replace_substring_regex(pc.replace_substring_regex(digits, _REST, ""), _OUTER, r"\1")
    digits = pc.replace_substring(digits, "." if form.digits == COMMA else ",", "")
    digits = pc.if_else(pc.match_substring_regex(texts, form.pattern), pc.replace_substring(digits, ",", "."), None)
    values = np.asarray(pc.fill_null(digits.cast(pa.float64()), np.nan).to_numpy(zero_copy_only=False)).copy()
    values[_contains(texts, _NEGATIVE)] *= -1
    if form.sign == PERCENT:
        values[_contains(texts, "%")] /= 100
    return values


def _contains(texts: pa.Array, pattern: str) -> np.ndarray:
    matched = pc.fill_null(pc.match_substring_regex(texts, pattern), False)
    return np.asarray(matched.to_numpy(zero_copy_only=False)).astype(bool)


def to_number(text: ir.StringValue, form: NumberForm, declared: str) -> ir.NumericValue:
    """Returns the texts as float64; null stays null. A text that does not fit the form fails in the engine.

    Args:
        declared: The line of the task.toml, for the error.
    """
    digits = text.re_replace(CURRENCIES, "").re_replace(_REST, "").re_replace(_OUTER, r"\1")
    digits = digits.replace("." if form.digits == COMMA else ",", "").replace(",", ".")
    # The prefix makes the cast fail in every engine: some would read 1_250 and the like as a number.
    wrong = cast(ir.StringValue, f"the TOML's {declared} does not fit ") + text
    number = cast(ir.NumericValue, text.re_search(form.pattern).ifelse(digits, wrong).cast("float64"))
    number = text.re_search(_NEGATIVE).ifelse(-number, number)
    return cast(ir.NumericValue, text.contains("%").ifelse(number / 100, number) if form.sign == PERCENT else number)


def format_number(text: str, form: NumberForm) -> str:
    """Formats a text as a plain number, for messages."""
    return f"{parse_numbers(pa.array([text]), form)[0]:.15g}"


def find_signs(texts: Sequence[str]) -> list[str]:
    """Returns the distinct signs in the texts, sorted."""
    return sorted({match[0] for text in texts if (match := re.search(rf"{CURRENCIES}|%", text))})
