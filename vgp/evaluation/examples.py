"""Single rows that a reader can learn from: the worst, the sure errors, and those that the model to beat knew better.

Values are shown as people wrote them, categories by name. What a task calls `private` is left out.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from vgp.data.task import Task
from vgp.evaluation.described import Described
from vgp.evaluation.predictions import Predictions
from vgp.evaluation.ranked import hits_of, scores_of
from vgp.protocol import outcome
from vgp.protocol.manifest import Frozen, Manifest

#: Of a list.
MOST_ROWS = 6
#: In `Task.private`: no rows at all.
EVERYTHING = "*"
RIVALS = ("champion", "baseline")
WORST = ("Highest loss", "The rows that cost the new model most.")
SURE = ("Sure and wrong", "The likeliest class was wrong, and the model was surest of it.")
BETTER = ("The {rival} knew better", "The rows where the new model loses most against the {rival}.")
#: Title, meaning, and numbers of rows.
Listed = tuple[str, str, np.ndarray]


class Example(Frozen):
    """A row, what is known of it, and what the models made of it."""

    row_id: str
    #: What was, and what the new model said, in words; "" without classes.
    actual: str = ""
    predicted: str = ""
    #: The row's loss in the decision's unit: the new model's, and the rival's in a list that compares.
    loss: float
    rival_loss: float | None = None
    values: dict[str, str] = {}
    #: Of rows that are no table: what `Task.text` makes of them.
    text: str = ""


class ExampleList(Frozen):
    title: str
    #: How the rows were picked.
    meaning: str
    rows: tuple[Example, ...]


class Examples(Frozen):
    lists: tuple[ExampleList, ...] = ()
    #: Columns that the task keeps out of reports.
    withheld: tuple[str, ...] = ()


def examples(
    measured: Predictions, data: str | Path, dataset: Manifest, task: Task, first: Sequence[str] = ()
) -> Examples:
    """The lists of a split's rows, in the order of the predictions.

    Args:
        measured: The saved predictions.
        data: Directory of the prepared dataset.
        first: Columns by their importance, as far as it is known: wide rows show these.
    """
    withheld = tuple(task.private)
    if EVERYTHING in withheld:
        return Examples(withheld=withheld)
    rival = next((model for model in RIVALS if model in measured.header.models), "")
    losses = {model: _losses(measured, model) for model in ("challenger", rival) if model}
    lists = [(title, meaning, rows) for title, meaning, rows in _picked(measured, losses, rival) if len(rows)]
    numbers = np.unique(np.concatenate([np.zeros(0, np.int64), *(rows for _, _, rows in lists)]))
    described = Described.of(measured, data, dataset, task, numbers, first)
    told = [
        ExampleList(title=title, meaning=meaning, rows=tuple(_row(described, row, losses, rival) for row in rows))
        for title, meaning, rows in lists
    ]
    return Examples(lists=tuple(told), withheld=withheld)


def _row(described: Described, row: int, losses: Mapping[str, np.ndarray], rival: str) -> Example:
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
    """Losses in the decision's unit, float64 (N,)."""
    losses = measured.losses(model)
    return losses if measured.weight is None else np.asarray(losses / np.maximum(measured.weight, 1))


def _picked(measured: Predictions, losses: Mapping[str, np.ndarray], rival: str) -> list[Listed]:
    lists: list[Listed] = []
    if measured.binary:
        lists += _both_errors(measured)
    else:
        lists += [(*WORST, largest(losses["challenger"]))]
        lists += [(*SURE, _sure(measured))] if measured.header.classes else []
    if rival:
        lost = losses["challenger"] - losses[rival]
        rows = largest(lost)
        title, meaning = (text.format(rival=rival) for text in BETTER)
        lists += [(title, meaning, rows[lost[rows] > 0])]
    return lists


def _both_errors(measured: Predictions) -> list[Listed]:
    """Of two classes the highest losses are the sure errors: a list for each of the two kinds.

    An error is a row whose class was held less likely than the other, or than it is without a model.
    """
    first, second = outcome.in_words(measured.header.classes, measured.header.target)
    score = scores_of(measured.scored("challenger").confident)
    rate = float(measured.label.mean())
    missed = largest(np.where(measured.label == 1, 1 - score, -np.inf))
    alarms = largest(np.where(measured.label == 0, score, -np.inf))
    return [
        (f"{second}, and not expected", f"Rows of {second} with the lowest probability of it.",
         missed[(measured.label[missed] == 1) & (score[missed] < max(rate, 0.5))]),
        (f"{first}, and not expected", f"Rows of {first} with the highest probability of {second}.",
         alarms[(measured.label[alarms] == 0) & (score[alarms] > min(rate, 0.5))]),
    ]  # fmt: skip


def _sure(measured: Predictions) -> np.ndarray:
    confident = measured.scored("challenger").confident
    wrong = ~hits_of(confident)
    rows = largest(np.where(wrong, scores_of(confident), -np.inf))
    return np.asarray(rows[wrong[rows]])


def largest(values: np.ndarray, most: int = MOST_ROWS) -> np.ndarray:
    """The numbers of the rows with the largest values, falling; of equals the first rows."""
    most = min(most, len(values))
    least = np.partition(values, len(values) - most)[len(values) - most] if most else 0
    above = np.flatnonzero(values > least)
    rows = np.concatenate([above, np.flatnonzero(values == least)[: most - len(above)]])
    return np.asarray(rows[np.lexsort((rows, -values[rows]))])
