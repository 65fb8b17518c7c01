"""Finds and deletes copies below a registry that belong to no version, left by killed releases or deletions.

A copy of an active release is kept: a release takes less than a day, and renews the age of existing files
(`versions.add`). On a disk, release and deletion hold the same lock. In a bucket, a deletion is conditional on the
generations of the listed objects, and a renewed object has a new one.
"""

import os
import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from vgp.base.storage import storage
from vgp.base.storage.client import READ_DEADLINE_S
from vgp.base.storage.finding import File
from vgp.base.storage.objects import Folder
from vgp.base.storage.slot import Slot
from vgp.registry import disk, versions
from vgp.registry.disk import VERSIONS
from vgp.registry.documents import DIGEST, Version
from vgp.registry.registry import Registry

#: Age in seconds at which a copy counts as abandoned: no release takes a day.
UNTOUCHED_S = 86_400.0


@dataclass(frozen=True)
class Copy:
    """The files of a key that belongs to no version."""

    key: str
    folder: str
    files: tuple[File, ...]
    #: Seconds since the last write.
    untouched_s: float
    #: The deleted version that they belonged to, or None.
    deleted: Version | None = None

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def goes(self) -> bool:
        """Whether no process can be working on the copy."""
        return self.deleted is not None or self.untouched_s >= UNTOUCHED_S


def find_copies(registry: Registry) -> list[Copy]:
    """Returns all copies below the registry that belong to no version, by key.

    Raises:
        UserError, ProcessFailed: as `Registry.read`.
    """
    keys = _list_keys(registry)
    record = registry.read()  # read after the listing, so that it holds versions registered meanwhile
    copies = []
    for key in keys:
        version = record.find_key(key)
        if version is None or version.state == "deleted":
            copies.append(_read_copy(registry, key, version))
    return [copy for copy in copies if copy.files or not storage.is_remote(copy.folder)]


def remove(registry: Registry, copy: Copy) -> bool:
    """Deletes the copy; returns False and stops if a process wrote to it meanwhile.

    Raises:
        UserError: the account may not delete it.
        ProcessFailed: the store could not be reached.
    """
    if copy.deleted:
        versions.remove(registry, copy.deleted)
        return True
    if storage.is_remote(copy.folder):
        with versions.explain_bucket_errors(copy.folder, "deleted"):
            return all([_open_slot(file.path).delete(file.generation) for file in copy.files])
    with versions.copy_lock(registry):
        if not _read_copy(registry, copy.key, None).goes:
            return False
        shutil.rmtree(copy.folder)
    return True


def _list_keys(registry: Registry) -> list[str]:
    folder = f"{registry.folder}/{VERSIONS}"
    if storage.is_remote(folder):
        with versions.explain_bucket_errors(folder, "listed"):
            names = Folder(folder).folders()
    else:
        with disk.explain_write_errors(Path(folder)):
            paths = Path(folder).iterdir() if Path(folder).is_dir() else ()
            names = sorted(path.name for path in paths if path.is_dir() and not path.is_symlink())
    return [name for name in names if re.fullmatch(DIGEST, name)]


def _read_copy(registry: Registry, key: str, deleted: Version | None) -> Copy:
    folder = registry.version_folder(key)
    files = storage.below(folder)
    if storage.is_remote(folder):
        with versions.explain_bucket_errors(folder, "looked at"):
            ages = {file: facts[1] for file in files if (facts := _open_slot(file.path).facts())}
        return Copy(key, folder, tuple(ages), min(ages.values(), default=0.0), deleted)
    times = [os.stat(file.path).st_mtime for file in files] or [os.stat(folder).st_mtime]
    return Copy(key, folder, tuple(files), time.time() - max(times), deleted)


def _open_slot(path: str) -> Slot:
    return Slot(path, deadline_s=READ_DEADLINE_S)
