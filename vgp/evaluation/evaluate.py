"""Scores the new model, the champion and simple rivals on the same rows, saves the predictions, and measures them.

python -m vgp.steps evaluate DATA --model MODEL DESTINATION [--champion MODEL]
"""

import sys
from pathlib import Path
from typing import cast

import numpy as np

from vgp.base.exits import UserError
from vgp.data import task_names, tasks
from vgp.data.rows import Shards, read_sample
from vgp.data.task import Task
from vgp.evaluation import (
    champion_problem,
    collected,
    measure,
    predictions,
    predictions_writer,
    record,
    rivals,
    score,
    script_model,
    thresholds,
)
from vgp.evaluation.champion_problem import Problem
from vgp.evaluation.drift import drift
from vgp.evaluation.examples import examples
from vgp.evaluation.importance import importance
from vgp.evaluation.predictions import Header
from vgp.evaluation.predictions_writer import Scorer
from vgp.evaluation.record import Evaluation
from vgp.evaluation.regression import Loss
from vgp.evaluation.score import TrainedModel
from vgp.evaluation.script_model import ScriptModel
from vgp.evaluation.thresholds import OperatingPoint
from vgp.protocol import file_names, manifest, outcome
from vgp.protocol.manifest import Manifest
from vgp.protocol.outcome import parse_operating_point

__all__ = ["Evaluation", "evaluate"]

#: Split on which the threshold is chosen.
VALIDATION = "validation"
#: Scorers of the challenger and, if there is one, of the champion.
Models = dict[str, ScriptModel | TrainedModel]


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

    Rows are streamed in order: memory holds one shard and one row group of predictions. For a script's model without
    predictions only `metrics.json` is written.

    Args:
        data: Directory of a prepared dataset.
        model: Directory of the new model (the challenger), or the output folder of a script.
        destination: Directory, created if missing.
        champion: Directory of the champion, or the URI of its pins; "" if there is none.
        baseline: Whether to fit and score simple models: a logistic or linear regression and gradient boosting, or the
            task's own.
        split: Split of the dataset to score.
        batch_rows: Rows to score at once; None = the task's value. It affects rounding only.

    Raises:
        UserError: a directory is incomplete, or the split is empty. A champion that cannot be compared is not an error;
            see `champion_problem` in the predictions.
    """
    dataset = manifest.load(data)
    task = tasks.load(task_names.require_trusted(dataset.task, str(manifest.path_in(data))), dataset.options)
    script = script_model.load(model, task) if collected.is_script(str(model)) else None
    if task.as_they_are and script is None:
        raise UserError(f"{model} is not the output folder of a script, and {tasks.NO_ROWS}")
    if script and script.predictions is None:
        return _record_unscored(destination, dataset, task, split, script)
    if task.as_they_are:
        assert script
        return script_model.evaluate_own_rows(script, champion, destination, dataset, task, baseline=baseline)
    if not dataset.rows(split):
        raise UserError(f"the {split} split of {data} has no rows; it has {_format_row_counts(dataset)}.")
    challenger = script or score.load(model, dataset)
    task = challenger.task if isinstance(challenger, TrainedModel) else task
    models: Models = {"challenger": challenger}
    scorers, notes = _scorers(models, data, dataset, task, split)
    problem = champion_problem.read_problem(champion)
    if champion and not problem:
        try:
            models["champion"] = _load_champion(champion, challenger, dataset, task)
            champion_scorer, more = _scorers({"champion": models["champion"]}, data, dataset, task, split)
            scorers, notes = scorers | champion_scorer, notes + more + _note_overlap(models["champion"], dataset, split)
        except UserError as error:
            models, problem = {"challenger": challenger}, champion_problem.explain_error(champion, error)
    notes += (problem.note,) if problem else ()
    rows = Shards(Path(data), dataset, split)
    namers = predictions_writer.namers(rows, task)
    constant, constant_notes = rivals.constant(data, dataset, task)
    notes += constant_notes
    if baseline:
        fitted, rival_notes = rivals.fit(data, dataset, task)
        scorers, notes = scorers | fitted, notes + rival_notes
    for note in notes:
        if note.startswith(rivals.OUTLIERS):
            print(note, file=sys.stderr, flush=True)
    operating = _operating_point(challenger, data, dataset, task)
    header = _build_header(dataset, task, split, models, tuple(scorers), notes, operating, problem, constant)
    batches = predictions_writer.score_batches(rows, task, header, namers, scorers, batch_rows or task.batch_rows)
    record.discard(destination)
    predictions_writer.write(destination, header, batches)
    metrics = measure.measure(destination)
    return _add_findings(metrics, destination, challenger, data, dataset, task)


def _build_header(
    dataset: Manifest, task: Task, split: str, models: Models, scored: tuple[str, ...], notes: tuple[str, ...],
    operating: OperatingPoint | None, problem: Problem | None, constant: tuple[float, ...],
) -> Header:  # fmt: skip
    challenger = models["challenger"]
    first, second = (*task.grouped_by, "", "")[:2]
    return Header(
        task=dataset.task,
        split=split,
        classes=_list_classes(task),
        quantiles=tuple(task.quantiles),
        target=outcome.target(task),
        unit=task.unit,
        decided_by=cast(Loss, task.decided_by),
        weight=task.weight,
        models=scored,
        same=_is_same_model(models),
        champion_problem=problem.why if problem else "",
        champion_gone=problem.gone if problem else False,
        group=first,
        second_group=second,
        group_assumed=bool(first) and not task.group,
        slices=tuple(task.slices),
        notes=notes,
        constant=constant,
        doubts=dataset.doubts,
        script=challenger.read_collected(dataset) if isinstance(challenger, ScriptModel) else None,
        operating=operating,
    )


def _record_unscored(
    destination: str | Path, dataset: Manifest, task: Task, split: str, script: ScriptModel
) -> Evaluation:
    """Records a script without predictions with its own metrics, replacing an earlier evaluation."""
    output = script.read_collected(dataset)
    result = Evaluation(
        task=dataset.task, split="" if task.as_they_are else split, classes=_list_classes(task), rows=0,
        label_counts=(), group="", groups=0, models={}, confusion_matrix=[], slices=(),
        notes=(*output.launched.warnings, predictions.UNDECIDED), script=output,
    )  # fmt: skip
    Path(destination).mkdir(parents=True, exist_ok=True)
    for name in (predictions.FILE_NAME, file_names.DECISION):
        (Path(destination) / name).unlink(missing_ok=True)
    record.save(result, destination)
    return result


def _list_classes(task: Task) -> tuple[str, ...]:
    return () if task.likelihood or task.regression else tuple(task.classes)


def _load_champion(
    folder: str, challenger: ScriptModel | TrainedModel, dataset: Manifest, task: Task
) -> ScriptModel | TrainedModel:
    if collected.is_script(folder):
        return script_model.champion(folder, task)
    champion = score.load(folder, dataset)
    meaning = challenger.meaning if isinstance(challenger, TrainedModel) else score.meaning(dataset, task)
    score.check_comparable(champion, meaning)
    return champion


def _scorers(
    models: Models, data: str | Path, dataset: Manifest, task: Task, split: str
) -> tuple[dict[str, Scorer], tuple[str, ...]]:
    """Returns the scorer of each model, and notes for readers."""
    scorers, notes = dict[str, Scorer](), list[str]()
    for name, model in models.items():
        if isinstance(model, ScriptModel):
            scorers[name], more = model.scorer(data, dataset, task, split)
            notes += more
        else:
            scorers[name] = model
    return scorers, tuple(notes)


def _note_overlap(champion: ScriptModel | TrainedModel, dataset: Manifest, split: str) -> tuple[str, ...]:
    """Returns a note if the champion was trained on days of the test window; a script's train rows are unknown."""
    if not isinstance(champion, TrainedModel) or split != "test":
        return ()
    return champion_problem.note_learned_days(champion.card.options, dataset.options)


def _is_same_model(models: Models) -> bool:
    """Whether challenger and champion are the same model; False for scripts, whose weights are not compared."""
    old, new = models.get("champion"), models["challenger"]
    return isinstance(old, TrainedModel) and isinstance(new, TrainedModel) and score.is_same(old, new)


def _format_row_counts(dataset: Manifest) -> str:
    return ", ".join(f"{dataset.rows(name):,} in {name}" for name in dataset.splits) or "no splits"


# ---- findings on prepared rows: operating point, importance, examples, drift


def _operating_point(
    model: TrainedModel | ScriptModel, data: str | Path, dataset: Manifest, task: Task
) -> OperatingPoint | None:
    """Returns the threshold by the task's rule, chosen on validation rows; None unless there are two classes.

    A script predicts test rows only, so it needs a fixed threshold in the task.
    """
    if task.likelihood or task.regression or len(task.classes) != 2:
        return None
    rule, files = parse_operating_point(task.operating_point), dataset.splits.get(VALIDATION, ())
    has_rows = isinstance(model, TrainedModel) and rule.needs_rows and bool(files)
    rows = read_sample(data, files, dataset.columns, thresholds.MOST_ROWS) if has_rows else {}
    if not rows or isinstance(model, ScriptModel):
        return thresholds.choose(rule, "", np.zeros(0, np.int64), np.zeros(0))
    count = len(rows[task.label])
    second = [model({n: v[start : start + task.batch_rows] for n, v in rows.items()})[:, 1]
              for start in range(0, count, task.batch_rows)]  # fmt: skip
    return thresholds.choose(rule, VALIDATION, rows[task.label], np.concatenate(second))


def _add_findings(
    metrics: Evaluation,
    directory: str | Path,
    model: TrainedModel | ScriptModel,
    data: str | Path,
    dataset: Manifest,
    task: Task,
) -> Evaluation:
    """Adds importance, examples and drift to the record and saves it."""
    columns = importance(model, data, dataset, metrics.split) if isinstance(model, TrainedModel) else None
    first = [column.column for column in columns.columns] if columns else []
    rows = examples(predictions.read(directory), data, dataset, task, first)
    shifts = drift(data, dataset, metrics.split, task.groups)
    result = metrics.model_copy(update={"importance": columns, "examples": rows, "drift": shifts})
    record.save(result, directory)
    return result
