"""The output folder of a preparation, its scratch folder below TMPDIR, and messages for full or read-only disks.

The output folder must be empty or hold a prepared dataset, which is replaced. A preparation removes its scratch folder
at its end; after a kill the next preparation removes it.
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

#: The file that marks a folder in which a preparation has begun and not ended.
UNFINISHED = "UNFINISHED"


@dataclass(frozen=True)
class Destination:
    folder: Path

    @classmethod
    def checked(cls, path: str | Path) -> "Destination":
        """Returns the destination. Raises UserError if the folder cannot be written or holds other files."""
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
        """Empties the folder and yields it; if the block fails, removes all that it wrote.

        Args:
            names: Paths of copied input files that the block will write, below the folder.
        """
        created = not self.folder.exists()
        self.folder.mkdir(parents=True, exist_ok=True)
        files.write(self.folder / UNFINISHED, json.dumps([*self._list_copies(), *names]))
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
        self._remove(self._list_copies())
        names = (manifest.FILE_NAME, manifest.HIDDEN_NAME)
        for name in names:
            (self.folder / name).unlink(missing_ok=True)
        for name in (*names, UNFINISHED):
            files.remove_scratch(self.folder / name)
        for path in self.folder.glob("*-[0-9][0-9][0-9][0-9][0-9].parquet"):
            path.unlink()

    def _list_copies(self) -> list[str]:
        """Returns the copied input files of an earlier preparation, finished or not."""
        names = []
        if (self.folder / manifest.HIDDEN_NAME).is_file():
            names += [source.path for source in manifest.load(self.folder).sources]
        try:
            names += json.loads(files.read(self.folder / UNFINISHED, links=False) or b"[]")
        except FileNotFoundError:
            pass
        except ValueError:
            raise UserError(
                f"{self.folder}/{UNFINISHED} was not written by a preparation: choose an empty or new folder."
            ) from None
        return names

    def _remove(self, names: Sequence[str]) -> None:
        """Removes the files and their empty parent folders; ignores names that lead out of the folder."""
        home = self.folder.resolve()
        paths = [self.folder / name for name in names]
        inside = [path for path in paths if path.parent.resolve().is_relative_to(home)]
        for path in inside:
            path.unlink(missing_ok=True)
        parents = {parent for path in inside for parent in path.parents if parent.is_relative_to(self.folder)}
        for parent in sorted(parents - {self.folder}, key=lambda parent: -len(parent.parts)):
            with suppress(OSError):  # not empty
                parent.rmdir()


def _check_writable(folder: Path) -> None:
    existing = folder
    while not existing.exists():
        existing = existing.parent
    if not existing.is_dir():
        raise UserError(f"the output {folder} cannot be created: {existing} is a file.")
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        raise UserError(f"the output {folder} cannot be written: {error.strerror}.") from None


def _check_replaceable(folder: Path) -> None:
    """Raises UserError if the folder holds files and neither a dataset nor an unfinished preparation."""
    names = sorted(path.name for path in folder.iterdir())
    if names and not {manifest.FILE_NAME, manifest.HIDDEN_NAME, UNFINISHED} & set(names):
        raise UserError(
            f"the output {folder} holds other files ({', '.join(names[:3])}): choose an empty or new folder."
        )


PREFIX = "prepare-"
#: The errors of a file system that the user can fix.
DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EFBIG}


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yields an empty folder that belongs to this process as long as it holds the lock file beside the folder."""
    home = Path(tempfile.gettempdir())
    _remove_leftovers(home)
    with tempfile.NamedTemporaryFile(prefix=PREFIX, suffix=".lock", dir=home) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = Path(lock.name).with_suffix("")
        path.mkdir(mode=0o700)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)


def _remove_leftovers(home: Path) -> None:
    """Removes the scratch folders of dead processes of this user."""
    for path in home.glob(f"{PREFIX}*.lock"):
        with suppress(OSError), open(path, "r+b") as lock:
            if path.lstat().st_uid == os.getuid() and _is_abandoned(lock):
                shutil.rmtree(path.with_suffix(""))
                path.unlink(missing_ok=True)


def _is_abandoned(lock: IO[bytes]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    # A lock file without a folder belongs to a process that has created the file and not locked it yet.
    return Path(lock.name).with_suffix("").is_dir()


@contextmanager
def disk_errors_named() -> Iterator[None]:
    """Turns an OSError of a disk inside the block into a UserError with the fix."""
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
