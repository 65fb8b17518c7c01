"""Objects of Cloud Storage as files on this machine: one version of each, with the checksum that the server keeps."""

import base64
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import google_crc32c

from vgp.base.exits import ProcessFailed, UserError
from vgp.base.storage import client, inflate, storage

if TYPE_CHECKING:
    from google.cloud.storage import Blob

#: Of a request, so that a lost one is sent again and not the whole object.
CHUNK_BYTES = 32 << 20


def copy(path: str, target: Path, *, most: int | None = None) -> None:
    """Writes the object at gs://bucket/name or gs://bucket/name#generation to a file.

    One that is stored with Content-Encoding: gzip is unpacked.

    Args:
        most: Bytes that the object may have.

    Raises:
        UserError: it does not exist, may not be read, is larger than `most`, or was replaced meanwhile.
        ProcessFailed: the store could not be reached, or twice the bytes had another checksum than the server's.
    """
    blob = _described(path)
    if most is not None and blob.size > most:
        raise UserError(f"{path} is larger than {most >> 20} MiB, the most that such an object may have.")
    inflate.require_space(target.parent, 0, blob.size, path)
    expected = int.from_bytes(base64.b64decode(blob.crc32c or ""), "big")
    arrived = _fetched(blob, path, target)
    if arrived != expected:  # altered on the way, or where it lies? A second time tells
        if _described(path).generation != blob.generation:
            raise _replaced(path)
        print(f"warning: {path} arrived with another checksum than the server's; again", file=sys.stderr, flush=True)
        arrived = _fetched(blob, path, target)
    if arrived != expected:
        raise ProcessFailed(
            f"{path} arrived damaged, twice: the CRC-32C of its bytes is {arrived:08x}, the server's {expected:08x}. "
            "Start again from another network or machine; if it stays so, write the object anew."
        )
    if blob.content_encoding == "gzip" and not storage.plain(path).endswith(".gz"):
        packed = target.rename(target.with_name(target.name + ".packed"))
        inflate.gunzip(path, packed, target)
        packed.unlink()


@contextmanager
def local_copy(path: str, *, most: int | None = None) -> Iterator[str]:
    """A path on this machine for what is at `path`: itself, or a copy that goes afterwards. Raises as `copy`."""
    if not storage.is_remote(path):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="download-") as folder:
        target = Path(folder) / Path(storage.plain(path)).name
        copy(path, target, most=most)
        yield str(target)


@contextmanager
def opened(path: str, *, chunk_bytes: int = CHUNK_BYTES) -> Iterator[IO[bytes]]:
    """The object at gs://bucket/name#generation as a file: parts of it are fetched as they are read, unchecked.

    Raises:
        UserError: it does not exist, may not be read, or was replaced.
        ProcessFailed: the store could not be reached.
    """
    blob = _described(path)
    pinned = blob.bucket.blob(blob.name, generation=blob.generation)
    retry = client.reading(path)
    with client.explained(path), pinned.open("rb", chunk_size=chunk_bytes, retry=retry) as file:
        yield file


def _described(path: str) -> "Blob":
    """The object as it is now, or as it was pinned; what is read from it is of this generation."""
    blob = storage.described(path)
    if blob is None:
        raise _gone(path)
    if not blob.crc32c:
        raise UserError(f"{path} has no checksum that we may see: is it encrypted with a key of its own?")
    return blob


def _gone(path: str) -> UserError:
    name, generation = storage.generation_of(path)
    if not generation:
        return UserError(f"{path} does not exist.")
    return UserError(
        f"{name} was replaced or deleted after it was pinned (generation {generation}): start a run that resolves its "
        "data anew, or restore that version."
    )


def _fetched(blob: "Blob", path: str, target: Path) -> int:
    """Writes the bytes as they are stored; returns their CRC-32C, as read back from the file."""
    with open(target, "wb") as file:
        while file.tell() < blob.size:
            data = _chunk(blob, path, file.tell())
            if not data:
                raise ProcessFailed(f"{path} ended after {file.tell():,} of {blob.size:,} bytes.")
            file.write(data)
    return checksum(target)


def _chunk(blob: "Blob", path: str, start: int) -> bytes:
    from google.api_core.exceptions import NotFound, RequestRangeNotSatisfiable

    pinned = blob.bucket.blob(blob.name, generation=blob.generation)
    end = min(start + CHUNK_BYTES, blob.size) - 1
    retry = client.reading(path)
    with client.explained(path):
        try:
            return bytes(pinned.download_as_bytes(start=start, end=end, raw_download=True, checksum=None, retry=retry))
        except (NotFound, RequestRangeNotSatisfiable):
            raise _replaced(path) from None


def _replaced(path: str) -> UserError:
    return UserError(
        f"{path} was replaced or deleted while it was read: give objects that nobody writes to, and start again."
    )


def checksum(path: Path) -> int:
    """CRC-32C of a file's bytes."""
    crc32c = 0
    with open(path, "rb") as file:
        while block := file.read(inflate.BLOCK_BYTES):
            crc32c = google_crc32c.extend(crc32c, block)
    return crc32c
