"""The function of each training step, used by components and by `python -m vgp.steps`.

As entry points they turn a user error into one line and exit code 2, and a preemption into exit code 75. Heavy imports
are deferred, so that an invalid request fails within a second.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import UserError, exits
from vgp.base.storage import files, pinned, storage
from vgp.base.text.printable import report
from vgp.data import bundle, task_names, tasks
from vgp.data.task import Options
from vgp.decision.decision import Decision, check_release, read_terms
from vgp.decision.decision import write as write_decision
from vgp.protocol import manifest, run_folder
from vgp.protocol import pins as store
from vgp.protocol.manifest import Manifest
from vgp.protocol.pins import DataPins
from vgp.registry import reigning
from vgp.steps import run_request
from vgp.steps.pins import weights
from vgp.train import fit, mlflow_run
from vgp.train.processes.launch import THREADS
from vgp.train.train_config import parse_config

if TYPE_CHECKING:
    from vgp.decision.release.outcome import Outcome
    from vgp.evaluation.record import Evaluation
    from vgp.steps.resolution import Resolution


@exits
def resolve(
    record: str | Path = "",
    look: str | Path = "",
    *,
    pipeline: str,
    to: str = "",
    project: str = "",
    run: str = "",
    scheduled: str = "",
    as_of: str = "",
    pins: str = "",
    dry_run: bool = False,
    **form: Any,
) -> "Resolution":
    """Pins the run's data, windows and champion, and decides whether it trains; writes pins, record and page.

    Checks all parameters first, because a run from the console was not checked before.

    Args:
        record: Output of the step; its path determines the root of the runs and the project (`run_folder`).
        look: File for the page of the decision; "" = none.
        pipeline: Name of the pipeline.
        to: Folder of the pins, and `project` the project number, without a record.
        run: Name of the run, which owns data that cannot be pinned.
        scheduled: Time of the schedule's tick, used if `as_of` is empty; ignored if it is not a time.
        as_of: A day, or a moment with its zone; later data is left out.
        pins: URI of an earlier run's pins to use again.
        dry_run: Whether to write nothing.
        form: All other parameters of the workflow, by name.
    """
    asked = run_request.read_form(form)
    from vgp.steps import resolution

    return resolution.resolve(
        asked, str(record), str(look), to=to, project=project, dry_run=dry_run,
        pipeline=pipeline, run=run, scheduled=scheduled, as_of=as_of, pins=pins,
    )  # fmt: skip


@exits
def prepare(
    data: str,
    destination: str | Path,
    *,
    task: str,
    options: Options | None = None,
    pins: str = "",
) -> Manifest:
    """Validates, splits and encodes the raw data into `destination`; returns its manifest.

    Args:
        pins: URI of the data's pins, which determine the input and the task's options.
    """
    if pins and (data or options):
        raise UserError("pins already determine data and options: give either pins, or data and options.")
    if pins:
        from vgp.data.prepare import read_pinned_input

        data, options = read_pinned_input(pins, task)
    from vgp.data import prepare as preparation

    return preparation.prepare(task, data, destination, options=run_request.whole(options or {}))


@exits
def train(
    data: str | Path,
    model: str | Path,
    checkpoints: str | Path,
    *,
    task: str = "",
    pins: str = "",
    nproc: int | None = None,
    **config: Any,
) -> JsonObject:
    """Trains the task that prepared `data`, one process per GPU; returns the final figures.

    Args:
        data: Prepared dataset; its manifest holds the task and its options.
        model: Folder for model.safetensors and model.json.
        checkpoints: Folder for checkpoints and logs; training resumes from it. In a pipeline all attempts of the step
            share a folder derived from it (`fit.checkpoint_place`).
        task: The task that the data must be of; "" = one that ships or that the caller has imported.
        pins: URI of the pins that the data was prepared from; "" = none.
        nproc: Processes; default: TRAINING_NPROC, one per GPU, or 1.
        config: Fields of `vgp.train.train_config.TrainConfig`; whole numbers may be floats, as from KFP.
    """
    prepared = manifest.load(data)
    name = _check_task(data, prepared, task)
    if tasks.find(name).as_they_are:
        raise UserError(tasks.NO_ROWS)
    data_pins, data_digest = _load_data_pins(pins, prepared, data) if pins else (None, "")
    settings = parse_config({"task": name, "options": prepared.options, **run_request.whole(config)})
    settings, weights_pins, sentence = weights.resolve_champion(data_pins, settings, prepared, pins)
    if sentence:
        report(sentence)
    place = fit.checkpoint_place(str(checkpoints), settings, prepared, os.environ, data_digest)
    figures = fit.train(settings, data=data, model=model, checkpoints=place.folder, nproc=nproc, job=place.job,
                        owner=place.owner, tags={"pins": pins}, warm_start_pins=weights_pins)  # fmt: skip
    return {**figures, "checkpoints": place.folder}


@exits
def collect(
    model: str | Path,
    checkpoints: str | Path = "",
    data: str | Path = "",
    *,
    task: str = "",
    pins: str = "",
) -> "Collected":
    """Collects the output of your own training script: model, metrics and predictions.

    Args:
        model: The script's AIP_MODEL_DIR.
        checkpoints: Folder with `script.json`; "" = none.
        data: The prepared dataset.
        task: The task that the data must be of; "" = one that ships or that the caller has imported.
        pins: URI of the pins that the data was prepared from; "" = none.
    """
    prepared = manifest.load(data)
    if pins:
        _load_data_pins(pins, prepared, data)
    work = tasks.load(_check_task(data, prepared, task), prepared.options)
    from vgp.evaluation import collect as collection

    collected = collection.collect(str(model), str(checkpoints), data, work)
    return Collected(
        collected.launched.checkpoints,
        {"files": collected.files, "bytes": collected.bytes, "predictions": collected.predictions},
        collected.metrics,
    )


@dataclass(frozen=True)
class Collected:
    """The output of the step `collect`."""

    #: The script's AIP_CHECKPOINT_DIR; "" if unknown.
    checkpoints: str
    figures: Mapping[str, int]
    #: The content of the script's metrics.json.
    metrics: Mapping[str, float]


@exits
def evaluate(
    data: str | Path, model: str | Path, destination: str | Path, *, champion: str = "", task: str = ""
) -> "Evaluation":
    """Scores model, champion and simple rivals on the test rows into `destination`; returns the measures.

    Args:
        model: Folder of a model, or a script's output folder.
        champion: Folder of the champion, or the URI of its pins; "" = none.
        task: The task that the data must be of; "" = one that ships or that the caller has imported.
    """
    if champion and not pinned.read_digest(champion):
        reigning.check_folder(champion)
    for name, value in THREADS.items():
        os.environ.setdefault(name, value)
    tasks.find(_check_task(data, manifest.load(data), task))
    from vgp.evaluation import evaluate as evaluation

    return evaluation.evaluate(data, model, destination, champion=champion)


@exits
def decide(
    data: str | Path,
    model: str | Path,
    evaluation: str | Path,
    report: str | Path,
    summary: str | Path,
    to: str | Path = "",
    *,
    champion: str = "",
    **terms: Any,
) -> Decision:
    """Decides on promotion from the saved predictions, and writes the HTML report and the Markdown summary.

    Args:
        to: File for the decision; "" = only `decision.json` beside the evaluation.
        champion: URI of the champion's pins, for the report; "" = none.
        terms: Fields of `vgp.decision.decision.Terms`.
    """
    by = read_terms(terms)
    from vgp.decision.decide import decide as decide_by
    from vgp.decision.report import report as page
    from vgp.evaluation import record

    decision = decide_by(evaluation, **vars(by))
    page.write(report, data=data, model=model, evaluation=evaluation, decision=decision, champion=champion)
    files.write(summary, page.markdown(evaluation=evaluation, decision=decision))
    if to:
        write_decision(decision, to)
    print(decision.reason, file=sys.stderr, flush=True)
    mlflow_run.log_evaluation(
        Path(model) / bundle.CARD, record.load(evaluation).scalars,
        {"decision": decision.outcome, "reason": decision.reason, "report": storage.uri(report)},
    )  # fmt: skip
    return decision


@exits
def register(
    data: str | Path,
    model: str | Path,
    evaluation: str | Path,
    decision: str | Path,
    report: str | Path,
    summary: str | Path = "",
    *,
    registry: str,
    model_name: str,
    task: str = "",
    run: str = "",
    pipeline: str = "",
    champion: str = "",
    pins: str = "",
    commit: str = "",
    **terms: Any,
) -> "Outcome":
    """Releases the model according to the gate's decision, and writes the outcome to `summary`.

    Args:
        registry: Root of the registry, and `model_name` the model's name in it.
        run: Name of the releasing run; a repetition with this name is the same release.
        champion: URI of the pins of the champion that the model was compared with; "" = none.
        commit: Commit of the code; "" = from the environment.
        terms: Fields of `vgp.decision.decision.Terms`; with approve = manual a better model waits as a candidate.
    """
    approve = read_terms(terms).approve
    check_release("", model_name, approve)
    from vgp.decision.release import release

    place = run_folder.parse(summary)
    inputs = release.Inputs(
        str(data), str(model), str(evaluation), str(decision), str(report), champion=champion, pins=pins, task=task,
        run=run, pipeline=pipeline, project=place.project if place else "", commit=commit,
    )  # fmt: skip
    outcome = release.release(inputs, registry, model_name, approve)
    print(outcome.words, flush=True)
    if summary:
        files.write(summary, outcome.markdown)
    return outcome


def _check_task(data: str | Path, prepared: Manifest, task: str) -> str:
    return task_names.require_trusted(prepared.task, f"{data}/{manifest.FILE_NAME}", task)


def _load_data_pins(pins: str, prepared: Manifest, data: str | Path) -> tuple[DataPins, str]:
    """Returns the data's pins and their checksum, which does not depend on the cache epoch."""
    from vgp.data.prepare import pins_of_prepared

    document = pins_of_prepared(pins, prepared, data)
    return document, store.digest(document.model_copy(update={"epoch": 0}))
