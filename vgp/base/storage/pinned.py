"""Pinned files and objects: the part of a pins document that storage reads, named by the checksum of its bytes.

`<folder>/pins/<sha256>.json` stands for exactly the files that it lists, wherever files may be given.
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

#: 100,000 objects with long names.
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
    #: What a task calls it, such as its path below the folder that was given; "" = by its own name.
    title: str = ""


class PinnedFile(Frozen):
    """A file on this machine, as long as nobody writes to it."""

    path: str
    bytes: int = Field(ge=0)
    modified_ns: int
    title: str = ""


class PinnedTable(Frozen):
    """A table of BigQuery, as it has been since its last change, or was at a moment."""

    #: project.dataset.table
    name: str
    #: The first moment, in milliseconds since 1970, at which it was so; 0 of a snapshot, which never changes.
    as_of_ms: int = Field(ge=0)


class PinnedRelation(Frozen):
    """A table, a view or a query: views are written out in its text, so that only tables are left."""

    #: As people know it: bq://project.dataset.table, or the path of a file.
    name: str
    #: One SELECT that names whole tables, without their moments.
    sql: str
    tables: tuple[PinnedTable, ...] = ()
    #: Whether it is one table as it is, and nothing is computed.
    plain: bool = False
    #: What a table asks of every query, said so that it leaves out no row; of a plain one alone.
    restriction: str = ""
    #: Where its tables lie.
    location: str

    @property
    def sha256(self) -> str:
        """The checksum of all that decides its rows."""
        return hashlib.sha256(encode(self)).hexdigest()


class Pinned(Frozen):
    """What a document of pins lists; fields that only `vgp.steps.pins` knows are passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    kind: str
    objects: tuple[PinnedObject, ...] = ()
    files: tuple[PinnedFile, ...] = ()
    relations: tuple[PinnedRelation, ...] = ()


def digest(uri: str) -> str:
    """The checksum in the name of a pins document; "" for another path."""
    match = _URI.fullmatch(uri)
    return match[1] if match else ""


def encode(document: BaseModel) -> bytes:
    """A document as JSON in one form only, so that equal pins have equal bytes."""
    text = json.dumps(document.model_dump(), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


def check(uri: str, data: bytes) -> None:
    """Raises UserError unless the bytes are those that `uri` is named after."""
    if hashlib.sha256(data).hexdigest() != digest(uri):
        raise UserError(f"{uri} is not as it was written: pins are named by their checksum, and may not be edited.")


def decode(uri: str, data: bytes, model: type[Document]) -> Document:
    """The document at `uri`. Raises UserError if its bytes are no such document."""
    try:
        return json_text.parse_model(model, data)
    except ValueError as error:
        raise UserError(f"{uri} cannot be read as pins: {error}") from None


def kind_of(data: bytes) -> Any:
    """The kind and format that a document gives itself."""
    members = json_text.parse_json(data)
    return (members.get("kind"), members.get("format")) if isinstance(members, dict) else (None, None)


def of_data(uri: str, data: bytes) -> Pinned:
    """What the pins of data at `uri` list. Raises UserError if they are not as they were written, or no such pins."""
    check(uri, data)
    document = decode(uri, data, Pinned)
    if document.kind != "data":
        raise UserError(f"{uri} holds the pins of a {document.kind}, not of data.")
    return document


def unchanged(uri: str, data: bytes) -> list[File]:
    """The files that the pins at `uri` list, in their order; objects by their generation.

    Raises:
        UserError: they are not as they were written, or a file on this machine is not as it was pinned.
    """
    document = of_data(uri, data)
    objects = [File(f"{o.name}#{o.generation}", o.bytes, o.generation, title=o.title) for o in document.objects]
    return objects + [unchanged_file(file) for file in document.files]


def unchanged_file(file: PinnedFile) -> File:
    """The file, if nobody wrote to it. Raises UserError as `unchanged`."""
    expected = Version(file.bytes, file.modified_ns)
    try:
        status = os.stat(file.path)
    except OSError as error:
        raise UserError(
            f"{file.path} is not there as it was pinned: {error.strerror}. Put it back, or start a run that pins what "
            "is there now."
        ) from None
    if Version(status.st_size, status.st_mtime_ns) != expected:
        raise UserError(f"{file.path} was written to after it was pinned: start a run that resolves its data anew.")
    return File(file.path, file.bytes, version=expected, title=file.title)
