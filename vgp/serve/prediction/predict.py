"""The step `predict`: reads new data, compares it with the training data, scores it in shards, commits the result.

python -m vgp.steps predict DATA --model MODEL --out FOLDER
"""

import hashlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import ProcessFailed, UserError
from vgp.base.storage import download, pinned
from vgp.base.text.printable import join_names
from vgp.data import bundle, task_names, tasks
from vgp.data import destination as scratch
from vgp.data.bundle import CARD, WEIGHTS, ModelCard
from vgp.data.destination import Destination
from vgp.data.task import Task
from vgp.decision.report import page as report
from vgp.protocol import pins as store
from vgp.protocol.cluster import NPROC_VARIABLE, cores, gpu_count, process_count
from vgp.protocol.pins import ChampionPins
from vgp.serve.prediction import distribution, new_rows, output_shards
from vgp.serve.prediction.distribution import Distribution, NewDrift
from vgp.serve.prediction.prediction_folder import (
    MANIFEST,
    METRICS,
    PAGE,
    PredictionFolder,
    PredictionManifest,
    PredictionRequest,
    as_json,
    shard_name,
)
from vgp.serve.prediction.predictor import ScoringRequest
from vgp.serve.prediction.row_shards import NewRows
from vgp.train.processes.launch import launch

#: Seconds without progress after which a process counts as hung.
HANG_AFTER_S = 7 * 86_400.0


@dataclass(frozen=True)
class Options:
    """The options of a prediction."""

    #: Days to predict, as a window; "" = all rows. The other rows serve as history.
    window: str = ""
    #: Rows per shard; 0 = derived from their width.
    shard_rows: int = 0
    #: Whether a large drift in a column ends the run before scoring.
    stop_on_drift: bool = False
    #: The name of the run, written to every row.
    run: str = ""
    #: Processes; None = one per GPU, else one per core.
    nproc: int | None = None


@dataclass(frozen=True)
class Prediction:
    """The result of a prediction."""

    folder: PredictionFolder
    written: PredictionManifest
    #: Figures for the artifact: rows, shards, predictions, and metrics if labels are known.
    metrics: dict[str, float]
    #: Messages about the data.
    words: tuple[str, ...]
    page: bytes

    @property
    def metadata(self) -> JsonObject:
        """The metadata of the artifact."""
        request = self.written.request
        return {
            "rows": request.rows,
            "shards": len(request.shards),
            "model": request.model,
            "version": request.version or 0,
        }


def predict(
    data: str, model: str, destination: str, *, model_name: str = "", task: str = "", options: Options | None = None
) -> Prediction:
    """Predicts new data and writes the result to a folder, local or gs://. A repeat of a request resumes it.

    Args:
        data: The source as in preparation, or the URI of the data's pins.
        model: The model's folder, or the URI of its pins, which hold its version.
        model_name: Its name in the registry; "" = not registered.
        task: The task that the model must have; "" = any shipped or imported task.

    Raises:
        UserError: The model, the data or the destination is wrong; nothing was scored.
        Preempted: SIGTERM or SIGINT; run the command again to resume.
        ProcessFailed: A process failed; run the command again to resume.
    """
    folder, options = PredictionFolder.checked(destination), options or Options()
    card = bundle.load_card(model)
    work = tasks.load(task_names.require_trusted(card.task, f"{model}/{CARD}", task), card.options)
    with scratch.scratch_folder() as work.scratch:
        rows = new_rows.prepare_rows(
            work, card, data, Destination(Path(destination)), window=options.window, shard_rows=options.shard_rows
        )
        request = _build_request(model, model_name, card, rows, options)
        folder.begin(request)
        shifts = distribution.drift(work, card, rows)
        words = [*rows.dataset.notes, shifts.sentence, *_list_labels(rows)]
        _print(words)
        _stop_on_drift(shifts, options)
        _score(model, card, rows, folder, request, options)
        return _finish(work, rows, folder, request, shifts, tuple(words))


def _build_request(model: str, name: str, card: ModelCard, rows: NewRows, options: Options) -> PredictionRequest:
    pins = store.load(model, ChampionPins) if pinned.read_digest(model) else None
    return PredictionRequest(
        model=name if pins and pins.number else "", version=pins.number if pins and pins.number else None,
        weights={file: _hash_file(model, file) for file in (CARD, WEIGHTS)}, task=card.task,
        data=_hash_rows(rows), window=options.window, run=options.run,
        rows=rows.dataset.rows_read, shards=tuple(shard.rows for shard in rows.shards),
    )  # fmt: skip


def _hash_rows(rows: NewRows) -> str:
    return hashlib.sha256("".join(shard.sha256 for shard in rows.shards).encode()).hexdigest()


def _hash_file(model: str, name: str) -> str:
    with download.local_copy(bundle.file_of(model, name)) as path, open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _list_labels(rows: NewRows) -> list[str]:
    if not rows.labelled:
        return []
    return [f"labels: {rows.labelled:,} of {rows.dataset.rows_read:,} rows have one; their predictions are evaluated."]


def _print(words: list[str]) -> None:
    for sentence in words:
        print(sentence, file=sys.stderr, flush=True)


def _stop_on_drift(shifts: NewDrift, options: Options) -> None:
    large = [column for column in shifts.columns if column.shift == "large"]
    if options.stop_on_drift and large:
        indices = ", ".join(f"{column.column} ({column.index:.2f})" for column in large[:5])
        raise UserError(
            f"the data has drifted, and nothing was scored: {indices} have an index of 0.25 or more. Train a new "
            "model, or remove stop_on_drift to predict anyway."
        )


# ---- scoring


def _score(
    model: str, card: ModelCard, rows: NewRows, folder: PredictionFolder, request: PredictionRequest, options: Options
) -> None:
    key = hashlib.sha256(request.text().encode()).hexdigest()
    names = set(folder.names())
    numbers = [
        number for number, shard in enumerate(rows.shards)
        if shard_name(number) not in names or not folder.holds(number, shard.rows, key)
    ]  # fmt: skip
    if done := len(rows.shards) - len(numbers):
        _print([f"{done:,} of {len(rows.shards):,} shards are finished already; predicting the others."])
    if not numbers:
        return
    scoring = ScoringRequest(
        model=model, task=card.task, rows=str(rows.folder), dataset=rows.dataset, carried=dict(rows.carried),
        numbers=numbers, folder=folder.path, prediction=request, key=key,
    )  # fmt: skip
    processes = _processes(options.nproc, len(numbers))
    try:
        launch("vgp.serve.prediction.predictor:run", scoring, nproc=processes, hang_after_s=HANG_AFTER_S)
    except ProcessFailed as failure:
        raise type(failure)(f"{failure}\n{_describe_progress(folder, numbers, processes)}") from None
    if missing := [number for number in numbers if shard_name(number) not in set(folder.names())]:
        raise ProcessFailed(
            f"{folder.path} lacks {shard_name(missing[0])}, although it was written. Does another program remove "
            "files there?"
        )


def _describe_progress(folder: PredictionFolder, numbers: list[int], processes: int) -> str:
    """Returns a message with the shard that each process was working on, because a dead process cannot report it."""
    there = set(folder.names())
    own = [[n for n in numbers[rank::processes] if shard_name(n) not in there] for rank in range(processes)]
    at = [f"rank {rank} was at {shard_name(left[0])}" for rank, left in enumerate(own) if left]
    missing = sum(map(len, own))
    return f"{join_names(at)}. {missing:,} shards are missing; run the command again to resume."


def _processes(nproc: int | None, shards: int) -> int:
    """Returns the number of processes: one per GPU, else one per core, at most one per shard."""
    if nproc is None and not os.environ.get(NPROC_VARIABLE) and not gpu_count(os.environ):
        return min(cores(), shards)
    return min(process_count(nproc, os.environ), shards)


# ---- the end


def _finish(
    task: Task,
    rows: NewRows,
    folder: PredictionFolder,
    request: PredictionRequest,
    shifts: NewDrift,
    words: tuple[str, ...],
) -> Prediction:
    spread = distribution.distribution(
        task, rows, output_shards.write_parts(task, folder, len(rows.shards)), task.scratch
    )
    html = predictions_page(request, shifts, spread)
    figures = {"distribution": spread.model_dump(), "drift": shifts.model_dump()}
    for name, data in ((PAGE, html), (METRICS, as_json(figures))):
        folder.commit(name, data)
    document = _document(folder, request, rows)
    folder.commit(MANIFEST, as_json(document.model_dump()))
    folder.tidy()
    drifted = {"drifted_columns": float(len(shifts.shifted)), "shards": float(len(rows.shards))}
    return Prediction(folder, document, {**spread.scalars, **drifted}, words, html)


def _document(folder: PredictionFolder, request: PredictionRequest, rows: NewRows) -> PredictionManifest:
    first = pq.read_schema(pa.BufferReader(folder.store.read(shard_name(0))))
    shards = [folder.describe(shard_name(number), shard.rows) for number, shard in enumerate(rows.shards)]
    return PredictionManifest(
        request=request, columns={field.name: str(field.type) for field in first}, shards=tuple(shards),
        files=tuple(folder.describe(name) for name in (PAGE, METRICS)),
    )  # fmt: skip


# ---- the HTML page about new rows and their predictions; it loads no other files


FOLDER = Path(__file__).parent
MOST_SHOWN = 200


def predictions_page(request: PredictionRequest, drift: NewDrift, spread: Distribution) -> bytes:
    """Renders the page as HTML; deterministic."""
    model = (
        f"version {request.version} of {request.model}" if request.version else request.model or "a model of its own"
    )
    html = report.environment(FOLDER).get_template("page.html").render(
        request=request, model=model, drift=drift, spread=spread, shown=drift.columns[:MOST_SHOWN],
    )  # fmt: skip
    return html.encode()
