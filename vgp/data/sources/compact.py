"""Thrift's compact protocol, as much of it as headers of Parquet pages need; all else is refused.

https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from typing import Any

#: Structs within structs.
_MOST_DEEP = 4
_TRUE, _FALSE, _NUMBERS, _BINARY, _STRUCT = 1, 2, (4, 5, 6), 8, 12


class Compact:
    """Reads a struct; `at` is how far. Raises ValueError for what is not known here, IndexError where it is cut off."""

    def __init__(self, content: bytes):
        self.content, self.at = content, 0

    def fields(self, depth: int = 1) -> dict[int, Any]:
        """By their numbers, which rise: none occurs twice."""
        if depth > _MOST_DEEP:
            raise ValueError("structs in structs")
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            if not head >> 4:
                raise ValueError("a number of its own")
            number += head >> 4
            fields[number] = self._value(head & 15, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
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
