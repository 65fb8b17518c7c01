"""Predictions into a table of BigQuery: one load job that replaces the table, so that no repeat doubles a row.

The job's name follows from the predictions: after a kill the one that runs is waited for. One that has ended is
followed by another of the next number, since what it left may have been replaced: loading is free, and the same rows
come of it.
https://cloud.google.com/bigquery/docs/reference/rest/v2/Job#jobconfigurationload
"""

import hashlib
import sys
import time
from typing import Any

from training.data.settings import engines
from training.errors import ProcessFailed, UserError
from training.prediction.folder import Predicted, Written, as_json
from training.printable import listed
from training.storage import storage
from training.storage.bigquery import client
from training.storage.bigquery.names import TableName

MOST_ATTEMPTS = 50
#: Seconds between two looks at a job.
PAUSE_S = 0.5
#: Columns by which a table is known to hold predictions.
OURS = {"row_id", "model", "model_version", "run"}


def check(table: TableName, staging: str) -> None:
    """Raises UserError, before any work, if the table cannot be replaced, or the shards lie where no job reads them."""
    if not storage.is_remote(storage.uri(staging)):
        raise UserError(
            f"destination = {table.uri}: BigQuery loads predictions from a bucket, and {staging} is on this machine: "
            "give staging = gs://BUCKET/FOLDER, where they lie meanwhile."
        )
    from google.api_core.exceptions import NotFound

    asked = _client()
    with client.explained(f"the dataset {table.project}.{table.dataset}"):
        asked.get_dataset(f"{table.project}.{table.dataset}", retry=client.patient(), timeout=60)
    with client.explained(str(table)):
        try:
            there = asked.get_table(str(table), retry=client.patient(), timeout=60)
        except NotFound:
            return
    columns = [field.name for field in there.schema]
    if columns and not set(columns) >= OURS:
        raise UserError(
            f"destination = {table.uri}: the table holds something else, with the columns {listed(columns)}, and would "
            "be replaced: name a new table, or one of predictions."
        )


def load(folder: Predicted, written: Written, table: TableName) -> None:
    """Puts the predictions in the place of what the table has.

    Raises:
        UserError: BigQuery refuses them.
        ProcessFailed: it could not be reached, or failed again and again.
    """
    text = as_json([written.model_dump(), str(table)])
    base = f"vgp-predictions-{hashlib.sha256(text).hexdigest()[:40]}"
    for attempt in range(MOST_ATTEMPTS):
        if job := _started(folder, written, table, f"{base}-{attempt}"):
            _wait(job, table)
            rows = sum(shard.rows for shard in written.shards)
            print(f"{rows:,} rows are in {table.uri} (job {job.job_id}).", file=sys.stderr, flush=True)
            return
    raise ProcessFailed(f"{table.uri} was loaded {MOST_ATTEMPTS} times by now: jobs {base}-0 and so on.")


def _started(folder: Predicted, written: Written, table: TableName, job_id: str) -> Any:
    """The job of that name, new or still running; None if it has ended before."""
    from google.api_core.exceptions import Conflict
    from google.cloud import bigquery

    asked, config = _client(), bigquery.LoadJobConfig()
    config.source_format = bigquery.SourceFormat.PARQUET
    config.write_disposition = bigquery.WriteDisposition.WRITE_TRUNCATE
    config.labels = {"tool": "vertex-gpu-pipelines"}
    with client.explained(table.uri):
        place = asked.get_dataset(f"{table.project}.{table.dataset}", retry=client.patient(), timeout=60).location
        try:
            return asked.load_table_from_uri(
                [f"{folder.path}/{shard.name}" for shard in written.shards], str(table), job_id=job_id, location=place,
                job_config=config, retry=client.patient(), timeout=60,
            )  # fmt: skip
        except Conflict:
            job = asked.get_job(job_id, location=place, retry=client.patient(), timeout=60)
    return None if job.state == "DONE" else job


def _wait(job: Any, table: TableName) -> None:
    with client.explained(table.uri):
        while job.state != "DONE":
            time.sleep(PAUSE_S)
            job.reload(retry=client.patient(), timeout=60)
        if job.error_result:
            raise job.exception()


def _client() -> Any:
    return client.client(client.project(engines().bigquery.project))
