"""Where checkpoints lie: what a store can do, and which one a folder needs."""

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from vgp.base.storage import storage
from vgp.train.checkpoint.bucket import BucketStore
from vgp.train.checkpoint.disk import DiskStore


class Store(Protocol):
    """A flat folder of immutable files. Methods raise OSError; ConnectionError while a remote store is down."""

    def write(self, name: str, chunks: Iterable[memoryview]) -> None:
        """Writes a new file and waits until it will survive a crash."""

    def commit(self, name: str, data: bytes) -> bool:
        """Makes `name` appear whole or not at all; False if it exists already, which another attempt then won."""

    def read(self, name: str, start: int = 0, stop: int | None = None) -> bytes:
        """Bytes [start, stop) of the file; fewer where it ends before."""

    def size(self, name: str) -> int: ...

    def checksum(self, name: str) -> int:
        """CRC-32C of what is stored, not of what was sent."""

    def names(self) -> list[str]: ...

    def delete(self, name: str) -> None: ...


def store_at(folder: str | Path, *, deadline_s: float = 120) -> Store:
    """The store of `gs://bucket/folder`, of `/gcs/bucket/folder` (Vertex's mount of the same), or of a local folder.

    Args:
        deadline_s: How long a method of a remote store tries before it raises ConnectionError.
    """
    uri = storage.uri(folder)
    return BucketStore(uri, deadline_s=deadline_s) if storage.is_remote(uri) else DiskStore(folder)
