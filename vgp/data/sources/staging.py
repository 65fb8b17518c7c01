"""Objects of Cloud Storage on this machine while they are read: fetched ahead, and deleted once they have served."""

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from vgp.base.storage import download, storage
from vgp.base.storage.finding import File

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
