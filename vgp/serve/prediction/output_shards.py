"""The output of a prediction, as Parquet shards and in BigQuery. Its columns identify the row, the prediction, the
model:

row_id                     int64              as in a prepared dataset
KEY and TIME columns                          with the values of the data
prediction                 string             two or more classes: the most probable one
probability_CLASS          float              of each class
mean, quantile_SHARE       double             regression, in the unit of the label
loss                       double             likelihood tasks, in nats
model, model_version, run  string, int64, string
"""

import hashlib
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from vgp.base.engine_settings import engines
from vgp.base.exits import ProcessFailed, UserError
from vgp.base.retry import Pauses
from vgp.base.storage import storage
from vgp.base.storage.bigquery import client
from vgp.base.storage.bigquery.names import TableName
from vgp.base.text.printable import join_names
from vgp.data.columns import elements
from vgp.data.task import Task
from vgp.protocol import file_names
from vgp.serve.prediction.prediction_folder import (
    KEY,
    PredictionFolder,
    PredictionManifest,
    PredictionRequest,
    as_json,
    shard_name,
)

if TYPE_CHECKING:
    from google.cloud.bigquery import Client, LoadJob

# ---- Parquet files into a BigQuery table: one load job that replaces the table, so that a retry duplicates no rows

# The job's name is derived from the rows: after a kill, a retry waits for the running job. If that job has ended, the
# retry starts one with the next number, because the table may have been replaced; loading is free.
# https://cloud.google.com/bigquery/docs/reference/rest/v2/Job#jobconfigurationload

MOST_ATTEMPTS = 50
#: Seconds between two polls of a job.
PAUSE_S = 0.5


def check(table: TableName, ours: Collection[str]) -> None:
    """Raises UserError if the table exists with other columns, so that it must not be replaced."""
    from google.api_core.exceptions import NotFound

    api = _get_client()
    _find_location(table)
    with client.explain_errors(str(table)):
        try:
            existing = api.get_table(str(table), retry=client.default_retry(), timeout=60)
        except NotFound:
            return
    columns = [field.name for field in existing.schema]
    if columns and not set(columns) >= set(ours):
        raise UserError(
            f"{table.uri} holds other data, with the columns {join_names(columns)}, and would be replaced. Name a new "
            "table."
        )


def replace(table: TableName, uris: Sequence[str], name: str) -> str:
    """Replaces the rows of a table with those of Parquet files in a bucket; returns the id of the load job.

    Args:
        name: The prefix of the ids of the load jobs for these rows and this table.

    Raises:
        UserError: BigQuery refuses the files.
        ProcessFailed: BigQuery did not answer, or all attempts failed.
    """
    for attempt in range(MOST_ATTEMPTS):
        if job := find_or_start_job(table, uris, f"{name}-{attempt}"):
            _wait(job, table)
            return str(job.job_id)
    raise ProcessFailed(f"{table.uri} was loaded {MOST_ATTEMPTS} times already (jobs {name}-0 and so on).")


def find_or_start_job(table: TableName, uris: Sequence[str], job_id: str) -> Any:
    """Returns the job with this id, new or still running, or None if it has already ended."""
    from google.api_core.exceptions import Conflict
    from google.cloud import bigquery

    api, config = _get_client(), bigquery.LoadJobConfig()
    config.source_format = bigquery.SourceFormat.PARQUET
    config.write_disposition = bigquery.WriteDisposition.WRITE_TRUNCATE
    config.labels = {"tool": "vertex-gpu-pipelines"}
    place = _find_location(table)
    with client.explain_errors(table.uri):
        try:
            return api.load_table_from_uri(
                list(uris), str(table), job_id=job_id, location=place, job_config=config, retry=client.default_retry(),
                timeout=60,
            )  # fmt: skip
        except Conflict:
            job = api.get_job(job_id, location=place, retry=client.default_retry(), timeout=60)
    return None if job.state == "DONE" else job


def _find_location(table: TableName) -> str:
    with client.explain_errors(f"the dataset {table.project}.{table.dataset}"):
        dataset = _get_client().get_dataset(
            f"{table.project}.{table.dataset}", retry=client.default_retry(), timeout=60
        )
    return str(dataset.location)


def _wait(job: "LoadJob", table: TableName) -> None:
    with client.explain_errors(table.uri):
        client.wait(job, Pauses(PAUSE_S, PAUSE_S))
        if job.error_result:
            raise job.exception()


def _get_client() -> "Client":
    return client.client(client.project(engines().bigquery.project))


#: With more classes, the probabilities are one column with lists.
MOST_COLUMNS = 200
#: Reserved columns of the output.
OWN = ("row_id", "prediction", "probabilities", "mean", "loss", "model", "model_version", "run")


def shard(
    task: Task, request: PredictionRequest, key: str, ids: np.ndarray, carried: pa.Table, predicted: np.ndarray
) -> bytes:
    """Returns the Parquet file of a shard.

    Args:
        key: The digest of the request.
        carried: The columns that identify the rows.
        predicted: Predictions as in evaluation: float32 (B, C), float64 (B, 1 + Q) or (B,).
    """
    columns: dict[str, pa.Array] = {"row_id": pa.array(ids, pa.int64())}
    columns |= {name: carried[name].combine_chunks() for name in carried.column_names}
    columns |= predictions(task, predicted)
    count = len(ids)
    columns |= {
        "model": _build_constant(request.model or request.weights[file_names.WEIGHTS][:12], pa.string(), count),
        "model_version": _build_constant(request.version, pa.int64(), count),
        "run": _build_constant(request.run, pa.string(), count),
    }
    table = pa.table(columns)
    table = table.replace_schema_metadata({KEY: key.encode()})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", row_group_size=max(1, count))
    data: bytes = sink.getvalue().to_pybytes()
    return data


def predictions(task: Task, predicted: np.ndarray) -> dict[str, pa.Array]:
    """Returns the columns of the predictions."""
    if task.likelihood:
        return {"loss": pa.array(predicted, pa.float64())}
    if task.regression:
        names = ["mean", *(f"quantile_{share:g}".replace(".", "_") for share in task.quantiles)]
        return {name: pa.array(predicted[:, i], pa.float64()) for i, name in enumerate(names)}
    best = pa.DictionaryArray.from_arrays(predicted.argmax(axis=1).astype(np.int32), pa.array(task.classes))
    columns = {"prediction": best.cast(pa.string())}
    if len(task.classes) > MOST_COLUMNS:
        flat = pa.array(np.ascontiguousarray(predicted, np.float32).ravel())
        return {**columns, "probabilities": pa.FixedSizeListArray.from_arrays(flat, len(task.classes))}
    for name, values in zip(class_columns(task.classes), predicted.T, strict=True):
        columns[name] = pa.array(np.ascontiguousarray(values, np.float32))
    return columns


def class_columns(classes: Sequence[str]) -> list[str]:
    """Returns a unique column name for each class, of letters, digits and underscores, as BigQuery requires."""
    names: list[str] = []
    for number, title in enumerate(classes):
        name = "probability_" + (re.sub(r"\W+", "_", title, flags=re.ASCII).strip("_") or str(number))
        while name.lower() in (taken.lower() for taken in names):
            name = f"{name}_{number}"
        names.append(name)
    return names


def rename_columns(carried: Mapping[str, str]) -> dict[str, str]:
    """Returns the output names of columns of the data; a reserved name gets a trailing underscore."""
    reserved = ("probability_", "quantile_")
    return {k: f"{name}_" if name in OWN or name.startswith(reserved) else name for k, name in carried.items()}


def _build_constant(value: object, kind: pa.DataType, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), count)


# ---- reads the shards of a prediction


@dataclass(frozen=True)
class Part:
    """The predictions of a shard, as in evaluation: floats (B, C), (B, 1 + Q) or (B,)."""

    number: int
    predicted: np.ndarray


def write_parts(task: Task, folder: PredictionFolder, count: int) -> Iterator[Part]:
    """Yields the predictions of all shards, in order."""
    for number in range(count):
        table = pq.read_table(pa.BufferReader(folder.store.read(shard_name(number))))
        yield Part(number, read_predictions(task, table))


def read_predictions(task: Task, table: pa.Table) -> np.ndarray:
    """Returns the predictions in a table with the columns of `output.predictions`."""
    if "probabilities" in table.column_names:
        return elements(table["probabilities"].combine_chunks())
    if task.likelihood:
        return np.asarray(table["loss"].to_numpy())
    if task.regression:
        names = ["mean", *(f"quantile_{share:g}".replace(".", "_") for share in task.quantiles)]
    else:
        names = class_columns(task.classes)
    return np.stack([table[name].to_numpy() for name in names], axis=1)


# ---- loads predictions into a BigQuery table, replacing all its rows


#: Columns that mark a table of predictions.
OUR_COLUMNS = ("row_id", "model", "model_version", "run")


def check_table(table: TableName, staging: str) -> None:
    """Raises UserError if the table cannot be replaced, or `staging` is not in a bucket."""
    if not storage.is_remote(storage.uri(staging)):
        where = f", and {staging} is on this machine" if staging else ""
        raise UserError(
            f"destination = {table.uri}: BigQuery loads predictions from a bucket{where}. Set staging = "
            "gs://BUCKET/FOLDER for the intermediate files."
        )
    try:
        check(table, OUR_COLUMNS)
    except UserError as error:
        raise UserError(f"destination = {error}") from None


def load_table(folder: PredictionFolder, written: PredictionManifest, table: TableName) -> None:
    """Replaces the rows of the table with the predictions. Raises the errors of `replace`."""
    uris = [f"{folder.path}/{shard.name}" for shard in written.shards]
    job = replace(table, uris, job_name(written, table))
    rows = sum(shard.rows for shard in written.shards)
    print(f"{rows:,} rows loaded into {table.uri} (job {job}).", file=sys.stderr, flush=True)


def job_name(written: PredictionManifest, table: TableName) -> str:
    """Returns the prefix of the load job ids for these predictions and this table."""
    text = as_json([written.model_dump(), str(table)])
    return f"vgp-predictions-{hashlib.sha256(text).hexdigest()[:40]}"
