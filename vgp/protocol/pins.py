"""The three documents of pins: of the data, of the champion, and of the run that names the two.

Each is a file named by the checksum of its bytes: written once, and verified whenever it is read.
"""

import hashlib
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import Field, JsonValue

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import UserError
from vgp.base.storage import files, pinned, storage
from vgp.base.storage.objects import Folder
from vgp.base.storage.pinned import Frozen, PinnedFile, PinnedObject, PinnedRelation

FORMAT = 1
DIGEST = r"^[0-9a-f]{64}$"

#: What could be seen of the time `as_of`: the objects that were live then, or the windows of today's only.
Seen = Literal["state", "windows", ""]


class Package(Frozen):
    """What brings a task's own data: a package of this version."""

    name: str
    version: str


class DataPins(Frozen):
    """What a dataset is made of: nothing in it moves, and nothing else decides."""

    kind: Literal["data"] = "data"
    format: Literal[1] = 1
    #: The name of the pipeline that computes with it.
    pipeline: str
    #: `module:Class`.
    task: str
    #: What the task is told, windows as dates.
    options: dict[str, JsonValue] = {}
    objects: tuple[PinnedObject, ...] = ()
    files: tuple[PinnedFile, ...] = ()
    #: Tables and queries of BigQuery.
    relations: tuple[PinnedRelation, ...] = ()
    package: Package | None = None
    #: URI of the pins of the weights that training begins with; "" = none. What is prepared does not depend on them.
    weights: str = ""
    #: Whether nothing tells a version of the data: then what the user gave, and the run that reads it and alone may.
    unpinned: bool = False
    asked: str = ""
    run: str = ""
    #: The period of cached results (`vgp.protocol.moment`).
    epoch: int


class Earlier(Frozen):
    """A version of the registry as it was registered, for the history in a report. None of it ever changes."""

    number: int
    #: UTC.
    created: str
    #: The version that it was compared with; None = there was no champion.
    champion: int | None = None
    metrics: dict[str, float] = {}
    #: The window of its data, in words.
    data: str = ""


class ChampionPins(Frozen):
    """A model, such as the champion: the files of its folder that are read."""

    kind: Literal["champion"] = "champion"
    format: Literal[1] = 1
    folder: str
    objects: tuple[PinnedObject, ...] = ()
    files: tuple[PinnedFile, ...] = ()
    #: Of a version of the registry: its number and key, the URI of its report, and all versions up to it. Later ones
    #: are left out: they would be other pins of the same champion.
    number: int = 0
    key: str = ""
    report: str = ""
    history: tuple[Earlier, ...] = ()
    #: Why its files are not there, which is found again every night: the baseline then stands in. "" = they are.
    problem: str = ""
    epoch: int


#: Pipelines that have another name now: a run goes on with the pins of one that had the old name.
RENAMED = {"retraining": "training"}


class Request(Frozen):
    """What was asked for, as it was given."""

    data: str
    task: str
    task_options: JsonObject
    #: A folder, or what names a version of the registry (`vgp.registry.reigning`).
    champion: str
    #: Where that registry is, and the model's name in it; "" = by the run's place, by the task.
    registry: str = ""
    model_name: str = ""
    #: What training begins with; "" = nothing.
    warm_start: str = ""


class RunPins(Frozen):
    """What one run works on. The two other documents lie beside it, under these names."""

    kind: Literal["run"] = "run"
    format: Literal[1] = 1
    data: str = Field(pattern=DIGEST)
    #: "" without a champion.
    champion: str = Field("", pattern=DIGEST + r"|^$")
    pipeline: str
    #: Project number; "" where no project is.
    project: str
    as_of: str = ""
    request: Request
    seen: Seen = ""


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
