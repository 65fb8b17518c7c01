"""Asks whether the first line of a table holds names of columns or values."""

import re
from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vgp.data.sources.values import is_text
from vgp.data.tasks.table.ambiguities import Doubt, Reading
from vgp.data.tasks.table.column_guess import BLANK, WORDS, guess_column

#: A number or a date.
VALUE = r"^([+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|\d{1,4}[-./]\d{1,2}[-./]\d{1,4}([ T].*)?)$"
#: A column holds numbers or dates if at least this share of its different texts are.
MOSTLY_VALUES = 0.9


def find_header_doubt(rows: pa.Table, declared: Collection[str] = ()) -> list[Doubt]:
    """Asks about a first line whose names are all numbers or dates, or mostly occur as values in their own columns.

    Args:
        declared: Columns whose types the user gave, which answers the doubt.
    """
    names = [name for name in rows.column_names if name.strip()]
    stored = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in rows.schema.types]
    if set(declared) & set(names) or not all(map(is_text, stored)) or _are_counted(names):
        return []
    numbers = [name for name in names if re.match(VALUE, name.strip())]
    if len(numbers) == len(names):
        return [_ask(rows, names[0], "like each name, is a number or a date")]
    texts = {name: pc.unique(pc.utf8_trim(rows[name].drop_null().cast(pa.string()), BLANK)) for name in names}
    repeated = [name for name in names if name not in numbers and pc.index(texts[name], name.strip()).as_py() >= 0]
    if not repeated or any(_holds_values(texts[name]) for name in names if name not in numbers):
        return []
    free_texts = [name for name in names if name not in repeated and name.count(" ") >= WORDS - 1]
    if len(numbers) + len(repeated) + len(free_texts) <= len(names) / 2:
        return []
    return [_ask(rows, repeated[0], "is the name of this column and a value in it")]


def _are_counted(names: list[str]) -> bool:
    """Whether the names are whole numbers with one step between them: numbered columns, or years."""
    if len(names) < 3 or not all(re.fullmatch(r"\d{1,9}", name.strip()) for name in names):
        return False
    steps = np.unique(np.diff([int(name) for name in names]))
    return len(steps) == 1 and steps[0] > 0


def _holds_values(texts: pa.Array) -> bool:
    """Whether nearly all of these texts are numbers or dates."""
    return bool((pc.mean(pc.match_substring_regex(texts, VALUE).cast(pa.float64())).as_py() or 0) >= MOSTLY_VALUES)


def _ask(rows: pa.Table, name: str, why: str) -> Doubt:
    readings = (
        Reading("a value", choice="add a line with the names of the columns at the top of each file"),
        Reading("a name", guess_column(name, rows[name]).type or "category"),
    )
    return Doubt(name, name.strip(), readings, why)
