"""The bytes of one file, unpacked, with the checksum of the file as it lies there."""

import hashlib
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

from vgp.base.exits import UserError
from vgp.base.storage import download, files, inflate, storage
from vgp.base.storage.finding import File
from vgp.protocol.manifest import SourceFile

#: Read at once.
BLOCK_BYTES = 4 << 20
LITTLE_BYTES = 1 << 10


class Opened:
    """One file while it is read, from its start to its end."""

    def __init__(self, name: str, file: BufferedReader, path: str, suffix: str):
        self.name, self.file, self.path, self.suffix = name, file, path, suffix
        self.version = files.version(file)
        self.sum = hashlib.sha256()
        self.plain = _Summed(file, self.version.bytes, self.sum)
        self.stream: inflate.Readable = self.plain
        if suffix.endswith(".zip"):  # begins at its end
            self.stream = inflate.Unpacked(name, file, self.version.bytes, ".csv")
        elif suffix.endswith((".gz", ".zst")):
            self.stream = inflate.Unpacked(name, self.stream, self.version.bytes)

    def blocks(self) -> Iterator[bytes]:
        while block := self.stream.read(BLOCK_BYTES):
            yield block

    def whole(self) -> bytes:
        return b"".join(self.blocks())

    def source(self) -> SourceFile:
        """The file with its checksum, once it was read. Raises UserError if it was written to meanwhile."""
        if self.plain.left:  # it was not read from its start to its end
            self.file.seek(0)
            self.sum = hashlib.file_digest(self.file, "sha256")
        if files.version(self.file) != self.version:
            raise UserError(f"{self.name} changed while it was read: give a copy that nobody writes to.")
        return SourceFile(path=self.name, bytes=self.version.bytes, sha256=self.sum.hexdigest())


class _Summed:
    """A stream whose bytes are summed up as they are read."""

    closed = False

    def __init__(self, file: BufferedReader, bytes_: int, sum_: Any):
        self.file, self.left, self.sum = file, bytes_, sum_

    def read(self, size: int = -1, /) -> bytes:
        """Asks for little where little is left: room is made for all that is asked for."""
        block = self.file.read(min(size, max(self.left, 0) + LITTLE_BYTES) if size > 0 else size)
        self.left -= len(block)
        self.sum.update(block)
        return block

    def close(self) -> None:
        self.closed = True


@contextmanager
def opened(file: File, path: str, suffix: str) -> Iterator[Opened]:
    """A file that lies at `path` on this machine. Raises UserError if it is another than it was when it was found."""
    name = storage.plain(file.path)
    with files.open_unchanged(path, file.version, name) if file.version else files.open_file(path) as stream:
        yield Opened(name, stream, path, suffix)


# ---- objects of Cloud Storage on this machine while they are read: fetched ahead, and deleted once they have served


#: Objects that are fetched at the same time, or lie here unread.
AHEAD = 8
#: The bytes of all of them, but for the first.
AHEAD_BYTES = 2 << 30


def staged(files: Sequence[File], scratch: Path) -> Generator[tuple[int, File, str]]:
    """Each file with its position and its path on this machine, which is good until the next one is asked for.

    Raises:
        UserError: an object does not exist, may not be read, or was replaced.
    """
    if not any(storage.is_remote(file.path) for file in files):
        yield from ((number, file, file.path) for number, file in enumerate(files))
        return
    with ThreadPoolExecutor(AHEAD) as pool:
        waiting: deque[tuple[int, File, Future[str]]] = deque()
        coming = iter(enumerate(files))
        try:
            for number, file in coming:
                waiting.append((number, file, pool.submit(_local, file, _staged_at(scratch, number))))
                while len(waiting) >= AHEAD or sum(file.bytes for _, file, _ in waiting) > AHEAD_BYTES:
                    yield from _served(waiting.popleft())
            while waiting:
                yield from _served(waiting.popleft())
        finally:
            pool.shutdown(cancel_futures=True)
            for number, _, _ in waiting:  # what was fetched ahead and is not read any more
                _staged_at(scratch, number).unlink(missing_ok=True)


def _staged_at(scratch: Path, number: int) -> Path:
    return scratch / f"object-{number}"


def _local(file: File, target: Path) -> str:
    if not storage.is_remote(file.path):
        return file.path
    download.copy(file.path, target)
    return str(target)


def _served(item: tuple[int, File, "Future[str]"]) -> Iterator[tuple[int, File, str]]:
    number, file, copied = item
    path = copied.result()
    try:
        yield number, file, path
    finally:
        if storage.is_remote(file.path):
            Path(path).unlink(missing_ok=True)
