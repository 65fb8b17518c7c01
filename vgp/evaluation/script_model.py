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

    def scorer(self, data: str | Path, dataset: Manifest, task: Task, split: str) -> tuple[Aligned, tuple[str, ...]]:
        """Returns a scorer of the rows of a split, and notes for readers.

        Raises:
            UserError: the predictions belong to other rows.
        """
        assert self.predictions is not None
        row_id, label = test_rows.read_prepared_rows(data, dataset, task, split)
        aligned = test_rows.align(self.predictions, row_id, label, of=f"of the {split} split")
        if self.predictions.label is not None or self._is_of(dataset, split):
            return aligned, ()
        if self.collected is None:
            return aligned, (f"The predictions in {self.path} are matched to these rows only by row_id.",)
        hint = "" if task.likelihood else f", or write the column {LABEL}, too, which is then compared"
        raise UserError(
            f"{self.path}/{PREDICTIONS} belongs to other prepared data, where row_id may identify other rows. Predict "
            f"these rows with the script{hint}."
        )

    def _is_of(self, dataset: Manifest, split: str) -> bool:
        return self.collected is not None and self.collected.rows == test_rows.checksum(dataset, split)


def load(folder: str | Path, task: Task) -> ScriptModel:
    """Loads a script's folder or its pins, without rows. Raises UserError for invalid predictions."""
    folder = str(folder)
    return ScriptModel(folder, collected.load(folder), collect.read_predictions(folder, task))


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
    f"The baseline is {OWN_BASELINE} of the scored rows, because there are no train rows. It is calibrated by "
    "construction, so calibration is not compared with it."
)
MOST_ROWS_AT_ONCE = 1 << 18


def evaluate_own_rows(
    script: ScriptModel, champion: str, destination: str | Path, dataset: Manifest, task: Task, *, baseline: bool
) -> Evaluation:
    """Evaluates the script's predictions with its own labels, and a champion's predictions of the same rows.

    A champion that is not a script's model, or that predicted other rows, is not compared (`champion_problem`).
    """
    new = script.predictions
    assert new is not None and new.label is not None
    scored = {"challenger": new.values}
    problem = champion_problem.read_problem(champion)
    if champion and not problem:
        try:
            scored["champion"] = _read_champion(champion, new, task)
        except UserError as error:
            problem = champion_problem.explain_error(champion, error)
    if baseline:
        scored["baseline"] = base_rates(new.label, len(new.classes))
    header = Header(
        task=dataset.task,
        split="",
        classes=new.classes,
        models=tuple(scored),
        champion_problem=problem.why if problem else "",
        champion_gone=problem.gone if problem else False,
        notes=(*([problem.note] if problem else []), *([OWN_NOTE] if baseline else [])),
        baseline=OWN_BASELINE if baseline else "",
        script=script.read_collected(dataset),
    )
    columns = {"row_id": new.row_id, "label": new.label, **scored}
    record.discard(destination)
    predictions_writer.write(destination, header, _batches(columns))
    return measure.measure(destination)


def _read_champion(folder: str, new: Predictions, task: Task) -> np.ndarray:
    """Returns the champion's probabilities in the order of the challenger's rows, float32 (N, C)."""
    if not collected.is_script(folder):
        raise UserError(
            f"the champion in {folder} predicts prepared rows, and the task files has none. Give the output folder of "
            "a script with predictions of the same rows."
        )
    old = champion(folder, task).predictions
    assert old is not None and old.label is not None and new.label is not None
    if old.classes != new.classes:
        raise UserError(
            f"the champion in {folder} predicts the classes {', '.join(old.classes)}, the new model "
            f"{', '.join(new.classes)}: they cannot be compared."
        )
    return test_rows.align(old, new.row_id, new.label, of="the new model predicts")({"row_id": new.row_id})


def _batches(columns: dict[str, np.ndarray]) -> Iterator[Columns]:
    for start in range(0, len(columns["row_id"]), MOST_ROWS_AT_ONCE):
        yield {name: values[start : start + MOST_ROWS_AT_ONCE] for name, values in columns.items()}
