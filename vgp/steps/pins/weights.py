"""The pins of the weights that a run begins with (`warm_start`): their files, as they are now."""

from pathlib import PurePosixPath

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import UserError
from vgp.base.storage import storage
from vgp.base.storage.pinned import PinnedFile, PinnedObject
from vgp.base.storage.storage import File
from vgp.base.text.printable import join_names
from vgp.data import bundle
from vgp.data.bundle import ModelCard
from vgp.data.task import Options
from vgp.protocol import pins as store
from vgp.protocol.manifest import Manifest
from vgp.protocol.pins import ChampionPins, DataPins
from vgp.train import warm_start_files
from vgp.train.train_config import TrainConfig

#: In place of a folder: the run's champion, as it was pinned; without one, or where its weights do not fit, none.
CHAMPION = "champion"


def pin(source: str) -> ChampionPins:
    """The pins of what `warm_start` names, the same in every cache epoch: no step is a function of them alone.

    Raises:
        UserError: there are no weights that can be read.
    """
    there = [storage.with_version(file) for file in warm_start_files.find_weights(source)]
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


def settled(
    document: DataPins | None, config: TrainConfig, prepared: Manifest, uri: str
) -> tuple[TrainConfig, str, str]:  # fmt: skip
    """The settings with a folder, or nothing, in place of `champion`; the pins of the weights as of `of_run`; and what
    there is to say of it.

    Raises:
        UserError: as `of_run`.
    """
    if config.warm_start != CHAMPION:
        return config, of_run(document, config.warm_start, uri), ""
    begun = document.weights if document else ""
    reason = _unlike(bundle.load_card(begun), prepared) if begun else "there is none"
    if reason:
        plain = {"warm_start": "", "warm_start_names": {}, "warm_start_new": [], "warm_start_ignore": []}
        return config.model_copy(update=plain), "", f"no warm start from the champion: {reason}."
    folder = store.load(begun, ChampionPins).folder
    return config.model_copy(update={"warm_start": folder}), begun, f"warm start: the champion, {folder}."


def _unlike(card: ModelCard, prepared: Manifest) -> str:
    """Why the weights of a model would mean something else to this data, or not fit; "" if they fit."""
    if (card.task, _network(card.options)) != (prepared.task, _network(prepared.options)):
        return "its task or the task's options were others"
    own = {column.name: (column.kind, column.width, column.values) for column in card.columns}
    now = {column.name: (column.kind, column.width, column.values) for column in prepared.columns}
    changed = sorted(name for name in own.keys() | now.keys() if own.get(name) != now.get(name))
    return f"other values or forms of {join_names(changed)}" if changed else ""


def _network(options: Options) -> JsonObject:
    """The options but for the windows, which are others every time."""
    return {name: value for name, value in options.items() if name not in ("train", "test")}


def check(source: str) -> None:
    """Raises UserError if `source` lies on this machine and holds no weights."""
    if source and source != CHAMPION and not storage.is_remote(storage.uri(source)):
        warm_start_files.find_weights(source)


def _object(file: File) -> PinnedObject:
    name = storage.plain(file.path)
    return PinnedObject(name=name, generation=file.generation, bytes=file.bytes, title=PurePosixPath(name).name)


def _file(file: File) -> PinnedFile:
    assert file.version
    return PinnedFile(path=file.path, bytes=file.bytes, modified_ns=file.version.modified_ns,
                      title=PurePosixPath(file.path).name)  # fmt: skip
