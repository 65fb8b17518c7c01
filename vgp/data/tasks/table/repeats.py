"""Columns whose values come again: whether rows that share a value also share the target, as those of one patient do.

Rows are put in the order of the column, and each is compared with the few that follow: with those of the same value,
and of a number also with those of the next values. Rows of one price and rows of the next price agree equally, since a
price is an amount; rows of one patient agree, and those of the next number do not, since that number is a name.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vgp.base.text.printable import quoted
from vgp.data import leaks
from vgp.data.tasks.table.guess import Guess
from vgp.data.tasks.table.kinds import DATES, NUMBERS
from vgp.data.tasks.table.target import Target

#: A name that is one for sure, so that its numbers are no amounts.
ID = re.compile(r"(^|[_\s-])([iI][dD]|uuid|guid)$|[a-z](Id|ID)$")
#: Different values of what rows may belong to: with fewer it is a category like any other.
MIN_VALUES = 20
#: Rows that follow and are compared, and pairs of the same value for a verdict.
LAGS, MIN_PAIRS = 5, 40
#: Rows of the rarest classes together that a verdict takes.
MIN_OF_OTHERS = 20
#: Standard errors from chance, over all columns of a table.
BEYOND_CHANCE = 4.5
#: Share of the rows that have a value in common with another, below which it matters to no figure; of a sample less.
MIN_SHARED, MIN_SHARED_OF_SAMPLE = 0.05, 0.005
#: Agreement from which a question is asked: of values with few rows each, of more rows where the values are numbers or
#: have digits, and of other words, which also have more values then.
ASKED, ASKED_OF_CODES, ASKED_OF_WORDS, FEW_ROWS, MANY_WORDS = 0.05, 0.1, 0.3, 20, 50
#: Agreement that is worth a word.
WORTH_A_WORD = 0.02


_Pairs = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Repeats:
    """A column whose values come several times. Agreement is a correlation of the target: 1 = the same, 0 = chance."""

    found: Guess
    target: str
    values: int
    rows: int
    #: Share of all rows that have a value in common with another.
    shared: float
    #: Of rows of the same value, beyond what rows of the next values have; and in standard errors.
    agreement: float
    errors: float
    #: Whether its numbers are amounts: rows of the next values agree nearly as much.
    amount: bool
    #: A value that comes often, and what the target is there.
    example: str

    @property
    def name(self) -> str:
        return self.found.name

    @property
    def is_named(self) -> bool:
        """Whether its name says that it names something, and every row has a value."""
        return bool(ID.search(self.name)) and not self.found.missing

    @property
    def agrees(self) -> bool:
        return self.errors > BEYOND_CHANCE and self.agreement >= WORTH_A_WORD and not self.amount

    @property
    def is_group(self) -> bool:
        """Whether rows seem to belong together by it: the figures then depend on where they go."""
        each = self.rows / self.values
        if each <= FEW_ROWS:
            least = ASKED
        else:
            least = ASKED_OF_CODES if self._is_code or self.values <= MANY_WORDS else ASKED_OF_WORDS
        words = each > FEW_ROWS and not self._is_code and self.values <= MANY_WORDS
        return self.agrees and self.agreement >= least and not words

    @cached_property
    def _is_code(self) -> bool:
        """Whether its values are numbers, or words with digits."""
        if self.found.word in NUMBERS:
            return True
        every = pc.unique(self.found.known.cast(pa.string()))
        return bool(pc.mean(pc.match_substring_regex(every, r"\d").cast(pa.float64())).as_py() >= 0.9)

    @property
    def words(self) -> str:
        """How often its values come, and what that says of the target."""
        counted = f"{self.values:,} values in {self.rows:,} rows"
        if self.found.missing:
            counted += f", and {len(self.found.values) - self.rows:,} rows without one"
        if self.agrees:
            return f"{counted}; rows of one agree in {self.target} by {self.agreement:.2f} (0: chance, 1: the same)"
        return f"{counted}; rows of one agree in {self.target} no more than by chance"


def look(columns: Mapping[str, Guess], target: Target, *, whole: bool) -> dict[str, Repeats]:
    """The columns whose values come several times, and are not few.

    Args:
        whole: Whether all rows of the table are there, and no sample of them.
    """
    judged = _Judged.of(target)
    least = MIN_SHARED if whole else MIN_SHARED_OF_SAMPLE
    found = {
        name: _of(column, judged, target)
        for name, column in columns.items()
        if column.type and column.word not in (*DATES, "bool") and MIN_VALUES < column.distinct < len(column.known)
    }
    return {name: one for name, one in found.items() if one.shared >= least}


@dataclass(frozen=True)
class _Judged:
    """The target of rows, so that the mean product of independent rows is 0."""

    known: np.ndarray
    #: Codes of classes, with the share of each; of a regression the standardized ranks.
    values: np.ndarray
    shares: np.ndarray | None
    #: Of the product of two independent rows, and the most that it can be on average.
    variance: float
    most: float

    @classmethod
    def of(cls, target: Target) -> "_Judged":
        if target.regression:
            known = ~np.isnan(target.values)
            ranks = leaks.ranks(target.values[known])
            return cls(known, (ranks - ranks.mean()) / max(ranks.std(), 1e-12), None, 1.0, 1.0)
        known = target.values >= 0
        shares = np.bincount(target.values[known], minlength=len(target.classes)) / max(1, known.sum())
        squares = float((shares**2).sum())
        variance = squares - 2 * float((shares**3).sum()) + squares**2
        return cls(known, target.values[known], shares, variance, 1 - squares)

    def agreement(self, first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
        """The mean agreement of pairs of rows, and its standard error if they were independent."""
        if not len(first):
            return 0.0, 0.0
        one, other = self.values[first], self.values[second]
        if self.shares is None:
            mean = float((one * other).mean())
        else:
            chance = 1 - self.most
            mean = float(((one == other) - self.shares[one] - self.shares[other] + chance).mean())
        scale = max(self.most, 1e-12)
        return mean / scale, (self.variance / len(first)) ** 0.5 / scale

    @property
    def enough(self) -> bool:
        """Whether there are rows of other classes than the most frequent one."""
        return self.shares is None or (1 - self.shares.max()) * len(self.values) >= MIN_OF_OTHERS


def _of(column: Guess, judged: _Judged, target: Target, other: np.ndarray | None = None) -> Repeats:
    """
    Args:
        other: Codes of another column, in which rows that are compared differ.
    """
    codes = _codes(column)
    counts = np.bincount(codes[codes >= 0])
    counts = counts[counts > 0]
    shared = float(counts[counts > 1].sum() / len(codes))
    kept = codes[judged.known]
    rows = leaks.order(len(kept))  # so that nothing depends on the order of rows of one value
    rows = rows[np.argsort(kept[rows], kind="stable")]
    rows = rows[kept[rows] >= 0]
    same, near = _pairs(rows, kept, None if other is None else other[judged.known])
    agreement, error = judged.agreement(*same)
    amount = False
    if column.word in NUMBERS:
        beside, more = judged.agreement(*near)
        amount = beside > agreement / 2
        agreement, error = agreement - max(0.0, beside), (error**2 + more**2) ** 0.5
    enough = len(same[0]) >= MIN_PAIRS and judged.enough
    return Repeats(
        column, target.name, len(counts), int(counts.sum()), shared, agreement,
        agreement / error if enough and error else 0.0, amount, _example(column, codes, target),
    )  # fmt: skip


def _codes(column: Guess) -> np.ndarray:
    """Codes from 0, of numbers in their order; -1 for missing."""
    if column.word in NUMBERS:
        numbers = column.numbers
        codes = np.unique(numbers, return_inverse=True)[1].reshape(-1)
        return np.where(np.isnan(numbers), -1, codes)
    encoded = column.values.cast(pa.string()).dictionary_encode().indices
    return np.asarray(pc.fill_null(encoded, -1).to_numpy(zero_copy_only=False)).astype(np.int64)


def _pairs(rows: np.ndarray, codes: np.ndarray, other: np.ndarray | None) -> tuple[_Pairs, _Pairs]:
    """Pairs of rows of the same value, and of values beside each other."""
    same, near = [], []
    for lag in range(1, min(LAGS, len(rows) - 1) + 1):
        first, second = rows[:-lag], rows[lag:]
        if other is not None:
            differ = other[first] != other[second]
            first, second = first[differ], second[differ]
        alike = codes[first] == codes[second]
        same.append((first[alike], second[alike]))
        near.append((first[~alike], second[~alike]))
    return _joined(same), _joined(near)


def _joined(pairs: Sequence[_Pairs]) -> _Pairs:
    none = np.zeros(0, np.int64)
    return (np.concatenate([none, *(one for one, _ in pairs)]), np.concatenate([none, *(other for _, other in pairs)]))


def _example(column: Guess, codes: np.ndarray, target: Target) -> str:
    """`patient = 1047 comes in 8 rows, with y = yes in 7 of them`."""
    counts = np.bincount(codes[codes >= 0])
    code = int(
        np.argsort(-counts, kind="stable")[int((counts > 1).sum()) // 2]
    )  # of those that repeat one in the middle
    rows = np.flatnonzero(codes == code)
    value = str(column.values[int(rows[0])].as_py())
    text = f"{column.name} = {quoted(value)} comes in {len(rows)} rows"
    labels = target.values[rows]
    if target.regression:
        known = labels[~np.isnan(labels)]
        return f"{text}, with {target.name} {known.min():,g} to {known.max():,g}" if len(known) else text
    known = labels[labels >= 0]
    if not len(known):
        return text
    most = int(np.bincount(known).argmax())
    return f"{text}, with {target.name} = {quoted(target.classes[most])} in {int((known == most).sum())} of them"


def candidates(repeats: Mapping[str, Repeats], target: Target) -> list[Repeats]:
    """What rows may belong to, without the columns that only stand for another one, as an income for its person."""
    fitting = [one for one in repeats.values() if one.is_group] or [one for one in repeats.values() if one.is_named]
    if not any(one.agrees for one in fitting):
        return fitting if len(fitting) == 1 else []
    judged = _Judged.of(target)
    own = {
        (one.name, other.name): _of(one.found, judged, target, _codes(other.found)).agrees
        for one in fitting for other in fitting if one is not other
    }  # fmt: skip
    alike = [
        (one, other) for one in fitting for other in fitting
        if one is not other and not own[one.name, other.name] and not own[other.name, one.name]
    ]  # fmt: skip
    spare = {one.name for one, other in alike if _prefers(other, one, list(repeats))}
    return [one for one in fitting if one.name not in spare]


def beside(repeats: Mapping[str, Repeats], group: str, target: Target) -> dict[str, Repeats]:
    """The columns without what they say only because they stand for the group, or for another of the candidates."""
    if group in repeats:
        others = {name: [repeats[group]] for name in repeats if name != group}
    else:
        left = candidates(repeats, target)
        others = {name: [one for one in left if one.name != name] for name in repeats}
        others = {name: several for name, several in others.items() if all(one.name != name for one in left)}
    judged = _Judged.of(target)
    told = dict(repeats)
    for name, several in others.items():
        for other in several:
            if told[name].agrees:
                told[name] = _of(told[name].found, judged, target, _codes(other.found))
    return told


def _prefers(one: Repeats, other: Repeats, order: Sequence[str]) -> bool:
    """Of two columns that say the same, which one to take: the finer, else by name and type, else the first."""
    if max(one.values, other.values) > 1.1 * min(one.values, other.values):
        return one.values > other.values
    ranks = [(not r.is_named, r.found.word in NUMBERS, order.index(r.name)) for r in (one, other)]
    return ranks[0] < ranks[1]


def question(candidates: Sequence[Repeats], time: str) -> str:
    """Why only the user knows what to do with rows that share a value, and the answers."""
    told = ". ".join(f"{one.name}: {one.words}. Such as {one.example}" for one in candidates)
    names, answers = " or ".join(one.name for one in candidates), " or ".join(f"--group {o.name}" for o in candidates)
    if time:
        first = f"{answers}: the decision counts the rows of one value as one, and nothing is learned from its name"
        second = "--group day: it is learned from, and the decision counts days only"
        asked = "Do rows of one value belong together, as those of one patient"
    else:
        first = f"{answers}: all its rows stay in one split, so the figures are those of a new one"
        second = "--group row: rows of one value train and test, so the figures are those of the ones in this table"
        asked = "Will predictions be asked of new ones, as of new patients"
    return (
        f"the rows that share a value of {names} also share the target, and the figures depend on what that means. "
        f"{told}. {asked}? Then give {first}. If not, give {second}."
    )
