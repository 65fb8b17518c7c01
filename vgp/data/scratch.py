"""Folders for what a preparation puts aside, below TMPDIR: removed at its end, and after a kill by the next one; and
what is said of a disk that does not take it."""

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from vgp.base.exits import UserError

PREFIX = "prepare-"
#: The errors of a file system that are the user's to mend.
DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EFBIG}


@contextmanager
def folder() -> Iterator[Path]:
    """An empty folder that is this process's as long as it holds the lock beside it."""
    home = Path(tempfile.gettempdir())
    _remove_left(home)
    with tempfile.NamedTemporaryFile(prefix=PREFIX, suffix=".lock", dir=home) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = Path(lock.name).with_suffix("")
        path.mkdir(mode=0o700)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)


def _remove_left(home: Path) -> None:
    """Removes the folders of processes that are no more."""
    for path in home.glob(f"{PREFIX}*.lock"):
        with suppress(OSError), open(path, "r+b") as lock:
            if path.lstat().st_uid == os.getuid() and _free(lock):
                shutil.rmtree(path.with_suffix(""))
                path.unlink(missing_ok=True)


def _free(lock: IO[bytes]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    # A process that has made the file, and not locked it yet, has no folder yet: a file without one is left alone.
    return Path(lock.name).with_suffix("").is_dir()


@contextmanager
def disk_errors_named() -> Iterator[None]:
    """Raises UserError with the fix for an error of a disk."""
    try:
        yield
    except OSError as error:
        if error.errno not in DISK_ERRORS:
            raise
        fix = ""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            fix = f" Free some, or set TMPDIR (now {tempfile.gettempdir()}) and the output to other disks."
        where = error.filename or "the scratch folder, or the output"
        raise UserError(f"{where}: {os.strerror(error.errno)}.{fix}") from None
