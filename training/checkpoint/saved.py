"""A committed checkpoint as tensors: a rank reads the rows that it needs, and every byte of them is verified.

Memory: the tensors that are filled, and one block (`manifest.BLOCK`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from training.checkpoint import part, recovery
from training.checkpoint.manifest import BLOCK, Manifest, Piece
from training.checkpoint.part import Entry
from training.checkpoint.store import Store
from training.errors import UserError


@dataclass(frozen=True)
class Target:
    """A tensor to fill with the rows of the saved tensor `name` from `first` on."""

    name: str
    tensor: Tensor
    first: int = 0


class Saved:
    """Reads tensors of a checkpoint.

    Raises (every method):
        Damaged: what is stored is not what was written.
        UserError: it is intact, but makes no sense: someone else has made it.
    """

    def __init__(self, store: Store, manifest: Manifest):
        self.manifest = manifest
        self.parts = [_Part(store, manifest, number) for number in range(len(manifest.parts))]
        self.headers: dict[int, Mapping[str, Entry]] = {}

    def dtype(self, name: str) -> torch.dtype:
        """Of the tensor `name`, which the manifest must have."""
        return self._entry(name, self.manifest.tensors[name].pieces[0]).dtype

    def tensors(self) -> dict[str, Tensor]:
        """All of them, whole."""
        tensors = {name: self.empty(name) for name in self.manifest.tensors}
        self.fill(Target(name, tensor) for name, tensor in tensors.items())
        return tensors

    def empty(self, name: str) -> Tensor:
        """A tensor like the saved one, for its bytes to come; no larger than the parts that hold them."""
        stored = self.manifest.tensors[name]
        for piece in stored.pieces:
            self._entry(name, piece)
        return torch.empty(stored.shape, dtype=self.dtype(name))

    def fill(self, targets: Iterable[Target]) -> None:
        """Reads into the targets, in the order of the files, so that no block is read twice."""
        reads = sorted((read for target in targets for read in self._reads(target)), key=lambda read: read[:2])
        for number, start, rows in reads:
            into = (
                rows
                if rows.device.type == "cpu" and rows.is_contiguous()
                else torch.empty(rows.shape, dtype=rows.dtype)
            )
            self.parts[number].read(start, memoryview(part.as_bytes(into)))  # type: ignore[arg-type]
            if into is not rows:
                rows.copy_(into)

    def _reads(self, target: Target) -> list[tuple[int, int, Tensor]]:
        """(part, first byte, rows of the target to fill) of each piece that the target overlaps."""
        stored, tensor = self.manifest.tensors[target.name], target.tensor
        last = target.first + (len(tensor) if stored.shape else 1)
        reads = []
        for piece in stored.pieces:
            start, stop = max(piece.start, target.first), min(piece.stop, last)
            if start >= stop or not tensor.numel():
                continue
            entry = self._entry(target.name, piece)
            if entry.dtype != tensor.dtype:
                raise self.refusal(f"{target.name} is {entry.dtype}, here {tensor.dtype}")
            rows = tensor[start - target.first : stop - target.first] if stored.shape else tensor
            reads.append((piece.part, entry.start + (start - piece.start) * entry.row_bytes, rows))
        return reads

    def _entry(self, name: str, piece: Piece) -> Entry:
        """Where a piece of a tensor lies in its part, which must say of it what the manifest says."""
        if piece.part not in self.headers:
            self.headers[piece.part] = self._header(self.parts[piece.part])
        entry, stored = self.headers[piece.part].get(name), self.manifest.tensors[name]
        expected = (piece.stop - piece.start, *stored.shape[1:]) if stored.shape else ()
        if entry is None or entry.shape != expected:
            raise self.refusal(f"{self.manifest.parts[piece.part].name} has no {name} of shape {list(expected)}")
        return entry

    def _header(self, source: "_Part") -> dict[str, Entry]:
        try:
            length = part.header_bytes(source.bytes(0, min(source.size, part.LENGTH_BYTES)), source.size)
            return part.entries(source.bytes(part.LENGTH_BYTES, part.LENGTH_BYTES + length), source.size)
        except ValueError as error:
            raise self.refusal(str(error)) from None

    def refusal(self, why: str) -> UserError:
        return UserError(
            f"checkpoint {self.manifest.name} does not hold what its manifest says ({why}): "
            "this program has not written it. Delete it to go on from the one before."
        )


class _Part:
    """The verified bytes of a part; the block that was read last is kept."""

    def __init__(self, store: Store, manifest: Manifest, number: int):
        self.store, self.part = store, manifest.parts[number]
        self.size = self.part.bytes
        self.number, self.block = -1, b""

    def bytes(self, start: int, stop: int) -> bytes:
        data = bytearray(stop - start)
        self.read(start, memoryview(data))
        return bytes(data)

    def read(self, start: int, into: memoryview) -> None:
        """Fills `into` with the bytes from `start` on."""
        done = 0
        while done < len(into):
            number, offset = divmod(start + done, BLOCK)
            if number != self.number:
                self.number, self.block = -1, b""
                self.block, self.number = recovery.read_block(self.store, self.part, number), number
            piece = memoryview(self.block)[offset : offset + len(into) - done]
            into[done : done + len(piece)] = piece
            done += len(piece)
