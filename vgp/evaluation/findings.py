"""What evaluation finds beyond figures of merit, where there are prepared rows: why, where, and what has changed."""

from pathlib import Path

import numpy as np

from vgp.data import operating
from vgp.data.rows import read_sample
from vgp.data.task import Task
from vgp.evaluation import predictions, record, thresholds
from vgp.evaluation.drift import drift
from vgp.evaluation.examples import examples
from vgp.evaluation.importance import importance
from vgp.evaluation.record import Evaluation
from vgp.evaluation.score import TrainedModel
from vgp.evaluation.script_model import ScriptModel
from vgp.evaluation.thresholds import OperatingPoint
from vgp.protocol.manifest import Manifest

#: The rows on which a threshold is chosen.
CHOSEN_ON = "validation"


def operating_point(
    model: TrainedModel | ScriptModel, data: str | Path, dataset: Manifest, task: Task
) -> OperatingPoint | None:
    """The threshold by the task's rule, chosen on validation rows; None unless there are two classes.

    A script's predictions are of test rows only, so a threshold of it is only known where the task gives it.
    """
    if task.likelihood or task.regression or len(task.classes) != 2:
        return None
    rule, files = operating.parse(task.operating_point), dataset.splits.get(CHOSEN_ON, ())
    known = isinstance(model, TrainedModel) and rule.needs_rows and bool(files)
    rows = read_sample(data, files, dataset.columns, thresholds.MOST_ROWS) if known else {}
    if not rows or isinstance(model, ScriptModel):
        return thresholds.choose(rule, "", np.zeros(0, np.int64), np.zeros(0))
    count = len(rows[task.label])
    second = [model({n: v[start : start + task.batch_rows] for n, v in rows.items()})[:, 1]
              for start in range(0, count, task.batch_rows)]  # fmt: skip
    return thresholds.choose(rule, CHOSEN_ON, rows[task.label], np.concatenate(second))


def add(
    measured: Evaluation,
    directory: str | Path,
    model: TrainedModel | ScriptModel,
    data: str | Path,
    dataset: Manifest,
    task: Task,
) -> Evaluation:
    """The record with importance, examples and drift, also in the directory of the evaluation."""
    worth = importance(model, data, dataset, measured.split) if isinstance(model, TrainedModel) else None
    first = [column.column for column in worth.columns] if worth else []
    shown = examples(predictions.read(directory), data, dataset, task, first)
    changed = drift(data, dataset, measured.split, task.groups)
    result = measured.model_copy(update={"importance": worth, "examples": shown, "drift": changed})
    record.save(result, directory)
    return result
