"""Local files and objects in Cloud Storage (`gs://bucket/name`) with one interface."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from vgp.base.exits import UserError
from vgp.base.storage import client, files, finding, pinned
from vgp.base.storage.finding import File as File
from vgp.base.storage.finding import Past, find_local, glob_regex

if TYPE_CHECKING:
    from google.cloud.storage import Blob

WILDCARDS = frozenset("*?[")

_past: ContextVar[Past | None] = ContextVar("past", default=None)


def is_remote(path: str) -> bool:
    return path.startswith("gs://")


def uri(path: str | Path) -> str:
    """Returns the path, as `gs://` if it is in a bucket that Vertex AI mounts under /gcs.

    Through the mount a rename is a copy and a delete, and other machines may see stale listings:
    https://cloud.google.com/storage/docs/cloud-storage-fuse/overview#differences-and-limitations
    """
    return re.sub(r"^(/gcs/|gs:/+)(?=[^/])", "gs://", str(path)).rstrip("/") or "/"


def find(pattern: str, suffixes: Sequence[str] = ("",)) -> list[File]:
    """Returns the files of a file name, folder, glob or pins document, sorted by path.

    A folder means its direct files with one of `suffixes`, which do not apply to globs and file names. `**` crosses
    folders. Paths of pinned objects end in #generation.

    Raises:
        UserError: the scheme is not supported, nothing matches, a file is unreadable, or a pinned file changed.
        ProcessFailed: the store did not answer for `client.READ_DEADLINE_S`; also in the functions below.
    """
    finding.refuse_scheme(pattern)
    if pattern.lower().startswith("bq://"):
        raise UserError(
            f"{pattern} is a table of BigQuery, but this task reads files: only a tabular task reads tables."
        )
    if pinned.read_digest(pattern):
        return pinned.read_unchanged_files(pattern, read(pattern, most=pinned.MOST_BYTES))
    matches = _find_remote(pattern, suffixes) if is_remote(pattern) else find_local(pattern, suffixes)
    if not matches:
        deeper = _build_subfolder_glob(pattern, suffixes)
        folder = not _is_glob(pattern) and (deeper or not is_remote(pattern) and os.path.isdir(pattern))
        problem = f"has no file that ends in {', '.join(_strip_compression(suffixes))}" if folder else "matches no file"
        fix = f" Its subfolders have: use '{deeper}'." if deeper else ""
        past = _past.get()
        raise UserError(f"{pattern} {problem}{f', as of {past.moment:%Y-%m-%dT%H:%M:%SZ}' if past else ''}.{fix}")
    return sorted(matches, key=lambda file: file.path)


def _build_subfolder_glob(folder: str, suffixes: Sequence[str]) -> str:
    """Returns a glob of files with one of `suffixes` in subfolders, or in the folders that a glob matches, or ""."""
    if _is_glob(folder):
        pattern = f"{folder.rstrip('/')}/*"
        files = _find_remote(pattern, suffixes) if is_remote(folder) else find_local(pattern, suffixes)
        ending = next((suffix for file in files if (suffix := finding.find_ending(file.path, suffixes))), "")
        return ending and pattern + ending
    if not is_remote(folder):
        return finding.find_deeper(folder, suffixes)
    inside = f"{uri(folder)}/"
    names = [file.path.removeprefix(inside) for file in below(folder)]
    for levels in finding.DEEPER:
        for name in names:
            if name.count("/") == levels.count("/") and (suffix := finding.find_ending(name, suffixes)):
                return f"{inside}{levels}{suffix}"
    return ""


def _is_glob(pattern: str) -> bool:
    return bool(WILDCARDS & set(pattern)) and not os.path.isdir(pattern)


def _strip_compression(suffixes: Sequence[str]) -> list[str]:
    """Returns the suffixes in lower case, without those that only add a compression."""
    lower = dict.fromkeys(map(str.lower, suffixes))
    return [suffix for suffix in lower if not any(suffix.startswith(f"{other}.") for other in lower)]


def below(folder: str, *, links: bool = False) -> list[File]:
    """Returns all files in a folder and its subfolders, sorted by path; none if there is no such folder.

    Args:
        links: Whether to follow local symbolic links or skip them.
    """
    folder = uri(folder)
    if not is_remote(folder):
        return finding.below(folder, links=links)
    bucket, name = split(folder)
    return sorted(_list_objects(folder, bucket, prefix=f"{name}/" if name else ""), key=lambda file: file.path)


def parts(data: str) -> list[str]:
    """Splits `data` at commas, except for a pins document or an existing file with a comma in its name."""
    if pinned.read_digest(data) or ("," in data and os.path.exists(data)):
        return [data]
    return [part.strip() for part in data.split(",") if part.strip()]


@contextmanager
def as_of(past: Past | None) -> Iterator[None]:
    """Makes `find` list the objects that were live at that moment, if the bucket keeps old versions."""
    token = _past.set(past)
    try:
        yield
    finally:
        _past.reset(token)


def read(path: str, *, most: int, links: bool = True) -> bytes:
    """Reads a small file or object. Raises UserError if it is larger than `most` bytes, or a link without `links`."""
    too_large = UserError(f"{path} is larger than {most >> 20} MiB, the maximum for such a file.")
    if not is_remote(path):
        try:
            return files.read(path, most=most, links=links)
        except FileNotFoundError:
            raise UserError(f"{path} does not exist.") from None
    blob = get_blob(path)
    if blob is None:
        raise UserError(f"{path} does not exist.")
    if blob.size > most:
        raise too_large
    with client.explain_errors(path):
        return bytes(blob.download_as_bytes(retry=client.read_retry(path)))


def overwrite(path: str, data: bytes) -> None:
    """Writes or replaces a small file. Raises OSError; ConnectionError if the store is down."""
    if not is_remote(path):
        files.write(path, data)
        return
    bucket, name = split(path)
    with client.as_os_errors(path):
        client.bucket(bucket).blob(name).upload_from_string(data, retry=client.retry_policy(1, 30, path), timeout=10)


def split(path: str) -> tuple[str, str]:
    """Splits `gs://bucket/a/b` into `bucket` and `a/b`."""
    bucket, _, name = path.removeprefix("gs://").partition("/")
    if not bucket:
        raise UserError(f"{path} has no bucket; expected gs://bucket/name.")
    return bucket, name


def location(path: str) -> str:
    """Returns the location of a bucket, such as EU or US-CENTRAL1, or "" without permission to read the bucket."""
    from google.api_core.exceptions import Forbidden

    with client.explain_errors(path):
        try:
            return str(client.client().get_bucket(split(path)[0], retry=client.read_retry(path)).location)
        except Forbidden:
            return ""


def generation_of(path: str) -> tuple[str, int]:
    """Splits `gs://bucket/name#1732` into path and generation (0 without one); a name may itself have a `#`."""
    match = re.fullmatch(r"(gs://.+)#([1-9]\d{0,17})", path, re.DOTALL)
    return (match[1], int(match[2])) if match else (path, 0)


def plain(path: str) -> str:
    """Returns the path without its generation."""
    return generation_of(path)[0]


def get_blob(path: str) -> "Blob | None":
    """Returns the current blob at gs://bucket/name, or the one at gs://bucket/name#generation; None without one."""
    versions = [generation_of(path), (path, 0)]  # the second for a name that ends in `#` and digits
    retry = client.read_retry(path)
    with client.explain_errors(path):
        for location, generation in dict.fromkeys(versions):
            bucket, name = split(location)
            if blob := client.bucket(bucket).get_blob(name, generation=generation or None, retry=retry):
                return blob
    return None


def with_version(file: File) -> File:
    """Returns the file with its generation or version, looked up if unknown."""
    if file.generation or file.version:
        return file
    if not is_remote(file.path):
        if not os.path.isfile(file.path):
            raise UserError(f"{file.path} does not exist.")
        return replace(file, version=finding.stat_file(file.path).version)
    if blob := get_blob(file.path):
        return replace(file, generation=blob.generation)
    raise UserError(f"{file.path} does not exist.")


def _find_remote(pattern: str, suffixes: Sequence[str]) -> list[File]:
    bucket, name = split(pattern)
    if WILDCARDS & set(name):
        fixed = re.split(r"[*?\[]", name, maxsplit=1)[0]
        matches = re.compile(f"gs://{re.escape(bucket)}/{glob_regex(name)}").fullmatch
        return [file for file in _list_objects(pattern, bucket, prefix=fixed) if matches(file.path)]
    files = _list_objects(pattern, bucket, prefix=name)
    exact = [file for file in files if file.path == pattern]
    folder = f"gs://{bucket}/{name.rstrip('/')}/" if name else f"gs://{bucket}/"
    inside = (file for file in files if file.path.startswith(folder))
    direct = (file for file in inside if "/" not in file.path.removeprefix(folder))
    named = exact or [file for file in direct if file.path.endswith(tuple(suffixes))]
    if not named and generation_of(pattern)[1] and (blob := get_blob(pattern)):
        return [File(pattern, blob.size, blob.generation)]
    return named


def _list_objects(pattern: str, name: str, **query: str) -> list[File]:
    past = _past.get()
    fields = "items(name,size,generation,timeCreated,timeDeleted),nextPageToken"
    with client.explain_errors(pattern):
        retry = client.read_retry(pattern)
        versions = "true" if past else None  # the client would send True, which not every server understands
        listing = client.client().list_blobs(name, retry=retry, fields=fields, versions=versions, **query)
        blobs = list(listing)
        if past:
            blobs = past.live(name, blobs, lambda: client.client().get_bucket(name, retry=retry))
    return [
        File(f"gs://{name}/{blob.name}", blob.size, blob.generation) for blob in blobs if not blob.name.endswith("/")
    ]
