"""The content of `collected.json`, which the step `collect` writes into a script's output folder.

A folder with this file is a script's model, also when it is used as the champion."""

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
    """How a script ran, from `script.json`; empty fields are unknown."""

    command: tuple[str, ...] = ()
    launch: str = ""
    nodes: int = 0
    #: On each node.
    processes: int = 0
    seconds: float | None = None
    #: The script's AIP_CHECKPOINT_DIR.
    checkpoints: str = ""
    #: Warnings, for example that the processes never communicated.
    warnings: tuple[str, ...] = ()


class Collected(Frozen):
    """The content of `collected.json`."""

    format: Literal[1] = 1
    #: Task of the prepared data, `module:Class`.
    task: str
    #: Checksum of the predicted test rows (`test_rows.checksum`); "" without prepared rows.
    rows: str
    launched: Launched = Launched()
    #: Number of files of the model, and their bytes.
    files: int
    bytes: int
    metrics: dict[str, float] = {}
    #: Rows of predictions.parquet; 0 without the file.
    predictions: int = 0


def file(folder: str, name: str) -> str:
    """Returns the path of a file in a script's folder, with its generation for a pinned one; "" if it is missing."""
    folder = storage.uri(folder)
    if pinned.read_digest(folder):
        return _find_pinned_file(folder, name)
    path = f"{folder}/{name}"
    if storage.is_remote(path):
        return path if storage.get_blob(path) else ""
    return path if os.path.lexists(path) else ""


def _find_pinned_file(uri: str, name: str) -> str:
    document = store.load(uri, ChampionPins)
    for item in document.objects:
        if item.title == name:
            return f"{item.name}#{item.generation}"
    return next((pinned.require_unchanged(item).path for item in document.files if item.title == name), "")


def is_script(folder: str) -> bool:
    """Whether a folder or its pins hold a script's model: collected, or with predictions and without `model.json`."""
    if file(folder, FILE_NAME):
        return True
    return bool(file(folder, PREDICTIONS)) and not (file(folder, CARD) and file(folder, WEIGHTS))


def load(folder: str) -> Collected | None:
    """Returns the folder's `collected.json`, or None. Raises UserError if it is unreadable."""
    path = file(folder, FILE_NAME)
    if not path:
        return None
    try:
        return json_text.parse_model(Collected, storage.read(path, most=files.MOST_JSON_BYTES, links=False))
    except ValueError as error:
        raise UserError(f"{storage.plain(path)} is not a valid {FILE_NAME}: {error}") from None


def save(folder: str, collected: Collected) -> None:
    """Writes `collected.json` into the script's folder, replacing an earlier one."""
    try:
        load(folder)
    except UserError:
        raise UserError(
            f"the script wrote {folder}/{FILE_NAME}, a name that the `collect` step uses: rename the file."
        ) from None
    text = json.dumps(collected.model_dump(), indent=1, allow_nan=False) + "\n"
    storage.overwrite(f"{storage.uri(folder)}/{FILE_NAME}", text.encode())
