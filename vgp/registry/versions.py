"""The files of a version: copied below the registry before the record names them, and verified by checksum.

A copy that a kill cut short is no version, since no record names it; the next try takes what is there already.
"""

import hashlib
import mmap
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vgp.base.exits import ProcessFailed, UserError
from vgp.base.storage import client, download, files, storage
from vgp.base.storage.objects import Facts, Folder
from vgp.base.text.printable import quoted
from vgp.registry import disk
from vgp.registry.documents import Version, VersionFile
from vgp.registry.registry import Registry

#: The record lists them all.
MOST_FILES = 200
#: The folder in a version's of what is told of the model, such as the report: it reigns without that, too.
ABOUT = "about"
#: For so long a copy waits for another one.
COPY_DEADLINE_S = 3600.0


def add(registry: Registry, source: str, key: str) -> dict[str, VersionFile]:
    """Copies the files of a model's folder to `registry.version_folder(key)`, and returns what they are.

    Where the record has the key already nothing is copied. A file that is there with the same bytes is not sent again,
    but made young, for `sweep` takes what nobody is at work on.

    Raises:
        UserError: the folder holds no files, or too many; or the registry may not be written.
        ProcessFailed: the store could not be reached, or a copy is not what it is of.
    """
    if known := registry.read().keyed(key):
        return dict(known.files)
    target, names = registry.version_folder(key), _names(source)
    if storage.is_remote(target):
        return {name: _to_bucket(path, Folder(target), name) for name, path in names.items()}
    with alone(registry):
        return {name: _to_disk(path, Path(target) / name) for name, path in names.items()}


def missing(registry: Registry, version: Version) -> list[str]:
    """What is wrong about the files of a version's model, in words, as far as names and sizes tell."""
    folder = registry.version_folder(version.key)
    there = {file.path.removeprefix(f"{folder}/"): file.bytes for file in storage.below(folder)}
    return [
        f"{name} is gone" if name not in there else f"{name} has {there[name]:,} bytes instead of {file.bytes:,}"
        for name, file in version.files.items()
        if there.get(name) != file.bytes and not name.startswith(f"{ABOUT}/")
    ]


def require(registry: Registry, version: Version) -> None:
    """Raises UserError if files of the version are gone or cut short."""
    if wrong := missing(registry, version):
        raise UserError(
            f"version {version.number} of {registry.model} is not whole: in {registry.version_folder(version.key)} "
            f"{', '.join(wrong[:3])}. Restore it, or take another version."
        )


def verify(registry: Registry, version: Version) -> None:
    """Reads every file of the version. Raises UserError if one is gone, or has another checksum than the record's."""
    require(registry, version)
    folder = registry.version_folder(version.key)
    for name, file in version.files.items():
        with download.local_copy(f"{folder}/{name}") as path:
            if _described(Path(path)) != file:
                raise UserError(
                    f"{folder}/{name} is damaged: its bytes have another checksum than version {version.number} had "
                    "when it was registered. Restore it, or take another version."
                )


def remove(registry: Registry, version: Version) -> None:
    """Deletes the files of a version that the record has as deleted; also what an earlier try left of them."""
    target = registry.version_folder(version.key)
    if storage.is_remote(target):
        with reached(target, "deleted"):
            for file in storage.below(target):
                Folder(target).delete(file.path.removeprefix(f"{target}/"))
        return
    with alone(registry):
        if Path(target).is_dir():
            shutil.rmtree(target)


@contextmanager
def alone(registry: Registry) -> Iterator[None]:
    """Nobody else copies or deletes below a registry on a disk. Raises UserError if that may not be written."""
    with disk.refused(Path(registry.folder)), disk.locked(Path(registry.folder) / "versions.lock", COPY_DEADLINE_S):
        yield


@contextmanager
def reached(target: str, done: str) -> Iterator[None]:
    """Says what a bucket refuses, or that it cannot be reached, in words."""
    try:
        yield
    except client.Denied as error:
        raise UserError(f"the version cannot be {done}: {error} {client.WRITERS}") from None
    except ConnectionError as error:
        raise type(error)(f"the version cannot be {done}: {error}") from None
    except FileNotFoundError:
        raise UserError(f"there is no bucket for {target}: make it, or name another registry.") from None


def _names(source: str) -> dict[str, str]:
    """The files below a folder: their paths by their names from it."""
    source = storage.uri(source)
    source = source if storage.is_remote(source) else os.path.abspath(source)
    found = {file.path.removeprefix(f"{source}/"): file.path for file in storage.below(source)}
    if not found:
        raise UserError(f"{source} holds no files, so there is no model to register.")
    if len(found) > MOST_FILES:
        raise UserError(
            f"{source} holds {len(found):,} files; a version may have {MOST_FILES}: pack them into an archive."
        )
    for name in found:
        if not name.isprintable():
            raise UserError(f"{source}: the name {quoted(name)} is not printable text: rename the file.")
    return found


def _to_disk(source: str, target: Path) -> VersionFile:
    with download.local_copy(source) as path:
        file = _described(Path(path))
        if target.is_file() and _described(target) == file:
            os.utime(target)
            return file
        target.parent.mkdir(parents=True, exist_ok=True)
        files.remove_scratch(target)
        with files.replacing(target, durable=True) as scratch:
            shutil.copyfile(path, scratch)
            if _described(scratch) != file:
                raise ProcessFailed(f"{scratch} has not the bytes of {source}, of which it is a copy: try again.")
    return file


def _to_bucket(source: str, target: Folder, name: str) -> VersionFile:
    with download.local_copy(source) as path, reached(target.path, "copied"):
        expected = Facts(os.path.getsize(path), download.checksum(Path(path)))
        if not (_facts(target, name) == expected and _renewed(target, name)):
            _upload(Path(path), target, name)
        return _described(Path(path))


def _renewed(target: Folder, name: str) -> bool:
    """Whether the object is there as a generation of now, without its bytes coming here."""
    try:
        target.copy(name, target)
    except FileNotFoundError:
        return False
    return True


def _upload(path: Path, target: Folder, name: str) -> None:
    """The file as an object, its CRC-32C checked by the server; other bytes, of a try before, make way."""
    with open(path, "rb") as file:
        if not os.path.getsize(path):
            target.replace(name, b"")
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            target.replace(name, mapped)


def _facts(target: Folder, name: str) -> Facts | None:
    try:
        return target.facts(name)
    except FileNotFoundError:
        return None


def _described(path: Path) -> VersionFile:
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return VersionFile(bytes=os.fstat(file.fileno()).st_size, sha256=digest.hexdigest())
