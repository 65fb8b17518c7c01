"""Reads rows from all parts of a large table, so that a table sorted by its target shows all its classes.

The sample is deterministic: it consists of pieces at even distances. Each piece is written to a small file with the
header, and read like any other file.
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
from vgp.data.sources import data_files, file_bytes, records
from vgp.data.sources.records import find_header_end
from vgp.data.sources.text_blocks import SEPARATOR_LINE
from vgp.data.sources.values import Texts, is_text

#: Pieces of all files together; up to twice as many for compressed files, whose uncompressed size is unknown.
PIECES = 64
#: Bytes read for the header and the mean length of a line.
HEAD_BYTES = 1 << 20
#: The size of a piece.
LEAST_BYTES, MOST_BYTES = 1 << 12, 4 << 20
#: The most bytes read from a compressed file.
MOST_UNPACKED_BYTES = 2 << 30
#: Maximum number of rows in Parquet files that are read whole; of larger files only the starts of row groups are read.
MOST_DECODED_ROWS = 4 << 20


class NotSpread(Exception):
    """The table cannot be read in pieces."""


def write_pieces(files: Sequence[File], rows: int, folder: Path) -> tuple[list[File], int]:
    """Writes small files with rows from all parts of the chosen files.

    Returns:
        The small files, and how many rows to take from each for a sample of `rows` rows.

    Raises:
        NotSpread: a file cannot be read in pieces.
        UserError: a file cannot be read.
    """
    count = max(1, PIECES // len(files))
    rows_each = max(1, rows // (count * len(files)))
    small_files: list[File] = []
    for number, file in enumerate(files):
        suffix = data_files.suffix(storage.plain(file.path))
        with _stream(file) as stream:
            if suffix == ".parquet":
                small_files += _cut_parquet(file, stream, count, rows_each, folder / f"{number}")
            else:
                parts = _cut_text(file, stream, suffix, count, rows_each)
                small_files += _write(parts, folder / f"{number}", suffix.split(".")[1])
    if not small_files:
        raise NotSpread
    return small_files, max(1, rows // len(small_files))


def _stream(file: File) -> AbstractContextManager[IO[bytes]]:
    """Opens a file, or an object so that only the bytes that are read are fetched."""
    remote = storage.is_remote(file.path)
    return download.open_object(file.path, chunk_bytes=HEAD_BYTES) if remote else files.open_file(file.path)


def _cut_text(file: File, stream: IO[bytes], suffix: str, count: int, rows: int) -> Iterator[bytes]:
    """Yields whole records from all parts of a text file, each piece with the header."""
    packed = suffix.endswith((".gz", ".zst", ".zip"))
    unpacked = inflate.Unpacked(storage.plain(file.path), stream, file.bytes, ".csv") if packed else None
    head = _read(unpacked or stream, HEAD_BYTES)
    top = b"" if data_files.KINDS[suffix] == "json" else _header(storage.plain(file.path), head)
    length = _length(len(head) // max(1, head.count(b"\n")), rows)
    rest = _blocks(unpacked, head, length, count) if unpacked else _read_pieces(stream, file.bytes, length, count)
    for number, part in enumerate(rest):
        part = part[part.find(b"\n") + 1 :] if number else part[len(top) :]
        if end := records.find_last_end(part) if top else part.rfind(b"\n") + 1:
            yield top + part[:end]


def _header(name: str, head: bytes) -> bytes:
    """Returns the bytes above the rows. Raises NotSpread for UTF-16 and UTF-32, where bytes do not show line ends."""
    if any(head.startswith(mark) for mark in file_bytes.MARKS if mark != codecs.BOM_UTF8) or b"\0" in head:
        raise NotSpread
    separator_line = SEPARATOR_LINE.match(head)
    start = separator_line.end() if separator_line else 0
    end, _ = find_header_end(name, head[start:], iter(()), '"')
    return head[: start + end]


def _length(line: int, rows: int) -> int:
    """Returns the bytes of a piece for `rows` rows, with a margin for long lines and for the first, partial line."""
    return min(MOST_BYTES, max(LEAST_BYTES, line * (rows + 1) * 5 // 4))


def _read_pieces(stream: IO[bytes], size: int, length: int, count: int) -> Iterator[bytes]:
    """Yields pieces of an uncompressed file at even distances, without overlaps."""
    for number in range(count):
        start, end = (size * edge // count for edge in (number, number + 1))
        stream.seek(start)
        yield _read(stream, min(length, end - start))


def _blocks(stream: inflate.Unpacked, head: bytes, length: int, count: int) -> Iterator[bytes]:
    """Returns blocks of a compressed file at even distances: drops every second block whenever there are too many."""
    kept, stride, blocks_read = [head], 1, 0
    while blocks_read * length < MOST_UNPACKED_BYTES and (block := _read(stream, length)):
        blocks_read += 1
        if blocks_read % stride == 0:
            kept.append(block)
        if len(kept) > 2 * count:
            kept, stride = kept[::2], 2 * stride
    return iter(kept)


def _read(stream: inflate.Readable, size: int) -> bytes:
    """Reads `size` bytes, or all that are left; a decompressor may return fewer at once."""
    parts: list[bytes] = []
    while size and (part := stream.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _write(parts: Iterator[bytes], stem: Path, ending: str) -> list[File]:
    return [_write_file(stem.with_name(f"{stem.name}-{n:03}.{ending}"), part) for n, part in enumerate(parts)]


def _write_file(path: Path, data: bytes) -> File:
    path.write_bytes(data)
    return finding.stat_file(str(path))


def _cut_parquet(file: File, stream: IO[bytes], count: int, rows: int, stem: Path) -> list[File]:
    """Writes the first rows of evenly spaced parts of the file or, if it is large, of evenly spaced row groups."""
    name = storage.plain(file.path)
    texts, small_files = Texts(name, file.bytes), []
    for number, batch in enumerate(_read_batches(stream, count, rows)):
        path = stem.with_name(f"{stem.name}-{number:03}.parquet")
        pyarrow.parquet.write_table(texts.add(pa.Table.from_batches([batch])), path)
        small_files.append(finding.stat_file(str(path)))
    return small_files


def _read_batches(stream: IO[bytes], count: int, rows: int) -> Iterator[pa.RecordBatch]:
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
