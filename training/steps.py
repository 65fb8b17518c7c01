"""What each step calls: one function a step, used by the components and by `python -m training`.

These are the entry points, so they end a process well: a user error is one line and exit code 2, a preemption
exit code 75. Heavy imports wait inside, so that a wrong request fails within a second.
"""

import hashlib
import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training import run_folder, tasks
from training.config import OPERATIONAL, TrainConfig, parse
from training.data import manifest
from training.data.manifest import Manifest
from training.errors import UserError, exits
from training.evaluation.decision import Decision, check
from training.pins import champion as champions
from training.pins.documents import Request
from training.processes.launch import THREADS
from training.run_folder import CHECKPOINTS_VARIABLE
from training.storage import files, pinned

if TYPE_CHECKING:
    from training.evaluation.record import Evaluation
    from training.pins.resolve import Resolved


def check_request(
    *,
    task: str,
    task_options: Mapping[str, Any],
    champion: str,
    margin: float,
    confidence: float,
    data: str,
    as_of: str = "",
    pins: str = "",
    **config: Any,
) -> None:
    """What can be told to be wrong about a run before anything starts.

    Raises:
        ValueError: says what was given, the rule, and the choices.
    """
    try:
        from training.pins import request

        work = tasks.load(task, task_options)
        parse({"task": task, "options": dict(task_options), **config})
        check(margin, confidence)
        request.check(work, _request(data, task, task_options, champion), as_of=as_of, pins=pins)
    except UserError as error:
        raise ValueError(str(error)) from None


@exits
def resolve(
    record: str | Path = "",
    *,
    pipeline: str,
    to: str = "",
    project: str = "",
    run: str = "",
    scheduled: str = "",
    data: str = "",
    task: str = "flights",
    task_options: Mapping[str, Any] | None = None,
    champion: str = "",
    as_of: str = "",
    pins: str = "",
    dry_run: bool = False,
) -> "Resolved":
    """Pins what a run works on: writes what was pinned to the file `record`, and the pins beside the runs.

    Args:
        record: An output of the step; its path tells the root of the runs, and the project (`run_folder`).
        to: The folder of the pins, and `project` the number of the project, where no record tells them.
        pipeline: The name of the pipeline.
        run: The name of the run; what cannot be pinned is this run's alone.
        scheduled: The time of the schedule's tick; counts where `as_of` is empty, and only if it is a time.
        as_of: A day, or a moment with its zone: what came later is left out.
        pins: URI of the pins of an earlier run of the same request, whose pins are taken.
        dry_run: Whether nothing is written.
    """
    from training.pins import resolve

    request = _request(data, task, task_options, champion)
    output = run_folder.parse(record)
    resolved = resolve.resolve(
        request, run_folder.pins_at(to) if to else run_folder.pins(record),
        pipeline=pipeline, project=project or (output.project if output else ""),
        run=run, scheduled=scheduled, as_of=as_of, pins=pins, dry_run=dry_run,
    )  # fmt: skip
    for sentence in resolved.words:
        print(sentence, file=sys.stderr, flush=True)
    if record and not dry_run:
        resolve.write_record(resolved, record)
    return resolved


@exits
def prepare(
    data: str,
    destination: str | Path,
    *,
    task: str,
    options: Mapping[str, Any] | None = None,
    pins: str = "",
) -> Manifest:
    """Validates, splits and encodes the raw data into `destination`; returns its manifest.

    Args:
        pins: URI of the data's pins; they say what is read, and the options of the task.
    """
    import training.data.prepare

    if pins:
        from training.pins import reading

        data, options = reading.data(pins, task)
    return training.data.prepare.prepare(task, data, destination, options=whole(options or {}))


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
) -> dict[str, Any]:
    """Trains the task that prepared `data`, one process per GPU; returns the final figures.

    Args:
        data: Prepared dataset; its manifest says which task and options.
        model: Folder for model.safetensors and model.json.
        checkpoints: Folder for checkpoints and logs; a second start with the same one resumes. For a pipeline's
            step a folder that all attempts at this task share is derived from it (`place`).
        task: The task that the data must be of; "" = one that ships or that the caller has imported.
        pins: URI of the pins that the data was prepared from; "" = none.
        nproc: Processes; default: TRAINING_NPROC, else one per GPU, else 1.
        config: Fields of `training.config.TrainConfig`.
    """
    prepared = manifest.load(data)
    if pins:
        from training.pins import reading

        reading.check_prepared(pins, prepared, data)
    settings = parse({"task": _trusted_task(data, prepared, task), "options": prepared.options, **config})
    import training.fit

    folder, job = place(str(checkpoints), settings, prepared, os.environ)
    figures = training.fit.train(settings, data=data, model=model, checkpoints=folder, nproc=nproc, job=job)
    return {**figures, "checkpoints": folder}


@exits
def evaluate(
    data: str | Path, model: str | Path, destination: str | Path, *, champion: str = "", task: str = ""
) -> "Evaluation":
    """Scores model, champion and baseline on the test rows into `destination`; returns the measures.

    Args:
        champion: Folder of the champion, or the URI of its pins; "" = none.
        task: The task that the data must be of; "" = one that ships or that the caller has imported.
    """
    if champion and not pinned.digest(champion):
        champions.check(champion)
    for name, value in THREADS.items():
        os.environ.setdefault(name, value)
    tasks.find(_trusted_task(data, manifest.load(data), task))
    import training.evaluation.evaluate

    return training.evaluation.evaluate.evaluate(data, model, destination, champion=champion)


@exits
def decide(
    data: str | Path,
    model: str | Path,
    evaluation: str | Path,
    report: str | Path,
    summary: str | Path,
    *,
    margin: float = 0.0,
    confidence: float = 0.95,
) -> Decision:
    """Decides on promotion from the saved predictions, and writes the HTML report and the Markdown summary."""
    check(margin, confidence)
    import training.evaluation.decide
    import training.report.report

    decision = training.evaluation.decide.decide(evaluation, margin=margin, confidence=confidence)
    training.report.report.write(report, data=data, model=model, evaluation=evaluation, decision=decision)
    files.write(summary, training.report.report.markdown(evaluation=evaluation, decision=decision))
    return decision


def _trusted_task(data: str | Path, prepared: Manifest, task: str) -> str:
    return tasks.trusted(prepared.task, f"{data}/{manifest.FILE_NAME}", task)


def place(output: str, settings: TrainConfig, prepared: Manifest, environment: Mapping[str, str]) -> tuple[str, str]:
    """Where a step's checkpoints go, and the job that they belong to ("" for a folder that somebody chose).

    All attempts at a task of a pipeline run find the same folder, and two tasks that compute different things, such
    as the iterations of a loop, never do: its name is a checksum of what decides the result.
    """
    shared = environment.get(CHECKPOINTS_VARIABLE) or stable(output)
    if shared == output:
        return output, ""
    decisive = settings.model_dump(exclude=set(OPERATIONAL), exclude_defaults=True)
    text = json.dumps([decisive, prepared.fingerprint], sort_keys=True)
    folder = f"{shared.rstrip('/')}/{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    return folder, folder


def stable(path: str) -> str:
    """The folder of a step's output without the number of its attempt; another path as it is.

    Vertex Pipelines writes to <root>/<project number>/<run>/<step>_<task id>/<output>.
    """
    return re.sub(r"_-?\d{6,}(?=/[^/]+/?$)", "", path)


def whole(value: Any) -> Any:
    """The value with its whole numbers as integers: KFP hands every number in a JSON object over as a float."""
    if isinstance(value, Mapping):
        return {key: whole(member) for key, member in value.items()}
    if isinstance(value, list):
        return [whole(member) for member in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _request(data: str, task: str, task_options: Mapping[str, Any] | None, champion: str) -> Request:
    return Request(data=data, task=tasks.spec(task), task_options=whole(task_options or {}), champion=champion)
