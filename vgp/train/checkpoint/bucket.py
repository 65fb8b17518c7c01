"""Checkpoints in Cloud Storage: objects appear whole, and `if_generation_match=0` is the atomic commit."""

from collections.abc import Iterable

from vgp.base.storage.objects import Folder


class BucketStore:
    """A flat folder of immutable objects. Every method may raise OSError; ConnectionError if the store is down.

    Args:
        path: gs://bucket/folder.
        deadline_s: Without progress for so long, a method gives up.
        stall_s: A request during which nothing moves for so long has failed and is made again.
    """

    def __init__(self, path: str, *, deadline_s: float = 120, stall_s: float = 30):
        self.folder = Folder(path, deadline_s=deadline_s, stall_s=stall_s)

    def __str__(self) -> str:
        return self.folder.path

    def write(self, name: str, chunks: Iterable[memoryview]) -> None:
        """Writes a new object, and returns when the server has it and its checksum agrees."""
        if not self.folder.create(name, list(chunks)):  # views of the caller's memory: nothing is copied
            raise FileExistsError(f"{self}/{name} exists with other bytes")

    def commit(self, name: str, data: bytes) -> bool:
        """Makes `name` appear whole or not at all; False if it exists already, which another attempt then won."""
        return self.folder.create(name, [memoryview(data)])

    def read(self, name: str, start: int = 0, stop: int | None = None) -> bytes:
        """Bytes [start, stop) of the object; fewer where it ends before."""
        return self.folder.read(name) if stop is None else self.folder.read_range(name, start, stop)

    def size(self, name: str) -> int:
        return self.folder.facts(name).bytes

    def checksum(self, name: str) -> int:
        """CRC-32C that the server computed from the bytes that it received."""
        return self.folder.facts(name).crc32c

    def names(self) -> list[str]:
        return self.folder.names()

    def delete(self, name: str) -> None:
        self.folder.delete(name)
