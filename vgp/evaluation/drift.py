"""How far the rows that were scored differ from those that the model learned from, column by column.

The measure is the population stability index, the symmetric Kullback-Leibler divergence (Jeffreys 1946) of two binned
distributions, sum((q - p) * ln(q / p)), with the usual marks of credit scoring: from 0.1 on a moderate shift, from 0.25
on a large one (Siddiqi 2006, Credit Risk Scorecards, chapter 9). Where nothing differs it is about (1/n + 1/m) *
chi-square with bins - 1 degrees of freedom (Yurdakul & Naranjo 2020, https://doi.org/10.21314/JRMV.2020.227), so a
value below the 95 % point of that is no shift, whatever its size: small tables would shift all the time.

Bins are tenths of the train rows and one for missing values; of categories the 20 most frequent values, the others
together, values that training never saw, and missing ones. A bin's empty side counts half a row.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from scipy import special

from vgp.data import columns as bins
from vgp.data.rows import read_sample
from vgp.protocol.manifest import Column, Frozen, Manifest

MODERATE, LARGE = 0.1, 0.25
CHANCE_CONFIDENCE = 0.95
FREQUENT_VALUES = 20
#: Maximum number of rows that are read of each split.
MOST_ROWS = 50_000
#: Maximum number of columns, and of elements of a vector; a vector is compared by its mean.
MOST_COLUMNS = 1_000
SHOWN_VALUES = 3


class ColumnDrift(Frozen):
    """The drift of one column from train rows to scored rows."""

    column: str
    index: float
    #: Upper 95 % limit of the index without drift.
    chance: float
    shift: Literal["none", "moderate", "large"]
    #: Shares of missing values in train rows and in scored rows.
    missing: tuple[float, float] = (0.0, 0.0)
    #: Share of scored rows with values that no train row has, and the most frequent such values.
    unseen: float = 0.0
    unseen_values: tuple[str, ...] = ()


class Drift(Frozen):
    """The drift of all columns, largest first, and of the label."""

    #: Sizes of the compared samples.
    train_rows: int
    rows: int
    columns: tuple[ColumnDrift, ...]
    label: ColumnDrift | None = None

    @property
    def shifted(self) -> tuple[ColumnDrift, ...]:
        return tuple(column for column in self.columns if column.shift != "none")


def drift(data: str | Path, dataset: Manifest, split: str, groups: Sequence[str] = ()) -> Drift | None:
    """Compares samples of the train split and of `split`; None if one of them has no rows.

    Args:
        groups: Grouping columns, which always differ because splits separate groups.
    """
    learned = [c for c in dataset.columns if is_measured(c) and c.name not in groups][:MOST_COLUMNS]
    label = [c for c in dataset.columns if c.kind == "label"]
    files = [dataset.splits.get(name, ()) for name in ("train", split)]
    train, test = (read_sample(data, each, [*learned, *label], MOST_ROWS) for each in files)
    if not train or not test:
        return None
    columns = [_compare_column(column, train[column.name], test[column.name]) for column in learned]
    return Drift(
        train_rows=_count_rows(train),
        rows=_count_rows(test),
        columns=tuple(sorted(columns, key=lambda column: (-column.index, column.column))),
        label=_compare_column(label[0], train[label[0].name], test[label[0].name]) if label else None,
    )


def is_measured(column: Column) -> bool:
    """Whether drift is defined: not for ids, nor for vectors of whole numbers other than bytes, such as tokens."""
    if column.kind == "vector":
        return any(name in column.type for name in ("float", "double", "uint8", "binary"))
    return column.kind in ("number", "category")


def _count_rows(sample: Mapping[str, np.ndarray]) -> int:
    return len(next(iter(sample.values())))


def _compare_column(column: Column, train: np.ndarray, test: np.ndarray) -> ColumnDrift:
    if column.values:
        return compare_column(column.name, *_category_bins(column, train, test), *_measure_unseen(column, test))
    before, after = (v.mean(axis=1) if v.ndim > 1 else v for v in (train, test))
    return compare_column(column.name, *number_bins(before, after))


def compare_column(
    name: str, train: np.ndarray, test: np.ndarray, unseen: float = 0.0, values: tuple[str, ...] = ()
) -> ColumnDrift:
    """Compares counts by bin; the last bin is for missing values."""
    value, chance = index(train, test), chance_level(train, test)
    shifted = value >= MODERATE and value > chance
    return ColumnDrift(
        column=name, index=value, chance=chance,
        shift="none" if not shifted else "large" if value >= LARGE else "moderate",
        missing=(float(train[-1] / train.sum()), float(test[-1] / test.sum())), unseen=unseen, unseen_values=values,
    )  # fmt: skip


def index(train: np.ndarray, test: np.ndarray) -> float:
    """Returns the population stability index of counts by bin, int (bins,)."""
    used = (train + test) > 0
    before, after = (np.maximum(counts[used], 0.5) for counts in (train, test))
    p, q = before / before.sum(), after / after.sum()
    return float(np.sum((q - p) * np.log(q / p)))


def chance_level(train: np.ndarray, test: np.ndarray) -> float:
    """Returns the upper 95 % limit of the index for rows of one distribution."""
    freedom = np.count_nonzero(train + test) - 1
    if freedom < 1:
        return 0.0
    return float(special.chdtri(freedom, 1 - CHANCE_CONFIDENCE) * (1 / train.sum() + 1 / test.sum()))


def number_bins(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Counts values by the deciles of the known train values (closed on the left), and missing values."""
    inner = bins.bin_edges(train)
    return bins.tally(train, inner), bins.tally(test, inner)


def places(column: Column) -> np.ndarray:
    """Returns the bin of each code, int (values,): the most frequent values, other values, values that no train row
    has, and missing."""
    counts = np.asarray(column.counts or [1] * len(column.values))
    found = np.where(counts > 0, FREQUENT_VALUES, FREQUENT_VALUES + 1)
    missing = column.kind == "category"  # code 0 of a label is a class
    frequent = [code for code in np.argsort(-counts, kind="stable").tolist() if counts[code] and (code or not missing)]
    found[frequent[:FREQUENT_VALUES]] = np.arange(len(frequent[:FREQUENT_VALUES]))
    if missing:
        found[0] = FREQUENT_VALUES + 2
    return found


def _category_bins(column: Column, train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Counts codes by the bins of `places`."""
    bin_of = places(column)
    before, after = (np.bincount(bin_of[codes], minlength=FREQUENT_VALUES + 3) for codes in (train, test))
    return before, after


def _measure_unseen(column: Column, test: np.ndarray) -> tuple[float, tuple[str, ...]]:
    """Returns the share of rows with values that no train row has, and the most frequent such values."""
    counts = np.bincount(test, minlength=len(column.values))
    if column.kind != "category" or not column.counts:
        return 0.0, ()
    unseen: Sequence[int] = [c for c in np.argsort(-counts, kind="stable").tolist()
                             if c and counts[c] and not column.counts[c]]  # fmt: skip
    return float(counts[unseen].sum() / counts.sum()), tuple(column.values[c] for c in unseen[:SHOWN_VALUES])
