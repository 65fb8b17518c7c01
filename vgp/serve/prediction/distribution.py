"""The distribution of predictions, their metrics if labels are known, and the drift of new rows since training.

The drift is computed from the statistics in the model's card, without old rows, with the measure and thresholds of the
report (`vgp.evaluation.drift`), over all new rows.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import numpy as np

from vgp.base.documents.json_text import JsonObject
from vgp.data import columns as bins
from vgp.data.bundle import ModelCard
from vgp.data.columns import elements
from vgp.data.rows import read_shard
from vgp.data.task import Task
from vgp.evaluation import measure, predictions_writer
from vgp.evaluation.drift import FREQUENT_VALUES, MOST_COLUMNS, SHOWN_VALUES, ColumnDrift, compare_column, places
from vgp.evaluation.predictions import Header
from vgp.evaluation.regression import Loss
from vgp.protocol import outcome
from vgp.protocol.manifest import Column, Frozen
from vgp.serve.prediction.output_shards import Part
from vgp.serve.prediction.row_shards import NewRows, feature_columns

BINS = 20


class Distribution(Frozen):
    """The distribution of all predictions."""

    rows: int
    #: Classification: rows by the most probable class, and the mean probability of each class.
    predicted: dict[str, int] = {}
    probability: dict[str, float] = {}
    #: Regression: the mean of each column. Likelihood: the mean loss.
    mean: dict[str, float] = {}
    minimum: float | None = None
    maximum: float | None = None
    #: Rows in 20 bins of equal width over [0, 1]: by the probability of the second of two classes, or the highest one.
    histogram: tuple[int, ...] = ()
    #: Rows with a known label, and the metrics on them.
    labelled: int = 0
    figures: dict[str, float] = {}

    @property
    def scalars(self) -> dict[str, float]:
        """All figures as flat names, for a metrics table."""
        named = {f"predicted_{name}": float(count) for name, count in self.predicted.items()}
        means = {f"mean_{name}": value for name, value in (self.probability or self.mean).items()}
        return {"rows": float(self.rows), "labelled": float(self.labelled), **named, **means, **self.figures}


def distribution(task: Task, rows: NewRows, parts: Iterator[Part], scratch: Path) -> Distribution:
    """Computes the distribution, reading every part once; rows with labels are measured as in evaluation."""
    spread = _Spread(task)
    if not rows.labelled:
        for part in parts:
            spread.add(part.predicted)
        return spread.result(0, {})
    labelled = (batch for part in parts if (batch := _read_labelled_rows(task, rows, spread, part)))
    folder = scratch / "labelled"
    predictions_writer.write(folder, _build_header(task, rows), labelled)
    figures = measure.measure(folder).scalars
    return spread.result(rows.labelled, {name: value for name, value in figures.items() if name != "rows"})


def _read_labelled_rows(task: Task, rows: NewRows, spread: "_Spread", part: Part) -> JsonObject | None:
    """Returns the rows of a part with a known label, in the form that evaluation saves; None if there are none."""
    spread.add(part.predicted)
    columns = rows.read(part.number)
    label = columns[task.label]
    known = ~np.isnan(label)
    if not known.any():
        return None
    kept = label[known] if task.regression else label[known].astype(np.int64)
    return {"row_id": columns["row_id"][known], "label": kept, "challenger": part.predicted[known]}


def _build_header(task: Task, rows: NewRows) -> Header:
    return Header(
        task=rows.dataset.task, split="rows", classes=() if task.regression else tuple(task.classes),
        quantiles=tuple(task.quantiles), target=outcome.target(task), unit=task.unit,
        decided_by=cast(Loss, task.decided_by), models=("challenger",),
    )  # fmt: skip


class _Spread:
    """Sums over rows, in the order of the parts."""

    def __init__(self, task: Task):
        self._task = task
        self._names = () if task.likelihood else _list_columns(task)
        self._rows, self._sums = 0, np.zeros(max(1, len(self._names)))
        self._counts, self._histogram = np.zeros(len(self._names), np.int64), np.zeros(BINS, np.int64)
        self._low, self._high = np.inf, -np.inf

    def add(self, predicted: np.ndarray) -> None:
        table = predicted.reshape(len(predicted), -1).astype(np.float64)
        self._rows += len(table)
        self._sums += table.sum(axis=0)
        if self._task.classes and not self._task.likelihood:
            self._counts += np.bincount(predicted.argmax(axis=1), minlength=len(self._names))
            shown = table[:, 1] if len(self._names) == 2 else table.max(axis=1)
            self._histogram += np.bincount(np.minimum((shown * BINS).astype(int), BINS - 1), minlength=BINS)
        else:
            self._low, self._high = min(self._low, table[:, 0].min()), max(self._high, table[:, 0].max())

    def result(self, labelled: int, figures: dict[str, float]) -> Distribution:
        means = (self._sums / max(1, self._rows)).tolist()
        if self._task.classes and not self._task.likelihood:
            return Distribution(
                rows=self._rows, predicted=dict(zip(self._names, self._counts.tolist(), strict=True)),
                probability=dict(zip(self._names, means, strict=True)), histogram=tuple(self._histogram.tolist()),
                labelled=labelled, figures=figures,
            )  # fmt: skip
        named = dict(zip(self._names or ("loss",), means, strict=True))
        return Distribution(
            rows=self._rows, mean=named, minimum=float(self._low), maximum=float(self._high), labelled=labelled,
            figures=figures,
        )  # fmt: skip


def _list_columns(task: Task) -> tuple[str, ...]:
    if task.regression:
        return "mean", *(f"quantile_{share:g}" for share in task.quantiles)
    return tuple(task.classes)


class NewDrift(Frozen):
    """The drift of all comparable columns, largest shift first."""

    rows: int
    columns: tuple[ColumnDrift, ...]
    #: Columns without a distribution in the card.
    unknown: tuple[str, ...] = ()

    @property
    def shifted(self) -> tuple[ColumnDrift, ...]:
        return tuple(column for column in self.columns if column.shift != "none")

    @property
    def sentence(self) -> str:
        """The summary in one line."""
        large = [column.column for column in self.columns if column.shift == "large"]
        if not self.columns:
            return "drift: unknown, because the model's card has no distributions of its columns."
        summary = f"drift: {len(self.shifted)} of {len(self.columns)} columns have shifted since training"
        shown = ", ".join(large[:5]) + (f" and {len(large) - 5} more" if len(large) > 5 else "")
        return f"{summary}{f', with a large shift: {shown}' if large else ''}."


def drift(task: Task, card: ModelCard, rows: NewRows) -> NewDrift:
    """Compares the new rows with the training rows of the model, column by column."""
    own = {column.name: column for column in rows.dataset.columns}
    measured = [column for column in feature_columns(task, card) if column.name not in task.groups][:MOST_COLUMNS]
    known = [column for column in measured if column.tally or sum(column.counts)]
    counts = {column.name: np.zeros(_count_values(column), np.int64) for column in known}
    seen = {c.name: np.zeros(len(own[c.name].values), np.int64) for c in known if c.kind == "category"}
    bin_of = {name: _bins(next(c for c in known if c.name == name), own[name]) for name in seen}
    for shard in rows.shards:
        table = read_shard(rows.folder, shard, [own[column.name] for column in known], verify=False)
        for column in known:
            values = elements(table[column.name].combine_chunks())
            if column.kind == "category":
                seen[column.name] += np.bincount(values, minlength=len(own[column.name].values))
            else:
                counts[column.name] += bins.tally(values, np.asarray(column.edges))
    for name, codes in seen.items():
        np.add.at(counts[name], bin_of[name], codes)
    drifts = [compare_column(c.name, _before(c), counts[c.name], *_unseen(c, own[c.name], seen)) for c in known]
    return NewDrift(
        rows=sum(shard.rows for shard in rows.shards),
        columns=tuple(sorted(drifts, key=lambda column: (-column.index, column.column))),
        unknown=tuple(column.name for column in measured if column not in known),
    )


def _count_values(column: Column) -> int:
    return len(column.tally) if column.tally else FREQUENT_VALUES + 3


def _before(column: Column) -> np.ndarray:
    """Returns the number of training rows by bin."""
    if column.tally:
        return np.asarray(column.tally, np.int64)
    return np.bincount(places(column), np.asarray(column.counts, np.int64), _count_values(column)).astype(np.int64)


def _bins(column: Column, own: Column) -> np.ndarray:
    """Returns the bin of each value of the new data."""
    code = {value: number for number, value in enumerate(column.values)}
    where = np.append(places(column), FREQUENT_VALUES + 1)  # the last is for values that the card does not have
    return np.array([where[code.get(value, -1)] for value in own.values], np.int64)


def _unseen(column: Column, own: Column, seen: dict[str, np.ndarray]) -> tuple[float, tuple[str, ...]]:
    """Returns the share of new rows with a value unseen in training, and the most frequent of these values."""
    if column.kind != "category":
        return 0.0, ()
    known = {value for value, count in zip(column.values, column.counts, strict=True) if count}
    counts = seen[column.name]
    new: Sequence[int] = [i for i in np.argsort(-counts, kind="stable").tolist()
                          if counts[i] and own.values[i] and own.values[i] not in known]  # fmt: skip
    return float(counts[new].sum() / max(1, counts.sum())), tuple(own.values[i] for i in new[:SHOWN_VALUES])
