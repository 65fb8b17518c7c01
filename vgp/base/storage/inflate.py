"""Compressed files, expanded within limits: a few megabytes can be packed to look like nothing."""

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

#: A file may inflate to so many bytes, or to so many times its own size, whichever is more. Tables shrink five- to
#: twentyfold; deflate can reach a thousand, bzip2 a million.
MAX_BYTES = 1 << 30
MAX_RATIO = 200
#: What stays free on the disk, for whoever else needs it.
RESERVE_BYTES = 256 << 20
BLOCK_BYTES = 8 << 20
#: About 80,000 members; zipfile makes an object of each.
MAX_DIRECTORY_BYTES = 4 << 20


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class Unpacked:
    """What a packed file holds, from its start.

    Args:
        name: Of the file, for messages; its ending says how it is packed: .gz, .zst, or .zip with one member.
        file: Read from its start; of a .zip it must be able to seek.
        packed_bytes: The size of the file.
        member: Of a .zip, the ending of its member's name.
    """

    def __init__(self, name: str, file: Any, packed_bytes: int, member: str = ""):
        self.name, self.bytes, self.packed_bytes = name, 0, packed_bytes
        self.most = max(MAX_BYTES, MAX_RATIO * packed_bytes)
        with _damage_named(name):
            self.stream = _opened(name, file, member)

    def read(self, size: int, /) -> bytes:
        """Raises UserError: the file is damaged, or inflates beyond the limits."""
        with _damage_named(self.name):
            block = self.stream.read(size)
        self.bytes += len(block)
        if self.bytes > self.most:
            raise _too_large(self.name, self.most, self.packed_bytes)
        return block


def gunzip(name: str, packed: Path, target: Path) -> None:
    """Expands a gzip file. Raises UserError, about `name`: it is damaged, or inflates beyond the limits."""
    with _damage_named(name), gzip.open(packed, "rb") as stream:
        _copy(name, cast(BinaryIO, stream), packed.stat().st_size, target)


def require_space(folder: Path, bytes_: int, more: int, name: str) -> None:
    """Raises UserError if a file of so many bytes, and more, would leave less than the reserve on the folder's disk.

    A file that is smaller than the reserve may use the last of the disk.
    """
    free = shutil.disk_usage(folder).free
    if bytes_ + more > RESERVE_BYTES and free - more < RESERVE_BYTES:
        raise UserError(
            f"{name} does not fit into {folder}, which has {free >> 20:,} MiB free ({RESERVE_BYTES >> 20} stay so): "
            "free some, or set TMPDIR to another disk."
        )


def _copy(name: str, stream: BinaryIO, packed_bytes: int, target: Path) -> None:
    most = max(MAX_BYTES, MAX_RATIO * packed_bytes)
    with open(target, "wb") as plain:
        while block := stream.read(BLOCK_BYTES):
            if plain.tell() + len(block) > most:
                raise _too_large(name, most, packed_bytes)
            require_space(target.parent, plain.tell(), len(block), name)
            plain.write(block)


def _too_large(name: str, most: int, packed_bytes: int) -> UserError:
    return UserError(
        f"{name} inflates to more than {most >> 20:,} MiB ({packed_bytes:,} bytes packed): if that is right, unpack it "
        "and give the plain file."
    )


def _opened(name: str, file: Any, member: str) -> Readable:
    ending = name.lower().rpartition(".")[2]
    if ending == "gz":
        return cast(Readable, gzip.GzipFile(fileobj=file))
    if ending == "zst":
        import pyarrow as pa

        return cast(Readable, pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd"))
    _check_directory(name, file)
    archive = zipfile.ZipFile(file)
    return cast(Readable, archive.open(_member(name, archive, member)))


def _member(name: str, archive: zipfile.ZipFile, suffix: str) -> str:
    names = archive.namelist()
    members = [member for member in names if member.endswith(suffix) and "__MACOSX" not in member]
    if len(members) != 1:
        shown = ", ".join(ascii(member)[1:-1][:80] for member in names[:10]) + ", ..." * (len(names) > 10)
        raise UserError(f"{name} must hold exactly one {suffix} file; it holds {shown or 'nothing'}.")
    return members[0]


def _check_directory(name: str, file: BinaryIO) -> None:
    """Refuses a directory that would fill the memory, by the sizes that the archive's end states."""
    file.seek(max(0, os.fstat(file.fileno()).st_size - (1 << 16) - 128))
    tail = file.read()
    end = tail.rfind(b"PK\x05\x06")
    size, end_64 = tail[end + 12 : end + 16], end - 76
    if end_64 >= 0 and tail[end - 20 : end - 16] == b"PK\x06\x07":  # of a large archive, a second end before it
        size = tail[end_64 + 40 : end_64 + 48]
    if end >= 0 and int.from_bytes(size, "little") > MAX_DIRECTORY_BYTES:
        raise UserError(f"{name} lists far more than one file: give an archive of the one table.")


@contextmanager
def _damage_named(name: str) -> Iterator[None]:
    """Says what the readers of archives raise: a damaged one makes them fail in any way."""
    try:
        yield
    except UserError:
        raise
    except NotImplementedError as error:
        raise UserError(f"{name} is packed by a method that is not supported here ({error}).") from None
    except OSError as error:
        if error.errno not in (None, errno.EINVAL):  # of the disk; EINVAL comes of a seek to nowhere
            raise
        raise UserError(_damaged(name, error)) from None
    except Exception as error:
        if isinstance(error, RuntimeError) and "encrypted" in str(error):
            raise UserError(f"{name} is encrypted: unpack it with its password and give the plain file.") from None
        raise UserError(_damaged(name, error)) from None


def _damaged(name: str, error: Exception) -> str:
    if "Dictionary mismatch" in str(error):
        return f"{name} was packed with a dictionary, which lies elsewhere: pack it without one."
    return f"{name} is damaged or cut off: {str(error)[:200] or type(error).__name__}. Fetch it again."
