"""The files of a version: copied into the registry before the record lists them, and verified by checksum.

An interrupted copy is not a version, because the record does not list it; the next try reuses its files.
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
from vgp.base.text.printable import quote
from vgp.registry import disk
from vgp.registry.documents import Version, VersionFile
from vgp.registry.registry import Registry

#: Maximum number of files of a version; the record lists them all.
MOST_FILES = 200
#: Folder of a version with report, decision and card; a champion does not need it.
ABOUT = "about"
#: Seconds that a copy waits for another one.
COPY_DEADLINE_S = 3600.0


def add(registry: Registry, source: str, key: str) -> dict[str, VersionFile]:
    """Copies a model's files to `registry.version_folder(key)` and returns their sizes and checksums.

    Copies nothing if the record holds the key. A file that exists with equal bytes is not sent again, but its age is
    renewed, so that `sweep` does not delete it.

    Raises:
        UserError: the folder holds no files or too many, or the registry is not writable.
        ProcessFailed: the store could not be reached, or a copy differs from its source.
    """
    if version := registry.read().find_key(key):
        return dict(version.files)
    target, names = registry.version_folder(key), _names(source)
    if storage.is_remote(target):
        return {name: _copy_to_bucket(path, Folder(target), name) for name, path in names.items()}
    with copy_lock(registry):
        return {name: _copy_to_disk(path, Path(target) / name) for name, path in names.items()}


def missing(registry: Registry, version: Version) -> list[str]:
    """Returns missing and truncated files of a version, judged by name and size."""
    folder = registry.version_folder(version.key)
    sizes = {file.path.removeprefix(f"{folder}/"): file.bytes for file in storage.below(folder)}
    return [
        f"{name} is gone" if name not in sizes else f"{name} has {sizes[name]:,} bytes instead of {file.bytes:,}"
        for name, file in version.files.items()
        if sizes.get(name) != file.bytes and not name.startswith(f"{ABOUT}/")
    ]


def require(registry: Registry, version: Version) -> None:
    """Raises UserError if files of the version are missing or truncated."""
    if wrong := missing(registry, version):
        raise UserError(
            f"version {version.number} of {registry.model} is incomplete: in {registry.version_folder(version.key)} "
            f"{', '.join(wrong[:3])}. Restore it, or use another version."
        )


def verify(registry: Registry, version: Version) -> None:
    """Reads every file of the version. Raises UserError if one is missing or has another checksum."""
    require(registry, version)
    folder = registry.version_folder(version.key)
    for name, file in version.files.items():
        with download.local_copy(f"{folder}/{name}") as path:
            if _describe_file(Path(path)) != file:
                raise UserError(
                    f"{folder}/{name} is damaged: its checksum differs from that of the registered version "
                    f"{version.number}. Restore it, or use another version."
                )


def remove(registry: Registry, version: Version) -> None:
    """Deletes the files of a deleted version, including the rest of an earlier try."""
    target = registry.version_folder(version.key)
    if storage.is_remote(target):
        with explain_bucket_errors(target, "deleted"):
            for file in storage.below(target):
                Folder(target).delete(file.path.removeprefix(f"{target}/"))
        return
    with copy_lock(registry):
        if Path(target).is_dir():
            shutil.rmtree(target)


@contextmanager
def copy_lock(registry: Registry) -> Iterator[None]:
    """Locks copying and deleting below a registry on a disk. Raises UserError if it is not writable."""
    with (
        disk.explain_write_errors(Path(registry.folder)),
        disk.hold_lock(Path(registry.folder) / "versions.lock", COPY_DEADLINE_S),
    ):
        yield


@contextmanager
def explain_bucket_errors(target: str, action: str) -> Iterator[None]:
    """Turns errors of a bucket into UserError and ProcessFailed.

    Args:
        action: For messages: the version cannot be copied, deleted ...
    """
    try:
        yield
    except client.Denied as error:
        raise UserError(f"the version cannot be {action}: {error} {client.WRITERS}") from None
    except ConnectionError as error:
        raise type(error)(f"the version cannot be {action}: {error}") from None
    except FileNotFoundError:
        raise UserError(f"the bucket of {target} does not exist: create it, or use another registry.") from None


def _names(source: str) -> dict[str, str]:
    """Returns the files below a folder: path by relative name."""
    source = storage.uri(source)
    source = source if storage.is_remote(source) else os.path.abspath(source)
    paths = {file.path.removeprefix(f"{source}/"): file.path for file in storage.below(source)}
    if not paths:
        raise UserError(f"{source} holds no files, so there is no model to register.")
    if len(paths) > MOST_FILES:
        raise UserError(
            f"{source} holds {len(paths):,} files; a version may have at most {MOST_FILES}. Pack them into an archive."
        )
    for name in paths:
        if not name.isprintable():
            raise UserError(f"{source}: the name {quote(name)} has unprintable characters: rename the file.")
    return paths


def _copy_to_disk(source: str, target: Path) -> VersionFile:
    with download.local_copy(source) as path:
        file = _describe_file(Path(path))
        if target.is_file() and _describe_file(target) == file:
            os.utime(target)
            return file
        target.parent.mkdir(parents=True, exist_ok=True)
        files.remove_scratch(target)
        with files.replacing(target, durable=True) as scratch:
            shutil.copyfile(path, scratch)
            if _describe_file(scratch) != file:
                raise ProcessFailed(f"{scratch} differs from {source} after copying. Repeat the command.")
    return file


def _copy_to_bucket(source: str, target: Folder, name: str) -> VersionFile:
    with download.local_copy(source) as path, explain_bucket_errors(target.path, "copied"):
        expected = Facts(os.path.getsize(path), download.checksum(Path(path)))
        if not (_read_facts(target, name) == expected and _renew(target, name)):
            _upload(Path(path), target, name)
        return _describe_file(Path(path))


def _renew(target: Folder, name: str) -> bool:
    """Rewrites the object in place to renew its age; returns whether it exists with equal bytes."""
    try:
        target.copy(name, target)
    except FileNotFoundError:
        return False
    return True


def _upload(path: Path, target: Folder, name: str) -> None:
    """Uploads the file with its CRC-32C checked by the server, replacing an earlier try."""
    with open(path, "rb") as file:
        if not os.path.getsize(path):
            target.replace(name, b"")
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            target.replace(name, mapped)


def _read_facts(target: Folder, name: str) -> Facts | None:
    try:
        return target.facts(name)
    except FileNotFoundError:
        return None


def _describe_file(path: Path) -> VersionFile:
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return VersionFile(bytes=os.fstat(file.fileno()).st_size, sha256=digest.hexdigest())
