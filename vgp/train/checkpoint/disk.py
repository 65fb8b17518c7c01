"""Checkpoints in a folder of a file system: fsync, and link(2) as the atomic commit."""

import contextlib
import errno
import os
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

import google_crc32c

_CHUNK = 1 << 20


class DiskStore:
    """A flat folder of immutable files. Every method may raise OSError."""

    def __init__(self, directory: str | Path):
        self.directory = Path(directory)

    def __str__(self) -> str:
        return str(self.directory)

    def write(self, name: str, chunks: Iterable[memoryview]) -> None:
        """Writes a new file and waits until it is on the disk; leaves nothing behind if that fails."""
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
        """Makes `name` appear whole or not at all; False if it exists already, which another attempt then won."""
        scratch = f".{name}.{os.getpid()}-{os.urandom(4).hex()}"
        self.write(scratch, [memoryview(data)])
        try:
            os.link(self.directory / scratch, self.directory / name)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
                raise
            if (self.directory / name).exists():  # a file system without hard links, such as FUSE or exFAT
                return False
            os.rename(self.directory / scratch, self.directory / name)
        finally:
            (self.directory / scratch).unlink(missing_ok=True)
            self._sync_directory()
        return True

    def read(self, name: str, start: int = 0, stop: int | None = None) -> bytes:
        """Bytes [start, stop) of the file; fewer where it ends before."""
        with self._open(name) as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(start)
            return file.read(max(0, min(size, size if stop is None else stop) - start))

    def size(self, name: str) -> int:
        with self._open(name) as file:
            return os.fstat(file.fileno()).st_size

    def checksum(self, name: str) -> int:
        """CRC-32C of the file's bytes."""
        crc32c = 0
        with self._open(name) as file:
            while chunk := file.read(_CHUNK):
                crc32c = google_crc32c.extend(crc32c, chunk)
        return crc32c

    def _open(self, name: str) -> BinaryIO:
        """Raises OSError also for a symbolic link, which could lead out of the folder."""
        return open(os.open(self.directory / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb", buffering=0)

    def names(self) -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            return sorted(os.listdir(self.directory))
        return []

    def delete(self, name: str) -> None:
        (self.directory / name).unlink(missing_ok=True)

    def _sync_directory(self) -> None:
        descriptor = os.open(self.directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
