"""What later steps take from the pins of the data."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vgp.base.exits import UserError
from vgp.data import task_names, tasks
from vgp.protocol import pin_store as store
from vgp.protocol.manifest import Manifest
from vgp.protocol.pins import DataPins


def data(uri: str, task: str) -> tuple[str, Mapping[str, Any]]:
    """What the task's `shards` is given, and its options.

    Raises:
        UserError: the pins are of another task, or the package of its data has another version here.
    """
    pins = store.load(uri, DataPins)
    if pins.task != task_names.spec(task):
        raise UserError(f"{uri} holds the pins of the task {pins.task}, not of {task_names.spec(task)}.")
    if pins.unpinned:
        return pins.asked, pins.options
    if not pins.package:
        return uri, pins.options
    here = tasks.load(task, pins.options).package()
    if here != (pins.package.name, pins.package.version):
        now = " ".join(here) if here else "nothing that tells its version"
        raise UserError(
            f"the data was pinned as {pins.package.name} {pins.package.version}, and here it is {now}: start a run "
            "that resolves its data anew, or use the image of that run."
        )
    return "", pins.options


def of_prepared(uri: str, prepared: Manifest, folder: str | Path) -> DataPins:
    """The pins that the data in the folder was prepared from. Raises UserError if it was not."""
    pins = store.load(uri, DataPins)
    if (pins.task, pins.options) != (prepared.task, prepared.options):
        raise UserError(f"{folder} was not prepared from {uri}: its task or its options are others.")
    return pins
