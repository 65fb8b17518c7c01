"""The bytes of one file, unpacked, with the checksum of the file as it lies there."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from typing import Any

from vgp.base.exits import UserError
from vgp.base.storage import files, inflate, storage
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
