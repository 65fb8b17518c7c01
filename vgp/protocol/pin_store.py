"""Pins as files named by the checksum of their bytes: written once, and verified whenever they are read."""

import hashlib
from pathlib import Path
from typing import TypeVar

from vgp.base.exits import UserError
from vgp.base.storage import files, pinned, storage
from vgp.base.storage.objects import Folder
from vgp.protocol.pins import FORMAT, ChampionPins, DataPins, RunPins

Document = TypeVar("Document", DataPins, ChampionPins, RunPins)


def save(folder: str, document: DataPins | ChampionPins | RunPins, *, dry_run: bool = False) -> str:
    """Writes a document into the folder, unless it is there; returns its URI.

    Raises:
        UserError: the folder cannot be written to, or a file of that name holds something else.
    """
    try:
        data = pinned.encode(document)
    except UnicodeEncodeError as error:
        name = ascii(error.object[max(0, error.start - 60) : error.end + 20])
        raise UserError(f"a file's name is no UTF-8 text, near {name}: rename it.") from None
    except ValueError as error:
        raise UserError(f"an option of the task is no JSON value: {error}.") from None
    if len(data) > pinned.MOST_BYTES:
        raise UserError(
            f"the list of the data's files has {len(data) >> 20} MiB, and may have {pinned.MOST_BYTES >> 20}: "
            "put the data into fewer, larger files."
        )
    name = f"{hashlib.sha256(data).hexdigest()}.json"
    if not dry_run:
        (_create_object if storage.is_remote(folder) else _create_file)(folder, name, data)
    return f"{folder}/{name}"


def digest(document: DataPins | ChampionPins | RunPins) -> str:
    """The checksum of a document, which is its name."""
    return hashlib.sha256(pinned.encode(document)).hexdigest()


def load(uri: str, model: type[Document]) -> Document:
    """The document at `uri`, as it was written.

    Raises:
        UserError: it is not there, not a document of this kind, or not as it was written.
    """
    kind, uri = model.model_fields["kind"].default, storage.uri(uri)
    if not pinned.digest(uri):
        raise UserError(not_pins(uri))
    data = storage.read(uri, most=pinned.MOST_BYTES)
    pinned.check(uri, data)
    try:
        its_kind, its_format = pinned.kind_of(data)
    except ValueError as error:
        raise UserError(f"{uri} cannot be read as pins: {error}") from None
    if its_kind in ("data", "champion", "run") and its_format != FORMAT:
        raise UserError(f"{uri} has the format {its_format}, and this version knows {FORMAT}: a newer one wrote it.")
    if its_kind != kind:
        raise UserError(f"{uri} holds the pins of a {its_kind}, not of a {kind}." if its_kind else f"{uri} is no pins.")
    return pinned.decode(uri, data, model)


def not_pins(uri: str) -> str:
    return (
        f"pins = {uri}: the pins of a run are at .../pins/<sha256>.json, which is the output `uri` of its step resolve."
    )


def _create_file(folder: str, name: str, data: bytes) -> None:
    target = Path(folder) / name
    try:
        if target.is_file() and files.read(target, most=pinned.MOST_BYTES) == data:
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        files.write(target, data)
    except OSError as error:
        raise UserError(f"the pins cannot be written to {folder}: {error.strerror}.") from None


def _create_object(folder: str, name: str, data: bytes) -> None:
    try:
        created = Folder(folder).create(name, [memoryview(data)])
    except ConnectionError as error:
        raise type(error)(f"the pins cannot be written: {error}") from None
    except FileNotFoundError:
        raise UserError(f"the pins cannot be written to {folder}: there is no such bucket.") from None
    if not created:
        raise UserError(f"{folder}/{name} is not as it was written: delete it, and start again.")
