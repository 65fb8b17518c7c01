"""Opens files: decompresses and hashes their bytes, decodes text to UTF-8, and fetches objects ahead."""

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
from vgp.base.text.printable import quote
from vgp.protocol.manifest import SourceFile

#: Bytes read at once.
BLOCK_BYTES = 4 << 20
LITTLE_BYTES = 1 << 10


class OpenedFile:
    """A file that is read once, from start to end."""

    def __init__(self, name: str, file: BufferedReader, path: str, suffix: str):
        self.name, self.file, self.path, self.suffix = name, file, path, suffix
        self.version = files.version(file)
        self.sum = hashlib.sha256()
        self.plain = _Summed(file, self.version.bytes, self.sum)
        self.stream: inflate.Readable = self.plain
        if suffix.endswith(".zip"):  # its directory is at the end of the file
            self.stream = inflate.Unpacked(name, file, self.version.bytes, ".csv")
        elif suffix.endswith((".gz", ".zst")):
            self.stream = inflate.Unpacked(name, self.stream, self.version.bytes)

    def blocks(self) -> Iterator[bytes]:
        while block := self.stream.read(BLOCK_BYTES):
            yield block

    def whole(self) -> bytes:
        return b"".join(self.blocks())

    def source(self) -> SourceFile:
        """Returns the file with its checksum, after reading. Raises UserError if the file changed meanwhile."""
        if self.plain.left:  # not all bytes were read, so the running sum is incomplete
            self.file.seek(0)
            self.sum = hashlib.file_digest(self.file, "sha256")
        if files.version(self.file) != self.version:
            raise UserError(f"{self.name} changed while it was read: use a copy that no other program writes to.")
        return SourceFile(path=self.name, bytes=self.version.bytes, sha256=self.sum.hexdigest())


class _Summed:
    """A stream that updates a checksum as its bytes are read."""

    closed = False

    def __init__(self, file: BufferedReader, bytes_: int, sum_: "hashlib._Hash"):
        self.file, self.left, self.sum = file, bytes_, sum_

    def read(self, size: int = -1, /) -> bytes:
        """Requests at most the bytes that are left, because `read` allocates the whole request at once."""
        block = self.file.read(min(size, max(self.left, 0) + LITTLE_BYTES) if size > 0 else size)
        self.left -= len(block)
        self.sum.update(block)
        return block

    def close(self) -> None:
        self.closed = True


@contextmanager
def open_local(file: File, path: str, suffix: str) -> Iterator[OpenedFile]:
    """Opens a file at the local `path`. Raises UserError if the file changed after it was found."""
    name = storage.plain(file.path)
    with files.open_unchanged(path, file.version, name) if file.version else files.open_file(path) as stream:
        yield OpenedFile(name, stream, path, suffix)


# ---- local copies of Cloud Storage objects: fetched ahead, and deleted after reading


#: The most objects that are being fetched or wait to be read.
AHEAD = 8
#: The most bytes of these objects, apart from the first.
AHEAD_BYTES = 2 << 30


def stage_files(files: Sequence[File], scratch: Path) -> Generator[tuple[int, File, str]]:
    """Yields the position, the file and its local path, which is valid until the next iteration.

    Raises:
        UserError: an object does not exist, is not readable, or was replaced.
    """
    if not any(storage.is_remote(file.path) for file in files):
        yield from ((number, file, file.path) for number, file in enumerate(files))
        return
    with ThreadPoolExecutor(AHEAD) as pool:
        waiting: deque[tuple[int, File, Future[str]]] = deque()
        coming = iter(enumerate(files))
        try:
            for number, file in coming:
                waiting.append((number, file, pool.submit(_download_if_remote, file, _staging_path(scratch, number))))
                while len(waiting) >= AHEAD or sum(file.bytes for _, file, _ in waiting) > AHEAD_BYTES:
                    yield from _yield_and_remove(waiting.popleft())
            while waiting:
                yield from _yield_and_remove(waiting.popleft())
        finally:
            pool.shutdown(cancel_futures=True)
            for number, _, _ in waiting:  # fetched ahead but not needed
                _staging_path(scratch, number).unlink(missing_ok=True)


def _staging_path(scratch: Path, number: int) -> Path:
    return scratch / f"object-{number}"


def _download_if_remote(file: File, target: Path) -> str:
    if not storage.is_remote(file.path):
        return file.path
    download.copy(file.path, target)
    return str(target)


def _yield_and_remove(item: tuple[int, File, "Future[str]"]) -> Iterator[tuple[int, File, str]]:
    number, file, copied = item
    path = copied.result()
    try:
        yield number, file, path
    finally:
        if storage.is_remote(file.path):
            Path(path).unlink(missing_ok=True)


# ---- decoding of text to UTF-8


#: Byte order marks and their encodings; longer marks first.
MARKS = {
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
#: The first bytes of binary formats, and their name endings.
PACKED = {b"\x1f\x8b": ".gz", b"\x28\xb5\x2f\xfd": ".zst", b"PAR1": ".parquet", b"PK\x03\x04": ".zip"}


def find_encoding(head: bytes, name: str, encoding: str) -> tuple[str, int]:
    """Returns the encoding of a text with this head, and the length of its byte order mark.

    Args:
        encoding: The user's option. A byte order mark overrides it, because no table begins with one by chance.

    Raises:
        UserError: the text is UTF-16 without a mark, or the file is compressed or binary.
    """
    for mark, marked_encoding in MARKS.items():
        if head.startswith(mark):
            return marked_encoding, len(mark)
    if packed := next((ending for mark, ending in PACKED.items() if head.startswith(mark)), ""):
        raise UserError(f"{name} is compressed: by its first bytes, its name should end in {packed}.")
    encoding = codecs.lookup(encoding or "utf-8").name
    zeros = [head[start:1000:2].count(0) for start in (0, 1)]
    if encoding == "utf-8" and 3 * sum(zeros) > len(head[:1000]):
        guess = "" if all(zeros) else "utf-16-le" if zeros[1] else "utf-16-be"
        fix = f'it is UTF-16: set task_options={{"encoding": "{guess}"}}, or save it as UTF-8.'
        raise UserError(f"{name} has NUL bytes: {fix if guess else 'it is not a text file.'}")
    return encoding, 0


def to_utf8(blocks: Iterator[bytes], name: str, encoding: str) -> Iterator[bytes]:
    """Converts the blocks of a text to UTF-8.

    Raises:
        UserError: some bytes are invalid in the encoding, or the text is UTF-8 already.
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
        raise UserError(
            f"{name}, line {line}: the text is not {encoding}, which has no characters for the bytes {wrong}."
        ) from None
    except UnicodeError as error:  # without bytes: there is no byte-order mark
        raise UserError(f"{name} is not {encoding}: {error}. Leave the option encoding out, or name another.") from None


class _Utf8:
    """A detector of UTF-8 in a text with a declared single-byte encoding.

    If all non-ASCII bytes are valid UTF-8, they make sequences that no other text has by chance ("MÃ¼nchen").
    """

    def __init__(self, encoding: str):
        self._encoding = encoding
        self._possible = _has_one_byte_a_letter(encoding)
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        #: The line and the word of the first non-ASCII character.
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
        """Raises UserError if the whole text was UTF-8 with some non-ASCII characters."""
        self.look_at(b"", 0, final=True)
        if self._possible and self._found:
            line, word = self._found
            read = word.encode().decode(self._encoding, errors="replace")
            raise UserError(
                f"{name}, line {line}: the text is UTF-8, and its encoding is said to be {self._encoding}: "
                f"{quote(word)} would be read as {quote(read)}. Leave `encoding` out; of files in several encodings "
                "save all as UTF-8."
            )


def _has_one_byte_a_letter(encoding: str) -> bool:
    """Whether an encoding is ASCII plus 128 characters. Multi-byte encodings may look like UTF-8 by chance."""
    try:
        ascii, more = (bytes(codes).decode(encoding, errors="replace") for codes in (range(0x80), range(0x80, 0x100)))
    except UnicodeError:  # of domain names and the like
        return False
    return ascii.isascii() and len(more) == 0x80


def decode_text(blocks: Iterator[bytes], name: str, given: str) -> tuple[str, Iterator[bytes]]:
    """Returns the encoding of a text, and its blocks in UTF-8 without a mark. Raises as `find_encoding`, `to_utf8`."""
    head = next(blocks, b"")
    encoding, mark = find_encoding(head, name, given)
    rest = chain([head[mark:]], blocks)
    return encoding, rest if encoding == "utf-8" else to_utf8(rest, name, encoding)
