"""What a column may hold, in the words of a task.toml.

int, float, bool                   numbers, true and false
number                             numbers written with signs, with their form: number $1,234.5 or number 1.234,5
category                           names, each by itself; category int and category float where a file stores numbers;
                                   category any case: Yes, YES and yes are one
text                               free text
date, timestamp, timestamp UTC     as ISO 8601 has them; else with their form, such as date %d.%m.%Y; date int %Y%m%d
                                   where a file stores numbers

Behind each but bool stands what is missing in this column alone: int missing -999 n.v.

Numbers as people write them, in the words of a task.toml: `number $1,234.5`, `number 1.234,5 €`, `number 1234%`.

The digits show which mark parts thousands and which one begins the decimals; 1234 allows neither point nor comma. A
blank, an apostrophe or an underscore may part thousands in each form. Parentheses and a minus behind it make a number
negative. A text of another form is an error, never another number.
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
from vgp.base.text.printable import quoted

WORDS = (
    "int", "float", "number", "bool", "category", "category int", "category float", "text", "date", "timestamp",
    "timestamp UTC", "category any case",
)  # fmt: skip
NUMBERS = ("int", "float", "number")
DATES = ("date", "timestamp")


@dataclass(frozen=True)
class Kind:
    """The type of a column: its word, and the form of a number with signs or of a date that ISO 8601 does not have."""

    word: str
    form: str = ""
    #: Texts that stand for a missing value in this column.
    missing: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The first word: of `category int` that is `category`."""
        return self.word.partition(" ")[0]

    @property
    def text(self) -> str:
        return with_missing(f"{self.word} {self.form}".strip(), self.missing)

    @property
    def marked(self) -> bool:
        """Whether a text that is no number stands for a missing one, so that numbers are read as text."""
        return self.word in ("int", "float") and not all(_NUMBER.fullmatch(text) for text in self.missing)


_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


def with_missing(text: str, missing: tuple[str, ...]) -> str:
    """A type, and behind it what is missing in its column."""
    quoted = (shlex.quote(marker) if re.search(r"[\s'\"\\]", marker) else marker for marker in missing)
    return f"{text} missing {' '.join(quoted)}" if missing else text


def kind(text: str) -> Kind:
    """Raises ValueError for a text that is no type."""
    plain, behind, rest = text.partition(" missing ")
    try:
        missing = tuple(shlex.split(rest))
    except ValueError as error:
        raise ValueError(f"{quoted(text)}: {error}. What is missing stands behind the type as in a shell.") from None
    if behind and (not missing or plain == "bool"):
        raise ValueError(
            f'{quoted(text)}: behind "missing" stand texts, as in "int missing -999 n.v."; a bool has none.'
        )
    word, _, form = plain.partition(" ")
    if plain in WORDS and word in DATES and not all(_DAY.fullmatch(text) for text in missing):
        raise ValueError(
            f"{quoted(text)}: a {word} without a form is missing as a day of that form, such as 9999-12-31."
        )
    if plain in WORDS:
        return Kind(plain, "", missing)
    if word in DATES and re.search(r"%[a-zA-Z]", form):
        return Kind(word, form, missing)
    if word == "number" and form_of(form):
        return Kind(word, form, missing)
    raise ValueError(
        f"{quoted(text)} is no type. {did_you_mean(text, WORDS)} "
        "A date in another form than 2026-01-31 has its form behind "
        'the word: "date %d.%m.%Y"; so has a number with signs: "number $1,234.5" or "number 1.234,5".'
    )


POINT, COMMA, NEITHER, PLAIN = "1,234.5", "1.234,5", "1234", "1234.5"
CURRENCIES = r"[$€£¥₹₩₽]|USD|EUR|GBP|CHF|JPY|CAD|AUD|NZD|INR|CNY|SEK|NOK|DKK|PLN|BRL"
#: Any sign or none; a percent sign that makes hundredths.
ANY, PERCENT = "any", "percent"
_FORM = re.compile(rf"(?:({CURRENCIES}|{ANY}) ?)?(1,234\.5|1\.234,5|1234\.5|1234)(?: ?({CURRENCIES}|%|{PERCENT}))?")
_BLANK = r"[\s\x{a0}\x{202f}\x{2009}]"
_SIGN = r"[+\-\x{2212}]"
_POWER = r"(?:[eE][+-]?\d+)?"
_THIN = rf"(?:{_BLANK}|['\x{{2019}}_])"


def _digits(mark: str, decimal: str, group: str) -> str:
    """Groups of three digits parted by a mark, those between of `group`; 0,125 is no such group."""
    parted = rf"[1-9]\d{{0,2}}(?:(?:{_THIN}\d{{3}})+|(?:{mark}{group})*{mark}\d{{3}})(?:{decimal}\d*)?"
    return rf"(?:{parted}|\d{{1,3}}(?:{mark}\d{{3}})+{decimal}\d+|(?:\d+{decimal}?\d*|{decimal}\d+){_POWER})"


_DIGITS = {
    POINT: _digits(",", r"\.", r"\d{2,3}"),  # of two as in India
    COMMA: _digits(r"\.", ",", r"\d{3}"),
    NEITHER: rf"(?:[1-9]\d{{0,2}}(?:{_THIN}\d{{3}})+|\d+{_POWER})",
    PLAIN: rf"(?:(?:\d+\.?\d*|\.\d+){_POWER})",
}


@dataclass(frozen=True)
class NumberForm:
    """How the numbers of a column are written."""

    digits: str = POINT
    #: A currency, which a value may lack; %, which none lacks; `any`, `percent`, or none.
    sign: str = ""
    before: bool = False

    @property
    def text(self) -> str:
        """As it stands behind the word `number`."""
        if not self.sign:
            return self.digits
        gap = "" if len(self.sign) == 1 and (self.before or self.sign == "%") else " "
        return f"{self.sign}{gap}{self.digits}" if self.before else f"{self.digits}{gap}{self.sign}"

    @property
    def pattern(self) -> str:
        """An RE2 of a text of this form."""
        optional = {ANY: rf"(?:%|{CURRENCIES})?", PERCENT: "%?", "": ""}
        sign = optional.get(self.sign, f"(?:{re.escape(self.sign)}){'' if self.sign == '%' else '?'}")
        before = optional[""] if self.sign in ("%", PERCENT) else sign
        unit, number = rf"(?:{before}{_BLANK}?)", rf"{_DIGITS[self.digits]}{_BLANK}?{sign}"
        plain = rf"(?:{_SIGN}?{_BLANK}?{unit}|{unit}{_SIGN}{_BLANK}?){number}"
        return rf"^(?:{plain}|{unit}\({unit}{number}\)|{unit}{number}[\-\x{{2212}}])$"


#: In front of the first digit, or behind all.
_NEGATIVE = r"^[^0-9]*[\-\x{2212}(]|[\-\x{2212}]$"
#: What is left of a number without currencies and signs.
_REST, _OUTER = r"[^0-9.,eE+\-]", r"^[.,+\-]*?([.,]?[0-9].*?)[+\-]*$"


def form_of(text: str, decimal: str = "") -> NumberForm | None:
    """The form that stands behind the word `number`, where nothing stands the one of the decimal mark; None of none."""
    if not text:
        return NumberForm(COMMA if decimal == "," else POINT, ANY, before=True)
    match = _FORM.fullmatch(text)
    if not match or (match[1] and match[3]):
        return None
    return NumberForm(match[2], match[1] or match[3] or "", before=bool(match[1]))


def forms(every: pa.Array) -> list[NumberForm]:
    """The forms in which all of these texts are numbers: two where they give other numbers."""
    fitting = [digits for digits in (NEITHER, POINT, COMMA) if matches(every, NumberForm(digits, ANY)).all()]
    sign = _signs(every) if fitting else ("", False)
    return [NumberForm(digits, *sign) for digits in (fitting[:1] if NEITHER in fitting else fitting)]


def matches(texts: pa.Array, form: NumberForm) -> np.ndarray:
    """Whether each text is of the form."""
    return np.asarray(pc.match_substring_regex(texts, form.pattern).to_numpy(zero_copy_only=False))


def _signs(every: pa.Array) -> tuple[str, bool]:
    """The sign that the texts carry, and whether it stands before the number; `any` for several."""
    known = [re.search(rf"{CURRENCIES}|%", text) for text in every.to_pylist()]
    seen = {match[0] for match in known if match}
    if not seen:
        return "", False
    if len(seen) > 1 or ("%" in seen and not all(known)):
        return ANY, True
    return seen.pop(), "%" not in seen and any(
        match and not re.search(r"\d", match.string[: match.start()]) for match in known
    )


def parsed(texts: pa.Array, form: NumberForm) -> np.ndarray:
    """The texts as float64, nan for null and for what is of another form."""
    digits = pc.replace_substring_regex(texts, CURRENCIES, "")
    digits = pc.replace_substring_regex(pc.replace_substring_regex(digits, _REST, ""), _OUTER, r"\1")
    digits = pc.replace_substring(digits, "." if form.digits == COMMA else ",", "")
    digits = pc.if_else(pc.match_substring_regex(texts, form.pattern), pc.replace_substring(digits, ",", "."), None)
    values = np.asarray(pc.fill_null(digits.cast(pa.float64()), np.nan).to_numpy(zero_copy_only=False)).copy()
    values[_where(texts, _NEGATIVE)] *= -1
    if form.sign == PERCENT:
        values[_where(texts, "%")] /= 100
    return values


def _where(texts: pa.Array, pattern: str) -> np.ndarray:
    found = pc.fill_null(pc.match_substring_regex(texts, pattern), False)
    return np.asarray(found.to_numpy(zero_copy_only=False)).astype(bool)


def amount(text: ir.StringValue, form: NumberForm, declared: str) -> ir.NumericValue:
    """The texts as float64; null stays null, and a text of another form cannot be computed, which names its row.

    Args:
        declared: The line of the task.toml, for the message.
    """
    digits = text.re_replace(CURRENCIES, "").re_replace(_REST, "").re_replace(_OUTER, r"\1")
    digits = digits.replace("." if form.digits == COMMA else ",", "").replace(",", ".")
    # A text that is no number in front of it: engines read 1_250 and more as they like.
    wrong = cast(ir.StringValue, f"the TOML's {declared} does not fit ") + text
    number = cast(ir.NumericValue, text.re_search(form.pattern).ifelse(digits, wrong).cast("float64"))
    number = text.re_search(_NEGATIVE).ifelse(-number, number)
    return cast(ir.NumericValue, text.contains("%").ifelse(number / 100, number) if form.sign == PERCENT else number)


def shown(text: str, form: NumberForm) -> str:
    """What a text is as a number, for people: in digits alone."""
    return f"{parsed(pa.array([text]), form)[0]:.15g}"


def signs_in(every: Sequence[str]) -> list[str]:
    """The different signs of some texts."""
    return sorted({match[0] for text in every if (match := re.search(rf"{CURRENCIES}|%", text))})
