"""The folder that a preparation may write to: empty, or a prepared dataset of ours that it replaces.

Folders for what a preparation puts aside, below TMPDIR: removed at its end, and after a kill by the next one; and
what is said of a disk that does not take it.
"""

import errno
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from vgp.base.exits import UserError
from vgp.base.storage import files, storage
from vgp.protocol import manifest

#: Marks a folder in which a preparation has begun and not ended.
UNFINISHED = "UNFINISHED"


@dataclass(frozen=True)
class Destination:
    folder: Path

    @classmethod
    def checked(cls, path: str | Path) -> "Destination":
        """Raises UserError before any work if the folder cannot be written, or holds something else."""
        if storage.is_remote(str(path)):
            raise UserError(f"{path}: the output must be a folder, such as /gcs/BUCKET/NAME where it is mounted.")
        folder = Path(path)
        if folder.exists() and not folder.is_dir():
            raise UserError(f"the output {folder} is a file; it must be a folder.")
        _check_writable(folder)
        if folder.is_dir():
            _check_replaceable(folder)
        return cls(folder)

    @contextmanager
    def writing(self, names: Sequence[str] = ()) -> Iterator[Path]:
        """The emptied folder; a failure inside leaves nothing of what was written.

        Args:
            names: Of files as they are that will be written, below the folder.
        """
        created = not self.folder.exists()
        self.folder.mkdir(parents=True, exist_ok=True)
        files.write(self.folder / UNFINISHED, json.dumps([*self._listed(), *names]))
        self._clear()
        try:
            yield self.folder
        except BaseException:
            self._clear()
            (self.folder / UNFINISHED).unlink(missing_ok=True)
            if created:
                self.folder.rmdir()
            raise
        (self.folder / UNFINISHED).unlink()

    def _clear(self) -> None:
        self._remove(self._listed())
        names = (manifest.FILE_NAME, manifest.HIDDEN_NAME)
        for name in names:
            (self.folder / name).unlink(missing_ok=True)
        for name in (*names, UNFINISHED):
            files.remove_scratch(self.folder / name)
        for path in self.folder.glob("*-[0-9][0-9][0-9][0-9][0-9].parquet"):
            path.unlink()

    def _listed(self) -> list[str]:
        """Files as they are, of a preparation before: of one that ended, and of one that did not."""
        names = []
        if (self.folder / manifest.HIDDEN_NAME).is_file():
            names += [source.path for source in manifest.load(self.folder).sources]
        try:
            names += json.loads(files.read(self.folder / UNFINISHED, links=False) or b"[]")
        except FileNotFoundError:
            pass
        except ValueError:
            raise UserError(f"{self.folder}/{UNFINISHED} is not ours: choose an empty or new folder.") from None
        return names

    def _remove(self, names: Sequence[str]) -> None:
        """The files, and the folders that were made for them. A name of a list may not lead out of the folder."""
        home = self.folder.resolve()
        paths = [self.folder / name for name in names]
        inside = [path for path in paths if path.parent.resolve().is_relative_to(home)]
        for path in inside:
            path.unlink(missing_ok=True)
        parents = {parent for path in inside for parent in path.parents if parent.is_relative_to(self.folder)}
        for parent in sorted(parents - {self.folder}, key=lambda parent: -len(parent.parts)):
            with suppress(OSError):  # it holds something else
                parent.rmdir()


def _check_writable(folder: Path) -> None:
    existing = folder
    while not existing.exists():
        existing = existing.parent
    if not existing.is_dir():
        raise UserError(f"the output {folder} cannot be made: {existing} is a file.")
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        raise UserError(f"the output {folder} cannot be written: {error.strerror}.") from None


def _check_replaceable(folder: Path) -> None:
    """Anything may lie in a folder of ours, but a folder with the user's files and none of ours is left alone."""
    held = sorted(path.name for path in folder.iterdir())
    if held and not {manifest.FILE_NAME, manifest.HIDDEN_NAME, UNFINISHED} & set(held):
        raise UserError(
            f"the output {folder} holds other files ({', '.join(held[:3])}): choose an empty or new folder."
        )


PREFIX = "prepare-"
#: The errors of a file system that are the user's to mend.
DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EFBIG}


@contextmanager
def scratch_folder() -> Iterator[Path]:
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
