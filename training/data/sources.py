"""Raw CSV files, wherever they lie, cut into pieces of whole lines that fit in memory.

Compressed and remote files are streamed to scratch space first. The size of a piece is fixed, so the pieces
(and all that is made of them) are the same on any machine, with any number of workers.
"""

import csv
import gzip
import hashlib
import shutil
import zipfile
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from pathlib import Path
from typing import BinaryIO

from training import storage
from training.data.manifest import SourceFile
from training.errors import UserError

SUFFIXES = (".csv", ".csv.gz", ".csv.zip")
PIECE_BYTES = 8 << 20
COPY_BYTES = 8 << 20
#: No real record is longer: somewhere a quote is not closed.
MAX_RECORD_BYTES = 64 << 20
UTF8_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Piece:
    """Whole lines of one CSV file, without its header."""

    #: Position among all pieces of the input.
    number: int
    #: The file as the user knows it, and the plain file on this machine that holds the text.
    source: str
    path: str
    #: Byte range in `path`.
    start: int
    end: int
    #: Number of the piece's first line in its file; the header is line 1.
    first_line: int
    #: Lines before this piece in the whole input: `first_row` + position is unique to a row.
    first_row: int
    lines: int
    columns: tuple[str, ...]

    def read(self) -> bytes:
        with open(self.path, "rb") as file:
            file.seek(self.start)
            return file.read(self.end - self.start)


def cut(data: str, scratch: Path) -> tuple[list[Piece], tuple[SourceFile, ...]]:
    """The pieces of the input and the checksums of its files.

    Args:
        data: files, folders and globs, local or gs://, separated by commas.
        scratch: where compressed and remote files are streamed to.

    Raises:
        UserError: nothing matches, a file is damaged, has no header, or the whole input has no row.
    """
    files = resolve(data)
    with ThreadPoolExecutor(4) as pool:  # hashing, inflating and downloading all release the lock
        cuts = list(pool.map(lambda item: _cut_file(item[1], scratch / f"source-{item[0]}"), enumerate(files)))
    pieces = list(chain.from_iterable(found for _, found in cuts))
    if not pieces:
        raise UserError(f"{data} has no rows: {len(files)} file(s) with a header and nothing below it.")
    rows_before = accumulate((piece.lines for piece in pieces), initial=0)
    numbered = [
        replace(piece, number=number, first_row=first_row)
        for number, (piece, first_row) in enumerate(zip(pieces, rows_before, strict=False))
    ]
    return numbered, tuple(source for source, _ in cuts)


def resolve(data: str) -> list[storage.File]:
    """The files that `data` stands for, each once, in the order given.

    Raises:
        UserError: a part matches nothing, or a file is no CSV file.
    """
    parts = [part.strip() for part in data.split(",") if part.strip()]
    if not parts:
        raise UserError("no input was given: expected CSV files, folders or globs, separated by commas.")
    files = {file.path: file for part in parts for file in storage.find(part, SUFFIXES)}
    for path in files:
        if not path.endswith(SUFFIXES):
            raise UserError(f"{path} is not a CSV file: its name must end in {', '.join(SUFFIXES)}.")
    return list(files.values())


def _cut_file(file: storage.File, scratch: Path) -> tuple[SourceFile, list[Piece]]:
    local = _local_copy(file.path, scratch)
    with open(local, "rb") as stream:
        checksum = hashlib.file_digest(stream, "sha256").hexdigest()
    source = SourceFile(path=file.path, bytes=local.stat().st_size, sha256=checksum)
    plain = _expanded(file.path, local, scratch.with_name(scratch.name + ".csv"))
    with open(plain, "rb") as stream:
        return source, list(_pieces(file.path, plain, stream))


def _local_copy(path: str, scratch: Path) -> Path:
    if not storage.is_remote(path):
        try:
            with open(path, "rb"):
                return Path(path)
        except OSError as error:
            raise UserError(f"{path} cannot be read: {error.strerror}.") from None
    with closing(storage.open_binary(path)) as remote, open(scratch, "wb") as local:
        shutil.copyfileobj(remote, local, COPY_BYTES)
    return scratch


def _expanded(name: str, local: Path, target: Path) -> Path:
    """The file that holds the text: itself, or what a compressed file inflates to."""
    if name.endswith(".csv"):
        return local
    with _damage_named(name), _inflating(name, local) as packed, open(target, "wb") as plain:
        shutil.copyfileobj(packed, plain, COPY_BYTES)
    if local.parent == target.parent:  # a download that has served
        local.unlink()
    return target


@contextmanager
def _inflating(name: str, local: Path) -> Iterator[BinaryIO]:
    if name.endswith(".gz"):
        with gzip.open(local, "rb") as stream:
            yield stream  # type: ignore[misc]
        return
    with zipfile.ZipFile(local) as archive:
        members = [member for member in archive.namelist() if member.endswith(".csv") and "__MACOSX" not in member]
        if len(members) != 1:
            raise UserError(f"{name} must hold exactly one .csv file; it holds {', '.join(archive.namelist())}.")
        with archive.open(members[0]) as stream:
            yield stream  # type: ignore[misc]


@contextmanager
def _damage_named(name: str) -> Iterator[None]:
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zipfile.BadZipFile, zlib.error) as error:
        raise UserError(f"{name} is damaged or cut off: {error}. Fetch it again.") from None


def _pieces(name: str, plain: Path, stream: BinaryIO) -> Iterator[Piece]:
    columns, header_lines = _header(name, stream)
    line, start = 1 + header_lines, stream.tell()
    for block in _blocks(name, stream):
        lines = block.count(b"\n") + (not block.endswith(b"\n"))
        yield Piece(0, name, str(plain), start, start + len(block), line, 0, lines, columns)
        line, start = line + lines, start + len(block)


def _header(name: str, stream: BinaryIO) -> tuple[tuple[str, ...], int]:
    text = stream.readline()
    while text.count(b'"') % 2 and (more := stream.readline()):
        text += more
    try:
        columns = next(csv.reader([text.removeprefix(UTF8_BOM).decode()]), [])
    except UnicodeDecodeError:
        raise UserError(f"{name} is not UTF-8 text.") from None
    if not any(column.strip() for column in columns):
        raise UserError(f"{name} is empty: the first line must name the columns.")
    repeated = {column for column in columns if columns.count(column) > 1}
    if repeated:
        raise UserError(f"{name}, line 1: the column {', '.join(sorted(repeated))} occurs twice.")
    return tuple(columns), text.count(b"\n")


def _blocks(name: str, stream: BinaryIO) -> Iterator[bytes]:
    """Blocks of about PIECE_BYTES that end at the end of a record, not inside a quoted line break."""
    rest = b""
    while block := stream.read(PIECE_BYTES):
        block = rest + block
        end = _record_end(block)
        rest = block[end:]
        if end:
            yield block[:end]
        elif len(rest) > MAX_RECORD_BYTES:
            raise UserError(f"{name} has a record of more than {MAX_RECORD_BYTES >> 20} MB: a quote is never closed?")
    if rest.count(b'"') % 2:
        raise UserError(f"{name} ends inside a quoted field: the file is cut off, or a quote is never closed.")
    if rest:
        yield rest


def _record_end(block: bytes) -> int:
    """Where the last whole record ends; 0 if none does. A line break between quotes ends no record."""
    quotes, end = block.count(b'"'), len(block)
    while (newline := block.rfind(b"\n", 0, end)) >= 0:
        quotes -= block.count(b'"', newline, end)
        if quotes % 2 == 0:
            return newline + 1
        end = newline
    return 0
