"""Rows of a dataset as people read them: values by name, what was and what was predicted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vgp.base.printable import plain
from vgp.data import sampling
from vgp.data.declaration import DAY
from vgp.data.task import Task
from vgp.evaluation.amounts import number
from vgp.evaluation.names import MISSING
from vgp.evaluation.predictions import Predictions
from vgp.evaluation.ranked import scores_of
from vgp.protocol import outcome
from vgp.protocol.manifest import Column, Manifest

#: Columns of a row, and characters of a value and of a row's own text.
MOST_COLUMNS, MOST_CHARACTERS, MOST_TEXT = 12, 80, 400
#: Of a whole number, which may be a code, all digits.
WHOLE_DIGITS = 15


@dataclass(frozen=True)
class Described:
    """Some rows of the predictions, by their numbers."""

    task: Task
    dataset: Manifest
    #: Where each row is in the arrays of `known` and `said`.
    place: Mapping[int, int]
    #: Columns of the dataset, and which of them are shown.
    known: Mapping[str, np.ndarray]
    columns: Sequence[Column]
    #: Per row: what was, and what the new model said.
    said: Sequence[tuple[str, str]]

    @classmethod
    def of(
        cls, measured: Predictions, data: str | Path, dataset: Manifest, task: Task, rows: np.ndarray,
        first: Sequence[str],
    ) -> "Described":  # fmt: skip
        """Reads the rows with these numbers, rising; `first` are the columns that are shown before others."""
        files = dataset.splits[measured.header.split]
        known = sampling.at(data, files, dataset.columns, rows)
        spare = (task.label, task.weight, "row_id", DAY, *task.private)
        shown = [c for c in dataset.columns if c.kind in ("number", "category", "id") and c.name not in spare]
        order = {name: place for place, name in enumerate(first)}
        chosen = sorted(shown, key=lambda column: order.get(column.name, len(order)))[:MOST_COLUMNS]
        place = {int(row): i for i, row in enumerate(rows)}
        said = _said(measured, rows)
        return cls(task, dataset, place, known, chosen, said)

    def row_id(self, row: int) -> str:
        return str(self.known["row_id"][self.place[row]])

    def outcome(self, row: int) -> tuple[str, str]:
        return self.said[self.place[row]]

    def values(self, row: int) -> dict[str, str]:
        return {c.name: value(c, self.known[c.name][self.place[row]]) for c in self.columns}

    def text(self, row: int) -> str:
        values = {name: column[self.place[row]] for name, column in self.known.items()}
        return shortened(self.task.text(values, self.dataset), MOST_TEXT)


def _said(measured: Predictions, rows: np.ndarray) -> list[tuple[str, str]]:
    """The class of each row and the likeliest class with its probability; of a regression the label and the mean."""
    if measured.header.quantiles:
        return _told(measured, rows)
    if not measured.header.classes:
        return [("", "")] * len(rows)
    scored = measured.scored("challenger")
    classes, chance = scored.classes()[rows], scores_of(scored.confident[rows])
    chance = np.where(classes == 1, chance, 1 - chance) if measured.binary else chance
    names, labels = outcome.in_words(measured.header.classes, measured.header.target), measured.label[rows]
    outcomes = zip(labels.tolist(), classes.tolist(), chance.tolist(), strict=True)
    return [(names[label], f"{names[guess]}, {sure:.1%}") for label, guess, sure in outcomes]


def _told(measured: Predictions, rows: np.ndarray) -> list[tuple[str, str]]:
    """The label, and the predicted mean between the outermost quantiles."""
    mean, *quantiles = measured.predicted("challenger")[:, rows]
    unit = f" {measured.header.unit}" if measured.header.unit else ""
    outer = [quantiles[0], quantiles[-1]] if len(quantiles) > 1 else []
    told = []
    for i, label in enumerate(measured.label[rows]):
        between = f" ({number(outer[0][i], 5)} to {number(outer[1][i], 5)})" if outer else ""
        told.append((f"{number(label, 5)}{unit}", f"{number(mean[i], 5)}{between}"))
    return told


def value(column: Column, element: np.generic) -> str:
    """A value as text: a category by its name, a number in a few digits."""
    if column.kind == "category":
        return shortened(column.values[int(element)], MOST_CHARACTERS) or MISSING
    if column.kind == "id":
        return str(element)
    return MISSING if np.isnan(element) else f"{float(element):.{WHOLE_DIGITS if float(element).is_integer() else 5}g}"


def shortened(text: str, most: int) -> str:
    text = plain(text)
    return text if len(text) <= most else f"{text[: most - 3]}..."
