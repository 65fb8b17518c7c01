"""Rows from all over a large table, so that one in the order of its target shows all of it.

Nothing is drawn: pieces lie at even distances, so the same files give the same rows. Each is written as a small file of
its own, with the header above it, and read as any other.
"""

import codecs
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet

from vgp.base.storage import download, files, finding, inflate, storage
from vgp.base.storage.finding import File
from vgp.data.sources import opening, records, resolve
from vgp.data.sources.blocks import SAID
from vgp.data.sources.records import find_header_end
from vgp.data.sources.values import Texts, is_text

#: Pieces of all files together; of a packed file, whose length nobody knows beforehand, up to twice as many.
PIECES = 64
#: Looked at for the header, and for how long lines are.
HEAD_BYTES = 1 << 20
LEAST_BYTES, MOST_BYTES = 1 << 12, 4 << 20
#: Read of a packed file: what comes later in it is not looked at.
MOST_UNPACKED_BYTES = 2 << 30
#: A file of Parquet with more rows, or with many row groups, is looked at where its row groups begin, and no further.
MOST_DECODED_ROWS = 4 << 20


class NotSpread(Exception):
    """A table whose pieces cannot be told apart."""


def pieces(chosen: Sequence[File], rows: int, folder: Path) -> tuple[list[File], int]:
    """Small files with rows from all over the chosen ones, and how many rows of each make up `rows` together.

    Raises:
        NotSpread, UserError: there are none, or a file cannot be read.
    """
    count = max(1, PIECES // len(chosen))
    each = max(1, rows // (count * len(chosen)))
    made: list[File] = []
    for number, file in enumerate(chosen):
        suffix = resolve.suffix(storage.plain(file.path))
        with _stream(file) as stream:
            if suffix == ".parquet":
                made += _of_parquet(file, stream, count, each, folder / f"{number}")
            else:
                parts = _parts(file, stream, suffix, count, each)
                made += _written(parts, folder / f"{number}", suffix.split(".")[1])
    if not made:
        raise NotSpread
    return made, max(1, rows // len(made))


def _stream(file: File) -> AbstractContextManager[IO[bytes]]:
    """Of an object no more is fetched than is read."""
    remote = storage.is_remote(file.path)
    return download.opened(file.path, chunk_bytes=HEAD_BYTES) if remote else files.open_file(file.path)


def _parts(file: File, stream: IO[bytes], suffix: str, count: int, rows: int) -> Iterator[bytes]:
    """Whole records from all over a text, the header above each."""
    packed = suffix.endswith((".gz", ".zst", ".zip"))
    unpacked = inflate.Unpacked(storage.plain(file.path), stream, file.bytes, ".csv") if packed else None
    head = _read(unpacked or stream, HEAD_BYTES)
    top = b"" if resolve.KINDS[suffix] == "json" else _header(storage.plain(file.path), head)
    length = _length(len(head) // max(1, head.count(b"\n")), rows)
    rest = _blocks(unpacked, head, length, count) if unpacked else _places(stream, file.bytes, length, count)
    for number, part in enumerate(rest):
        part = part[part.find(b"\n") + 1 :] if number else part[len(top) :]
        if end := records.last_end(part) if top else part.rfind(b"\n") + 1:
            yield top + part[:end]


def _header(name: str, head: bytes) -> bytes:
    """What stands above the rows. Raises NotSpread where a line cannot be found by its bytes alone."""
    if any(head.startswith(mark) for mark in opening.MARKS if mark != codecs.BOM_UTF8) or b"\0" in head:
        raise NotSpread
    said = SAID.match(head)
    start = said.end() if said else 0
    end, _ = find_header_end(name, head[start:], iter(()), '"')
    return head[: start + end]


def _length(line: int, rows: int) -> int:
    """Bytes of a piece with so many rows: some lines are longer, and the first is cut off."""
    return min(MOST_BYTES, max(LEAST_BYTES, line * (rows + 1) * 5 // 4))


def _places(stream: IO[bytes], size: int, length: int, count: int) -> Iterator[bytes]:
    """Pieces of a plain file at even distances, none of which overlap."""
    for number in range(count):
        start, end = (size * edge // count for edge in (number, number + 1))
        stream.seek(start)
        yield _read(stream, min(length, end - start))


def _blocks(stream: inflate.Unpacked, head: bytes, length: int, count: int) -> Iterator[bytes]:
    """Blocks of a packed file at even distances: of those kept every other one goes whenever they are too many."""
    kept, every, seen = [head], 1, 0
    while seen * length < MOST_UNPACKED_BYTES and (block := _read(stream, length)):
        seen += 1
        if seen % every == 0:
            kept.append(block)
        if len(kept) > 2 * count:
            kept, every = kept[::2], 2 * every
    return iter(kept)


def _read(stream: inflate.Readable, size: int) -> bytes:
    """So many bytes, or all that are left: what unpacks may give fewer at once."""
    parts: list[bytes] = []
    while size and (part := stream.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _written(parts: Iterator[bytes], stem: Path, ending: str) -> list[File]:
    return [_file(stem.with_name(f"{stem.name}-{n:03}.{ending}"), part) for n, part in enumerate(parts)]


def _file(path: Path, data: bytes) -> File:
    path.write_bytes(data)
    return finding.described(str(path))


def _of_parquet(file: File, stream: IO[bytes], count: int, rows: int, stem: Path) -> list[File]:
    """The first rows of row groups at even distances; of a file that is not too long, of parts of them."""
    name = storage.plain(file.path)
    texts, made = Texts(name, file.bytes), []
    for number, batch in enumerate(_batches(stream, count, rows)):
        path = stem.with_name(f"{stem.name}-{number:03}.parquet")
        pyarrow.parquet.write_table(texts.counted(pa.Table.from_batches([batch])), path)
        made.append(finding.described(str(path)))
    return made


def _batches(stream: IO[bytes], count: int, rows: int) -> Iterator[pa.RecordBatch]:
    footer = pyarrow.parquet.read_metadata(stream)
    words = [field.name for field in footer.schema.to_arrow_schema() if is_text(field.type)]
    opened = pyarrow.parquet.ParquetFile(stream, metadata=footer, read_dictionary=words)
    groups = footer.num_row_groups
    if footer.num_rows <= MOST_DECODED_ROWS and groups <= count:
        for batch in opened.iter_batches(max(1, footer.num_rows // count)):
            yield batch.slice(0, rows)
        return
    for group in sorted({groups * n // (4 * count) for n in range(4 * count)}):
        yield from islice(opened.iter_batches(rows, row_groups=[group]), 1)
