"""Finds the text columns of a Parquet file that fit into memory without dictionary encoding, from the page headers.

Texts with many distinct values take five times as long to read as dictionaries. Read plainly, however, a text that a
dictionary page holds once is repeated for each row, and the footer may omit or misstate the lengths. The reader checks
the uncompressed size of a page against its header, so the headers give a safe bound.

The headers are PageHeader structs of
https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift in Thrift's compact protocol:
https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md. `Compact` reads the part of the
protocol that they use, and refuses the rest.
"""

import struct
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet

#: The most bytes of all plainly read texts in the rows of one read.
MOST_BYTES = 64 << 20
_HEADER_BYTES = 1 << 12
#: The most bytes of headers and dictionaries to read, unless the file is larger.
_LOOKED_AT_BYTES = 4 << 20
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
_PLAIN, _DICTIONARY = 0, (2, 8)
_CODECS = ("SNAPPY", "ZSTD", "GZIP", "UNCOMPRESSED")


@dataclass(frozen=True)
class Page:
    """A data page: the bytes of its plain values, or the longest text in the dictionary that it refers to."""

    values: int
    bytes: int = 0
    longest: int = 0


def find_plain_columns(
    source: pa.NativeFile, footer: pyarrow.parquet.FileMetaData, names: Iterable[str], rows: int
) -> list[str]:  # fmt: skip
    """Returns the text columns to read plainly: mostly plain values, and `rows` rows of them within `MOST_BYTES`.

    The time is proportional to the size of the file, even if its metadata is hostile.
    """
    places = {footer.schema.column(place).path: place for place in range(footer.num_columns)}
    walk, left, good = _Walk(source), MOST_BYTES, []
    for name in names:
        try:
            chunks = [footer.row_group(group).column(places[name]) for group in range(footer.num_row_groups)]
            pages = [page for chunk in chunks for page in walk.pages(chunk)]
        except (LookupError, ValueError, ArithmeticError, OSError, struct.error):
            continue  # an unknown encoding, or damage that reading reports
        differing = sum(page.values for page in pages if not page.longest)
        most = _bound_bytes(pages, rows)
        if 2 * differing >= sum(page.values for page in pages) and most <= left:
            left -= most
            good.append(name)
    return good


def _bound_bytes(pages: Sequence[Page], rows: int) -> int:
    """Returns an upper bound of the bytes of `rows` consecutive values: of all pages that they may span.

    Each value of a dictionary counts as its longest text.
    """
    within: deque[Page] = deque()
    values = held = most = 0
    for page in pages:
        while within and values - within[0].values + 2 > rows:
            gone = within.popleft()
            values, held = values - gone.values, held - gone.bytes
        within.append(page)
        values, held = values + page.values, held + page.bytes
        most = max(most, held)
    return most + rows * max((page.longest for page in pages), default=0)


class _Walk:
    """Walks through the pages of one file like the reader, up to a number of bytes that the file's size allows."""

    def __init__(self, source: pa.NativeFile):
        self.source, self.left = source, max(_LOOKED_AT_BYTES, source.size())

    def pages(self, chunk: pyarrow.parquet.ColumnChunkMetaData) -> Iterator[Page]:
        """Yields the data pages of a column chunk. Raises ValueError, LookupError or OSError for unknown formats."""
        at = min(chunk.data_page_offset, chunk.dictionary_page_offset or chunk.data_page_offset)
        seen, longest = 0, 0
        while seen < chunk.num_values:
            header, start = self._read_header(at)
            packed, unpacked = _check_size(header[3]), _check_size(header[2])
            if header[1] == _DICTIONARY_PAGE and not longest:
                longest = self._find_longest(start, packed, unpacked, chunk.compression)
            elif header[1] == _DATA_PAGE:
                page = _read_page(header[5], max(packed, unpacked), longest)
                seen += page.values
                yield page
            else:
                raise ValueError(f"a page of kind {header[1]}")
            at = start + packed

    def _read_header(self, at: int) -> tuple[dict[int, object], int]:
        """Returns the fields of a page header by their numbers, and the offset of the page's content."""
        self._spend(_HEADER_BYTES)
        compact = Compact(self.source.read_at(_HEADER_BYTES, at))
        return compact.fields(), at + compact.at

    def _find_longest(self, start: int, packed: int, unpacked: int, codec: str) -> int:
        """Returns the length in bytes of the longest text in a dictionary page, at least 1."""
        if codec not in _CODECS:
            raise ValueError(codec)
        self._spend(max(packed, unpacked))
        content = self.source.read_at(packed, start)
        if codec != "UNCOMPRESSED":
            content = pa.decompress(content, decompressed_size=unpacked, codec=codec.lower(), asbytes=True)
        at, longest = 0, 1
        while at < len(content):
            (length,) = struct.unpack_from("<I", content, at)
            longest, at = max(longest, length), at + 4 + length
        return longest

    def _spend(self, size: int) -> None:
        if size > self.left:
            raise ValueError("many pages for such a file")
        self.left -= size


def _read_page(header: object, size: int, longest: int) -> Page:
    if not isinstance(header, dict):
        raise ValueError("a page without a header of its kind")
    values, encoding = _check_size(header[1]), header[2]
    if encoding == _PLAIN:
        return Page(values, bytes=size)
    if encoding in _DICTIONARY and longest:
        return Page(values, longest=longest)
    raise ValueError(f"encoding {encoding}")


def _check_size(value: object) -> int:
    """Returns a size as it is. Raises ValueError unless it is a non-negative 32-bit integer."""
    if type(value) is not int or not 0 <= value < 1 << 31:
        raise ValueError(f"a size of {value}")
    return value


#: The deepest nesting of structs.
_MOST_DEEP = 4
_TRUE, _FALSE, _NUMBERS, _BINARY, _STRUCT = 1, 2, (4, 5, 6), 8, 12


class Compact:
    """A reader of a Thrift struct; `at` is its position. Raises ValueError for unknown types, IndexError at the end."""

    def __init__(self, content: bytes):
        self.content, self.at = content, 0

    def fields(self, depth: int = 1) -> dict[int, object]:
        """Returns the values of the fields by their numbers, which must rise."""
        if depth > _MOST_DEEP:
            raise ValueError("structs in structs")
        fields: dict[int, object] = {}
        number = 0
        while head := self._read_byte():
            if not head >> 4:
                raise ValueError("a number of its own")
            number += head >> 4
            fields[number] = self._read_value(head & 15, depth)
        return fields

    def _read_value(self, kind: int, depth: int) -> object:
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind in _NUMBERS:
            value = self._read_unsigned()
            return value >> 1 ^ -(value & 1)
        if kind == _BINARY:
            length = self._read_unsigned()
            self.at += length
            return None
        if kind == _STRUCT:
            return self.fields(depth + 1)
        raise ValueError(f"a field of kind {kind}")

    def _read_unsigned(self) -> int:
        value = shift = 0
        while (byte := self._read_byte()) & 128:
            value, shift = value | (byte & 127) << shift, shift + 7
        return value | byte << shift

    def _read_byte(self) -> int:
        byte = self.content[self.at]
        self.at += 1
        return byte
