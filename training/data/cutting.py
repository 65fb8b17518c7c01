"""Raw CSV files, wherever they lie, cut into chunks of whole lines that fit in memory.

Compressed and remote files are streamed to scratch space first. The size of a chunk is fixed, so the chunks
(and all that is made of them) are the same on any machine, with any number of workers.
"""

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from io import BufferedReader
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from training.data import records
from training.data.manifest import SourceFile
from training.errors import UserError
from training.storage import download, files, inflate, storage

SUFFIXES = (".csv", ".csv.gz", ".csv.zip")
CHUNK_BYTES = 8 << 20
#: No real record is longer: somewhere a quote is not closed.
MAX_RECORD_BYTES = 64 << 20


@dataclass(frozen=True)
class Chunk:
    """Whole lines of one CSV file, without its header."""

    #: Position among all chunks of the input.
    number: int
    #: The file as the user knows it, and the plain file on this machine that holds the text.
    source: str
    path: str
    version: files.Version
    #: Byte range in `path`.
    start: int
    end: int
    #: Number of the chunk's first line in its file; the header is line 1.
    first_line: int
    columns: tuple[str, ...]

    def read(self) -> bytes:
        with files.open_unchanged(self.path, self.version, self.source) as file:
            file.seek(self.start)
            return file.read(self.end - self.start)


def cut(data: str, scratch: Path) -> tuple[list[Chunk], tuple[SourceFile, ...]]:
    """The chunks of the input and the checksums of its files.

    Args:
        data: files, folders and globs, local or gs://, separated by commas.
        scratch: where compressed and remote files are streamed to.

    Raises:
        UserError: nothing matches, a file is damaged, has no header, or the whole input has no row.
    """
    inputs = resolve(data)
    with ThreadPoolExecutor(4) as pool:  # hashing, inflating and downloading all release the lock
        cuts = list(pool.map(lambda item: cut_file(item[1], scratch / f"source-{item[0]}"), enumerate(inputs)))
    chunks = [replace(chunk, number=i) for i, chunk in enumerate(chain.from_iterable(found for _, found in cuts))]
    if not chunks:
        raise UserError(f"{data} has no rows: {len(inputs)} file(s) with a header and nothing below it.")
    return chunks, tuple(source for source, _ in cuts)


def resolve(data: str) -> list[storage.File]:
    """The files that `data` stands for, each once, in the order given.

    Raises:
        UserError: a part matches nothing, or a file is no CSV file.
    """
    parts = storage.parts(data)
    if not parts:
        raise UserError("no input was given: expected CSV files, folders or globs, separated by commas.")
    inputs = {file.path: file for part in parts for file in storage.find(part, SUFFIXES)}
    for path in map(storage.plain, inputs):
        if not path.endswith(SUFFIXES):
            raise UserError(f"{path} is not a CSV file: its name must end in {', '.join(SUFFIXES)}.")
    return list(inputs.values())


def cut_file(file: storage.File, scratch: Path) -> tuple[SourceFile, list[Chunk]]:
    """One file's checksum and chunks; what it needs of scratch space begins with the name `scratch`."""
    name, local = storage.plain(file.path), _local(file.path, scratch)
    with files.open_unchanged(local, file.version, name) if file.version else files.open_file(local) as stream:
        version = files.version(stream)
        checksum = hashlib.file_digest(stream, "sha256").hexdigest()
    source = SourceFile(path=name, bytes=version.bytes, sha256=checksum)
    plain = _expanded(name, local, scratch.with_name(scratch.name + ".csv"))
    with files.open_file(plain) as stream:
        if plain == local and files.version(stream) != version:
            raise UserError(f"{name} changed while it was read: give a copy that nobody writes to.")
        return source, list(_chunks(name, plain, stream))


def _local(path: str, scratch: Path) -> Path:
    if not storage.is_remote(path):
        return Path(path)
    download.copy(path, scratch)
    return scratch


def _expanded(name: str, local: Path, target: Path) -> Path:
    """The file that holds the text: itself, or what a compressed file inflates to."""
    if name.endswith(".csv"):
        return local
    if name.endswith(".gz"):
        inflate.gunzip(name, local, target)
    else:
        inflate.unzip(name, local, target, ".csv")
    if local.parent == target.parent:  # a download that has served
        local.unlink()
    return target


def _chunks(name: str, plain: Path, stream: BufferedReader) -> Iterator[Chunk]:
    columns, header_lines, start = records.header(name, stream)
    stream.seek(start)
    version, line = files.version(stream), 1 + header_lines
    for block in _blocks(name, stream, line):
        if block.strip(b"\r\n"):
            yield Chunk(0, name, str(plain), version, start, start + len(block), line, columns)
        line, start = line + block.count(b"\n"), start + len(block)


def _blocks(name: str, stream: BinaryIO, line: int) -> Iterator[bytes]:
    """Blocks of about CHUNK_BYTES that end at the end of a record, not inside a quoted line break."""
    rest = b""
    while block := stream.read(CHUNK_BYTES):
        block = rest + block
        end = records.last_end(block)
        rest = block[end:]
        line += block.count(b"\n", 0, end)
        if end:
            yield block[:end]
        elif len(rest) > MAX_RECORD_BYTES:
            raise UserError(
                f"{name}, line {line}: a record of more than {MAX_RECORD_BYTES >> 20} MB; is a quote never closed?"
            )
    if rest.count(b'"') % 2:
        raise UserError(
            f"{name}, line {line}: the file ends inside a quoted field: it is cut off, or a quote is never closed."
        )
    if rest:
        yield rest
