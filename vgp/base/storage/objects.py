"""Write-once objects in Cloud Storage: atomic writes, and the first writer wins."""

import base64
import errno
import io
import os
import shutil
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from typing_extensions import Buffer

from vgp.base.storage import files
from vgp.base.storage.client import Limits, as_os_errors, bucket, explain_errors, retry_policy, starts_anew
from vgp.base.storage.storage import is_remote, split

if TYPE_CHECKING:
    from google.api_core.page_iterator import HTTPIterator
    from google.cloud.storage import Blob

#: Prefix of the objects that test whether a folder is writable.
PROBE = ".writable-"


@dataclass(frozen=True)
class Facts:
    """The size and checksum of an object on the server."""

    bytes: int
    #: Computed from what the server received: https://cloud.google.com/storage/docs/data-validation
    crc32c: int


class Folder:
    """The objects directly in `gs://bucket/folder`, written atomically.

    Retries statuses 408, 429 and 5xx, broken connections and stalls with growing, random pauses:
    https://cloud.google.com/storage/docs/retry-strategy

    Args:
        deadline_s: Seconds of retries until a method fails.
        stall_s: Seconds without data until a request fails.

    Raises (every method):
        FileNotFoundError: the object does not exist.
        ConnectionError: the store could not be reached in time, or refused the request.
    """

    #: Bytes per request of a resumable upload; a retry repeats one request.
    upload_chunk = 32 << 20
    #: Upper bound of the first random pause in seconds, which doubles up to a minute.
    first_pause_s = 1.0

    def __init__(self, path: str, *, deadline_s: float = 120, stall_s: float = 30):
        self.path = path.rstrip("/")
        self.bucket, self.prefix = split(self.path + "/")
        self.deadline_s, self.stall_s = deadline_s, stall_s

    def require_writable(self) -> None:
        """Raises UserError if objects cannot be created and deleted here."""
        from google.api_core.exceptions import NotFound

        probe = f"{PROBE}{os.urandom(8).hex()}"
        with as_os_errors(f"{self.path}/{probe}"), explain_errors(self.path, "written"):
            next(iter(self._list(max_results=1)), None)  # detects a missing bucket without retries
            self._create(probe, [memoryview(b"x")])
            with suppress(NotFound):  # deleted by an earlier try whose answer was lost
                self._blob(probe).delete(**self._limits())

    def create(self, name: str, pieces: Sequence[memoryview]) -> bool:
        """Creates an object from the pieces, verified by CRC-32C on the server; False if another object exists."""
        with as_os_errors(f"{self.path}/{name}"):
            return self._create(name, pieces)

    def replace(self, name: str, data: Buffer) -> None:
        """Writes or replaces an object atomically, verified by CRC-32C on the server."""
        # After a retry the client keeps a reference to the view, which would keep a memory-mapped file open.
        with as_os_errors(f"{self.path}/{name}"), memoryview(data) as view:
            self._upload(name, [view])

    def read(self, name: str) -> bytes:
        """Reads an object. Raises OSError if its bytes do not match the server's checksum."""
        try:
            return self._download(name)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return self._download(name)  # a second download shows whether the object itself is damaged

    def read_range(self, name: str, start: int, stop: int) -> bytes:
        """Reads bytes [start, stop), fewer at the end, without verification: a range has no checksum."""
        from google.api_core.exceptions import RequestRangeNotSatisfiable

        if start >= stop:
            return b""
        limits = {"checksum": None, **self._limits()}
        with as_os_errors(f"{self.path}/{name}"):
            try:
                return bytes(self._blob(name).download_as_bytes(start=start, end=stop - 1, **limits))
            except RequestRangeNotSatisfiable:
                return b""

    def facts(self, name: str) -> Facts:
        with as_os_errors(f"{self.path}/{name}"):
            blob = self._blob(name)
            blob.reload(**self._limits())
        return Facts(int(blob.size), int.from_bytes(base64.b64decode(blob.crc32c or ""), "big"))

    def names(self) -> list[str]:
        with as_os_errors(self.path):
            return sorted(blob.name.removeprefix(self.prefix) for blob in self._list())

    def folders(self) -> list[str]:
        """Returns the names of the subfolders."""
        with as_os_errors(self.path):
            listing = bucket(self.bucket).list_blobs(
                prefix=self.prefix, delimiter="/", fields="prefixes,nextPageToken", **self._limits()
            )
            list(listing)  # fills `listing.prefixes`
            return sorted(prefix.removeprefix(self.prefix).rstrip("/") for prefix in listing.prefixes)

    def holds(self, name: str) -> bool:
        with as_os_errors(f"{self.path}/{name}"):
            return bool(self._blob(name).exists(**self._limits()))

    def copy(self, name: str, target: "Folder") -> None:
        """Copies an object to another folder on the server, replacing an existing one."""
        with as_os_errors(f"{self.path}/{name}"):
            source, copied = self._blob(name), target._blob(name)
            token, _, _ = copied.rewrite(source, **self._limits())
            while token:
                token, _, _ = copied.rewrite(source, token=token, **self._limits())

    def delete(self, name: str) -> None:
        """Deletes an object; does nothing if it does not exist."""
        try:
            with as_os_errors(f"{self.path}/{name}"):
                self._blob(name).delete(**self._limits())
        except FileNotFoundError:
            pass

    def _create(self, name: str, pieces: Sequence[memoryview]) -> bool:
        from google.api_core.exceptions import PreconditionFailed

        try:
            self._upload(name, pieces, if_generation_match=0)
        except PreconditionFailed:  # the object of another writer, or of an earlier try whose answer was lost
            return self._holds(name, _Pieces(pieces))
        return True

    def _upload(self, name: str, pieces: Sequence[memoryview], **conditions: int) -> None:
        from google.api_core.retry import Retry

        stream = _Pieces(pieces)

        def upload() -> None:
            stream.seek(0)
            self._blob(name, chunk_size=self.upload_chunk).upload_from_file(
                stream, size=stream.size, checksum="crc32c", **conditions, **self._limits()
            )

        Retry(predicate=starts_anew, initial=self.first_pause_s, timeout=self.deadline_s)(upload)()

    def _holds(self, name: str, stream: "_Pieces") -> bool:
        """Whether the object has exactly the bytes of `stream`."""
        blob = self._blob(name)
        blob.reload(**self._limits())
        if blob.size != stream.size:
            return False
        stream.seek(0)
        with blob.open("rb", chunk_size=self.upload_chunk, **self._limits()) as file:
            return all(
                file.read(self.upload_chunk) == chunk for chunk in iter(lambda: stream.read(self.upload_chunk), b"")
            )

    def _download(self, name: str) -> bytes:
        with as_os_errors(f"{self.path}/{name}"):
            return bytes(self._blob(name).download_as_bytes(checksum="crc32c", **self._limits()))

    def _blob(self, name: str, **kwargs: int) -> "Blob":
        return bucket(self.bucket).blob(self.prefix + name, **kwargs)

    def _list(self, **kwargs: str | int) -> "HTTPIterator":
        fields = "items(name),nextPageToken"
        listing: HTTPIterator = bucket(self.bucket).list_blobs(
            prefix=self.prefix, delimiter="/", fields=fields, **kwargs, **self._limits()
        )
        return listing

    def _limits(self) -> Limits:
        return {"retry": retry_policy(self.first_pause_s, self.deadline_s, self.path), "timeout": self.stall_s}


def replace(path: str, data: Buffer) -> None:
    """Writes or replaces gs://bucket/name. Raises the errors of `Folder`."""
    folder, _, name = path.rpartition("/")
    Folder(folder).replace(name, data)


def put(source: Path, path: str) -> None:
    """Copies a local file to `path`, local or in a bucket, replacing an existing file. Raises OSError."""
    if is_remote(path):
        return replace(path, source.read_bytes())
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with files.replacing(path) as scratch:
        shutil.copyfile(source, scratch)


def read(path: str) -> bytes:
    """Reads gs://bucket/name. Raises the errors of `Folder`."""
    folder, _, name = path.rpartition("/")
    return Folder(folder).read(name)


class _Pieces(io.RawIOBase):
    """A read-only file over several pieces of memory, without copying them."""

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
        """Reads exactly `size` bytes, except at the end, because the client treats a short read as the end."""
        missing = self.size - self.position if size is None or size < 0 else min(size, self.size - self.position)
        buffers = []
        while missing > 0:
            number = bisect_right(self.starts, self.position) - 1
            start = self.position - self.starts[number]
            piece = self.pieces[number][start : start + missing]
            buffers.append(piece)
            self.position += len(piece)
            missing -= len(piece)
        return b"".join(buffers)
