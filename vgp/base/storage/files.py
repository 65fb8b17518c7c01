"""Files that somebody else may have made: opened without waiting, read up to a limit, and replaced whole."""

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

#: What counts or describes, such as a manifest, is smaller; parsed, it takes about twenty times as much memory.
MOST_JSON_BYTES = 64 << 20
#: Bytes of a checkpoint's part that have a checksum of their own, so that a rank can read what it needs and verify that
#: alone. Part of the format of checkpoints.
CHECKSUM_BLOCK = 16 << 20


class Version(NamedTuple):
    """What changes when a file is written to."""

    bytes: int
    modified_ns: int


def open_file(path: str | Path, *, links: bool = True) -> BufferedReader:
    """Opens a regular file for reading: a pipe would be waited for, and a device never ends.

    Args:
        links: Whether the name may be a symbolic link, which could lead out of its folder.

    Raises:
        FileNotFoundError: there is nothing of that name.
        UserError: it is something else than a regular file, or may not be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | (0 if links else os.O_NOFOLLOW))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UserError(_refusal(path, error, links)) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UserError(f"{path} is no regular file, but a folder, a pipe or a device.")
    return open(descriptor, "rb")


def read(path: str | Path, *, most: int = MOST_JSON_BYTES, links: bool = True) -> bytes:
    """The bytes of a small file. Raises as `open_file`, and UserError if it is larger than `most`."""
    with open_file(path, links=links) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise UserError(f"{path} is larger than {most >> 20} MiB, the most that such a file may have.")
    return data


@contextmanager
def replacing(path: str | Path, *, durable: bool = False) -> Iterator[Path]:
    """Yields an empty file beside `path`, which takes the place of `path` if the block succeeds and goes if it fails.

    A reader of `path` sees the old content or the new. The file has the rights of the old one, or those of a new one.

    Args:
        durable: Whether the new content is on the disk at the end, so that a loss of power leaves the old or the new.
    """
    path = Path(path)
    rights = _rights(path)
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


#: How the name of a file ends that has not taken its place yet; a kill leaves it.
SCRATCH_SUFFIX = ".partial"


def scratch_prefix(name: str) -> str:
    """Returns how the name of a file begins that will take the place of `name`."""
    return f".{name[:40]}."


def remove_scratch(path: Path) -> None:
    """Deletes the files that a kill left beside `path` before they took its place. No other writer may be there."""
    prefix = scratch_prefix(path.name)
    for name in os.listdir(path.parent):
        if name.startswith(prefix) and name.endswith(SCRATCH_SUFFIX):
            (path.parent / name).unlink(missing_ok=True)


def write(path: str | Path, text: str | bytes, *, durable: bool = False) -> None:
    """Writes a small file in place of what is there: whole, or not at all, as `replacing` does."""
    with replacing(path, durable=durable) as scratch:
        scratch.write_bytes(text.encode() if isinstance(text, str) else text)


def require_writable(folder: Path) -> None:
    """Raises OSError if no file can be made and deleted in the folder."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".writable."):
        pass


def _rights(path: Path) -> int:
    """Returns the rights of the file, or those of a new one; raises OSError if it is no regular file."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return 0o644
    if stat.S_ISLNK(mode):
        return 0o644
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return stat.S_IMODE(mode)


def _sync(path: Path) -> None:
    """Puts the bytes of a file, or the names in a folder, on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def version(file: BufferedReader) -> Version:
    status = os.fstat(file.fileno())
    return Version(status.st_size, status.st_mtime_ns)


def open_unchanged(path: str | Path, known: Version, name: str) -> BufferedReader:
    """Opens a file that was looked at before. Raises UserError, about `name`, if it is another by now."""
    try:
        file = open_file(path)
    except FileNotFoundError:
        raise UserError(f"{name} was removed while it was read.") from None
    if version(file) != known:
        file.close()
        raise UserError(f"{name} changed while it was read: give a copy that nobody writes to, and start again.")
    return file


def _refusal(path: str | Path, error: OSError, links: bool) -> str:
    if error.errno == errno.ELOOP and not links:
        return f"{path} is a symbolic link, which could lead out of its folder; put the file there."
    if error.errno == errno.ENXIO:
        return f"{path} is no regular file, but a socket or a device."
    return f"{path} cannot be read: {error.strerror}."
