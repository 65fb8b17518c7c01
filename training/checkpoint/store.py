"""Where checkpoints lie: what a store can do, and which one a folder needs."""

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from training import storage
from training.checkpoint.bucket import BucketStore
from training.checkpoint.disk import DiskStore


class Store(Protocol):
    """A flat folder of immutable files. Methods raise OSError; ConnectionError while a remote store is down."""

    def write(self, name: str, chunks: Iterable[memoryview]) -> None:
        """Writes a new file and waits until it will survive a crash."""

    def commit(self, name: str, data: bytes) -> bool:
        """Makes `name` appear whole or not at all; False if it exists already, which another attempt then won."""

    def read(self, name: str) -> bytes: ...

    def names(self) -> list[str]: ...

    def delete(self, name: str) -> None: ...


def store_at(folder: str | Path) -> Store:
    """The store of `gs://bucket/folder`, of `/gcs/bucket/folder` (Vertex's mount of the same), or of a local folder."""
    uri = storage.uri(folder)
    return BucketStore(uri) if storage.is_remote(uri) else DiskStore(folder)
