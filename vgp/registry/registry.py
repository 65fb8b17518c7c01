"""The registry of a model: reads its record and changes it by compare-and-swap."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from vgp.base.exits import ProcessFailed, UserError
from vgp.base.retry import Pauses, poll
from vgp.base.storage import finding, storage
from vgp.base.storage.client import READ_DEADLINE_S
from vgp.base.storage.objects import Folder
from vgp.base.storage.slot import Slot
from vgp.base.text.printable import quote
from vgp.registry.disk import VERSIONS, DiskRecord
from vgp.registry.documents import (
    FILE_NAME,
    MODEL_NAME,
    MOST_RECORD_BYTES,
    Record,
    Version,
    decode_record,
    encode_record,
)

# ---- a record in Cloud Storage: one object, replaced only if its generation is unchanged


#: Seconds that a change is retried: Cloud Storage accepts about one write per second to an object, so a hundred
#: concurrent runs finish within two minutes. https://cloud.google.com/storage/quotas#objects
DEADLINE_S = 900.0
_PAUSES = Pauses(first_s=0.1, longest_s=4.0, deadline_s=DEADLINE_S, jitter=True)


class BucketRecord:
    """A record in the object gs://bucket/.../registry.json."""

    def __init__(self, path: str):
        self.path = path
        self.slot = Slot(path, deadline_s=READ_DEADLINE_S, most=MOST_RECORD_BYTES)

    def read(self) -> bytes | None:
        """Returns the object's bytes; None if the bucket has no such object."""
        with _explain_errors(self.path):
            if content := self.slot.read():
                return content.data
            Folder(self.path.rpartition("/")[0]).names()  # raises if the bucket does not exist
        return None

    def update(self, function: Callable[[bytes | None], bytes | None]) -> None:
        """Replaces the bytes by the function's result (None = unchanged).

        Calls the function again if another process wrote first. A write with a lost answer looks like another process's
        write; the function then finds its change in the bytes.
        """

        def change() -> Literal[True] | None:
            content = self.slot.read()
            data = function(content.data if content else None)
            is_done = data is None or self.slot.put(data, content.generation if content else 0) is not None
            return True if is_done else None

        with _explain_errors(self.path):
            if poll(change, _PAUSES) is None:
                raise ProcessFailed(
                    f"{self.path} could not be changed within {DEADLINE_S:.0f} s, because other processes changed "
                    "it all the time. Repeat the command."
                )

    def require_writable(self) -> None:
        """Raises UserError if objects cannot be created and deleted beside the record."""
        with _explain_errors(self.path):
            Folder(self.path.rpartition("/")[0]).require_writable()


@contextmanager
def _explain_errors(path: str) -> Iterator[None]:
    """Adds the registry and advice to errors of the block."""
    try:
        yield
    except ConnectionError as error:
        raise type(error)(f"the registry: {error}") from None
    except FileNotFoundError:
        raise UserError(f"the registry's bucket does not exist: {path}. Create it, or use another registry.") from None


@dataclass(frozen=True)
class Registry:
    """The registry of one model below a root: an absolute local folder or gs://."""

    root: str
    model: str

    @property
    def folder(self) -> str:
        """Returns the folder of the record and the versions."""
        return f"{self.root}/{self.model}"

    @property
    def record_path(self) -> str:
        return f"{self.folder}/{FILE_NAME}"

    def read(self) -> Record:
        """Reads the record; an empty one if there is none yet.

        Raises:
            UserError: it is damaged, newer, of another model, too large, or not readable.
            ProcessFailed: the store could not be reached.
        """
        return self._decode(self._store.read())

    def change(self, function: Callable[[Record], Record]) -> Record:
        """Replaces the record by the function's result and returns it.

        Calls the function again with the newer record if another process wrote first, so the function must be pure and
        do nothing for a key that the record holds. An unchanged record is not written.

        Raises: as `read`; UserError if it may not be written; any error of the function.
        """
        after = Record(model=self.model)

        def update(data: bytes | None) -> bytes | None:
            nonlocal after
            before = self._decode(data)
            after = function(before)
            return None if after == before else encode_record(self.record_path, after)

        self._store.update(update)
        return after

    def champion(self) -> Version | None:
        """Returns the champion, or None. Raises as `read`."""
        return self.read().champion()

    def with_present_folders(self, record: Record) -> Record:
        """Returns the record with the present folders of a registry that was moved."""
        return record.model_copy(update={"versions": tuple(map(self.with_present_folder, record.versions))})

    def with_present_folder(self, version: Version) -> Version:
        """Returns the version with its present folder and report, for a registry that was moved."""
        folder, before = self.version_folder(version.key), f"{version.model}/"
        is_inside = version.report.startswith(before)
        report = f"{folder}/{version.report.removeprefix(before)}" if is_inside else version.report
        return version.model_copy(update={"model": folder, "report": report})

    def version_folder(self, key: str) -> str:
        """Returns the present folder of the version with this key."""
        return f"{self.folder}/{VERSIONS}/{key}"

    def require_writable(self) -> None:
        """Raises UserError if the record cannot be read or written; leaves at most an empty folder."""
        self.read()
        self._store.require_writable()

    @property
    def _store(self) -> DiskRecord | BucketRecord:
        return BucketRecord(self.record_path) if storage.is_remote(self.root) else DiskRecord(self.record_path)

    def _decode(self, data: bytes | None) -> Record:
        return Record(model=self.model) if data is None else decode_record(self.record_path, self.model, data)


def open(root: str, model: str) -> Registry:
    """Returns the registry of a model.

    Raises:
        UserError: the model name or the root is invalid.
    """
    if not re.fullmatch(MODEL_NAME, model):
        raise UserError(
            f"{quote(model)} cannot name a model: Vertex AI takes 1 to 63 small letters, digits, dashes and "
            "underscores, a letter first."
        )
    return Registry(resolve_root(root), model)


def resolve_root(root: str) -> str:
    """Returns the root as gs://... or an absolute path. Raises UserError for another form."""
    finding.refuse_scheme(root)
    if not root.strip():
        raise UserError("the registry needs a folder: a local one, or gs://bucket/folder.")
    if re.fullmatch("gs:/*", root):
        raise UserError(f"{quote(root)} names no bucket; expected gs://bucket/folder.")
    root = storage.uri(root)
    if storage.is_remote(root):
        return root
    return os.path.abspath(os.path.expanduser(root))


def models(root: str) -> list[str]:
    """Returns the names of the models below a root.

    Raises:
        UserError: the folder or bucket does not exist or is not readable.
        ProcessFailed: the store could not be reached.
    """
    root = resolve_root(root)
    if storage.is_remote(root):
        return [name for name in folders(root) if Folder(f"{root}/{name}").holds(FILE_NAME)]
    return [name for name in folders(root) if (Path(root) / name / FILE_NAME).exists()]


def folders(root: str) -> list[str]:
    """Returns the folders directly below a root, including models without a record. Raises as `models`."""
    root = resolve_root(root)
    if storage.is_remote(root):
        return _list_bucket_folders(root)
    if not Path(root).is_dir():
        raise UserError(f"there is no registry at {root}; the first run that registers a model creates it.")
    try:
        return sorted(path.name for path in Path(root).iterdir() if path.is_dir())
    except OSError as error:
        raise UserError(f"{root} cannot be read: {error.strerror}.") from None


def _list_bucket_folders(root: str) -> list[str]:
    try:
        return Folder(root).folders()
    except FileNotFoundError:
        raise UserError(f"the registry's bucket does not exist: {root}. Create it, or use another registry.") from None
    except ConnectionError as error:
        raise type(error)(f"the registry: {error}") from None
