"""One file: its bytes, unpacked and summed, and its text as UTF-8; objects of a bucket are fetched ahead."""

import codecs
import hashlib
import re
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from io import BufferedReader
from itertools import chain
from pathlib import Path

from vgp.base.exits import UserError
from vgp.base.storage import download, files, inflate, storage
from vgp.base.storage.finding import File
from vgp.base.text.printable import quoted
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

    def __init__(self, file: BufferedReader, bytes_: int, sum_: "hashlib._Hash"):
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


# ---- text of any encoding as UTF-8


#: What a text may begin with, and the encoding that it tells; the longer ones first.
MARKS = {
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
#: What files that are no text begin with, and how their names end.
PACKED = {b"\x1f\x8b": ".gz", b"\x28\xb5\x2f\xfd": ".zst", b"PAR1": ".parquet", b"PK\x03\x04": ".zip"}


def found(head: bytes, name: str, encoding: str) -> tuple[str, int]:
    """The encoding of a text that begins so, and the length of the mark that says it.

    Args:
        encoding: As it was given; a mark outweighs it, since no table begins with its letters by chance.

    Raises:
        UserError: it is UTF-16 without a mark, packed, or no text at all.
    """
    for mark, told in MARKS.items():
        if head.startswith(mark):
            return told, len(mark)
    if packed := next((ending for mark, ending in PACKED.items() if head.startswith(mark)), ""):
        raise UserError(f"{name} is no text; by its first bytes its name should end in {packed}.")
    encoding = codecs.lookup(encoding or "utf-8").name
    zeros = [head[start:1000:2].count(0) for start in (0, 1)]
    if encoding == "utf-8" and 3 * sum(zeros) > len(head[:1000]):
        guess = "" if all(zeros) else "utf-16-le" if zeros[1] else "utf-16-be"
        fix = f'it is UTF-16: give task_options={{"encoding": "{guess}"}}, or save it as UTF-8.'
        raise UserError(f"{name} holds NUL bytes: {fix if guess else 'it is no text.'}")
    return encoding, 0


def as_utf8(blocks: Iterator[bytes], name: str, encoding: str) -> Iterator[bytes]:
    """The blocks of a text, decoded and encoded again.

    Raises:
        UserError: the encoding does not have some of its bytes, or all of it is UTF-8.
    """
    decoder = codecs.getincrementaldecoder(encoding)()
    other = _Utf8(encoding)
    line = 1
    try:
        for block in blocks:
            text = decoder.decode(block)
            other.look_at(block, line)
            yield text.encode()
            line += text.count("\n")
        yield decoder.decode(b"", final=True).encode()
        other.refuse(name)
    except UnicodeDecodeError as error:
        line += error.object[: error.start].decode(encoding, errors="replace").count("\n")
        wrong = error.object[error.start : error.end].hex(" ")
        raise UserError(f"{name}, line {line}: the text is not {encoding}: bytes {wrong} stand for nothing.") from None
    except UnicodeError as error:  # without bytes: there is no byte-order mark
        raise UserError(f"{name} is not {encoding}: {error}. Leave the option encoding out, or name another.") from None


class _Utf8:
    """Whether a text that is said to have one byte for each letter is UTF-8: all of its letters beyond ASCII are then
    two or more of the other, in an order that no text has by chance ("MÃ¼nchen")."""

    def __init__(self, encoding: str):
        self._encoding = encoding
        self._possible = _has_one_byte_a_letter(encoding)
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        #: Line and word of the first letter beyond ASCII.
        self._found: tuple[int, str] | None = None

    def look_at(self, block: bytes, line: int, final: bool = False) -> None:
        if not self._possible or (block.isascii() and not self._decoder.getstate()[0]):
            return
        try:
            text = self._decoder.decode(block, final)
        except UnicodeDecodeError:
            self._possible = False
            return
        if not self._found and (word := re.search(r"\w*[^\x00-\x7f]\w*", text)):
            self._found = line + text.count("\n", 0, word.start()), word[0]

    def refuse(self, name: str) -> None:
        """Raises UserError if all of the text was UTF-8, and some of it is no ASCII."""
        self.look_at(b"", 0, final=True)
        if self._possible and self._found:
            line, word = self._found
            read = word.encode().decode(self._encoding, errors="replace")
            raise UserError(
                f"{name}, line {line}: the text is UTF-8, and its encoding is said to be {self._encoding}: "
                f"{quoted(word)} would be read as {quoted(read)}. Leave `encoding` out; of files in several encodings "
                "save all as UTF-8."
            )


def _has_one_byte_a_letter(encoding: str) -> bool:
    """Whether it is ASCII and 128 more; not so where two bytes are a letter, of which UTF-8 may consist by chance."""
    try:
        ascii, more = (bytes(codes).decode(encoding, errors="replace") for codes in (range(0x80), range(0x80, 0x100)))
    except UnicodeError:  # of domain names and the like
        return False
    return ascii.isascii() and len(more) == 0x80


def decoded(blocks: Iterator[bytes], name: str, given: str) -> tuple[str, Iterator[bytes]]:
    """The encoding of a text, and its blocks in UTF-8 without a mark. Raises UserError as `found` and `as_utf8`."""
    head = next(blocks, b"")
    encoding, mark = found(head, name, given)
    rest = chain([head[mark:]], blocks)
    return encoding, rest if encoding == "utf-8" else as_utf8(rest, name, encoding)
