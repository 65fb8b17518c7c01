"""The pins of a run's initial weights (`warm_start`)."""

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

#: Value of `warm_start` for the weights of the run's pinned champion, if there is one and its weights fit.
CHAMPION = "champion"


def pin(source: str) -> ChampionPins:
    """Pins the weights at `source`. The cache epoch is always 0, because every step that reads the weights has the
    data's pins as an input, too.

    Raises:
        UserError: there are no readable weights.
    """
    files = [storage.with_version(file) for file in warm_start_files.find_weights(source)]
    return ChampionPins(
        folder=storage.uri(source),
        objects=tuple(_pin_object(file) for file in files if file.generation),
        files=tuple(_pin_file(file) for file in files if not file.generation),
        epoch=0,
    )


def of_run(document: DataPins | None, source: str, uri: str) -> str:
    """Returns the URI of the pins of the weights at `source`; "" = they are not pinned.

    Args:
        document: The pins of the run's data, which refer to the pins of its weights.
        uri: The URI of `document`, for messages.

    Raises:
        UserError: the run has pinned other weights.
    """
    if document is None or not source:
        return ""
    pinned = store.load(document.weights, ChampionPins).folder if document.weights else ""
    if pinned != storage.uri(source):
        raise UserError(
            f"warm_start={source}, but {uri} has the pins of a run with warm_start={pinned or 'none'}: start a run "
            "with `pins` empty."
        )
    return document.weights


def resolve_champion(
    document: DataPins | None, config: TrainConfig, prepared: Manifest, uri: str
) -> tuple[TrainConfig, str, str]:  # fmt: skip
    """Replaces `warm_start = "champion"` by the champion's folder, or by "" if there is none or its weights do not fit.

    Returns:
        The settings, the URI of the pins of the weights (see `of_run`), and a sentence for the log.

    Raises:
        UserError: the run has pinned other weights.
    """
    if config.warm_start != CHAMPION:
        return config, of_run(document, config.warm_start, uri), ""
    initial = document.weights if document else ""
    reason = _explain_mismatch(bundle.load_card(initial), prepared) if initial else "there is none"
    if reason:
        plain = {"warm_start": "", "warm_start_names": {}, "warm_start_new": [], "warm_start_ignore": []}
        return config.model_copy(update=plain), "", f"no warm start from the champion: {reason}."
    folder = store.load(initial, ChampionPins).folder
    return config.model_copy(update={"warm_start": folder}), initial, f"warm start: the champion, {folder}."


def _explain_mismatch(card: ModelCard, prepared: Manifest) -> str:
    """Returns why the weights of a model do not fit the data; "" if they fit."""
    if (card.task, _without_windows(card.options)) != (prepared.task, _without_windows(prepared.options)):
        return "its task or the task's options differ"
    trained = {column.name: (column.kind, column.width, column.values) for column in card.columns}
    current = {column.name: (column.kind, column.width, column.values) for column in prepared.columns}
    changed = sorted(name for name in trained.keys() | current.keys() if trained.get(name) != current.get(name))
    return f"kind, width or values differ in {join_names(changed)}" if changed else ""


def _without_windows(options: Options) -> JsonObject:
    """Returns the options without the windows, which differ from run to run."""
    return {name: value for name, value in options.items() if name not in ("train", "test")}


def check(source: str) -> None:
    """Raises UserError if `source` is a local folder without weights."""
    if source and source != CHAMPION and not storage.is_remote(storage.uri(source)):
        warm_start_files.find_weights(source)


def _pin_object(file: File) -> PinnedObject:
    name = storage.plain(file.path)
    return PinnedObject(name=name, generation=file.generation, bytes=file.bytes, title=PurePosixPath(name).name)


def _pin_file(file: File) -> PinnedFile:
    assert file.version
    return PinnedFile(path=file.path, bytes=file.bytes, modified_ns=file.version.modified_ns,
                      title=PurePosixPath(file.path).name)  # fmt: skip
