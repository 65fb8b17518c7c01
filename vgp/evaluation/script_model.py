"""A script's model for scoring: its saved predictions are looked up instead of computed."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vgp.base.exits import UserError
from vgp.data.task import Task
from vgp.evaluation import champion_problem, collect, collected, measure, predictions_writer, record, test_rows
from vgp.evaluation.collected import PREDICTIONS, Collected
from vgp.evaluation.predictions import Header
from vgp.evaluation.predictions_writer import Columns
from vgp.evaluation.record import Evaluation
from vgp.evaluation.script_predictions import LABEL, Predictions
from vgp.evaluation.test_rows import Aligned
from vgp.protocol.manifest import Manifest


@dataclass(frozen=True)
class ScriptModel:
    """A script's folder with its `collected.json` and predictions; None without predictions."""

    path: str
    collected: Collected | None
    predictions: Predictions | None

    def read_collected(self, dataset: Manifest) -> Collected:
        """Returns the content of `collected.json`, or a minimal record if there is none."""
        rows = len(self.predictions) if self.predictions else 0
        return self.collected or Collected(task=dataset.task, rows="", files=0, bytes=0, predictions=rows)

    def of_rows(self, data: str | Path, dataset: Manifest, task: Task, split: str) -> tuple[Aligned, tuple[str, ...]]:
        """Returns a scorer of the rows of a split, and notes for readers.

        Raises:
            UserError: the predictions belong to other rows.
        """
        assert self.predictions is not None
        row_id, label = test_rows.prepared(data, dataset, task, split)
        aligned = test_rows.align(self.predictions, row_id, label, of=f"of the {split} split")
        if self.predictions.label is not None or self._is_of(dataset, split):
            return aligned, ()
        if self.collected is None:
            return aligned, (f"Nothing but their row_id tells that the predictions in {self.path} are of these rows.",)
        hint = "" if task.likelihood else f", or let it write the column {LABEL} too, which tells"
        raise UserError(
            f"{self.path}/{PREDICTIONS} belongs to other prepared data, whose row_id may mean other rows: predict "
            f"these rows with the script{hint}."
        )

    def _is_of(self, dataset: Manifest, split: str) -> bool:
        return self.collected is not None and self.collected.rows == test_rows.checksum(dataset, split)


def load(folder: str | Path, task: Task) -> ScriptModel:
    """Loads a script's folder or its pins, without rows. Raises UserError for invalid predictions."""
    folder = str(folder)
    return ScriptModel(folder, collected.load(folder), collect.left_predictions(folder, task))


def champion(folder: str, task: Task) -> ScriptModel:
    """Loads a script's champion. Raises UserError if it has no valid predictions."""
    model = load(folder, task)
    if model.predictions is None:
        raise UserError(f"the champion in {folder} is a script's model without {PREDICTIONS}, so it cannot be scored.")
    return model


def base_rates(label: np.ndarray, classes: int) -> np.ndarray:
    """Returns the class frequencies as a prediction for each row, float64 (N, C)."""
    rates = np.bincount(label, minlength=classes) / len(label)
    return np.broadcast_to(rates, (len(label), classes))


# ---- predictions with the script's own labels, for the task `files`, which prepares no rows


OWN_BASELINE = "the base rates of the labels"
OWN_NOTE = (
    f"The baseline is {OWN_BASELINE}, taken from these very rows, since there are no train rows: it is calibrated by "
    "construction, so calibration is not compared with it."
)
MOST_ROWS_AT_ONCE = 1 << 18


def evaluate_own_rows(
    script: ScriptModel, champion: str, destination: str | Path, dataset: Manifest, task: Task, *, baseline: bool
) -> Evaluation:
    """Evaluates the script's predictions with its own labels, and a champion's predictions of the same rows.

    A champion that is not a script's, or predicted other rows, is not compared (`champion_problem`).
    """
    ours = script.predictions
    assert ours is not None and ours.label is not None
    scored = {"challenger": ours.values}
    problem = champion_problem.found(champion)
    if champion and not problem:
        try:
            scored["champion"] = _champion(champion, ours, task)
        except UserError as error:
            problem = champion_problem.of(champion, error)
    if baseline:
        scored["baseline"] = base_rates(ours.label, len(ours.classes))
    header = Header(
        task=dataset.task,
        split="",
        classes=ours.classes,
        models=tuple(scored),
        champion_problem=problem.why if problem else "",
        champion_gone=problem.gone if problem else False,
        notes=(*([problem.note] if problem else []), *([OWN_NOTE] if baseline else [])),
        baseline=OWN_BASELINE if baseline else "",
        script=script.read_collected(dataset),
    )
    columns = {"row_id": ours.row_id, "label": ours.label, **scored}
    record.discard(destination)
    predictions_writer.write(destination, header, _batches(columns))
    return measure.measure(destination)


def _champion(folder: str, ours: Predictions, task: Task) -> np.ndarray:
    """Returns the champion's probabilities in the order of the challenger's rows, float32 (N, C)."""
    if not collected.is_script(folder):
        raise UserError(
            f"the champion in {folder} predicts prepared rows, and the task files has none. Give the output folder of "
            "a script with predictions of the same rows."
        )
    theirs = champion(folder, task).predictions
    assert theirs is not None and theirs.label is not None and ours.label is not None
    if theirs.classes != ours.classes:
        raise UserError(
            f"the champion in {folder} predicts the classes {', '.join(theirs.classes)}, the new model "
            f"{', '.join(ours.classes)}: they cannot be compared."
        )
    return test_rows.align(theirs, ours.row_id, ours.label, of="the new model predicts")({"row_id": ours.row_id})


def _batches(columns: dict[str, np.ndarray]) -> Iterator[Columns]:
    for start in range(0, len(columns["row_id"]), MOST_ROWS_AT_ONCE):
        yield {name: values[start : start + MOST_ROWS_AT_ONCE] for name, values in columns.items()}
