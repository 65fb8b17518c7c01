"""Doubts about the names in a column of categories: spellings, missing values, totals, and labels in a list."""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import permutations

import pyarrow.compute as pc

from vgp.base.text.printable import join_names, quote
from vgp.data.tasks.table.ambiguities import Doubt, Reading
from vgp.data.tasks.table.column_guess import Guess
from vgp.data.tasks.table.column_types import with_missing
from vgp.data.tasks.table.strange_values import plain_case

#: Words for a missing value that may be a name (North America, Namibia). A target is asked about more of them.
MISSING = re.compile(r"n\.?a\.?", re.I)
MISSING_TARGET = re.compile(r"n\.?/?a\.?n?|null|nil|none|unknown|missing|not (known|available)|-?9{2,6}", re.I)
#: Words of one meaning: two words of a set may be one class, if one of them is longer than a letter.
ALIKE = (("yes", "true", "y", "t", "1", "ja", "j", "oui", "o", "si", "sí", "s", "sim", "x"),
         ("no", "false", "n", "f", "0", "nein", "non", "não", "nee"), ("male", "m"), ("female", "f"))  # fmt: skip
#: Words are compared by meaning in columns with at most this many distinct values.
MOST_ALIKE = 10
#: Names of rows that add up other rows.
SUM = re.compile(r"(grand |sub)?total|totals|sum|(zwischen)?summe|gesamt(summe)?|insgesamt|total g[eé]n[eé]ral|somme|"
                 r"totale?s?|suma", re.I)  # fmt: skip
#: Names of a last row with means. In other rows, "average" is a rating.
MEAN = re.compile(r"average|mean|mittelwert|durchschnitt", re.I)
#: Separators of several labels in one field.
LISTED = re.compile(r"\s*[,;|/+]\s*")
#: A rare class may be a misspelling of a class this many times as frequent that differs by one letter, if both have at
#: least `LEAST_LETTERS` letters.
MUCH_RARER, LEAST_LETTERS = 5, 5


def find_doubts(column: Guess, *, target: bool) -> Iterator[Doubt]:
    """Yields each choice about the names in a column."""
    yield from _ask_about_spellings(column)
    yield from _ask_about_missing_words(column, target=target)
    yield from _totals(column)
    if target:
        yield from _ask_about_lists(column)
        yield from _ask_about_misspellings(column)


def _ask_about_spellings(column: Guess) -> Iterator[Doubt]:
    """Asks about names that differ only in case or blanks, and about words of one meaning."""
    texts = pc.unique(column.known)
    names = plain_case(texts)
    if pc.count_distinct(names).as_py() < len(texts):
        spellings: dict[str, list[str]] = {}
        for name, text in zip(names.to_pylist(), texts.to_pylist(), strict=True):
            spellings.setdefault(name, []).append(text)
        first, *more = next(group for group in spellings.values() if len(group) > 1)
        readings = (Reading(f"{len(spellings):,} different names if case is ignored", "category any case"),
                    Reading(f"{len(texts):,} different names", column.type))  # fmt: skip
        yield Doubt(column.name, first, readings, f"also {', '.join(map(quote, more[:3]))}")
    elif len(texts) <= MOST_ALIKE:
        for words in ALIKE:
            synonyms = [text for text, name in zip(texts.to_pylist(), names.to_pylist(), strict=True) if name in words]
            if len(synonyms) > 1 and max(map(len, synonyms)) > 1:
                readings = (Reading("one meaning", choice="use one spelling in the file"),
                            Reading(f"{len(synonyms)} different names", column.type))  # fmt: skip
                yield Doubt(column.name, synonyms[0], readings, f"also {', '.join(map(quote, synonyms[1:]))}")


def _ask_about_missing_words(column: Guess, *, target: bool) -> Iterator[Doubt]:
    """Asks about words that may mean a missing value."""
    pattern = MISSING_TARGET if target else MISSING
    texts = [text for text in pc.unique(column.known).to_pylist() if pattern.fullmatch(text)]
    texts += column.markers if target else ()
    if texts:
        readings = (Reading("missing" + (", and its rows are dropped" if target else ""),
                            with_missing(column.type, (*column.kind.missing, *texts))),
                    Reading("a class" if target else "a name", column.type))  # fmt: skip
        yield Doubt(column.name, texts[0], readings, f"also {join_names(texts[1:])}" if texts[1:] else "")


def _totals(column: Guess) -> Iterator[Doubt]:
    """Asks about a name such as "Subtotal", whose rows add up others."""
    totals = [text for text in pc.unique(column.known).to_pylist() if SUM.fullmatch(text)]
    if totals and column.distinct > 2:
        readings = (Reading("a total of other rows", choice="remove those rows from the file"),
                    Reading("an ordinary name", column.type))  # fmt: skip
        yield Doubt(column.name, totals[0], readings)


def _ask_about_lists(column: Guess) -> Iterator[Doubt]:
    """Asks about a target with several labels in one field: most of the lists consist of labels of other fields."""
    texts = pc.unique(column.known).to_pylist()
    labels = {text: LISTED.split(text) for text in texts}
    counts = Counter(label for parts in labels.values() for label in set(parts))
    lists = [text for text, parts in labels.items() if len(parts) > 1 and all(counts[part] > 1 for part in parts)]
    if len(lists) > 1 and len(counts) < len(texts):
        readings = (Reading("several labels", choice="make a column for each label, and predict one of them"),
                    Reading(f"one of {len(texts):,} classes", column.type))  # fmt: skip
        yield Doubt(column.name, lists[0], readings)


def _ask_about_misspellings(column: Guess) -> Iterator[Doubt]:
    """Asks about a rare class whose name differs by one letter from that of a frequent class."""
    counts = {entry["values"]: entry["counts"] for entry in pc.value_counts(column.known).to_pylist()}
    for rare, usual in permutations(counts, 2) if len(counts) <= MOST_ALIKE else ():
        if counts[rare] * MUCH_RARER <= counts[usual] and _differ_by_a_letter(rare, usual):
            readings = (Reading(f"a misspelling of {quote(usual)}", choice="correct it in the file"),
                        Reading("a class", column.type))  # fmt: skip
            yield Doubt(column.name, rare, readings, f"in {counts[rare]:,} rows; {quote(usual)} in {counts[usual]:,}")
            return


def _differ_by_a_letter(first: str, second: str) -> bool:
    """Whether one letter is missing, added, changed or swapped with the next; digits are no letters."""
    if min(len(first), len(second)) < LEAST_LETTERS or re.sub(r"\D", "", first) != re.sub(r"\D", "", second):
        return False
    start = next(
        (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second))
    )
    one, other = first[start:], second[start:]
    swapped = one[:2] == other[1::-1] and one[2:] == other[2:]
    return one[1:] == other or one == other[1:] or one[1:] == other[1:] or swapped
