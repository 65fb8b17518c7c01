"""Untrusted local files: opened without blocking, read up to a limit, and replaced atomically."""

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

from vgp.base.exits import UserError

#: Maximum size of a JSON file such as a manifest; parsing takes about twenty times as much memory.
MOST_JSON_BYTES = 64 << 20
#: Bytes per checksum in a part of a checkpoint, so that a rank can verify the blocks that it reads. Part of the
#: checkpoint format.
CHECKSUM_BLOCK = 16 << 20


class Version(NamedTuple):
    """The size and modification time of a file, which change when it is written."""

    bytes: int
    modified_ns: int


def open_file(path: str | Path, *, links: bool = True) -> BufferedReader:
    """Opens a regular file for reading; refuses pipes, which block, and devices, which never end.

    Args:
        links: Whether the name may be a symbolic link, which could lead out of its folder.

    Raises:
        FileNotFoundError: the file does not exist.
        UserError: it is not a regular file, or is unreadable.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | (0 if links else os.O_NOFOLLOW))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UserError(_explain_refusal(path, error, links)) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UserError(f"{path} is a folder, a pipe or a device, not a regular file.")
    return open(descriptor, "rb")


def read(path: str | Path, *, most: int = MOST_JSON_BYTES, links: bool = True) -> bytes:
    """Reads a small file. Raises the errors of `open_file`, and UserError if it is larger than `most` bytes."""
    with open_file(path, links=links) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise UserError(f"{path} is larger than {most >> 20} MiB, the maximum for such a file.")
    return data


@contextmanager
def replacing(path: str | Path, *, durable: bool = False) -> Iterator[Path]:
    """Yields an empty file beside `path` that replaces `path` if the block succeeds, and is deleted if it fails.

    A reader of `path` sees the old or the new content. The permissions of an existing file stay.

    Args:
        durable: Whether to sync to the disk, so that a power loss leaves the old or the new content.
    """
    path = Path(path)
    rights = _read_permissions(path)
    descriptor, name = tempfile.mkstemp(prefix=scratch_prefix(path.name), suffix=SCRATCH_SUFFIX, dir=path.parent)
    os.close(descriptor)
    scratch = Path(name)
    try:
        yield scratch
        if durable:
            _sync(scratch)
        scratch.chmod(rights)
        os.replace(scratch, path)
        if durable:
            _sync(path.parent)
    finally:
        scratch.unlink(missing_ok=True)


#: Suffix of unfinished files, which a killed process leaves behind.
SCRATCH_SUFFIX = ".partial"


def scratch_prefix(name: str) -> str:
    """Returns the prefix of the unfinished files that will replace `name`."""
    return f".{name[:40]}."


def remove_scratch(path: Path) -> None:
    """Deletes the unfinished files that killed processes left beside `path`. Requires that there is no other writer."""
    prefix = scratch_prefix(path.name)
    for name in os.listdir(path.parent):
        if name.startswith(prefix) and name.endswith(SCRATCH_SUFFIX):
            (path.parent / name).unlink(missing_ok=True)


def write(path: str | Path, text: str | bytes, *, durable: bool = False) -> None:
    """Writes or replaces a small file atomically, as `replacing` does."""
    with replacing(path, durable=durable) as scratch:
        scratch.write_bytes(text.encode() if isinstance(text, str) else text)


def require_writable(folder: Path) -> None:
    """Raises OSError if files cannot be created and deleted in the folder."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".writable."):
        pass


def _read_permissions(path: Path) -> int:
    """Returns the permissions of the file, or the default without one; raises OSError if it is not a regular file."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return 0o644
    if stat.S_ISLNK(mode):
        return 0o644
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return stat.S_IMODE(mode)


def _sync(path: Path) -> None:
    """Syncs a file, or the entries of a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def version(file: BufferedReader) -> Version:
    status = os.fstat(file.fileno())
    return Version(status.st_size, status.st_mtime_ns)


def open_unchanged(path: str | Path, known: Version, name: str) -> BufferedReader:
    """Opens a file if it still has the version `known`; otherwise raises UserError about `name`."""
    try:
        file = open_file(path)
    except FileNotFoundError:
        raise UserError(f"{name} was removed while it was read.") from None
    if version(file) != known:
        file.close()
        raise UserError(f"{name} changed while it was read: use a copy that does not change, and retry.")
    return file


def _explain_refusal(path: str | Path, error: OSError, links: bool) -> str:
    if error.errno == errno.ELOOP and not links:
        return f"{path} is a symbolic link, which could lead out of its folder; put the file itself there."
    if error.errno == errno.ENXIO:
        return f"{path} is a socket or a device, not a regular file."
    return f"{path} cannot be read: {error.strerror}."
