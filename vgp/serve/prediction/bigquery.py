"""Predictions into a table of BigQuery, whose rows they replace as a whole."""

import hashlib
import sys

from vgp.base.exits import UserError
from vgp.base.storage import storage
from vgp.base.storage.bigquery import loading
from vgp.base.storage.bigquery.names import TableName
from vgp.serve.prediction.folder import Predicted, Written, as_json

#: Columns by which a table is known to hold predictions.
OURS = ("row_id", "model", "model_version", "run")


def check(table: TableName, staging: str) -> None:
    """Raises UserError, before any work, if the table cannot be replaced, or the shards lie where no job reads them."""
    if not storage.is_remote(storage.uri(staging)):
        where = f", and {staging} is on this machine" if staging else ""
        raise UserError(
            f"destination = {table.uri}: BigQuery loads predictions from a bucket{where}: give staging = "
            "gs://BUCKET/FOLDER, where they lie meanwhile."
        )
    try:
        loading.check(table, OURS)
    except UserError as error:
        raise UserError(f"destination = {error}") from None


def load(folder: Predicted, written: Written, table: TableName) -> None:
    """Puts the predictions in the place of what the table has. Raises as `loading.replace`."""
    uris = [f"{folder.path}/{shard.name}" for shard in written.shards]
    job = loading.replace(table, uris, job_name(written, table))
    rows = sum(shard.rows for shard in written.shards)
    print(f"{rows:,} rows are in {table.uri} (job {job}).", file=sys.stderr, flush=True)


def job_name(written: Written, table: TableName) -> str:
    """What the names of the jobs for these predictions and this table begin with."""
    text = as_json([written.model_dump(), str(table)])
    return f"vgp-predictions-{hashlib.sha256(text).hexdigest()[:40]}"
