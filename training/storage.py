"""Files that may lie on this machine or in Cloud Storage (`gs://bucket/name`), found and read the same way.

The only module of `training` that knows a Google client. It honours STORAGE_EMULATOR_HOST.
"""

import errno
import glob
import io
import os
import re
import tempfile
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
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


def uri(path: str | Path) -> str:
    """The path, as `gs://` if it lies in a bucket that Vertex has mounted under /gcs.

    Through the mount a rename is a copy and a delete, and other machines may see stale listings:
    https://cloud.google.com/storage/docs/cloud-storage-fuse/overview#differences-and-limitations
    """
    return re.sub(r"^(/gcs/|gs:/+)(?=[^/])", "gs://", str(path)).rstrip("/") or "/"


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
            blob = _client(os.getpid()).bucket(bucket).get_blob(name)  # pins the generation: one version, start to end
        if blob is None:
            raise FileNotFoundError
        return cast(BinaryIO, blob.open("rb"))
    except FileNotFoundError:
        raise UserError(f"{path} does not exist.") from None
    except (PermissionError, IsADirectoryError) as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None


@contextmanager
def local_copy(path: str) -> Iterator[str]:
    """A path on this machine for what is at `path`: itself, or a copy that goes afterwards.

    Raises:
        UserError: a remote file does not exist or may not be read.
    """
    if not is_remote(path):
        yield path
        return
    bucket, name = split(path)
    with tempfile.NamedTemporaryFile(suffix=Path(name).suffix) as file:
        with explained(path):
            _client(os.getpid()).bucket(bucket).blob(name).download_to_file(file, checksum="crc32c")
        file.flush()
        yield file.name


def overwrite(path: str, data: bytes) -> None:
    """Writes a small file in place of what is there. Raises OSError, ConnectionError if the store is down."""
    if not is_remote(path):
        Path(path).write_bytes(data)
        return
    from google.cloud.storage.retry import DEFAULT_RETRY

    bucket, name = split(path)
    with _os_errors(path):
        blob = _client(os.getpid()).bucket(bucket).blob(name)
        blob.upload_from_string(data, retry=DEFAULT_RETRY.with_timeout(30), timeout=10)


def split(path: str) -> tuple[str, str]:
    """`gs://bucket/a/b` -> `bucket`, `a/b`."""
    bucket, _, name = path.removeprefix("gs://").partition("/")
    if not bucket:
        raise UserError(f"{path} names no bucket; expected gs://bucket/name.")
    return bucket, name


def _find_local(pattern: str, suffixes: Sequence[str]) -> list[File]:
    pattern = os.path.expanduser(pattern)
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
        blobs = list(_client(os.getpid()).list_blobs(bucket, **query))
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
def _client(process: int) -> Any:
    """One for each process: a forked one must not use its parent's connections."""
    from google.cloud import storage

    with explained("Cloud Storage"):
        return storage.Client()


# ---- objects that are written once


class Folder:
    """The objects directly in `gs://bucket/folder`, each written once, whole or not at all.

    Statuses 408, 429 and 5xx, broken connections and stalls are tried again with growing, random pauses:
    https://cloud.google.com/storage/docs/retry-strategy

    Args:
        deadline_s: Without progress for so long, a method gives up.
        stall_s: A request during which nothing moves for so long has failed.

    Raises (every method):
        FileNotFoundError: there is no such object.
        ConnectionError: the store could not be reached in time, or refused.
    """

    #: Bytes of a resumable upload's requests; a lost one is sent again, not the whole object.
    upload_chunk = 32 << 20
    #: A pause is a random part of this, the next of twice as much, and so on up to a minute.
    first_pause_s = 1.0

    def __init__(self, path: str, *, deadline_s: float = 120, stall_s: float = 30):
        self.path = path.rstrip("/")
        self.bucket, self.prefix = split(self.path + "/")
        self.deadline_s, self.stall_s = deadline_s, stall_s

    def require_writable(self) -> None:
        """Raises UserError if objects cannot be made and deleted here."""
        probe = f".writable-{os.urandom(8).hex()}"
        with _os_errors(f"{self.path}/{probe}"), explained(self.path):
            next(iter(self._list(max_results=1)), None)  # tells a bucket that is not there at once
            self._create(probe, [memoryview(b"x")])
            self._blob(probe).delete(**self._limits())

    def create(self, name: str, pieces: Sequence[memoryview]) -> bool:
        """Makes a new object of the pieces, its CRC-32C checked by the server; False if there is another already."""
        with _os_errors(f"{self.path}/{name}"):
            return self._create(name, pieces)

    def read(self, name: str) -> bytes:
        """The object's bytes. Raises OSError if they do not have the checksum that the server keeps."""
        with _os_errors(f"{self.path}/{name}"):
            return bytes(self._blob(name).download_as_bytes(checksum="crc32c", **self._limits()))

    def names(self) -> list[str]:
        with _os_errors(self.path):
            return sorted(blob.name.removeprefix(self.prefix) for blob in self._list())

    def delete(self, name: str) -> None:
        """Also if it has gone already."""
        try:
            with _os_errors(f"{self.path}/{name}"):
                self._blob(name).delete(**self._limits())
        except FileNotFoundError:
            pass

    def _create(self, name: str, pieces: Sequence[memoryview]) -> bool:
        from google.api_core.exceptions import PreconditionFailed
        from google.api_core.retry import Retry

        stream = _Pieces(pieces)

        def upload() -> bool:
            stream.seek(0)
            try:
                self._blob(name, chunk_size=self.upload_chunk).upload_from_file(
                    stream, size=stream.size, checksum="crc32c", if_generation_match=0, **self._limits()
                )
            except PreconditionFailed:  # another's, or our own whose answer was lost
                return self._holds(name, stream)
            return True

        return bool(Retry(predicate=_starts_anew, initial=self.first_pause_s, timeout=self.deadline_s)(upload)())

    def _holds(self, name: str, stream: "_Pieces") -> bool:
        """Whether the object has exactly these bytes."""
        blob = self._blob(name)
        blob.reload(**self._limits())
        if blob.size != stream.size:
            return False
        stream.seek(0)
        with blob.open("rb", chunk_size=self.upload_chunk, **self._limits()) as there:
            return all(
                there.read(self.upload_chunk) == mine for mine in iter(lambda: stream.read(self.upload_chunk), b"")
            )

    def _blob(self, name: str, **kwargs: Any) -> Any:
        return _client(os.getpid()).bucket(self.bucket).blob(self.prefix + name, **kwargs)

    def _list(self, **kwargs: Any) -> Any:
        return _client(os.getpid()).list_blobs(
            self.bucket,
            prefix=self.prefix,
            delimiter="/",
            fields="items(name),nextPageToken",
            **kwargs,
            **self._limits(),
        )

    def _limits(self) -> dict[str, Any]:
        from google.cloud.storage.retry import DEFAULT_RETRY

        patient = DEFAULT_RETRY.with_delay(initial=self.first_pause_s).with_timeout(self.deadline_s)
        return {"retry": patient, "timeout": self.stall_s}


class _Pieces(io.RawIOBase):
    """Pieces of memory as one file, without a copy of the whole."""

    def __init__(self, pieces: Sequence[memoryview]):
        self.pieces = pieces
        self.starts = list(accumulate(map(len, pieces), initial=0))
        self.size = self.starts.pop()
        self.position = 0

    def tell(self) -> int:
        return self.position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self.position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self.position, os.SEEK_END: self.size}[whence]
        return self.position

    def read(self, size: int | None = -1) -> bytes:
        """All of `size` bytes, but at the end: the client takes a short read for the end."""
        wanted = self.size - self.position if size is None or size < 0 else min(size, self.size - self.position)
        found = []
        while wanted > 0:
            number = bisect_right(self.starts, self.position) - 1
            start = self.position - self.starts[number]
            piece = self.pieces[number][start : start + wanted]
            found.append(piece)
            self.position += len(piece)
            wanted -= len(piece)
        return b"".join(found)


def _starts_anew(error: BaseException) -> bool:
    """Whether an upload is begun again from its first byte: it arrived damaged, or the server forgot its session."""
    from google.api_core.exceptions import GoogleAPICallError
    from google.cloud.storage.exceptions import DataCorruption

    return isinstance(error, DataCorruption) or (isinstance(error, GoogleAPICallError) and error.code in (404, 410))


@contextmanager
def _os_errors(path: str) -> Iterator[None]:
    """The client's errors as a file system would raise them."""
    from google.api_core.exceptions import GoogleAPIError, NotFound, RetryError
    from google.auth.exceptions import GoogleAuthError
    from google.cloud.storage.exceptions import DataCorruption
    from requests import RequestException

    try:
        yield
    except NotFound:
        raise FileNotFoundError(errno.ENOENT, "no such object", path) from None
    except DataCorruption:
        raise OSError(errno.EIO, "the bytes do not have the object's checksum", path) from None
    except (GoogleAPIError, GoogleAuthError, RequestException) as error:
        cause = error.cause if isinstance(error, RetryError) else error
        raise ConnectionError(f"{path}: {type(cause).__name__}: {cause}") from None
