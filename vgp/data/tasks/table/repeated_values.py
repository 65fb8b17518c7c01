"""Finds columns whose values repeat and group the rows: rows that share a value have similar targets, like a patient's.

Rows are sorted by the column, and each is compared with the next few rows: those with the same value and, for numbers,
those with the next values. If a number is an amount, such as a price, rows with the next value agree equally well. If
it is a name, such as a patient's number, only rows with the same value agree.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vgp.base.text.printable import quote
from vgp.data import leaks
from vgp.data.tasks.table.column_guess import Guess
from vgp.data.tasks.table.column_types import DATES, NUMBERS
from vgp.data.tasks.table.target_column import Target

#: Column names that are certainly identifiers, so that their numbers are not amounts.
ID = re.compile(r"(^|[_\s-])([iI][dD]|uuid|guid)$|[a-z](Id|ID)$")
#: A column with at most this many values is an ordinary category.
MIN_VALUES = 20
#: How many next rows each row is compared with, and the least pairs with the same value for a verdict.
LAGS, MIN_PAIRS = 5, 40
#: The least rows outside the most frequent class for a verdict.
MIN_OF_OTHERS = 20
#: Standard errors from chance that count as agreement; high, because every column of a table is tested.
BEYOND_CHANCE = 4.5
#: The least share of rows that share their value with another row, of a whole table and of a sample.
MIN_SHARED, MIN_SHARED_OF_SAMPLE = 0.05, 0.005
#: Agreement from which the user is asked. With at most `FEW_ROWS` rows per value `ASKED` is enough. With more rows
#: codes (numbers, and words with digits) need `ASKED_OF_CODES`; other words `ASKED_OF_WORDS`, and `MANY_WORDS` values.
ASKED, ASKED_OF_CODES, ASKED_OF_WORDS, FEW_ROWS, MANY_WORDS = 0.05, 0.1, 0.3, 20, 50
#: Agreement from which the report mentions a column.
WORTH_A_WORD = 0.02


_Pairs = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Repeats:
    """A column with repeated values. Agreement is the target's correlation within a value: 1 = equal, 0 = chance."""

    found: Guess
    target: str
    values: int
    rows: int
    #: The share of all rows that share their value with another row.
    shared: float
    #: The agreement of rows with the same value minus that of rows with the next values; and in standard errors.
    agreement: float
    errors: float
    #: Whether the numbers are amounts: rows with the next values agree nearly as much.
    amount: bool
    #: A sentence about a frequent value and its targets.
    example: str

    @property
    def name(self) -> str:
        return self.found.name

    @property
    def is_named(self) -> bool:
        """Whether the name of the column is that of an identifier, and no value is missing."""
        return bool(ID.search(self.name)) and not self.found.missing

    @property
    def agrees(self) -> bool:
        return self.errors > BEYOND_CHANCE and self.agreement >= WORTH_A_WORD and not self.amount

    @property
    def is_group(self) -> bool:
        """Whether the column seems to group the rows, so that the figures depend on how they are split."""
        if self.rows / self.values <= FEW_ROWS:
            return self.agrees and self.agreement >= ASKED
        if self._is_code:
            return self.agrees and self.agreement >= ASKED_OF_CODES
        return self.agrees and self.agreement >= ASKED_OF_WORDS and self.values > MANY_WORDS

    @cached_property
    def _is_code(self) -> bool:
        """Whether the values are numbers, or words with digits."""
        if self.found.word in NUMBERS:
            return True
        texts = pc.unique(self.found.known.cast(pa.string()))
        return bool(pc.mean(pc.match_substring_regex(texts, r"\d").cast(pa.float64())).as_py() >= 0.9)

    @property
    def words(self) -> str:
        """How often the values repeat, and how well the target agrees within a value."""
        counts = f"{self.values:,} values in {self.rows:,} rows"
        if self.found.missing:
            counts += f", and {len(self.found.values) - self.rows:,} rows without a value"
        if self.agrees:
            return f"{counts}; correlation of {self.target} within a value {self.agreement:.2f} (0: chance, 1: equal)"
        return f"{counts}; {self.target} varies within a value as it does by chance"


def find_repeats(columns: Mapping[str, Guess], target: Target, *, whole: bool) -> dict[str, Repeats]:
    """Returns the columns with repeated values, apart from categories with few values.

    Args:
        whole: Whether the rows are the whole table and not a sample.
    """
    judged = _CenteredTarget.of(target)
    least = MIN_SHARED if whole else MIN_SHARED_OF_SAMPLE
    candidates = {
        name: _measure_repeats(column, judged, target)
        for name, column in columns.items()
        if column.type and column.word not in (*DATES, "bool") and MIN_VALUES < column.distinct < len(column.known)
    }
    return {name: column for name, column in candidates.items() if column.shared >= least}


@dataclass(frozen=True)
class _CenteredTarget:
    """The target, centered so that the mean product of two independent rows is 0."""

    known: np.ndarray
    #: The codes of classes and the share of each class; for a regression the standardized ranks, and no shares.
    values: np.ndarray
    shares: np.ndarray | None
    #: The variance of the product of two independent rows, and its mean for two equal rows.
    variance: float
    most: float

    @classmethod
    def of(cls, target: Target) -> "_CenteredTarget":
        if target.regression:
            known = ~np.isnan(target.values)
            ranks = leaks.compute_ranks(target.values[known])
            return cls(known, (ranks - ranks.mean()) / max(ranks.std(), 1e-12), None, 1.0, 1.0)
        known = target.values >= 0
        shares = np.bincount(target.values[known], minlength=len(target.classes)) / max(1, known.sum())
        squares = float((shares**2).sum())
        variance = squares - 2 * float((shares**3).sum()) + squares**2
        return cls(known, target.values[known], shares, variance, 1 - squares)

    def agreement(self, first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
        """Returns the mean agreement of pairs of rows, and its standard error if the rows were independent."""
        if not len(first):
            return 0.0, 0.0
        left, right = self.values[first], self.values[second]
        if self.shares is None:
            mean = float((left * right).mean())
        else:
            chance = 1 - self.most
            mean = float(((left == right) - self.shares[left] - self.shares[right] + chance).mean())
        scale = max(self.most, 1e-12)
        return mean / scale, (self.variance / len(first)) ** 0.5 / scale

    @property
    def enough(self) -> bool:
        """Whether enough rows are outside the most frequent class."""
        return self.shares is None or (1 - self.shares.max()) * len(self.values) >= MIN_OF_OTHERS


def _measure_repeats(
    column: Guess, judged: _CenteredTarget, target: Target, other: np.ndarray | None = None
) -> Repeats:
    """Measures how well the target agrees within the values of a column.

    Args:
        other: Codes of another column: only rows with different values of it are compared.
    """
    codes = _codes(column)
    counts = np.bincount(codes[codes >= 0])
    counts = counts[counts > 0]
    shared = float(counts[counts > 1].sum() / len(codes))
    kept = codes[judged.known]
    rows = leaks.order(len(kept))  # shuffled, so that the order of rows within a value has no effect
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
    """Returns a code from 0 for each value, -1 for missing; the codes of numbers are in their order."""
    if column.word in NUMBERS:
        numbers = column.numbers
        codes = np.unique(numbers, return_inverse=True)[1].reshape(-1)
        return np.where(np.isnan(numbers), -1, codes)
    encoded = column.values.cast(pa.string()).dictionary_encode().indices
    return np.asarray(pc.fill_null(encoded, -1).to_numpy(zero_copy_only=False)).astype(np.int64)


def _pairs(rows: np.ndarray, codes: np.ndarray, other: np.ndarray | None) -> tuple[_Pairs, _Pairs]:
    """Returns pairs of rows with the same value, and pairs with adjacent values."""
    same, near = [], []
    for lag in range(1, min(LAGS, len(rows) - 1) + 1):
        first, second = rows[:-lag], rows[lag:]
        if other is not None:
            differ = other[first] != other[second]
            first, second = first[differ], second[differ]
        equal = codes[first] == codes[second]
        same.append((first[equal], second[equal]))
        near.append((first[~equal], second[~equal]))
    return _concatenate(same), _concatenate(near)


def _concatenate(pairs: Sequence[_Pairs]) -> _Pairs:
    none = np.zeros(0, np.int64)
    return (
        np.concatenate([none, *(left for left, _ in pairs)]),
        np.concatenate([none, *(right for _, right in pairs)]),
    )


def _example(column: Guess, codes: np.ndarray, target: Target) -> str:
    """Describes a value with a median count: `patient = '1047' is in 8 rows, with y = 'yes' in 7 of them`."""
    counts = np.bincount(codes[codes >= 0])
    code = int(np.argsort(-counts, kind="stable")[int((counts > 1).sum()) // 2])
    rows = np.flatnonzero(codes == code)
    value = str(column.values[int(rows[0])].as_py())
    text = f"{column.name} = {quote(value)} is in {len(rows)} rows"
    labels = target.values[rows]
    if target.regression:
        known = labels[~np.isnan(labels)]
        return f"{text}, with {target.name} {known.min():,g} to {known.max():,g}" if len(known) else text
    known = labels[labels >= 0]
    if not len(known):
        return text
    most = int(np.bincount(known).argmax())
    return f"{text}, with {target.name} = {quote(target.classes[most])} in {int((known == most).sum())} of them"


def find_candidates(repeats: Mapping[str, Repeats], target: Target) -> list[Repeats]:
    """Returns the columns that may group the rows, without proxies of another one, such as a person's exact income."""
    fitting = [r for r in repeats.values() if r.is_group] or [r for r in repeats.values() if r.is_named]
    if not any(column.agrees for column in fitting):
        return fitting if len(fitting) == 1 else []
    judged = _CenteredTarget.of(target)
    pairs = [(a, b) for a in fitting for b in fitting if a is not b]
    independent = {
        (a.name, b.name): _measure_repeats(a.found, judged, target, _codes(b.found)).agrees for a, b in pairs
    }
    equivalent = [(a, b) for a, b in pairs if not independent[a.name, b.name] and not independent[b.name, a.name]]
    proxies = {a.name for a, b in equivalent if _is_preferred(b, a, list(repeats))}
    return [column for column in fitting if column.name not in proxies]


def discount_group(repeats: Mapping[str, Repeats], group: str, target: Target) -> dict[str, Repeats]:
    """Returns the columns with the agreement that the group, or the candidates for it, do not already explain."""
    groups = [repeats[group]] if group in repeats else find_candidates(repeats, target)
    judged = _CenteredTarget.of(target)
    remaining = dict(repeats)
    for name in remaining.keys() - {column.name for column in groups}:
        for column in groups:
            if remaining[name].agrees:
                remaining[name] = _measure_repeats(remaining[name].found, judged, target, _codes(column.found))
    return remaining


def _is_preferred(first: Repeats, second: Repeats, order: Sequence[str]) -> bool:
    """Whether the first of two equivalent columns is the better group: finer, else by name and type, else earlier."""
    if max(first.values, second.values) > 1.1 * min(first.values, second.values):
        return first.values > second.values
    ranks = [(not r.is_named, r.found.word in NUMBERS, order.index(r.name)) for r in (first, second)]
    return ranks[0] < ranks[1]


def format_question(candidates: Sequence[Repeats], time: str) -> str:
    """Returns the question that only the user can answer: whether rows with one value belong together."""
    facts = ". ".join(f"{r.name}: {r.words}. For example, {r.example}" for r in candidates)
    names, answers = " or ".join(r.name for r in candidates), " or ".join(f"--group {r.name}" for r in candidates)
    if time:
        question = "Do rows with one value belong together, like the rows of one patient"
        yes = f"{answers}: the decision counts rows with one value as one, and the model does not learn the value"
        no = "--group day: the model learns the value, and the decision counts days only"
    else:
        question = "Will you predict for new values, for example for new patients"
        yes = f"{answers}: all rows with one value stay in one split, so the figures hold for new values"
        no = (
            "--group row: rows with one value are in every split, so the figures hold only for the values in this table"
        )
    return (
        f"rows that share a value of {names} have similar targets, so the figures depend on how they are split. "
        f"{facts}. {question}? If yes, give {yes}. If no, give {no}."
    )
