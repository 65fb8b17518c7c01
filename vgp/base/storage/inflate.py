"""Decompression within limits, against archives that expand to far more than their size."""

import errno
import gzip
import os
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from vgp.base.exits import UserError

#: Maximum inflated bytes, and maximum ratio to the packed size; the larger of the two counts. Tables compress five- to
#: twentyfold; deflate can reach a factor of a thousand, bzip2 a million.
MAX_BYTES = 1 << 30
MAX_RATIO = 200
#: Bytes that stay free on the disk.
RESERVE_BYTES = 256 << 20
BLOCK_BYTES = 8 << 20
#: About 80,000 members, because zipfile creates an object for each.
MAX_DIRECTORY_BYTES = 4 << 20


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class Unpacked:
    """A stream of the unpacked content of a file.

    Args:
        name: Name of the file, for messages; its suffix is the format: .gz, .zst, or .zip with one member.
        file: Open at its start; seekable for a .zip.
        packed_bytes: The size of the file.
        member: Suffix of the member's name in a .zip.
    """

    def __init__(self, name: str, file: Any, packed_bytes: int, member: str = ""):
        self.name, self.bytes, self.packed_bytes = name, 0, packed_bytes
        self.most = max(MAX_BYTES, MAX_RATIO * packed_bytes)
        with _convert_damage_errors(name):
            self.stream = _open(name, file, member)

    def read(self, size: int, /) -> bytes:
        """Reads bytes. Raises UserError if the file is damaged or inflates beyond the limits."""
        with _convert_damage_errors(self.name):
            block = self.stream.read(size)
        self.bytes += len(block)
        if self.bytes > self.most:
            raise _too_large_error(self.name, self.most, self.packed_bytes)
        return block


def gunzip(name: str, packed: Path, target: Path) -> None:
    """Expands a gzip file. Raises UserError, about `name`, if it is damaged or inflates beyond the limits."""
    with _convert_damage_errors(name), gzip.open(packed, "rb") as stream:
        _copy(name, cast(BinaryIO, stream), packed.stat().st_size, target)


def require_space(folder: Path, bytes_: int, more: int, name: str) -> None:
    """Raises UserError if a file of `bytes_`, growing by `more`, would leave less than the reserve on the folder's
    disk.

    A file that is smaller than the reserve may use the reserve.
    """
    free = shutil.disk_usage(folder).free
    if bytes_ + more > RESERVE_BYTES and free - more < RESERVE_BYTES:
        raise UserError(
            f"{name} does not fit into {folder}, which has {free >> 20:,} MiB free ({RESERVE_BYTES >> 20} are "
            "reserved): free some space, or set TMPDIR to another disk."
        )


def _copy(name: str, stream: BinaryIO, packed_bytes: int, target: Path) -> None:
    most = max(MAX_BYTES, MAX_RATIO * packed_bytes)
    with open(target, "wb") as plain:
        while block := stream.read(BLOCK_BYTES):
            if plain.tell() + len(block) > most:
                raise _too_large_error(name, most, packed_bytes)
            require_space(target.parent, plain.tell(), len(block), name)
            plain.write(block)


def _too_large_error(name: str, most: int, packed_bytes: int) -> UserError:
    return UserError(
        f"{name} inflates to more than {most >> 20:,} MiB ({packed_bytes:,} bytes packed): if that is correct, unpack "
        "it and use the plain file."
    )


def _open(name: str, file: Any, member: str) -> Readable:
    ending = name.lower().rpartition(".")[2]
    if ending == "gz":
        return cast(Readable, gzip.GzipFile(fileobj=file))
    if ending == "zst":
        import pyarrow as pa

        return cast(Readable, pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd"))
    _check_directory(name, file)
    archive = zipfile.ZipFile(file)
    return cast(Readable, archive.open(_choose_member(name, archive, member)))


def _choose_member(name: str, archive: zipfile.ZipFile, suffix: str) -> str:
    names = archive.namelist()
    members = [member for member in names if member.endswith(suffix) and "__MACOSX" not in member]
    if len(members) != 1:
        shown = ", ".join(ascii(member)[1:-1][:80] for member in names[:10]) + ", ..." * (len(names) > 10)
        raise UserError(f"{name} must hold exactly one {suffix} file; it holds {shown or 'nothing'}.")
    return members[0]


def _check_directory(name: str, file: BinaryIO) -> None:
    """Refuses an archive whose directory would fill the memory, by the size in the archive's end."""
    file.seek(max(0, os.fstat(file.fileno()).st_size - (1 << 16) - 128))
    tail = file.read()
    end = tail.rfind(b"PK\x05\x06")
    size, end_64 = tail[end + 12 : end + 16], end - 76
    if end_64 >= 0 and tail[end - 20 : end - 16] == b"PK\x06\x07":  # a large archive has a second end record before it
        size = tail[end_64 + 40 : end_64 + 48]
    if end >= 0 and int.from_bytes(size, "little") > MAX_DIRECTORY_BYTES:
        raise UserError(f"{name} lists far more than one file: use an archive of one table.")


@contextmanager
def _convert_damage_errors(name: str) -> Iterator[None]:
    """Raises the errors of archive readers as UserError, because damaged archives make them fail in any way."""
    try:
        yield
    except UserError:
        raise
    except NotImplementedError as error:
        raise UserError(f"{name} uses an unsupported compression method ({error}).") from None
    except OSError as error:
        if error.errno not in (None, errno.EINVAL):  # an error of the disk; EINVAL is a seek to an invalid offset
            raise
        raise UserError(_describe_damage(name, error)) from None
    except Exception as error:
        if isinstance(error, RuntimeError) and "encrypted" in str(error):
            raise UserError(f"{name} is encrypted: unpack it with its password and use the plain file.") from None
        raise UserError(_describe_damage(name, error)) from None


def _describe_damage(name: str, error: Exception) -> str:
    if "Dictionary mismatch" in str(error):
        return f"{name} was packed with an external dictionary: pack it without one."
    return f"{name} is damaged or truncated: {str(error)[:200] or type(error).__name__}. Fetch it again."
