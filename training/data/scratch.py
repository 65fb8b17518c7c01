"""Folders for what a preparation puts aside, below TMPDIR: removed at its end, and after a kill by the next one."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

PREFIX = "prepare-"


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
