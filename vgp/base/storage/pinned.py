"""Pinned files, objects and tables: the part of a pins document that storage reads.

`<folder>/pins/<sha256>.json` is named by its own checksum; as data it means exactly the files that it lists.
"""

import hashlib
import json
import os
import re
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from vgp.base.documents import json_text
from vgp.base.exits import UserError
from vgp.base.storage.files import Version
from vgp.base.storage.finding import File

#: Maximum size of a pins document; enough for 100,000 objects with long names.
MOST_BYTES = 64 << 20
_URI = re.compile(r".*(?:^|/)pins/([0-9a-f]{64})\.json", re.DOTALL)

Document = TypeVar("Document", bound=BaseModel)


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class PinnedObject(Frozen):
    """One version of an object in Cloud Storage."""

    #: gs://bucket/name
    name: str = Field(pattern=r"^gs://[^/]+/")
    generation: int = Field(gt=0)
    bytes: int = Field(ge=0)
    #: Name for the task, such as the path below the folder of the data; "" = its own name.
    title: str = ""


class PinnedFile(Frozen):
    """A local file with its version; invalid once the file is written."""

    path: str
    bytes: int = Field(ge=0)
    modified_ns: int
    title: str = ""


class PinnedTable(Frozen):
    """A table of BigQuery at a moment."""

    #: project.dataset.table
    name: str
    #: The moment of its last change, in milliseconds since 1970; 0 for a snapshot, which never changes.
    as_of_ms: int = Field(ge=0)


class PinnedRelation(Frozen):
    """A table, a view or a query, with views expanded in its SQL, so that it reads only tables."""

    #: bq://project.dataset.table, or the path of a file.
    name: str
    #: One SELECT with full names of tables, without moments.
    sql: str
    tables: tuple[PinnedTable, ...] = ()
    #: Whether it is a single table without computation.
    plain: bool = False
    #: The partition filter that a plain table requires, written to keep all rows.
    restriction: str = ""
    #: Location of its tables.
    location: str

    @property
    def sha256(self) -> str:
        """Returns the checksum of everything that determines the rows."""
        return hashlib.sha256(encode(self)).hexdigest()


class Pinned(Frozen):
    """The files and tables of a pins document; ignores the fields that only `vgp.steps.pins` uses."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    kind: str
    objects: tuple[PinnedObject, ...] = ()
    files: tuple[PinnedFile, ...] = ()
    relations: tuple[PinnedRelation, ...] = ()


def read_digest(uri: str) -> str:
    """Returns the checksum in the name of a pins document, or "" for another path."""
    match = _URI.fullmatch(uri)
    return match[1] if match else ""


def encode(document: BaseModel) -> bytes:
    """Encodes a document as canonical JSON, so that equal pins have equal bytes."""
    text = json.dumps(document.model_dump(), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


def check(uri: str, data: bytes) -> None:
    """Raises UserError unless the checksum in `uri` matches the bytes."""
    if hashlib.sha256(data).hexdigest() != read_digest(uri):
        raise UserError(f"{uri} was edited: pins are named by their checksum and must not change.")


def decode(uri: str, data: bytes, model: type[Document]) -> Document:
    """Parses the document at `uri`. Raises UserError if it is not a valid `model`."""
    try:
        return json_text.parse_model(model, data)
    except ValueError as error:
        raise UserError(f"{uri} cannot be read as pins: {error}") from None


def read_kind(data: bytes) -> Any:
    """Returns the kind and format of a document."""
    members = json_text.parse_json(data)
    return (members.get("kind"), members.get("format")) if isinstance(members, dict) else (None, None)


def parse_data_pins(uri: str, data: bytes) -> Pinned:
    """Parses the pins of data at `uri`. Raises UserError if they were edited, or are not pins of data."""
    check(uri, data)
    document = decode(uri, data, Pinned)
    if document.kind != "data":
        raise UserError(f"{uri} has the pins of a {document.kind}, not of data.")
    return document


def read_unchanged_files(uri: str, data: bytes) -> list[File]:
    """Returns the files of the pins at `uri`, in their order; objects with their generation.

    Raises:
        UserError: the pins were edited, or a local file changed after it was pinned.
    """
    document = parse_data_pins(uri, data)
    objects = [File(f"{o.name}#{o.generation}", o.bytes, o.generation, title=o.title) for o in document.objects]
    return objects + [require_unchanged(file) for file in document.files]


def require_unchanged(file: PinnedFile) -> File:
    """Returns the file. Raises UserError if it changed after it was pinned."""
    expected = Version(file.bytes, file.modified_ns)
    try:
        status = os.stat(file.path)
    except OSError as error:
        raise UserError(
            f"{file.path} was pinned but cannot be read: {error.strerror}. Restore it, or start a new run, which "
            "pins the data again."
        ) from None
    if Version(status.st_size, status.st_mtime_ns) != expected:
        raise UserError(f"{file.path} changed after it was pinned: start a new run, which pins the data again.")
    return File(file.path, file.bytes, version=expected, title=file.title)
