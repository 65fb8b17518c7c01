"""A record on a disk: changed under a lock that dies with its process, and replaced by one rename.

Kept safe are threads and processes of one machine, and those of several machines on a network file system whose locks
reach across, as those of NFS 4 do.
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

#: The folder beside the record that the files of the versions lie in.
VERSIONS = "versions"
#: For so long a change waits for others, each of which takes some milliseconds.
LOCK_DEADLINE_S = 120.0
_PAUSE_S = 0.02
#: What a file system says that knows no locks.
_UNKNOWN = (errno.ENOTSUP, errno.ENOSYS, errno.ENOLCK, errno.EINVAL)


class DiskRecord:
    """The file at `path`."""

    def __init__(self, path: str):
        self.path = Path(path)

    def read(self) -> bytes | None:
        """None if there is no file: it is whole whenever it is there."""
        try:
            return files.read(self.path, most=MOST_RECORD_BYTES, links=False)
        except FileNotFoundError:
            return None

    def update(self, function: Callable[[bytes | None], bytes | None]) -> None:
        """Puts what the function makes of the file's bytes in their place; None = leaves them. Calls it once."""
        with refused(self.path), locked(self.path.parent / "registry.lock", LOCK_DEADLINE_S):
            if (data := function(self.read())) is not None:
                files.remove_scratch(self.path)
                files.write(self.path, data, durable=True)

    def require_writable(self) -> None:
        """Raises UserError if the file cannot be changed, or no version can be put beside it."""
        with refused(self.path), locked(self.path.parent / "registry.lock", LOCK_DEADLINE_S):
            for path in (self.path, self.path.parent / VERSIONS / "version"):
                path.parent.mkdir(exist_ok=True)
                files.require_writable(path.parent)


@contextmanager
def locked(path: Path, deadline_s: float) -> Iterator[None]:
    """Holds the lock of that file while the block runs; a lock that a kill left behind is none.

    Raises:
        ProcessFailed: somebody else held it all the time.
        UserError: no lock is to be had there.
        OSError: the file cannot be made.
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
        if error.errno not in _UNKNOWN:
            raise
        raise UserError(
            f"{path.parent} is on a file system without locks ({error.strerror}), so two runs could overwrite each "
            "other's changes: keep the registry on a local disk or in a bucket, gs://."
        ) from None


@contextmanager
def refused(path: Path) -> Iterator[None]:
    """Says that something below a registry cannot be written, as a request that is wrong."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"the registry cannot be written at {error.filename or path}: {error.strerror}. Have it made writable for "
            "whoever runs this, or name another registry: a folder, or gs://BUCKET/FOLDER."
        ) from None
