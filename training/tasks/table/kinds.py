"""What a column may hold, in the words of a task.toml.

int, float, bool                   numbers, true and false
number                             numbers written with signs: $1,234.50 or 12 %
category                           names, each by itself; category int and category float where a file stores numbers
text                               free text
date, timestamp, timestamp UTC     as ISO 8601 has them; else with their form, such as date %d.%m.%Y
"""

import re
from dataclasses import dataclass

from training.options import nearest
from training.printable import quoted

WORDS = (
    "int", "float", "number", "bool", "category", "category int", "category float", "text", "date", "timestamp",
    "timestamp UTC",
)  # fmt: skip
NUMBERS = ("int", "float", "number")
DATES = ("date", "timestamp")


@dataclass(frozen=True)
class Kind:
    """The type of a column: its word, and the form of a date that is not as ISO 8601 has it."""

    word: str
    form: str = ""

    @property
    def name(self) -> str:
        """The first word: of `category int` that is `category`."""
        return self.word.partition(" ")[0]


def kind(text: str) -> Kind:
    """Raises ValueError for a text that is no type."""
    word, _, form = text.partition(" ")
    if text in WORDS:
        return Kind(text)
    if word in DATES and re.search(r"%[a-zA-Z]", form):
        return Kind(word, form)
    raise ValueError(
        f"{quoted(text)} is no type. {nearest(text, WORDS)} A date in another form than 2026-01-31 has its form behind "
        'the word: "date %d.%m.%Y".'
    )
