"""The pins of the weights that a run begins with (`warm_start`): their files, as they are now."""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from training import weights
from training.errors import UserError
from training.pins import store
from training.pins.documents import ChampionPins, DataPins
from training.storage import storage
from training.storage.pinned import PinnedFile, PinnedObject
from training.storage.storage import File


def asked(training_options: Mapping[str, Any] | None) -> str:
    """The setting `warm_start` among those of a run; "" = none."""
    return str((training_options or {}).get("warm_start") or "")


def pin(source: str) -> ChampionPins:
    """The pins of what `warm_start` names, the same in every cache epoch: no step is a function of them alone.

    Raises:
        UserError: there are no weights that can be read.
    """
    there = [storage.versioned(file) for file in weights.find(source)]
    return ChampionPins(
        folder=storage.uri(source),
        objects=tuple(_object(file) for file in there if file.generation),
        files=tuple(_file(file) for file in there if not file.generation),
        epoch=0,
    )


def of_run(document: DataPins | None, source: str, uri: str) -> str:
    """The URI of the pins of the weights at `source` in a run whose data has these pins; "" = they are not pinned.

    Raises:
        UserError: the run was to begin with others.
    """
    if document is None or not source:
        return ""
    pinned = store.load(document.weights, ChampionPins).folder if document.weights else ""
    if pinned != storage.uri(source):
        raise UserError(
            f"warm_start={source}, and {uri} holds the pins of a run with {pinned or 'none'}: start a run that "
            "resolves them anew."
        )
    return document.weights


def check(source: str) -> None:
    """Raises UserError if `source` lies on this machine and holds no weights."""
    if source and not storage.is_remote(storage.uri(source)):
        weights.find(source)


def _object(file: File) -> PinnedObject:
    name = storage.plain(file.path)
    return PinnedObject(name=name, generation=file.generation, bytes=file.bytes, title=PurePosixPath(name).name)


def _file(file: File) -> PinnedFile:
    assert file.version
    return PinnedFile(path=file.path, bytes=file.bytes, modified_ns=file.version.modified_ns,
                      title=PurePosixPath(file.path).name)  # fmt: skip
