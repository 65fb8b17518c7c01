"""The pins of the champion: the files of its folder that evaluation reads, as they are now."""

import os
from pathlib import Path

from vgp.base.exits import UserError
from vgp.base.storage import finding, storage
from vgp.base.storage.pinned import PinnedFile, PinnedObject
from vgp.data.bundle import CARD, WEIGHTS
from vgp.evaluation.script import collected
from vgp.evaluation.script.collected import PREDICTIONS
from vgp.protocol.pins import ChampionPins


def pin(folder: str, epoch: int, *, name: str = "champion") -> ChampionPins:
    """The pins of the model in a folder, gs:// or on this machine; `name` is the option that gave it.

    Of a script's folder its predictions are pinned: they are what it is compared by.

    Raises:
        UserError: the folder holds no finished model, nor the predictions of a script.
    """
    folder = storage.uri(folder)
    names = _names(folder)
    if storage.is_remote(folder):
        return ChampionPins(folder=folder, objects=tuple(_object(name, folder, file) for file in names), epoch=epoch)
    folder = os.path.abspath(os.path.expanduser(folder))
    return ChampionPins(folder=folder, files=tuple(_file(name, folder, file) for file in names), epoch=epoch)


def _names(folder: str) -> tuple[str, ...]:
    """The files that evaluation reads."""
    folder = folder if storage.is_remote(folder) else os.path.expanduser(folder)
    if not collected.is_script(folder):
        return CARD, WEIGHTS
    return (PREDICTIONS, collected.FILE_NAME) if collected.file(folder, collected.FILE_NAME) else (PREDICTIONS,)


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
    if name == PREDICTIONS:
        return UserError(
            f"{option} = {folder}: a script left this folder without {name}, so nothing tells how good that model is."
        )
    return UserError(f"{option} = {folder}: there is no {name} in that folder, so it is no model.")
