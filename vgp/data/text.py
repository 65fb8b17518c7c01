"""Text files, local or in a bucket: listed, split by their names, and cut into passages of whole lines."""

import hashlib
import os
import re
import sysconfig
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from vgp.base.exits import UserError
from vgp.base.storage import download, files, finding, pinned, storage
from vgp.data import current_place
from vgp.protocol.manifest import SourceFile

#: The approximate size of a shard; a larger file is cut into passages of this size.
SHARD_BYTES = 4 << 20
#: Folders of the standard library with third-party packages or tests.
SKIPPED = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}


@dataclass(frozen=True)
class Text:
    """A text file; `name` is its path below the input's root, equal on every machine."""

    name: str
    file: storage.File

    @property
    def path(self) -> str:
        return self.file.path

    @property
    def bytes(self) -> int:
        return self.file.bytes


@dataclass(frozen=True)
class Passage:
    """The lines of a file that begin in the byte range start..end."""

    name: str
    #: A local path, or gs://bucket/name#generation.
    path: str
    version: files.Version
    start: int
    end: int

    def read(self) -> bytes:
        current_place.record_place(storage.plain(self.path), f"bytes {self.start}-{self.end}")
        with self._open() as file:
            if self.start:  # a line across the cut belongs to the previous passage
                file.seek(self.start - 1)
                file.readline()
            if file.tell() >= self.end:
                return b""
            text = file.read(self.end - file.tell())
            return text if text.endswith(b"\n") else text + file.readline()

    def _open(self) -> AbstractContextManager[IO[bytes]]:
        if storage.is_remote(self.path):
            return download.open_object(self.path)
        return files.open_unchanged(self.path, self.version, self.name)


def find(data: str) -> list[Text]:
    """Returns the files that `data` names, sorted by name; "" = the sources of Python's standard library.

    Args:
        data: Files, folders (with all files below them) and globs, local or gs://, separated by commas.

    Raises:
        UserError: A part matches nothing, or two files have the same name below their roots.
    """
    parts = storage.parts(data)
    matches = [text for part in parts for text in _below(part)] if parts else _list_standard_library()
    texts = {text.path: text for text in matches if text.bytes}
    names: dict[str, str] = {}
    for text in texts.values():
        if (other := names.setdefault(text.name, text.path)) != text.path:
            raise UserError(f"{other} and {text.path} are both called {text.name!r}: give the folder above them.")
    if not texts:
        raise UserError(f"{data} holds no text: all files are empty.")
    return sorted(texts.values(), key=lambda text: text.name)


def _list_standard_library() -> list[Text]:
    root = Path(sysconfig.get_path("stdlib"))
    names = [path.relative_to(root) for path in root.rglob("*.py")]
    sources = [name for name in names if not SKIPPED & set(name.parts)]
    return [Text(name.as_posix(), finding.stat_file(str(root / name))) for name in sources]


def _below(part: str) -> list[Text]:
    """Returns the files of one file, folder or glob. The root is the folder, or the part before the first wildcard."""
    if pinned.read_digest(part):
        return [Text(file.title or storage.plain(file.path), file) for file in storage.find(part)]
    if storage.WILDCARDS & set(part) and not os.path.exists(part):
        root = re.split(r"[*?\[]", part, maxsplit=1)[0].rpartition("/")[0]
        return _name_files(root, storage.find(part))
    everything = f"{part.rstrip('/')}/**/*"
    if storage.is_remote(part):
        try:
            return _name_files(part.rstrip("/"), storage.find(everything))
        except UserError:  # an object, not a folder
            return _name_files(part.rpartition("/")[0], storage.find(part))
    if os.path.isdir(part):
        return _name_files(part.rstrip("/"), storage.find(everything))
    return _name_files(os.path.dirname(part), storage.find(part))


def _name_files(root: str, files: Sequence[storage.File]) -> list[Text]:
    prefix = f"{root}/" if root else ""
    return [Text(file.path.removeprefix(prefix).lstrip("/"), file) for file in files]


def split_of(name: str, validation_share: float, test_share: float) -> str:
    """Returns the split of a file by a hash of its name alone, so new files never move existing ones."""
    place = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little") / 2**64
    return "test" if place < test_share else "validation" if place < test_share + validation_share else "train"


def cut_texts(
    texts: Sequence[Text], scratch: Path, *, elsewhere: bool = False
) -> tuple[list[tuple[Passage, ...]], tuple[SourceFile, ...]]:
    """Returns shards of about `SHARD_BYTES`, and the checksum of every file. Copies remote files to `scratch` first.

    Args:
        elsewhere: Whether other machines read the passages, from the bucket; then no copy stays in `scratch`.
    """
    with ThreadPoolExecutor(4) as pool:
        local = list(pool.map(lambda item: _local(item[1], scratch / f"text-{item[0]}", elsewhere), enumerate(texts)))
    shards: list[tuple[Passage, ...]] = []
    shard: list[Passage] = []
    size = 0
    for text, (path, version, _) in zip(texts, local, strict=True):
        for start in range(0, version.bytes, SHARD_BYTES):
            end = min(start + SHARD_BYTES, version.bytes)
            if shard and size + end - start > SHARD_BYTES:
                shards.append(tuple(shard))
                shard, size = [], 0
            shard.append(Passage(text.name, path, version, start, end))
            size += end - start
    return [*shards, tuple(shard)], tuple(source for *_, source in local)


def _local(text: Text, scratch: Path, elsewhere: bool) -> tuple[str, files.Version, SourceFile]:
    """Returns the path to read the text from, its version, and its checksum."""
    path, known, name = Path(text.path), text.file.version, storage.plain(text.path)
    if storage.is_remote(text.path):
        download.copy(text.path, scratch)
        path = scratch
    with files.open_unchanged(path, known, name) if known else files.open_file(path) as file:
        version = files.version(file)
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
    source = SourceFile(path=name, bytes=version.bytes, sha256=checksum)
    if elsewhere and storage.is_remote(text.path):
        scratch.unlink()
        pinned = text.path if storage.generation_of(text.path)[1] else f"{text.path}#{text.file.generation}"
        return pinned, version, source
    return str(path), version, source
