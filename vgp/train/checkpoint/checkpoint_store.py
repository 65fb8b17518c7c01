"""The stores of checkpoints: a folder on a disk, and a folder of Cloud Storage."""

import contextlib
import errno
import os
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Protocol

import google_crc32c

from vgp.base.storage import storage
from vgp.base.storage.objects import Folder


class Store(Protocol):
    """A flat folder of immutable files. Methods raise OSError; ConnectionError if a remote store is unreachable."""

    def write(self, name: str, chunks: Iterable[memoryview]) -> None:
        """Writes a new file and waits until it is durable."""

    def commit(self, name: str, data: bytes) -> bool:
        """Creates `name` atomically; returns False if it exists, because another attempt has created it."""

    def read(self, name: str, start: int = 0, stop: int | None = None) -> bytes:
        """Returns bytes [start, stop) of the file; fewer if the file is shorter."""

    def size(self, name: str) -> int: ...

    def checksum(self, name: str) -> int:
        """Returns the CRC-32C of the stored bytes."""

    def names(self) -> list[str]: ...

    def delete(self, name: str) -> None: ...


def store_at(folder: str | Path, *, deadline_s: float = 120) -> Store:
    """Returns the store of `gs://bucket/folder`, `/gcs/bucket/folder` (Vertex AI's mount of it), or a local folder.

    Args:
        deadline_s: How long a method of a remote store retries before it raises ConnectionError.
    """
    uri = storage.uri(folder)
    return BucketStore(uri, deadline_s=deadline_s) if storage.is_remote(uri) else DiskStore(folder)


# ---- checkpoints in Cloud Storage: objects appear whole, and `if_generation_match=0` is the atomic commit


class BucketStore:
    """A flat folder of immutable objects. Methods may raise OSError; ConnectionError if the store is unreachable.

    Args:
        path: gs://bucket/folder.
        deadline_s: Seconds without progress after which a method gives up.
        stall_s: Seconds without progress after which a request is retried.
    """

    def __init__(self, path: str, *, deadline_s: float = 120, stall_s: float = 30):
        self.folder = Folder(path, deadline_s=deadline_s, stall_s=stall_s)

    def __str__(self) -> str:
        return self.folder.path

    def write(self, name: str, chunks: Iterable[memoryview]) -> None:
        """Writes a new object; returns when the server has it and confirms its checksum."""
        if not self.folder.create(name, list(chunks)):  # the chunks are views, so nothing is copied
            raise FileExistsError(f"{self}/{name} exists with other bytes")

    def commit(self, name: str, data: bytes) -> bool:
        return self.folder.create(name, [memoryview(data)])

    def read(self, name: str, start: int = 0, stop: int | None = None) -> bytes:
        return self.folder.read(name) if stop is None else self.folder.read_range(name, start, stop)

    def size(self, name: str) -> int:
        return self.folder.facts(name).bytes

    def checksum(self, name: str) -> int:
        """Returns the CRC-32C that the server computed from the bytes it received."""
        return self.folder.facts(name).crc32c

    def names(self) -> list[str]:
        return self.folder.names()

    def delete(self, name: str) -> None:
        self.folder.delete(name)


# ---- checkpoints in a folder of a file system: fsync, and link(2) as the atomic commit


_CHUNK = 1 << 20


class DiskStore:
    """A flat folder of immutable files. Every method may raise OSError."""

    def __init__(self, directory: str | Path):
        self.directory = Path(directory)

    def __str__(self) -> str:
        return str(self.directory)

    def write(self, name: str, chunks: Iterable[memoryview]) -> None:
        """Writes a new file and waits until it is on the disk; deletes it on failure."""
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / name
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            for chunk in chunks:
                while chunk:
                    chunk = chunk[os.write(descriptor, chunk) :]
            os.fsync(descriptor)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)

    def commit(self, name: str, data: bytes) -> bool:
        scratch = f".{name}.{os.getpid()}-{os.urandom(4).hex()}"
        self.write(scratch, [memoryview(data)])
        try:
            os.link(self.directory / scratch, self.directory / name)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
                raise
            if (self.directory / name).exists():  # file systems such as FUSE or exFAT have no hard links
                return False
            os.rename(self.directory / scratch, self.directory / name)
        finally:
            (self.directory / scratch).unlink(missing_ok=True)
            descriptor = os.open(self.directory, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        return True

    def read(self, name: str, start: int = 0, stop: int | None = None) -> bytes:
        with self._open(name) as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(start)
            return file.read(max(0, min(size, size if stop is None else stop) - start))

    def size(self, name: str) -> int:
        with self._open(name) as file:
            return os.fstat(file.fileno()).st_size

    def checksum(self, name: str) -> int:
        crc32c = 0
        with self._open(name) as file:
            while chunk := file.read(_CHUNK):
                crc32c = google_crc32c.extend(crc32c, chunk)
        return crc32c

    def _open(self, name: str) -> BinaryIO:
        """Opens a file. Raises OSError for a symbolic link, which could lead out of the folder."""
        return open(os.open(self.directory / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb", buffering=0)

    def names(self) -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            return sorted(os.listdir(self.directory))
        return []

    def delete(self, name: str) -> None:
        (self.directory / name).unlink(missing_ok=True)
