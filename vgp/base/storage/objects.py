"""Objects in Cloud Storage that are written once: each appears whole or not at all, and the first writer wins."""

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
from vgp.base.storage.client import Limits, bucket, explained, os_errors, patient, starts_anew
from vgp.base.storage.storage import is_remote, split

if TYPE_CHECKING:
    from google.api_core.page_iterator import HTTPIterator
    from google.cloud.storage import Blob

#: What the name of an object begins with that is made and deleted, to find out whether that can be done.
PROBE = ".writable-"


@dataclass(frozen=True)
class Facts:
    """What the server says of an object."""

    bytes: int
    #: Computed from what the server received: https://cloud.google.com/storage/docs/data-validation
    crc32c: int


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
        from google.api_core.exceptions import NotFound

        probe = f"{PROBE}{os.urandom(8).hex()}"
        with os_errors(f"{self.path}/{probe}"), explained(self.path, "written"):
            next(iter(self._list(max_results=1)), None)  # tells a bucket that is not there at once
            self._create(probe, [memoryview(b"x")])
            with suppress(NotFound):  # deleted by a first try whose answer was lost
                self._blob(probe).delete(**self._limits())

    def create(self, name: str, pieces: Sequence[memoryview]) -> bool:
        """Makes a new object of the pieces, its CRC-32C checked by the server; False if there is another already."""
        with os_errors(f"{self.path}/{name}"):
            return self._create(name, pieces)

    def replace(self, name: str, data: Buffer) -> None:
        """Writes an object in place of what is there: whole, its CRC-32C checked by the server, or not at all."""
        # After a request that it made again the client keeps the view: a file mapped into memory could not be closed.
        with os_errors(f"{self.path}/{name}"), memoryview(data) as view:
            self._upload(name, [view])

    def read(self, name: str) -> bytes:
        """The object's bytes. Raises OSError if they do not have the checksum that the server keeps."""
        try:
            return self._download(name)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return self._download(name)  # altered on the way, or where it lies? A second time tells

    def read_range(self, name: str, start: int, stop: int) -> bytes:
        """Bytes [start, stop) as they arrive, fewer at the end: a part of an object has no checksum."""
        from google.api_core.exceptions import RequestRangeNotSatisfiable

        if start >= stop:
            return b""
        limits = {"checksum": None, **self._limits()}
        with os_errors(f"{self.path}/{name}"):
            try:
                return bytes(self._blob(name).download_as_bytes(start=start, end=stop - 1, **limits))
            except RequestRangeNotSatisfiable:
                return b""

    def facts(self, name: str) -> Facts:
        with os_errors(f"{self.path}/{name}"):
            blob = self._blob(name)
            blob.reload(**self._limits())
        return Facts(int(blob.size), int.from_bytes(base64.b64decode(blob.crc32c or ""), "big"))

    def names(self) -> list[str]:
        with os_errors(self.path):
            return sorted(blob.name.removeprefix(self.prefix) for blob in self._list())

    def folders(self) -> list[str]:
        """Names of the folders directly below."""
        with os_errors(self.path):
            listing = bucket(self.bucket).list_blobs(
                prefix=self.prefix, delimiter="/", fields="prefixes,nextPageToken", **self._limits()
            )
            list(listing)  # the prefixes of a page are there once it was read
            return sorted(each.removeprefix(self.prefix).rstrip("/") for each in listing.prefixes)

    def holds(self, name: str) -> bool:
        with os_errors(f"{self.path}/{name}"):
            return bool(self._blob(name).exists(**self._limits()))

    def copy(self, name: str, target: "Folder") -> None:
        """The object also in the other folder, in place of what is there; its bytes do not come here."""
        with os_errors(f"{self.path}/{name}"):
            source, copied = self._blob(name), target._blob(name)
            token, _, _ = copied.rewrite(source, **self._limits())
            while token:
                token, _, _ = copied.rewrite(source, token=token, **self._limits())

    def delete(self, name: str) -> None:
        """Also if it has gone already."""
        try:
            with os_errors(f"{self.path}/{name}"):
                self._blob(name).delete(**self._limits())
        except FileNotFoundError:
            pass

    def _create(self, name: str, pieces: Sequence[memoryview]) -> bool:
        from google.api_core.exceptions import PreconditionFailed

        try:
            self._upload(name, pieces, if_generation_match=0)
        except PreconditionFailed:  # another's, or our own whose answer was lost
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

    def _download(self, name: str) -> bytes:
        with os_errors(f"{self.path}/{name}"):
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
        return {"retry": patient(self.first_pause_s, self.deadline_s, self.path), "timeout": self.stall_s}


def replace(path: str, data: Buffer) -> None:
    """Writes gs://bucket/name in place of what is there. Raises as `Folder`."""
    folder, _, name = path.rpartition("/")
    Folder(folder).replace(name, data)


def put(source: Path, path: str) -> None:
    """A file of this machine under that name, here or in a bucket, in place of what is there. Raises OSError."""
    if is_remote(path):
        return replace(path, source.read_bytes())
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with files.replacing(path) as scratch:
        shutil.copyfile(source, scratch)


def read(path: str) -> bytes:
    """The bytes of gs://bucket/name. Raises as `Folder`."""
    folder, _, name = path.rpartition("/")
    return Folder(folder).read(name)


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
        buffers = []
        while wanted > 0:
            number = bisect_right(self.starts, self.position) - 1
            start = self.position - self.starts[number]
            piece = self.pieces[number][start : start + wanted]
            buffers.append(piece)
            self.position += len(piece)
            wanted -= len(piece)
        return b"".join(buffers)
