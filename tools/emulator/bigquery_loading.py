"""Load jobs: Parquet objects of the cloud's buckets into a table, all of them or none.

https://cloud.google.com/bigquery/docs/reference/rest/v2/Job#jobconfigurationload
"""

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from .bigquery_sql import Name

if TYPE_CHECKING:
    from .bigquery import BigQuery, Job

DISPOSITIONS = ("WRITE_TRUNCATE", "WRITE_APPEND", "WRITE_EMPTY")


def load(bigquery: "BigQuery", job: "Job") -> None:
    """Loads the objects of the job; an error is stored in the job."""
    asked = job.configuration["load"]
    table = asked["destinationTable"]
    job.destination = Name(table["projectId"], table["datasetId"], table["tableId"])
    disposition = asked.get("writeDisposition", "WRITE_APPEND")
    if asked.get("sourceFormat") != "PARQUET" or disposition not in DISPOSITIONS:
        job.error = {"reason": "invalid", "message": "the loopback BigQuery loads Parquet"}
        return
    parts = [_object(bigquery, uri) for uri in asked["sourceUris"]]
    if missing := [uri for uri, part in zip(asked["sourceUris"], parts, strict=True) if part is None]:
        job.error = {"reason": "notFound", "message": f"Not found: Uris {missing[0]}"}
        return
    rows = pa.concat_tables([pq.read_table(pa.BufferReader(part)) for part in parts if part is not None])
    there = bigquery.find(job.destination)
    if there is not None and there.versions and there.latest.rows.num_rows:
        if disposition == "WRITE_EMPTY":
            job.error = {"reason": "duplicate", "message": f"Already Exists: Table {job.destination.colon}"}
            return
        if disposition == "WRITE_APPEND":
            rows = pa.concat_tables([there.latest.rows, rows])
    bigquery.write(".".join(job.destination), rows.replace_schema_metadata())


def _object(bigquery: "BigQuery", uri: str) -> bytes | None:
    bucket, _, name = uri.removeprefix("gs://").partition("/")
    storage = bigquery.cloud.storage
    storage.upstream()
    status, _, data = storage.ask("GET", f"/storage/v1/b/{bucket}/o/{quote(name, safe='')}?alt=media")
    return data if status == 200 else None


def resource(job: "Job") -> dict[str, Any]:
    """Returns the job's configuration in the form of the API."""
    return {**job.configuration, "jobType": "LOAD"}
