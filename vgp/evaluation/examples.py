"""Example rows for the report: highest losses, confident errors, and rows that the model to beat predicts better.

Categories are shown by name; columns that a task lists as `private` are withheld.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vgp.base.text.figures import format_significant
from vgp.base.text.printable import printable
from vgp.data.rows import read_rows
from vgp.data.schema import DAY
from vgp.data.task import Task
from vgp.evaluation.predictions import MISSING, Predictions
from vgp.evaluation.ranked import hits_of, scores_of
from vgp.protocol import outcome
from vgp.protocol.manifest import Column, Frozen, Manifest

# ---- rows of a dataset in readable form


#: Maximum number of columns of a row, and of characters of a value and of a row's text.
MOST_COLUMNS, MOST_CHARACTERS, MOST_TEXT = 12, 80, 400
#: Significant digits of a whole number: enough to show all of them, because the number may be a code.
WHOLE_DIGITS = 15


@dataclass(frozen=True)
class Described:
    """Some rows of the predictions, by row number."""

    task: Task
    dataset: Manifest
    #: Index of each row in the arrays below.
    place: Mapping[int, int]
    #: Values of all columns, and the columns to show.
    arrays: Mapping[str, np.ndarray]
    columns: Sequence[Column]
    #: Actual and predicted value of each row, as text.
    outcomes: Sequence[tuple[str, str]]

    @classmethod
    def of(
        cls, measured: Predictions, data: str | Path, dataset: Manifest, task: Task, rows: np.ndarray,
        first: Sequence[str],
    ) -> "Described":  # fmt: skip
        """Reads the rows with these ascending numbers; the columns `first` are shown first."""
        files = dataset.splits[measured.header.split]
        arrays = read_rows(data, files, dataset.columns, rows)
        hidden = (task.label, task.weight, "row_id", DAY, *task.private)
        columns = [c for c in dataset.columns if c.kind in ("number", "category", "id") and c.name not in hidden]
        order = {name: place for place, name in enumerate(first)}
        columns.sort(key=lambda column: order.get(column.name, len(order)))
        place = {int(row): i for i, row in enumerate(rows)}
        outcomes = _actual_and_predicted(measured, rows)
        return cls(task, dataset, place, arrays, columns[:MOST_COLUMNS], outcomes)

    def row_id(self, row: int) -> str:
        return str(self.arrays["row_id"][self.place[row]])

    def outcome(self, row: int) -> tuple[str, str]:
        return self.outcomes[self.place[row]]

    def values(self, row: int) -> dict[str, str]:
        return {c.name: format_value(c, self.arrays[c.name][self.place[row]]) for c in self.columns}

    def text(self, row: int) -> str:
        values = {name: column[self.place[row]] for name, column in self.arrays.items()}
        return shorten(self.task.text(values, self.dataset), MOST_TEXT)


def _actual_and_predicted(measured: Predictions, rows: np.ndarray) -> list[tuple[str, str]]:
    """Returns each row's class and the likeliest class with its probability; for a regression label and mean."""
    if measured.header.quantiles:
        return _actual_and_interval(measured, rows)
    if not measured.header.classes:
        return [("", "")] * len(rows)
    scored = measured.read_scores("challenger")
    classes, chance = scored.classes()[rows], scores_of(scored.confident[rows])
    chance = np.where(classes == 1, chance, 1 - chance) if measured.binary else chance
    names, labels = outcome.in_words(measured.header.classes, measured.header.target), measured.label[rows]
    outcomes = zip(labels.tolist(), classes.tolist(), chance.tolist(), strict=True)
    return [(names[label], f"{names[guess]}, {sure:.1%}") for label, guess, sure in outcomes]


def _actual_and_interval(measured: Predictions, rows: np.ndarray) -> list[tuple[str, str]]:
    """Returns the label, and the predicted mean with the outermost quantiles."""
    mean, *quantiles = measured.read_regression("challenger")[:, rows]
    unit = f" {measured.header.unit}" if measured.header.unit else ""
    outer = [quantiles[0], quantiles[-1]] if len(quantiles) > 1 else []
    texts = []
    for i, label in enumerate(measured.label[rows]):
        between = f" ({format_significant(outer[0][i], 5)} to {format_significant(outer[1][i], 5)})" if outer else ""
        texts.append((f"{format_significant(label, 5)}{unit}", f"{format_significant(mean[i], 5)}{between}"))
    return texts


def format_value(column: Column, element: np.generic) -> str:
    """Formats a value: a category by its name, a number with few digits."""
    if column.kind == "category":
        return shorten(column.values[int(element)], MOST_CHARACTERS) or MISSING
    if column.kind == "id":
        return str(element)
    return MISSING if np.isnan(element) else f"{float(element):.{WHOLE_DIGITS if float(element).is_integer() else 5}g}"


def shorten(text: str, most: int) -> str:
    text = printable(text)
    return text if len(text) <= most else f"{text[: most - 3]}..."


#: Maximum number of rows in a list of examples.
MOST_ROWS = 6
#: Value of `Task.private` that withholds all rows.
EVERYTHING = "*"
RIVALS = ("champion", "baseline")
WORST = ("Highest loss", "The rows that cost the new model most.")
SURE = ("Sure and wrong", "The likeliest class was wrong, and the model was surest of it.")
BETTER = ("The {rival} knew better", "The rows where the new model loses most against the {rival}.")
#: Title, meaning, and numbers of rows.
Listed = tuple[str, str, np.ndarray]


class Example(Frozen):
    """A row with its values, label, prediction and losses."""

    row_id: str
    #: Actual and predicted value, as text; "" without classes.
    actual: str = ""
    predicted: str = ""
    #: Loss in the decision's unit: the new model's and, in a comparing list, the rival's.
    loss: float
    rival_loss: float | None = None
    values: dict[str, str] = {}
    #: Text of `Task.text` for rows that are not tabular.
    text: str = ""


class ExampleList(Frozen):
    title: str
    #: How the rows were selected.
    meaning: str
    rows: tuple[Example, ...]


class Examples(Frozen):
    lists: tuple[ExampleList, ...] = ()
    #: Private columns.
    withheld: tuple[str, ...] = ()


def examples(
    measured: Predictions, data: str | Path, dataset: Manifest, task: Task, first: Sequence[str] = ()
) -> Examples:
    """Selects the example rows of a split.

    Args:
        measured: The saved predictions.
        data: Directory of the prepared dataset.
        first: Columns by importance, shown first in wide rows.
    """
    withheld = tuple(task.private)
    if EVERYTHING in withheld:
        return Examples(withheld=withheld)
    rival = next((model for model in RIVALS if model in measured.header.models), "")
    losses = {model: _losses(measured, model) for model in ("challenger", rival) if model}
    lists = [(title, meaning, rows) for title, meaning, rows in _select_lists(measured, losses, rival) if len(rows)]
    numbers = np.unique(np.concatenate([np.zeros(0, np.int64), *(rows for _, _, rows in lists)]))
    described = Described.of(measured, data, dataset, task, numbers, first)
    example_lists = [
        ExampleList(
            title=title, meaning=meaning, rows=tuple(_build_example(described, row, losses, rival) for row in rows)
        )
        for title, meaning, rows in lists
    ]
    return Examples(lists=tuple(example_lists), withheld=withheld)


def _build_example(described: Described, row: int, losses: Mapping[str, np.ndarray], rival: str) -> Example:
    actual, predicted = described.outcome(row)
    return Example(
        row_id=described.row_id(row),
        actual=actual,
        predicted=predicted,
        loss=float(losses["challenger"][row]),
        rival_loss=float(losses[rival][row]) if rival else None,
        values=described.values(row),
        text=described.text(row),
    )


def _losses(measured: Predictions, model: str) -> np.ndarray:
    """Returns losses in the decision's unit, float64 (N,)."""
    losses = measured.losses(model)
    return losses if measured.weight is None else np.asarray(losses / np.maximum(measured.weight, 1))


def _select_lists(measured: Predictions, losses: Mapping[str, np.ndarray], rival: str) -> list[Listed]:
    lists: list[Listed] = []
    if measured.binary:
        lists += _both_errors(measured)
    else:
        lists += [(*WORST, largest(losses["challenger"]))]
        lists += [(*SURE, _compute_certainty(measured))] if measured.header.classes else []
    if rival:
        lost = losses["challenger"] - losses[rival]
        rows = largest(lost)
        title, meaning = (text.format(rival=rival) for text in BETTER)
        lists += [(title, meaning, rows[lost[rows] > 0])]
    return lists


def _both_errors(measured: Predictions) -> list[Listed]:
    """Returns one list of confident errors for each of two classes.

    An error is a row whose class got a lower probability than the other class, or than its base rate.
    """
    first, second = outcome.in_words(measured.header.classes, measured.header.target)
    score = scores_of(measured.read_scores("challenger").confident)
    rate = float(measured.label.mean())
    missed = largest(np.where(measured.label == 1, 1 - score, -np.inf))
    alarms = largest(np.where(measured.label == 0, score, -np.inf))
    return [
        (f"{second}, and not expected", f"Rows of {second} with the lowest probability of it.",
         missed[(measured.label[missed] == 1) & (score[missed] < max(rate, 0.5))]),
        (f"{first}, and not expected", f"Rows of {first} with the highest probability of {second}.",
         alarms[(measured.label[alarms] == 0) & (score[alarms] > min(rate, 0.5))]),
    ]  # fmt: skip


def _compute_certainty(measured: Predictions) -> np.ndarray:
    confident = measured.read_scores("challenger").confident
    wrong = ~hits_of(confident)
    rows = largest(np.where(wrong, scores_of(confident), -np.inf))
    return np.asarray(rows[wrong[rows]])


def largest(values: np.ndarray, most: int = MOST_ROWS) -> np.ndarray:
    """Returns the row numbers of the largest values, descending; the first rows of equals."""
    most = min(most, len(values))
    least = np.partition(values, len(values) - most)[len(values) - most] if most else 0
    above = np.flatnonzero(values > least)
    rows = np.concatenate([above, np.flatnonzero(values == least)[: most - len(above)]])
    return np.asarray(rows[np.lexsort((rows, -values[rows]))])
