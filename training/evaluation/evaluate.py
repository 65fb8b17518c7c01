"""Scores the new model, the champion and simple rivals on the same rows, saves the predictions, and measures them.

python -m training evaluate DATA --model MODEL DESTINATION [--champion MODEL]
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np

from training import outcome, tasks
from training.data import manifest
from training.data.manifest import Column, Manifest
from training.data.rows import Shards, open_rows
from training.errors import UserError
from training.evaluation import (
    baseline,
    baseline_linear,
    boosting,
    decision,
    findings,
    measure,
    own_rows,
    predictions,
    reason,
    record,
    score,
    script_model,
)
from training.evaluation.names import Namer, group_namer, namer
from training.evaluation.predictions import Header
from training.evaluation.record import Evaluation
from training.evaluation.regression import Loss
from training.evaluation.score import TrainedModel
from training.evaluation.script_model import ScriptModel
from training.script import collected
from training.task import Task

__all__ = ["Evaluation", "evaluate"]

#: Columns of B rows -> class probabilities (B, C), mean and quantiles (B, 1 + Q), or losses (B,).
Scorer = Callable[[dict[str, np.ndarray]], np.ndarray]


def evaluate(
    data: str | Path,
    model: str | Path,
    destination: str | Path,
    *,
    champion: str = "",
    baseline: bool = True,
    split: str = "test",
    batch_rows: int | None = None,
) -> Evaluation:
    """Writes `predictions.parquet` and `metrics.json` into `destination`.

    Rows go through it in their order: memory holds a shard of them and a row group of predictions.

    Where a script left no predictions there are none to write, and the record says so.

    Args:
        data: Directory of a prepared dataset.
        model: Directory of the new model, the challenger; or of what a script left.
        destination: Directory, made if missing.
        champion: Directory of the model to beat, likewise, or the URI of its pins; "" if there is none.
        baseline: Whether to fit and score simple models as well: a logistic or linear regression and gradient boosting,
            or the task's own.
        split: Split of the dataset to score.
        batch_rows: Rows scored at once; None = the task's. The figures do not depend on it, up to rounding.

    Raises:
        UserError: a directory does not hold what it should, the split is empty, or the champion cannot be compared.
    """
    dataset = manifest.load(data)
    task = tasks.load(tasks.trusted(dataset.task, str(manifest.path_in(data))), dataset.options)
    script = script_model.load(model, task) if collected.is_script(str(model)) else None
    if task.as_they_are and script is None:
        raise UserError(f"{model} is no folder that a script left, and {tasks.NO_ROWS}")
    if script and script.predictions is None:
        return _unscored(destination, dataset, task, split, script)
    if task.as_they_are:
        assert script
        return own_rows.evaluate(script, champion, destination, dataset, task, baseline=baseline)
    if not dataset.rows(split):
        raise UserError(f"the {split} split of {data} has no rows; it has {_row_counts(dataset)}.")
    challenger = script or score.load(model, dataset)
    models = {"challenger": challenger}
    if champion:
        models["champion"] = _champion(champion, challenger, dataset, task)
    task = challenger.task if isinstance(challenger, TrainedModel) else task
    entries = {name: _entry(entrant, data, dataset, task, split) for name, entrant in models.items()}
    scorers = {name: scorer for name, (scorer, _) in entries.items()}
    rows = Shards(Path(data), dataset, split)
    namers = {name: (name, _namer(rows, name)) for name in task.slices}
    group = {"group": (task.group, group_namer(_column(dataset, task.group)))} if task.group else {}
    fitted, notes = _rivals(data, dataset, task) if baseline else ({}, ())
    scorers.update(fitted)
    header = Header(
        task=dataset.task,
        split=split,
        classes=_classes(task),
        quantiles=tuple(task.quantiles),
        target=outcome.target(task),
        unit=task.unit,
        decided_by=cast(Loss, task.decided_by),
        weight=task.weight,
        models=tuple(scorers),
        same=_same(models),
        group=task.group,
        slices=tuple(task.slices),
        notes=(*(note for _, told in entries.values() for note in told), *notes),
        script=script.told(dataset) if script else None,
        operating=findings.operating_point(challenger, data, dataset, task),
    )
    batches = _batches(rows, task, header, {**namers, **group}, scorers, batch_rows or task.batch_rows)
    record.discard(destination)
    predictions.write(destination, header, batches)
    measured = measure.measure(destination)
    return findings.add(measured, destination, challenger, data, dataset, task)


def _unscored(destination: str | Path, dataset: Manifest, task: Task, split: str, script: ScriptModel) -> Evaluation:
    """What is known of a script that left no predictions: its own figures. An evaluation from before goes."""
    result = Evaluation(
        task=dataset.task, split="" if task.as_they_are else split, classes=_classes(task), rows=0, label_counts=(),
        group="", groups=0, models={}, confusion_matrix=[], slices=(),
        notes=(reason.undecided(predictions.FILE_NAME),), script=script.told(dataset),
    )  # fmt: skip
    Path(destination).mkdir(parents=True, exist_ok=True)
    for name in (predictions.FILE_NAME, decision.FILE_NAME):
        (Path(destination) / name).unlink(missing_ok=True)
    record.save(result, destination)
    return result


def _classes(task: Task) -> tuple[str, ...]:
    return () if task.likelihood or task.regression else tuple(task.classes)


def _champion(
    folder: str, challenger: ScriptModel | TrainedModel, dataset: Manifest, task: Task
) -> ScriptModel | TrainedModel:
    if collected.is_script(folder):
        return script_model.champion(folder, task)
    champion = score.load(folder, dataset)
    theirs = challenger.meaning if isinstance(challenger, TrainedModel) else score.meaning(dataset, task)
    score.check_comparable(champion, theirs)
    return champion


def _entry(
    model: ScriptModel | TrainedModel, data: str | Path, dataset: Manifest, task: Task, split: str
) -> tuple[Scorer, tuple[str, ...]]:
    """What scores rows, and what a reader must know of it."""
    return model.of_rows(data, dataset, task, split) if isinstance(model, ScriptModel) else (model, ())


def _same(models: dict[str, ScriptModel | TrainedModel]) -> bool:
    """Whether challenger and champion are one model; of two scripts nothing but their predictions is known."""
    old, new = models.get("champion"), models["challenger"]
    return isinstance(old, TrainedModel) and isinstance(new, TrainedModel) and score.same(old, new)


def _row_counts(dataset: Manifest) -> str:
    return ", ".join(f"{dataset.rows(name):,} in {name}" for name in dataset.splits) or "no splits"


def _rivals(data: str | Path, dataset: Manifest, task: Task) -> tuple[dict[str, Scorer], tuple[str, ...]]:
    """Simple models, fitted on the train split as far as they can be, and what a reader must know about them."""
    if task.likelihood:
        own = task.baseline(open_rows(data, "train"), dataset)
        return ({"baseline": own[0]}, (own[1],)) if own else ({}, ())
    rows, rivals, notes = dataset.rows("train"), dict[str, Scorer](), []
    try:
        columns, sample = baseline.sampled(dataset, Shards(Path(data), dataset, "train"), task)
        fitted = (baseline_linear.fit if task.regression else baseline.fit)(columns, sample, task)
        rivals["baseline"] = fitted
        notes += [_of_a_sample("The baseline", fitted.rows, rows)] if fitted.rows < rows else []
    except ValueError as error:
        return {}, (f"No baseline: {error}.",)
    try:
        rivals["boosting"] = rival = boosting.fit(columns, sample, task)
        notes += [_of_a_sample("Gradient boosting", rival.rows, rows)] if rival.rows < fitted.rows else []
    except ValueError as error:
        notes.append(f"No gradient boosting: {error}.")
    return rivals, tuple(notes)


def _of_a_sample(who: str, some: int, rows: int) -> str:
    return f"{who} was fitted on {some:,} of {rows:,} train rows, evenly spaced."


def _column(dataset: Manifest, name: str) -> Column:
    """The dataset's column behind a slice or group."""
    column = next((column for column in dataset.columns if column.name == name), None)
    if column is None:
        raise UserError(f"the task slices or groups by {name}, a column that the data does not have.")
    return column


def _namer(rows: Shards, name: str) -> Namer:
    return namer(_column(rows.dataset, name), lambda: rows.column(name))


def _batches(
    rows: Shards,
    task: Task,
    header: Header,
    namers: dict[str, tuple[str, Namer]],
    scorers: dict[str, Scorer],
    batch_rows: int,
) -> Iterator[dict[str, Any]]:
    for number, batch in enumerate(rows.batches(batch_rows)):
        yield {
            "row_id": batch["row_id"],
            **_outcome(batch, task, header, number * batch_rows),
            **{column: name(batch[source]) for column, (source, name) in namers.items()},
            **{model: scorer(batch) for model, scorer in scorers.items()},
        }


def _outcome(batch: dict[str, np.ndarray], task: Task, header: Header, start: int) -> dict[str, np.ndarray]:
    """What the rows are held against: their classes, or how much each counts."""
    if task.likelihood:
        rows = len(batch["row_id"])
        return {"weight": batch[task.weight].astype(np.int64) if task.weight else np.ones(rows, np.int64)}
    if task.regression:
        return {"label": batch[task.label]}
    label = batch[task.label].astype(np.int64)
    _check_labels(label, header, start)
    return {"label": label}


def _check_labels(label: np.ndarray, header: Header, start: int) -> None:
    wrong = np.flatnonzero((label < 0) | (label >= len(header.classes)))
    if len(wrong):
        raise UserError(
            f"row {start + wrong[0]} of the {header.split} split has label {label[wrong[0]]}; "
            f"{header.task} has the classes 0 to {len(header.classes) - 1}."
        )
