"""Places that nothing is read from: why, and the way to one that is."""

import re
import shlex

from vgp.base.exits import UserError
from vgp.base.text.printable import quoted

#: Of Cloud Storage's own pages and downloads, which name an object all the same.
_STORAGE = re.compile(
    r"https?://(?:storage\.(?:googleapis|cloud\.google)\.com/(?P<bucket>[^/]+)"
    r"|(?P<host>[^/]+)\.storage\.googleapis\.com)/(?P<name>[^?#]+)"
)
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+)://")


def refuse(part: str) -> None:
    """Raises UserError if a part of `data`, or another place to read from, is neither a path, gs:// nor bq://."""
    match = _SCHEME.match(part)
    scheme = match["scheme"].lower() if match else ""
    if not match or part.startswith("gs://") or scheme == "bq":
        return
    if scheme in ("http", "https"):
        raise UserError(_download(part))
    if scheme in ("gs", "gcs", "s3", "s3a", "r2"):
        right = "gs://" + part[match.end() :]
        if scheme in ("gs", "gcs"):
            raise UserError(f"{quoted(part)}: Cloud Storage is written gs://. Is it {right}?")
        copy = f"gcloud storage cp -r {shlex.quote('s3://' + part[match.end() :])} gs://BUCKET/FOLDER"
        raise UserError(f"{quoted(part)}: of buckets those of Google Cloud are read, gs://. Copy it to one: {copy}.")
    if scheme == "file":
        raise UserError(f"{quoted(part)}: write the path alone: {part[match.end() :]}.")
    raise UserError(
        f"{quoted(part)}: {scheme}:// is not read. Data is a file, a folder or a glob, here or in a bucket (gs://), or "
        "a table of BigQuery (bq://PROJECT.DATASET.TABLE)."
    )


def _download(part: str) -> str:
    if match := _STORAGE.match(part):
        right = f"gs://{match['bucket'] or match['host']}/{match['name']}"
        return f"{quoted(part)}: an object is named by its bucket, {right}."
    return (
        f"{quoted(part)}: nothing is downloaded from the web. What stands there may change or be gone at the next try, "
        "and has no version that a run could be pinned to. Copy it to a bucket once: "
        f"curl -fL {shlex.quote(part)} | gcloud storage cp - gs://BUCKET/NAME."
    )
