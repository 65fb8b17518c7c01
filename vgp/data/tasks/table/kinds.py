"""What a column may hold, in the words of a task.toml.

int, float, bool                   numbers, true and false
number                             numbers written with signs, with their form: number $1,234.5 or number 1.234,5
category                           names, each by itself; category int and category float where a file stores numbers;
                                   category any case: Yes, YES and yes are one
text                               free text
date, timestamp, timestamp UTC     as ISO 8601 has them; else with their form, such as date %d.%m.%Y; date int %Y%m%d
                                   where a file stores numbers

Behind each but bool stands what is missing in this column alone: int missing -999 n.v.
"""

import re
import shlex
from dataclasses import dataclass

from vgp.base.options import nearest
from vgp.base.printable import quoted
from vgp.data.tasks.table.numbers import form_of

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
        f"{quoted(text)} is no type. {nearest(text, WORDS)} A date in another form than 2026-01-31 has its form behind "
        'the word: "date %d.%m.%Y"; so has a number with signs: "number $1,234.5" or "number 1.234,5".'
    )
