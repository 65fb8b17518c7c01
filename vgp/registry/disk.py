"""A record on a disk: changed under a file lock, which ends with its process, and replaced by an atomic rename.

This is safe for threads and processes of one machine, and for several machines on a network file system that shares
locks, such as NFS 4.
"""

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from vgp.base.exits import ProcessFailed, UserError
from vgp.base.retry import Pauses, retry
from vgp.base.storage import files
from vgp.registry.documents import MOST_RECORD_BYTES

#: The folder of the versions' files, in the folder of the record.
VERSIONS = "versions"
#: How long a change waits for the lock, seconds; a change takes milliseconds.
LOCK_DEADLINE_S = 120.0
_PAUSE_S = 0.02
#: Errors of a file system without locks.
_NO_LOCKS = (errno.ENOTSUP, errno.ENOSYS, errno.ENOLCK, errno.EINVAL)


class DiskRecord:
    """A record in the file at `path`."""

    def __init__(self, path: str):
        self.path = Path(path)

    def read(self) -> bytes | None:
        """Returns the record's bytes, or None; the file is never half written."""
        try:
            return files.read(self.path, most=MOST_RECORD_BYTES, links=False)
        except FileNotFoundError:
            return None

    def update(self, function: Callable[[bytes | None], bytes | None]) -> None:
        """Replaces the bytes by the function's result (None = unchanged). Calls the function once."""
        with explain_write_errors(self.path), hold_lock(self.path.parent / "registry.lock", LOCK_DEADLINE_S):
            if (data := function(self.read())) is not None:
                files.remove_scratch(self.path)
                files.write(self.path, data, durable=True)

    def require_writable(self) -> None:
        """Raises UserError if the record or a version beside it cannot be written."""
        with explain_write_errors(self.path), hold_lock(self.path.parent / "registry.lock", LOCK_DEADLINE_S):
            for path in (self.path, self.path.parent / VERSIONS / "version"):
                path.parent.mkdir(exist_ok=True)
                files.require_writable(path.parent)


@contextmanager
def hold_lock(path: Path, deadline_s: float) -> Iterator[None]:
    """Holds the file's lock while the block runs; the lock ends with its process.

    Raises:
        ProcessFailed: another process held the lock until the deadline.
        UserError: the file system has no locks.
        OSError: the file cannot be created.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        _lock(descriptor, path, deadline_s)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: Path, deadline_s: float) -> None:
    pauses = Pauses(_PAUSE_S, _PAUSE_S, deadline_s=deadline_s, jitter=True)
    try:
        retry(
            lambda: fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB), pauses,
            is_transient=lambda error: isinstance(error, BlockingIOError),
        )  # fmt: skip
    except BlockingIOError:
        raise ProcessFailed(
            f"{path} was held by another process for {deadline_s:.0f} s: `fuser {path}` names it."
        ) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        raise UserError(
            f"{path.parent} is on a file system without locks ({error.strerror}), so two runs could overwrite each "
            "other's changes. Keep the registry on a local disk or in a bucket (gs://)."
        ) from None


@contextmanager
def explain_write_errors(path: Path) -> Iterator[None]:
    """Turns an OSError of the block into a UserError: the registry cannot be written."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"the registry cannot be written at {error.filename or path}: {error.strerror}. Make it writable "
            "for this user, or use another registry: a folder, or gs://BUCKET/FOLDER."
        ) from None
