"""Predictions of rows that the script labelled itself, where no rows were prepared: the task `files`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from vgp.base.exits import UserError
from vgp.data.task import Task
from vgp.evaluation import champion_problem, measure, predictions_writer, record, script_model
from vgp.evaluation.predictions import Header
from vgp.evaluation.record import Evaluation
from vgp.evaluation.script import collected, test_rows
from vgp.evaluation.script.predictions import Predictions
from vgp.evaluation.script_model import ScriptModel
from vgp.protocol.manifest import Manifest

BASELINE = "the base rates of the labels"
NOTE = (
    f"The baseline is {BASELINE}, taken from these very rows, since there are no train rows: it is calibrated by "
    "construction, so calibration is not held against it."
)
MOST_ROWS_AT_ONCE = 1 << 18


def evaluate(
    script: ScriptModel, champion: str, destination: str | Path, dataset: Manifest, task: Task, *, baseline: bool
) -> Evaluation:
    """Judges the script's predictions by its own labels, beside a champion's of the same rows.

    One that is no script's, or predicted other rows, is not compared (`champion_problem`).
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
        scored["baseline"] = script_model.base_rates(ours.label, len(ours.classes))
    header = Header(
        task=dataset.task,
        split="",
        classes=ours.classes,
        models=tuple(scored),
        champion_problem=problem.why if problem else "",
        champion_gone=problem.gone if problem else False,
        notes=(*([problem.note] if problem else []), *([NOTE] if baseline else [])),
        baseline=BASELINE if baseline else "",
        script=script.told(dataset),
    )
    columns = {"row_id": ours.row_id, "label": ours.label, **scored}
    record.discard(destination)
    predictions_writer.write(destination, header, _batches(columns))
    return measure.measure(destination)


def _champion(folder: str, ours: Predictions, task: Task) -> np.ndarray:
    """The champion's probabilities in the order of the challenger's rows, float32 (N, C)."""
    if not collected.is_script(folder):
        raise UserError(
            f"the champion in {folder} is a model of ours, which predicts prepared rows; the task files has none. Give "
            "the folder that a script left, with predictions of the same rows."
        )
    theirs = script_model.champion(folder, task).predictions
    assert theirs is not None and theirs.label is not None and ours.label is not None
    if theirs.classes != ours.classes:
        raise UserError(
            f"the champion in {folder} predicts the classes {', '.join(theirs.classes)}, the new model "
            f"{', '.join(ours.classes)}: they cannot be compared."
        )
    return test_rows.align(theirs, ours.row_id, ours.label, of="the new model predicts")({"row_id": ours.row_id})


def _batches(columns: dict[str, np.ndarray]) -> Iterator[dict[str, Any]]:
    for start in range(0, len(columns["row_id"]), MOST_ROWS_AT_ONCE):
        yield {name: values[start : start + MOST_ROWS_AT_ONCE] for name, values in columns.items()}
