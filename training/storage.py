"""Files that may lie on this machine or in Cloud Storage (`gs://bucket/name`), found and read the same way.

The only module of `training` that knows a Google client. It honours STORAGE_EMULATOR_HOST.
"""

import glob
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, cast

from training.errors import UserError

WILDCARDS = frozenset("*?[")


@dataclass(frozen=True)
class File:
    path: str
    bytes: int


def is_remote(path: str) -> bool:
    return path.startswith("gs://")


def find(pattern: str, suffixes: Sequence[str] = ("",)) -> list[File]:
    """The files that a file name, a folder or a glob stands for, sorted by path.

    A folder stands for the files directly in it whose names end in one of `suffixes`; a glob or a file name
    is taken as it is. `**` crosses folders.

    Raises:
        UserError: nothing matches, or it may not be read.
    """
    found = _find_remote(pattern, suffixes) if is_remote(pattern) else _find_local(pattern, suffixes)
    if not found:
        folder = not is_remote(pattern) and os.path.isdir(pattern)
        what = f"holds no file that ends in {', '.join(suffixes)}" if folder else "matches no file"
        raise UserError(f"{pattern} {what}.")
    return sorted(found, key=lambda file: file.path)


def open_binary(path: str) -> BinaryIO:
    """Opens a local or remote file for reading; remote ones are read in pieces and can be sought.

    Raises:
        UserError: it does not exist or may not be read.
    """
    try:
        if not is_remote(path):
            return open(path, "rb")
        bucket, name = split(path)
        with explained(path):
            blob = _client().bucket(bucket).get_blob(name)  # pins the generation: one version, start to end
        if blob is None:
            raise FileNotFoundError
        return cast(BinaryIO, blob.open("rb"))
    except FileNotFoundError:
        raise UserError(f"{path} does not exist.") from None
    except (PermissionError, IsADirectoryError) as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None


def split(path: str) -> tuple[str, str]:
    """`gs://bucket/a/b` -> `bucket`, `a/b`."""
    bucket, _, name = path.removeprefix("gs://").partition("/")
    if not bucket:
        raise UserError(f"{path} names no bucket; expected gs://bucket/name.")
    return bucket, name


def _find_local(pattern: str, suffixes: Sequence[str]) -> list[File]:
    if os.path.isdir(pattern):
        paths = [str(p) for p in Path(pattern).iterdir() if p.name.endswith(tuple(suffixes))]
    elif os.path.exists(pattern):  # also a name that happens to hold a wildcard
        paths = [pattern]
    else:
        paths = glob.glob(pattern, recursive=True)
    return [File(path, os.path.getsize(path)) for path in paths if os.path.isfile(path)]


def _find_remote(pattern: str, suffixes: Sequence[str]) -> list[File]:
    bucket, name = split(pattern)
    if WILDCARDS & set(name):
        fixed = re.split(r"[*?\[]", name, maxsplit=1)[0]
        matches = re.compile(f"gs://{re.escape(bucket)}/{glob_regex(name)}").fullmatch
        return [file for file in _listed(pattern, bucket, prefix=fixed) if matches(file.path)]
    files = _listed(pattern, bucket, prefix=name)
    exact = [file for file in files if file.path == pattern]
    folder = f"gs://{bucket}/{name.rstrip('/')}/" if name else f"gs://{bucket}/"
    inside = (file for file in files if file.path.startswith(folder))
    direct = (file for file in inside if "/" not in file.path.removeprefix(folder))
    return exact or [file for file in direct if file.path.endswith(tuple(suffixes))]


def glob_regex(pattern: str) -> str:
    """A glob as a regular expression: `*` and `?` stay within a folder, `**/` crosses any number of them."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[!?\]?[^\]]*\])", pattern)
    meaning = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(
        meaning.get(part) or (part.replace("[!", "[^") if part.startswith("[") and i % 2 else re.escape(part))
        for i, part in enumerate(parts)
    )


def _listed(pattern: str, bucket: str, **query: Any) -> list[File]:
    with explained(pattern):
        blobs = list(_client().list_blobs(bucket, **query))
    return [File(f"gs://{bucket}/{blob.name}", blob.size) for blob in blobs if not blob.name.endswith("/")]


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Says the errors that only the user can mend in their words."""
    from google.api_core.exceptions import Forbidden, NotFound, Unauthorized
    from google.auth.exceptions import DefaultCredentialsError

    try:
        yield
    except DefaultCredentialsError:
        raise UserError(
            f"{path} needs Google credentials and there are none: run `gcloud auth application-default login`."
        ) from None
    except (Forbidden, Unauthorized) as error:
        raise UserError(f"{path} may not be read: {error.message}") from None
    except NotFound:
        raise UserError(f"{path} does not exist: there is no such bucket or object.") from None


@cache
def _client() -> Any:
    from google.cloud import storage

    with explained("Cloud Storage"):
        return storage.Client()
