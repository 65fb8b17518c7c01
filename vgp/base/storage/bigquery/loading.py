"""Parquet objects into a table of BigQuery: one load job that replaces it, so that no repeat doubles a row.

The job's name follows from what is loaded: after a kill the one that runs is waited for. One that has ended is followed
by another of the next number, since what it left may have been replaced: loading is free, and the same rows come of it.
https://cloud.google.com/bigquery/docs/reference/rest/v2/Job#jobconfigurationload
"""

from collections.abc import Collection, Sequence
from typing import Any

from vgp.base.engine_settings import engines
from vgp.base.exits import ProcessFailed, UserError
from vgp.base.retry import Pauses
from vgp.base.storage.bigquery import client
from vgp.base.storage.bigquery.names import TableName
from vgp.base.text.printable import listed

MOST_ATTEMPTS = 50
#: Seconds between two looks at a job.
PAUSE_S = 0.5


def check(table: TableName, ours: Collection[str]) -> None:
    """Raises UserError unless the table is not there, is empty, or has these columns: then it may be replaced."""
    from google.api_core.exceptions import NotFound

    asked = _client()
    _location(table)
    with client.explained(str(table)):
        try:
            there = asked.get_table(str(table), retry=client.patient(), timeout=60)
        except NotFound:
            return
    columns = [field.name for field in there.schema]
    if columns and not set(columns) >= set(ours):
        raise UserError(
            f"{table.uri} holds something else, with the columns {listed(columns)}, and would be replaced: name a new "
            "table."
        )


def replace(table: TableName, uris: Sequence[str], name: str) -> str:
    """Puts the rows of these Parquet objects in the place of what the table has; the name of the job that did it.

    Args:
        name: What the names of the jobs for these rows and this table begin with.

    Raises:
        UserError: BigQuery refuses them.
        ProcessFailed: it could not be reached, or failed again and again.
    """
    for attempt in range(MOST_ATTEMPTS):
        if job := started(table, uris, f"{name}-{attempt}"):
            _wait(job, table)
            return str(job.job_id)
    raise ProcessFailed(f"{table.uri} was loaded {MOST_ATTEMPTS} times by now: jobs {name}-0 and so on.")


def started(table: TableName, uris: Sequence[str], job_id: str) -> Any:
    """The job of that name, new or still running; None if it has ended before."""
    from google.api_core.exceptions import Conflict
    from google.cloud import bigquery

    asked, config = _client(), bigquery.LoadJobConfig()
    config.source_format = bigquery.SourceFormat.PARQUET
    config.write_disposition = bigquery.WriteDisposition.WRITE_TRUNCATE
    config.labels = {"tool": "vertex-gpu-pipelines"}
    place = _location(table)
    with client.explained(table.uri):
        try:
            return asked.load_table_from_uri(
                list(uris), str(table), job_id=job_id, location=place, job_config=config, retry=client.patient(),
                timeout=60,
            )  # fmt: skip
        except Conflict:
            job = asked.get_job(job_id, location=place, retry=client.patient(), timeout=60)
    return None if job.state == "DONE" else job


def _location(table: TableName) -> str:
    with client.explained(f"the dataset {table.project}.{table.dataset}"):
        dataset = _client().get_dataset(f"{table.project}.{table.dataset}", retry=client.patient(), timeout=60)
    return str(dataset.location)


def _wait(job: Any, table: TableName) -> None:
    with client.explained(table.uri):
        client.wait(job, Pauses(PAUSE_S, PAUSE_S))
        if job.error_result:
            raise job.exception()


def _client() -> Any:
    return client.client(client.project(engines().bigquery.project))
