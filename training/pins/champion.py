"""The pins of the champion: the files of its folder that evaluation reads, as they are now."""

import os
from pathlib import Path

from training.bundle import CARD, WEIGHTS
from training.errors import UserError
from training.pins.documents import ChampionPins
from training.storage import finding, storage
from training.storage.pinned import PinnedFile, PinnedObject


def pin(folder: str, epoch: int, *, name: str = "champion") -> ChampionPins:
    """The pins of the model in a folder, gs:// or on this machine; `name` is the option that gave it.

    Raises:
        UserError: the folder holds no finished model.
    """
    folder = storage.uri(folder)
    if storage.is_remote(folder):
        return ChampionPins(
            folder=folder, objects=tuple(_object(name, folder, file) for file in (CARD, WEIGHTS)), epoch=epoch
        )
    folder = os.path.abspath(os.path.expanduser(folder))
    return ChampionPins(folder=folder, files=tuple(_file(name, folder, file) for file in (CARD, WEIGHTS)), epoch=epoch)


def check(folder: str) -> None:
    """Raises UserError if a folder on this machine holds no finished model."""
    if folder and not storage.is_remote(storage.uri(folder)):
        pin(folder, 0)


def _object(option: str, folder: str, name: str) -> PinnedObject:
    blob = storage.described(f"{folder}/{name}")
    if blob is None:
        raise _no_model(option, folder, name)
    return PinnedObject(name=f"{folder}/{name}", generation=blob.generation, bytes=blob.size, title=name)


def _file(option: str, folder: str, name: str) -> PinnedFile:
    path = Path(folder) / name
    if not path.is_file():
        raise _no_model(option, folder, name)
    file = finding.described(str(path))
    assert file.version
    return PinnedFile(path=file.path, bytes=file.bytes, modified_ns=file.version.modified_ns, title=name)


def _no_model(option: str, folder: str, name: str) -> UserError:
    return UserError(f"{option} = {folder}: there is no {name} in that folder, so it is no model.")
