"""Which texts of a Parquet file may be read as they are: how much its pages can become, by their own headers.

Texts that differ take five times as long to read as dictionaries. Read as it is, a text that a dictionary page holds
once comes as often as it occurs, and a footer may be silent or wrong about its length. What a page unpacks to is held
to the page's header by the reader. Format: PageHeader of
https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift in Thrift's compact protocol.

Thrift's compact protocol, as much of it as headers of Parquet pages need; all else is refused.

https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

import struct
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet

#: What the texts of all columns that are read as they are may take, of rows that are read at once.
MOST_BYTES = 64 << 20
_HEADER_BYTES = 1 << 12
#: Of headers and dictionaries, of a file that is not larger.
_LOOKED_AT_BYTES = 4 << 20
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
_PLAIN, _DICTIONARY = 0, (2, 8)
_CODECS = ("SNAPPY", "ZSTD", "GZIP", "UNCOMPRESSED")


@dataclass(frozen=True)
class Page:
    """Some values of a column; `bytes` of them as they are, and the longest of its dictionary where it has one."""

    values: int
    bytes: int = 0
    longest: int = 0


def readable(
    source: pa.NativeFile, footer: pyarrow.parquet.FileMetaData, names: Iterable[str], rows: int
) -> list[str]:  # fmt: skip
    """Of columns with text those that mostly differ, and of which `rows` rows at once stay within `MOST_BYTES`.

    Takes time in proportion to the file, whatever it says of itself.
    """
    places = {footer.schema.column(place).path: place for place in range(footer.num_columns)}
    walk, left, good = _Walk(source), MOST_BYTES, []
    for name in names:
        try:
            chunks = [footer.row_group(group).column(places[name]) for group in range(footer.num_row_groups)]
            pages = [page for chunk in chunks for page in walk.pages(chunk)]
        except (LookupError, ValueError, ArithmeticError, OSError, struct.error):
            continue  # of a form that is not known here, or damaged, which reading tells
        differing = sum(page.values for page in pages if not page.longest)
        most = _most(pages, rows)
        if 2 * differing >= sum(page.values for page in pages) and most <= left:
            left -= most
            good.append(name)
    return good


def _most(pages: Sequence[Page], rows: int) -> int:
    """Bytes that no `rows` neighbours exceed: those of all pages that they can lie in, and of a dictionary its longest
    text each time."""
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
    """Through the pages of one file, as the reader goes; it ends where it would be long for the size of the file."""

    def __init__(self, source: pa.NativeFile):
        self.source, self.left = source, max(_LOOKED_AT_BYTES, source.size())

    def pages(self, chunk: pyarrow.parquet.ColumnChunkMetaData) -> Iterator[Page]:
        """Those with data, until there are as many values as the footer says. Raises ValueError and the like for what
        is not known here."""
        at = min(chunk.data_page_offset, chunk.dictionary_page_offset or chunk.data_page_offset)
        seen, longest = 0, 0
        while seen < chunk.num_values:
            header, start = self._header(at)
            packed, unpacked = _size(header[3]), _size(header[2])
            if header[1] == _DICTIONARY_PAGE and not longest:
                longest = self._longest(start, packed, unpacked, chunk.compression)
            elif header[1] == _DATA_PAGE:
                page = _page(header[5], max(packed, unpacked), longest)
                seen += page.values
                yield page
            else:
                raise ValueError(f"a page of kind {header[1]}")
            at = start + packed

    def _header(self, at: int) -> tuple[dict[int, object], int]:
        """The fields of a page's header by their numbers, and where its content begins."""
        self._spend(_HEADER_BYTES)
        compact = Compact(self.source.read_at(_HEADER_BYTES, at))
        return compact.fields(), at + compact.at

    def _longest(self, start: int, packed: int, unpacked: int, codec: str) -> int:
        """Bytes of the longest text of a dictionary page, at least 1."""
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


def _page(header: object, size: int, longest: int) -> Page:
    if not isinstance(header, dict):
        raise ValueError("a page without a header of its kind")
    values, encoding = _size(header[1]), header[2]
    if encoding == _PLAIN:
        return Page(values, bytes=size)
    if encoding in _DICTIONARY and longest:
        return Page(values, longest=longest)
    raise ValueError(f"encoding {encoding}")


def _size(value: object) -> int:
    """A number that cannot be read as another one in 32 bits."""
    if type(value) is not int or not 0 <= value < 1 << 31:
        raise ValueError(f"a size of {value}")
    return value


#: Structs within structs.
_MOST_DEEP = 4
_TRUE, _FALSE, _NUMBERS, _BINARY, _STRUCT = 1, 2, (4, 5, 6), 8, 12


class Compact:
    """Reads a struct; `at` is how far. Raises ValueError for what is not known here, IndexError where it is cut off."""

    def __init__(self, content: bytes):
        self.content, self.at = content, 0

    def fields(self, depth: int = 1) -> dict[int, object]:
        """By their numbers, which rise: none occurs twice."""
        if depth > _MOST_DEEP:
            raise ValueError("structs in structs")
        fields: dict[int, object] = {}
        number = 0
        while head := self._byte():
            if not head >> 4:
                raise ValueError("a number of its own")
            number += head >> 4
            fields[number] = self._value(head & 15, depth)
        return fields

    def _value(self, kind: int, depth: int) -> object:
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind in _NUMBERS:
            value = self._unsigned()
            return value >> 1 ^ -(value & 1)
        if kind == _BINARY:
            length = self._unsigned()
            self.at += length
            return None
        if kind == _STRUCT:
            return self.fields(depth + 1)
        raise ValueError(f"a field of kind {kind}")

    def _unsigned(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 128:
            value, shift = value | (byte & 127) << shift, shift + 7
        return value | byte << shift

    def _byte(self) -> int:
        byte = self.content[self.at]
        self.at += 1
        return byte
