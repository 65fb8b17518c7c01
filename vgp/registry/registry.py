"""A registry of one model's versions: its record is read, and changed by whoever has seen what it replaces."""

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
from vgp.base.text.printable import quoted
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

# ---- a record in Cloud Storage: one object, put in place only of the generation that was read


#: For so long a change is tried again: Cloud Storage takes about one write a second to one object, so a hundred runs
#: that end at once are through in two minutes. https://cloud.google.com/storage/quotas#objects
DEADLINE_S = 900.0
_PAUSES = Pauses(first_s=0.1, longest_s=4.0, deadline_s=DEADLINE_S, jitter=True)


class BucketRecord:
    """The object at gs://bucket/.../registry.json."""

    def __init__(self, path: str):
        self.path = path
        self.slot = Slot(path, deadline_s=READ_DEADLINE_S, most=MOST_RECORD_BYTES)

    def read(self) -> bytes | None:
        """None if there is no object, in a bucket that there is."""
        with _in_words(self.path):
            if there := self.slot.read():
                return there.data
            Folder(self.path.rpartition("/")[0]).names()  # tells a bucket that is not there
        return None

    def update(self, function: Callable[[bytes | None], bytes | None]) -> None:
        """Puts what the function makes of the object's bytes in their place; None = leaves them.

        It is called again for as long as others are faster. A write whose answer was lost looks like another's: the
        function finds in the bytes that it is done.
        """

        def change() -> Literal[True] | None:
            there = self.slot.read()
            data = function(there.data if there else None)
            done = data is None or self.slot.put(data, there.generation if there else 0) is not None
            return True if done else None

        with _in_words(self.path):
            if poll(change, _PAUSES) is None:
                raise ProcessFailed(f"{self.path} was changed by others all the time, for {DEADLINE_S:.0f} s.")

    def require_writable(self) -> None:
        """Raises UserError if objects cannot be made and deleted beside it."""
        with _in_words(self.path):
            Folder(self.path.rpartition("/")[0]).require_writable()


@contextmanager
def _in_words(path: str) -> Iterator[None]:
    try:
        yield
    except ConnectionError as error:
        raise type(error)(f"the registry: {error}") from None
    except FileNotFoundError:
        raise UserError(f"there is no bucket for the registry {path}: make it, or name another one.") from None


@dataclass(frozen=True)
class Registry:
    """The registry of one model below a root, an absolute folder on this machine or gs://."""

    root: str
    model: str

    @property
    def folder(self) -> str:
        """Of the record and of the versions."""
        return f"{self.root}/{self.model}"

    @property
    def record_path(self) -> str:
        return f"{self.folder}/{FILE_NAME}"

    def read(self) -> Record:
        """The record as it is now; an empty one if there is none yet.

        Raises:
            UserError: it is damaged, of a newer format, of another model, too large, or may not be read.
            ProcessFailed: the store could not be reached.
        """
        return self._decoded(self._store.read())

    def change(self, function: Callable[[Record], Record]) -> Record:
        """Puts what the function makes of the record in its place, and returns it.

        The function is called again, with the newer record, where somebody else was faster: it has no effects, and does
        nothing for a key that is in the record already. Where it returns what it was given, nothing is written.

        Raises: as `read`, UserError if it may not be written, and whatever the function raises.
        """
        made = Record(model=self.model)

        def changed(data: bytes | None) -> bytes | None:
            nonlocal made
            before = self._decoded(data)
            made = function(before)
            return None if made == before else encode_record(self.record_path, made)

        self._store.update(changed)
        return made

    def champion(self) -> Version | None:
        """The version that reigns now. Raises as `read`."""
        return self.read().champion()

    def with_places(self, record: Record) -> Record:
        """The record with each version where it lies now: that of a registry that was moved has the places before."""
        return record.model_copy(update={"versions": tuple(map(self.placed, record.versions))})

    def placed(self, version: Version) -> Version:
        """The version with its files, its report among them, where they lie now."""
        folder, before = self.version_folder(version.key), f"{version.model}/"
        inside = version.report.startswith(before)
        report = f"{folder}/{version.report.removeprefix(before)}" if inside else version.report
        return version.model_copy(update={"model": folder, "report": report})

    def version_folder(self, key: str) -> str:
        """Where the files of the version with that key lie, also after the registry was moved."""
        return f"{self.folder}/{VERSIONS}/{key}"

    def require_writable(self) -> None:
        """Raises UserError if the record cannot be read or written here; nothing is left behind but a folder."""
        self.read()
        self._store.require_writable()

    @property
    def _store(self) -> DiskRecord | BucketRecord:
        return BucketRecord(self.record_path) if storage.is_remote(self.root) else DiskRecord(self.record_path)

    def _decoded(self, data: bytes | None) -> Record:
        return Record(model=self.model) if data is None else decode_record(self.record_path, self.model, data)


def open(root: str, model: str) -> Registry:
    """The registry of a model.

    Raises:
        UserError: the name of the model or the root cannot be.
    """
    if not re.fullmatch(MODEL_NAME, model):
        raise UserError(
            f"{quoted(model)} cannot name a model: Vertex AI takes 1 to 63 small letters, digits, dashes and "
            "underscores, a letter first."
        )
    return Registry(located(root), model)


def located(root: str) -> str:
    """The root as it is written here: gs://..., or an absolute path. Raises UserError if it is neither."""
    finding.refuse(root)
    if not root.strip():
        raise UserError("the registry needs a folder: one on this machine, or gs://bucket/folder.")
    if re.fullmatch("gs:/*", root):
        raise UserError(f"{quoted(root)} names no bucket; expected gs://bucket/folder.")
    root = storage.uri(root)
    if storage.is_remote(root):
        return root
    return os.path.abspath(os.path.expanduser(root))


def models(root: str) -> list[str]:
    """Names of the models that are registered below a root.

    Raises:
        UserError: there is no such folder or bucket, or it may not be read.
        ProcessFailed: the store could not be reached.
    """
    root = located(root)
    if storage.is_remote(root):
        return [name for name in folders(root) if Folder(f"{root}/{name}").holds(FILE_NAME)]
    return [name for name in folders(root) if (Path(root) / name / FILE_NAME).exists()]


def folders(root: str) -> list[str]:
    """Names of the folders directly below a root: a model's, also before it has a record. Raises as `models`."""
    root = located(root)
    if storage.is_remote(root):
        return _remote(root)
    if not Path(root).is_dir():
        raise UserError(f"there is no registry at {root}: a run that registers its model makes it.")
    try:
        return sorted(path.name for path in Path(root).iterdir() if path.is_dir())
    except OSError as error:
        raise UserError(f"{root} cannot be read: {error.strerror}.") from None


def _remote(root: str) -> list[str]:
    try:
        return Folder(root).folders()
    except FileNotFoundError:
        raise UserError(f"there is no bucket for the registry {root}: make it, or name another one.") from None
    except ConnectionError as error:
        raise type(error)(f"the registry: {error}") from None
