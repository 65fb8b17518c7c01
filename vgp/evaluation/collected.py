"""The content of `collected.json`: what was taken from a script's folder, beside the files that the script left.

A folder with this file is a script's model, wherever it is taken as the model or as the champion."""

import json
import os
from typing import Literal

from vgp.base.documents import json_text
from vgp.base.exits import UserError
from vgp.base.storage import files, pinned, storage
from vgp.data.bundle import CARD, WEIGHTS
from vgp.protocol import file_names
from vgp.protocol import pins as store
from vgp.protocol.manifest import Frozen
from vgp.protocol.pins import ChampionPins

FILE_NAME = "collected.json"
PREDICTIONS = file_names.PREDICTIONS


class Launched(Frozen):
    """What ran, as the launching text wrote it down; empty where nothing tells."""

    command: tuple[str, ...] = ()
    launch: str = ""
    nodes: int = 0
    #: On each node.
    processes: int = 0
    seconds: float | None = None
    #: The folder that survives, which the script knew as AIP_CHECKPOINT_DIR.
    checkpoints: str = ""
    #: Why what ran may not be what was meant, such as processes that never met.
    warnings: tuple[str, ...] = ()


class Collected(Frozen):
    """What `collected.json` holds."""

    format: Literal[1] = 1
    #: `module:Class` of the prepared data.
    task: str
    #: Checksum of the prepared test rows (`test_rows.checksum`), which the predictions are of; "" if there are none.
    rows: str
    launched: Launched = Launched()
    #: Files of the model, and their bytes.
    files: int
    bytes: int
    metrics: dict[str, float] = {}
    #: Rows of predictions.parquet; 0 if there is none.
    predictions: int = 0


def file(folder: str, name: str) -> str:
    """The path of a file of a script's folder; of a pinned champion's with its generation; "" if it is not there."""
    folder = storage.uri(folder)
    if pinned.digest(folder):
        return _pinned_file(folder, name)
    path = f"{folder}/{name}"
    if storage.is_remote(path):
        return path if storage.described(path) else ""
    return path if os.path.lexists(path) else ""


def _pinned_file(uri: str, name: str) -> str:
    document = store.load(uri, ChampionPins)
    for item in document.objects:
        if item.title == name:
            return f"{item.name}#{item.generation}"
    return next((pinned.unchanged_file(item).path for item in document.files if item.title == name), "")


def is_script(folder: str) -> bool:
    """Whether a folder, or what pins list, is a script's: it was taken up, or has predictions and no model of ours."""
    if file(folder, FILE_NAME):
        return True
    return bool(file(folder, PREDICTIONS)) and not (file(folder, CARD) and file(folder, WEIGHTS))


def load(folder: str) -> Collected | None:
    """What was taken up of a folder; None for one that no step has looked at. Raises UserError if it is unreadable."""
    path = file(folder, FILE_NAME)
    if not path:
        return None
    try:
        return json_text.parse_model(Collected, storage.read(path, most=files.MOST_JSON_BYTES, links=False))
    except ValueError as error:
        raise UserError(f"{storage.plain(path)} cannot be read as what was taken up from a script: {error}") from None


def save(folder: str, collected: Collected) -> None:
    """Writes `collected.json` into the script's folder, in place of one from before."""
    try:
        load(folder)
    except UserError:
        raise UserError(
            f"the script left a file {FILE_NAME} in {folder}, where what was taken up is written: give it another name."
        ) from None
    text = json.dumps(collected.model_dump(), indent=1, allow_nan=False) + "\n"
    storage.overwrite(f"{storage.uri(folder)}/{FILE_NAME}", text.encode())
