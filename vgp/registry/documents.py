"""The record of a registry: one JSON object with a model's versions, aliases and history.

Layout of a registry, on this machine or in a bucket:

    ROOT/<model>/registry.json              the record: written last, replaced as a whole
    ROOT/<model>/versions/<key>/...         the files of one version, written once
"""

import math
import re
import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from vgp.base.documents import json_text
from vgp.base.exits import UserError
from vgp.base.text.printable import quote
from vgp.data import task_names
from vgp.protocol import file_names
from vgp.registry.evidence import Evidence

# ---- model names

_LONGEST = 63


def choose_model_name(name: str, task: str, options: Mapping[str, object] | None = None) -> str:
    """Returns the name if it is not empty, else one from the task.

    For example, `flights` for the task flights, `churn-model` for `my_tasks.churn:ChurnModel`, and the target's name
    for a table task, so that two tables are two models.

    Raises:
        UserError: the name is invalid.
    """
    check_model_name(name)
    return name or _name_of_task(task, options or {})


def check_model_name(name: str) -> None:
    """Raises UserError for an invalid model name; "" is valid."""
    if name and not re.fullmatch(MODEL_NAME, name):
        raise UserError(
            f"model_name = {quote(name)}: 1 to {_LONGEST} small letters, digits, - and _, a letter first, such as "
            f"{_slug(name) or 'flights'}."
        )


def _name_of_task(task: str, options: Mapping[str, object]) -> str:
    full = task_names.spec(task)
    if full == task_names.SHIPPED["table"] and options.get("declaration"):
        from vgp.data.tasks.table.parsing import parse

        return _slug(parse(str(options["declaration"]), "declaration").target) or "table"
    return task_names.short(full) or _slug(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", full.rpartition(":")[2])) or "model"


def _slug(text: str) -> str:
    """Returns the text reduced to the letters of a name; may be ""."""
    letters = unicodedata.normalize("NFKD", text.casefold()).encode("ascii", "ignore").decode()
    slug = re.sub(r"[^a-z0-9]+", "-", letters).strip("-")
    return (slug if slug[:1].isalpha() or not slug else f"model-{slug}")[:_LONGEST].rstrip("-")


#: A record has format 2 from its first evidence on, so that an older library asks for an update.
FORMAT = 2
FILE_NAME = file_names.REGISTRY
CHAMPION = "champion"
CANDIDATE = "candidate"
#: A custom model id of Vertex AI,
#: https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.models/upload
MODEL_NAME = r"^[a-z][a-z0-9_-]{0,62}$"
DIGEST = r"^[0-9a-f]{64}$"

What = Literal[
    "registered", "promoted", "rolled_back", "aliased", "unaliased", "approved", "rejected", "deleted", "kept"
]
State = Literal["registered", "candidate", "rejected", "deleted"]


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class VersionFile(Frozen):
    """The size and checksum of a file of a version."""

    bytes: int = Field(ge=0)
    sha256: str = Field(pattern=DIGEST)


class Version(Frozen):
    """A registered model: files, origin and metrics."""

    #: 1, 2, ..., never reused; 0 before `changes.register`.
    number: int = Field(0, ge=0)
    #: sha256 over weights, champion and data; names the folder of its files.
    key: str = Field(pattern=DIGEST)
    #: UTC, such as 2026-11-22T10:00:00Z; "" = not registered yet.
    created: str = ""
    #: URI of the version's folder below the registry.
    model: str
    files: dict[str, VersionFile] = {}
    #: Run that trained it, its pipeline, and its task as `module:Class`.
    run: str = ""
    pipeline: str = ""
    task: str = ""
    #: URI of the run's pins, commit of the code, image with digest.
    pins: str = ""
    commit: str = ""
    image: str = ""
    #: URI of the archive of code that the run imported in place of the image's; "" = none.
    code: str = ""
    #: Finite metrics by name.
    metrics: dict[str, float] = {}
    #: Reason of the decision.
    reason: str = ""
    #: URI of the run's report.
    report: str = ""
    labels: dict[str, str] = {}
    state: State = "registered"
    #: The version that it was compared with; None = there was no champion.
    champion: int | None = None
    #: Window of its training data, for people.
    data: str = ""

    @field_validator("metrics", mode="before")
    @classmethod
    def _numbers(cls, metrics: object) -> object:
        if not isinstance(metrics, dict):
            return metrics
        return {name: value for name, value in metrics.items() if not isinstance(value, float) or math.isfinite(value)}

    @field_validator("files")
    @classmethod
    def _below(cls, files: dict[str, VersionFile]) -> dict[str, VersionFile]:
        for name in files:
            if {"", ".", ".."} & set(name.split("/")):
                raise ValueError(f"{name!r} names no file below the version's folder")
        return files


class Event(Frozen):
    """A change of the record, numbered 1, 2, ... without gaps."""

    number: int = Field(ge=1)
    at: str
    what: What
    #: The version it concerns; None for a challenger that was not registered.
    version: int | None = None
    #: The version that had the alias before, or None.
    before: int | None = None
    alias: str = ""
    who: str
    why: str = ""
    #: Idempotency key: another event of this kind with this key does nothing.
    key: str = Field(min_length=1, max_length=200)


class Spent(Frozen):
    """The part of the year's error that one challenger's test spent."""

    key: str = Field(min_length=1, max_length=200)
    at: str
    level: float = Field(ge=0, le=1)
    #: The version that it was compared with; None = there was no champion.
    version: int | None = None
    outcome: str


class Record(Frozen):
    """The registry record of one model."""

    format: Literal[1, 2] = 1
    model: str = Field(pattern=MODEL_NAME)
    versions: tuple[Version, ...] = ()
    aliases: dict[str, int] = {}
    events: tuple[Event, ...] = ()
    spent: tuple[Spent, ...] = ()
    #: Evidence of the nights, with the champion that it is about; None before the first night that collected any.
    evidence: Evidence | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> "Record":
        if [version.number for version in self.versions] != list(range(1, len(self.versions) + 1)):
            raise ValueError("its versions are not numbered 1, 2, 3 ...")
        if [event.number for event in self.events] != list(range(1, len(self.events) + 1)):
            raise ValueError("its events are not numbered 1, 2, 3 ...")
        if len({version.key for version in self.versions}) < len(self.versions):
            raise ValueError("two versions have one key")
        for name, number in self.aliases.items():
            version = self.version(number)
            if version is None or version.state == "deleted":
                raise ValueError(f"the alias {name} names version {number}, which does not exist or is deleted")
        return self

    def version(self, number: int | None) -> Version | None:
        """Returns the version with this number, or None."""
        return self.versions[number - 1] if number and 0 < number <= len(self.versions) else None

    def find_key(self, key: str) -> Version | None:
        """Returns the version with this key, or None."""
        return next((version for version in self.versions if version.key == key), None)

    def champion(self) -> Version | None:
        return self.version(self.aliases.get(CHAMPION))

    def evidence_now(self) -> Evidence:
        """Returns the evidence against the present champion, at its beginning if there is none."""
        return (self.evidence or Evidence()).against(self.aliases.get(CHAMPION))

    def aliases_of(self, number: int) -> tuple[str, ...]:
        return tuple(sorted(name for name, target in self.aliases.items() if target == number))

    def event(self, what: What, key: str) -> Event | None:
        """Returns the event of this kind with this key, or None."""
        return next((event for event in self.events if event.what == what and event.key == key), None)


def now() -> str:
    """Returns the present time in UTC, such as 2026-11-22T10:00:00Z."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


# ---- encoding and decoding of a record


#: Maximum number of bytes of a record, about ten thousand versions; parsing takes about twenty times as much memory.
MOST_RECORD_BYTES = 32 << 20


def decode_record(path: str, model: str, data: bytes) -> Record:
    """Decodes the record at `path`. Raises UserError if it is damaged, newer, or of another model."""
    if len(data) > MOST_RECORD_BYTES:
        raise too_large(path)
    try:
        record = json_text.parse_model(Record, data)
    except ValueError as error:
        if (number := _format(data)) > FORMAT:
            raise UserError(
                f"{path} has format {number}, written by a newer version; this version reads format {FORMAT}. Update: "
                "vgp update."
            ) from None
        raise UserError(
            f"{path} is not a valid registry record: {error}. Nothing was changed. Restore the file from a backup, or "
            "an earlier generation of the object: gcloud storage ls -a."
        ) from None
    if record.model != model:
        raise UserError(
            f"{path} is the registry of the model {record.model}, but lies in the folder of {model}: move it back."
        )
    return record


def encode_record(path: str, record: Record) -> bytes:
    """Encodes the record deterministically. Raises UserError if it is too large."""
    unset: dict[str, Any] = {} if record.evidence else {"evidence": True}  # an older library reads format 1
    if not any(version.code for version in record.versions):
        unset["versions"] = {"__all__": {"code"}}
    data = record.model_dump_json(indent=1, exclude=unset).encode() + b"\n"
    if len(data) > MOST_RECORD_BYTES:
        raise too_large(path)
    Record.model_validate_json(data)  # refuse a record that could not be read again
    return data


def too_large(path: str) -> UserError:
    return UserError(f"{path} has more than {MOST_RECORD_BYTES >> 20} MiB, the limit of a registry record.")


def _format(data: bytes) -> int:
    """Returns the format number in the bytes, or 0."""
    try:
        number = json_text.parse_json(data)["format"]
    except (ValueError, LookupError, TypeError):
        return 0
    return number if isinstance(number, int) else 0
