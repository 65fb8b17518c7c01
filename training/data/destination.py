"""The folder that a preparation may write to: empty, or a prepared dataset of ours that it replaces."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from training.data import manifest
from training.errors import UserError
from training.storage import storage

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
    def writing(self) -> Iterator[Path]:
        """The emptied folder; a failure inside leaves nothing of what was written."""
        created = not self.folder.exists()
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / UNFINISHED).touch()
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
        (self.folder / manifest.FILE_NAME).unlink(missing_ok=True)
        for pattern in ("*-[0-9][0-9][0-9][0-9][0-9].parquet", manifest.FILE_NAME + ".partial"):
            for path in self.folder.glob(pattern):
                path.unlink()


def _check_writable(folder: Path) -> None:
    existing = folder
    while not existing.exists():
        existing = existing.parent
    try:
        if not os.access(existing, os.W_OK | os.X_OK):
            raise PermissionError
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        raise UserError(f"the output {folder} cannot be written: {error.strerror or 'no permission'}.") from None


def _check_replaceable(folder: Path) -> None:
    """Anything may lie in a folder of ours, but a folder with the user's files and none of ours is left alone."""
    held = sorted(path.name for path in folder.iterdir())
    if held and manifest.FILE_NAME not in held and UNFINISHED not in held:
        raise UserError(
            f"the output {folder} holds other files ({', '.join(held[:3])}): choose an empty or new folder."
        )
