"""A file of tensors in safetensors format, written and read piece by piece: a part of a checkpoint, or a model.

Format: https://huggingface.co/docs/safetensors/index#format
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import google_crc32c
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vgp.base.documents import json_text
from vgp.base.documents.json_text import JsonObject
from vgp.base.storage.files import CHECKSUM_BLOCK as BLOCK

#: A block of memory as uint8.
Bytes = NDArray[np.uint8]

_PIECE = 1 << 20

#: The types in the order in which the safetensors library writes them: widest first, so that every tensor is aligned.
_DTYPES = {
    torch.uint64: "U64", torch.int64: "I64", torch.float64: "F64", torch.complex64: "C64", torch.float32: "F32",
    torch.uint32: "U32", torch.int32: "I32", torch.bfloat16: "BF16", torch.float16: "F16", torch.uint16: "U16",
    torch.int16: "I16", torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2", torch.int8: "I8",
    torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip
_ORDER = {dtype: place for place, dtype in enumerate(_DTYPES)}
_NAMED = {name: dtype for dtype, name in _DTYPES.items()}
#: Bytes of the header's length, little-endian, at the start of the file.
LENGTH_BYTES = 8
#: The limit of the safetensors library.
MOST_HEADER_BYTES = 100 << 20


@dataclass(frozen=True)
class Entry:
    """The place of a tensor in a file: bytes [start, stop)."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int
    stop: int

    @property
    def row_bytes(self) -> int:
        return (self.stop - self.start) // max(1, self.shape[0] if self.shape else 1)


def sort_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Sorts the tensors in the order of the file, so that equal states give equal files."""
    return dict(sorted(tensors.items(), key=lambda item: (_ORDER[item[1].dtype], item[0])))


def head(tensors: Mapping[str, Tensor], aliases: Mapping[str, str] | None = None) -> bytes:
    """Encodes the length and header of a file of these tensors, from their types and shapes.

    Args:
        tensors: The tensors in file order.
        aliases: Names of omitted tensors, and the names of their equals in the file, stored like the library does.
    """
    fields: JsonObject = {"__metadata__": dict(sorted(aliases.items()))} if aliases else {}
    offset = 0
    for name, tensor in tensors.items():
        end = offset + tensor.numel() * tensor.element_size()
        fields[name] = {"dtype": _DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(LENGTH_BYTES, "little") + text


def encode(tensors: Mapping[str, Tensor]) -> list[Bytes]:
    """Encodes a file of CPU tensors as uint8 arrays, without a copy of the tensors."""
    tensors = sort_tensors(tensors)
    return [np.frombuffer(head(tensors), np.uint8), *map(as_bytes, tensors.values())]


def as_bytes(tensor: Tensor) -> Bytes:
    """Returns the memory of a CPU tensor as uint8."""
    memory: Bytes = tensor.contiguous().reshape(-1).view(torch.uint8).numpy()
    return memory


def header_bytes(length: bytes, size: int) -> int:
    """Returns the length of the header in a file of `size` bytes. Raises ValueError if it is impossible."""
    size_of_header = int.from_bytes(length, "little")
    if not 2 <= size_of_header <= min(size - LENGTH_BYTES, MOST_HEADER_BYTES):
        raise ValueError(f"the header has {size_of_header} bytes, which does not fit a file of {size}")
    return size_of_header


def entries(header: bytes, size: int) -> dict[str, Entry]:
    """Reads the tensors' places from the header of a file of `size` bytes. Raises ValueError if they are impossible."""
    fields = json_text.parse_json(header)
    if not isinstance(fields, dict):
        raise ValueError("the header is not a JSON object")
    first = LENGTH_BYTES + len(header)
    return {name: _parse_entry(name, value, first, size) for name, value in fields.items() if name != "__metadata__"}


def _parse_entry(name: str, value: JsonObject, first: int, size: int) -> Entry:
    try:
        dtype, shape = _NAMED[value["dtype"]], tuple(value["shape"])
        begin, end = value["data_offsets"]
        length = math.prod(shape) * dtype.itemsize
    except (LookupError, TypeError, ValueError):
        raise ValueError(f"the header has an invalid entry for {name}") from None
    if any(type(n) is not int or n < 0 for n in (*shape, begin)) or end != begin + length or first + end > size:
        raise ValueError(f"{name} of shape {list(shape)} does not fit into the file")
    return Entry(dtype, shape, first + begin, first + end)


class Checksums:
    """The CRC-32C of a file and of each of its blocks, computed while the file is written."""

    def __init__(self) -> None:
        self.size = self.crc32c = 0
        self.blocks: list[int] = []

    def pieces(self, buffers: Iterable[Bytes]) -> Iterator[memoryview]:
        """Yields the buffers in pieces of at most `_PIECE` bytes, none across the end of a block."""
        for buffer in buffers:
            start = 0
            while start < len(buffer):
                piece = buffer[start : start + min(_PIECE, BLOCK - self.size % BLOCK)]
                self._add(piece)
                start += len(piece)
                yield piece.data

    def _add(self, piece: Bytes) -> None:
        if self.size % BLOCK == 0:
            self.blocks.append(0)
        self.blocks[-1] = google_crc32c.extend(self.blocks[-1], piece)
        self.crc32c = google_crc32c.extend(self.crc32c, piece)
        self.size += len(piece)
