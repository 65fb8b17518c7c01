"""The steps of batch prediction, and `python -m vgp.steps predict`."""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from vgp.base.exits import UserError, exits
from vgp.base.storage import files, finding, pinned, storage
from vgp.base.storage.bigquery import names
from vgp.base.text.printable import quote
from vgp.data import bundle, task_names, tasks
from vgp.data.periods import parse
from vgp.data.prepare import read_pinned_input
from vgp.data.task import Options
from vgp.protocol import run_folder
from vgp.protocol.pins import Request
from vgp.registry import reigning
from vgp.registry.documents import choose_model_name
from vgp.serve.prediction import new_rows
from vgp.serve.prediction import output_shards as bigquery
from vgp.steps import run_request
from vgp.steps.pins import prediction as pins_of
from vgp.steps.pins.prediction import Resolved
from vgp.train.processes.launch import THREADS

if TYPE_CHECKING:
    from vgp.serve.prediction.predict import Prediction


def check_request(
    *,
    data: str,
    task: str,
    model: str,
    task_options: Options,
    model_name: str = "",
    destination: str = "",
    window: str = "",
    shard_rows: int = 0,
    with_task: bool = True,
    **others: object,
) -> None:
    """Checks the parameters of a prediction before it starts.

    Args:
        others: Parameters that only the step can check.

    Raises:
        ValueError: a parameter is invalid; the message has its value, the rule and the choices.
    """
    try:
        task_names.parts(task)
        _check(model, destination, window, shard_rows)
        choose_model_name(model_name, task, task_options)
        for part in storage.parts(data):
            finding.refuse_scheme(part)
        if with_task:
            tasks.find(task)
    except UserError as error:
        raise ValueError(str(error)) from None


def _check(model: str, destination: str, window: str, shard_rows: int) -> None:
    if not model.strip():
        raise UserError("model is empty. Give champion, a version number, an alias, or a folder (with a /).")
    if not reigning.is_valid(model):
        raise UserError(
            f"model = {quote(model)} is unknown. Give champion, a version number, an alias, or a folder "
            "(with a /, such as ./model or gs://BUCKET/model)."
        )
    pins_of.check_destination(destination)
    if names.is_table(destination):
        names.parse(destination)
    if window:
        parse(window, "window")
    if shard_rows < 0:
        raise UserError(f"shard_rows = {shard_rows}: must be 0 (chosen by row width) or a positive number.")


@exits
def resolve(
    record: str | Path = "",
    *,
    data: str = "",
    task: str = "flights",
    task_options: Options | None = None,
    model: str = "champion",
    registry: str = "",
    model_name: str = "",
    destination: str = "",
    window: str = "",
    shard_rows: int = 0,
    run: str = "",
    pipeline: str = "batch-prediction",
    to: str = "",
    scheduled: str = "",
    as_of: str = "",
    pins: str = "",
    stop_on_drift: bool = False,
) -> Resolved:
    """Pins the data and the model version, and writes them to the file `record`.

    Args:
        record: Output of the step; its path determines the root of the runs and the project (`run_folder`).
        to: Folder of the pins, without a record.
    """
    _check(model, destination, window, shard_rows)
    tasks.find(task)
    options = dict(run_request.whole(task_options or {}))
    request = Request(data=data, task=task_names.spec(task), task_options=options, champion=model, registry=registry,
                      model_name=model_name)  # fmt: skip
    model_registry = reigning.open_registry(
        registry, choose_model_name(model_name, request.task, options), record or to
    )
    output = run_folder.parse(record)
    resolved = pins_of.resolve(
        request, run_folder.pins_at(to) if to else run_folder.pins(record), model_registry, run=run,
        pipeline=pipeline, project=output.project if output else "", destination=destination, scheduled=scheduled,
        as_of=as_of, pins=pins,
    )  # fmt: skip
    for sentence in resolved.words:
        print(sentence, file=sys.stderr, flush=True)
    _check_columns(resolved, request.task)
    if record:
        _record(resolved, str(record))
    return resolved


def _check_columns(resolved: Resolved, task: str) -> None:
    """Raises UserError if the first file lacks a column that the model needs."""
    card = bundle.load_card(resolved.model)
    new_rows.check_first(tasks.load(task, card.options), card, read_pinned_input(resolved.data, task)[0])


def _record(resolved: Resolved, record: str) -> None:
    fields = ("digest", "uri", "data", "model", "model_name", "destination", "words")
    text = json.dumps({name: getattr(resolved, name) for name in fields}, indent=1) + "\n"
    if not storage.is_remote(record):
        Path(record).parent.mkdir(parents=True, exist_ok=True)
    storage.overwrite(record, text.encode())


@exits
def predict(
    predictions: str | Path = "",
    page: str | Path = "",
    *,
    data: str = "",
    model: str,
    task: str,
    model_name: str = "",
    destination: str = "",
    staging: str = "",
    window: str = "",
    run: str = "",
    shard_rows: int = 0,
    stop_on_drift: bool = False,
    nproc: int | None = None,
) -> "Prediction":
    """Predicts new rows, shard by shard, and writes them to the destination.

    Args:
        predictions: Output of the step; determines the folder if no destination is given.
        page: A second path for the page; "" = none.
        data: As for `prepare`, or the URI of the data's pins.
        model: A folder, or the URI of the model's pins.
        task: The expected task; no other task that a model card names is imported.
        destination: A local or gs:// folder, or bq://PROJECT.DATASET.TABLE; "" = from the step's output.
        staging: For a table, the gs:// folder of its temporary shards; "" = from the step's output.
    """
    for name, value in THREADS.items():
        os.environ.setdefault(name, value)
    _check("champion", destination, window, shard_rows)
    tasks.find(task)
    from vgp.serve.prediction.predict import Options, predict

    table = names.parse(destination) if names.is_table(destination) else None
    if table:
        bigquery.check_table(table, staging or (staged(predictions) if str(predictions) else ""))
    folder = (staging or staged(predictions)) if table or not destination else destination
    source = read_pinned_input(data, task)[0] if pinned.read_digest(data) else data
    options = Options(window, shard_rows, stop_on_drift, run, nproc)
    prediction = predict(source, model, folder, model_name=model_name, task=task, options=options)
    if table:
        bigquery.load_table(prediction.folder, prediction.written, table)
    if page:
        files.write(page, prediction.page)
    return prediction


def staged(predictions: str | Path) -> str:
    """Returns the folder of a step's predictions, which all its attempts share."""
    if not str(predictions):
        raise UserError("destination is missing. Give a folder, gs://BUCKET/FOLDER, or bq://PROJECT.DATASET.TABLE.")
    output = run_folder.parse(predictions)
    return f"{output.root}/predictions/{output.run}/{output.step}" if output else str(predictions)
