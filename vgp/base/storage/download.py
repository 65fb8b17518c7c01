"""Downloads of objects: one version of each, verified by the server's checksum."""

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

#: Size of a request, so that a retry does not fetch the whole object again.
CHUNK_BYTES = 32 << 20


def copy(path: str, target: Path, *, most: int | None = None) -> None:
    """Writes the object at gs://bucket/name or gs://bucket/name#generation to a file, unpacked if it is stored with
    Content-Encoding: gzip.

    Args:
        most: Maximum size in bytes.

    Raises:
        UserError: the object does not exist, is unreadable, is larger than `most`, or was replaced meanwhile.
        ProcessFailed: the store could not be reached, or the checksum was wrong twice.
    """
    blob = _find_object(path)
    if most is not None and blob.size > most:
        raise UserError(f"{path} is larger than {most >> 20} MiB, the maximum for such an object.")
    inflate.require_space(target.parent, 0, blob.size, path)
    expected = int.from_bytes(base64.b64decode(blob.crc32c or ""), "big")
    arrived = _fetch(blob, path, target)
    if arrived != expected:  # a second download shows whether the object itself is damaged
        if _find_object(path).generation != blob.generation:
            raise _explain_replaced(path)
        print(f"warning: {path} arrived damaged (wrong checksum); downloading again", file=sys.stderr, flush=True)
        arrived = _fetch(blob, path, target)
    if arrived != expected:
        raise ProcessFailed(
            f"{path} arrived damaged, twice: the CRC-32C of its bytes is {arrived:08x}, the server's {expected:08x}. "
            "Start again from another network or machine; if the error persists, upload the object again."
        )
    if blob.content_encoding == "gzip" and not storage.plain(path).endswith(".gz"):
        packed = target.rename(target.with_name(target.name + ".packed"))
        inflate.gunzip(path, packed, target)
        packed.unlink()


@contextmanager
def local_copy(path: str, *, most: int | None = None) -> Iterator[str]:
    """Yields a local path for `path`: itself, or a temporary copy. Raises the errors of `copy`."""
    if not storage.is_remote(path):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="download-") as folder:
        target = Path(folder) / Path(storage.plain(path)).name
        copy(path, target, most=most)
        yield str(target)


@contextmanager
def open_object(path: str, *, chunk_bytes: int = CHUNK_BYTES) -> Iterator[IO[bytes]]:
    """Opens the object at gs://bucket/name#generation as a file whose chunks are fetched when read, without checksum.

    Raises:
        UserError: the object does not exist, is unreadable, or was replaced.
        ProcessFailed: the store could not be reached.
    """
    blob = _find_object(path)
    pinned = blob.bucket.blob(blob.name, generation=blob.generation)
    retry = client.read_retry(path)
    with client.explain_errors(path), pinned.open("rb", chunk_size=chunk_bytes, retry=retry) as file:
        yield file


def _find_object(path: str) -> "Blob":
    """Returns the current or pinned object, whose generation is read."""
    blob = storage.get_blob(path)
    if blob is None:
        raise _explain_missing(path)
    if not blob.crc32c:
        raise UserError(f"{path} has no readable checksum: is it encrypted with a customer-supplied key?")
    return blob


def _explain_missing(path: str) -> UserError:
    name, generation = storage.generation_of(path)
    if not generation:
        return UserError(f"{path} does not exist.")
    return UserError(
        f"{name} was replaced or deleted after it was pinned (generation {generation}): start a new run, which pins "
        "the data again, or restore that version."
    )


def _fetch(blob: "Blob", path: str, target: Path) -> int:
    """Writes the stored bytes to a file; returns the CRC-32C of the file."""
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
    retry = client.read_retry(path)
    with client.explain_errors(path):
        try:
            return bytes(pinned.download_as_bytes(start=start, end=end, raw_download=True, checksum=None, retry=retry))
        except (NotFound, RequestRangeNotSatisfiable):
            raise _explain_replaced(path) from None


def _explain_replaced(path: str) -> UserError:
    return UserError(f"{path} was replaced or deleted while it was read: use objects that do not change, and retry.")


def checksum(path: Path) -> int:
    """Returns the CRC-32C of a file."""
    crc32c = 0
    with open(path, "rb") as file:
        while block := file.read(inflate.BLOCK_BYTES):
            crc32c = google_crc32c.extend(crc32c, block)
    return crc32c
