"""The files of a model on this machine: those of a folder as they are, those of a bucket as checked copies."""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from vgp.base.exits import UserError
from vgp.base.storage import download, files, storage
from vgp.data import bundle

#: What a model of ours needs to answer.
FILES = (bundle.CARD, bundle.WEIGHTS)


@contextmanager
def local(model: str, sha256: Mapping[str, str]) -> Iterator[Path]:
    """The folder of the model here; a copy is gone afterwards.

    Each object of a bucket is checked by the server's CRC-32C, and every file by the checksum that is expected of it.

    Raises:
        UserError: a file is not there, is larger than it may be, or is another one than is expected.
        ProcessFailed: the bucket could not be reached.
    """
    if not storage.is_remote(model):
        _check(Path(model), sha256)
        yield Path(model)
        return
    with TemporaryDirectory(prefix="serve-") as folder:
        for name in FILES:
            most = files.MOST_JSON_BYTES if name == bundle.CARD else None
            download.copy(f"{model}/{name}", Path(folder) / name, most=most)
        _check(Path(folder), sha256, model)
        yield Path(folder)


def digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal. Raises UserError if there is none."""
    try:
        with files.open_file(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise UserError(f"{path} does not exist: the folder holds no finished model.") from None


def _check(folder: Path, sha256: Mapping[str, str], known_as: str = "") -> None:
    for name, expected in sha256.items():
        if (found := digest(folder / name)) != expected:
            raise UserError(
                f"{known_as or folder}/{name} is not the file that was registered; its SHA-256 begins with "
                f"{found[:12]}, not with {expected[:12]}. Restore the file, or take another version."
            )
