"""Reads the tensors of a committed checkpoint: the ranks read together, and every byte is verified.

Memory: the filled tensors and a few blocks (`vgp.train.checkpoint.block_reader`).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from vgp.base.exits import UserError
from vgp.base.storage.files import CHECKSUM_BLOCK as BLOCK
from vgp.data import tensor_file as part
from vgp.data.tensor_file import Entry
from vgp.train.checkpoint import recovery
from vgp.train.checkpoint.block_reader import AHEAD, Alone, Block, Blocks, Ranks, as_tensor, raise_damage
from vgp.train.checkpoint.checkpoint_manifest import Manifest, Piece, cut_rows
from vgp.train.checkpoint.checkpoint_store import Store


@dataclass(frozen=True)
class Target:
    """A tensor to fill with the rows of the saved tensor `name`, from row `first`."""

    name: str
    tensor: Tensor
    first: int = 0
    #: Whether each rank fills its own rows; else every rank fills equal rows.
    shared_out: bool = False


class CheckpointReader:
    """A reader of the tensors of a checkpoint. All `ranks` must call each method together.

    Raises (every method, on every rank):
        Damaged: stored bytes are missing or altered.
        UserError: the bytes are intact, but contradict the manifest: another program wrote them.
    """

    def __init__(self, store: Store, manifest: Manifest, ranks: Ranks | None = None, *, within_s: float = 600):
        self.manifest, self.ranks = manifest, ranks or Alone()
        self.blocks = Blocks(store, manifest, self.ranks, within_s)

    def dtype(self, name: str) -> torch.dtype:
        """Returns the dtype of the tensor `name`, which the manifest must list."""
        return self._entry(name, self.manifest.tensors[name].pieces[0]).dtype

    def tensors(self) -> dict[str, Tensor]:
        """Returns all tensors, whole, on the CPU."""
        tensors = {name: self.empty(name) for name in self.manifest.tensors}
        self.fill(Target(name, tensor) for name, tensor in tensors.items())
        return tensors

    def empty(self, name: str) -> Tensor:
        """Returns an uninitialized tensor like the saved one, after a check that the parts hold that many bytes."""
        stored = self.manifest.tensors[name]
        for piece in stored.pieces:
            self._entry(name, piece)
        return torch.empty(stored.shape, dtype=self.dtype(name))

    def fill(self, targets: Iterable[Target]) -> None:
        """Reads into the targets in the order of the files; each block is read once, by one rank."""
        targets = list(targets)
        scattered = [(t, torch.empty_like(t.tensor, memory_format=torch.contiguous_format))
                     for t in targets if not t.tensor.is_contiguous()]  # fmt: skip
        flat = {id(target): into for target, into in scattered}
        places: dict[Block, list[tuple[int, Tensor]]] = defaultdict(list)
        for target in targets:
            for piece, start, rows in self._reads(target, flat.get(id(target), target.tensor)):
                for block, offset, stretch in _stretches(piece.part, start, rows.reshape(-1).view(torch.uint8)):
                    places[block].append((offset, stretch))
        for block, data in self._needed_blocks(targets):
            for offset, stretch in places[block]:
                stretch.copy_(data[offset : offset + len(stretch)])
        for target, into in scattered:
            target.tensor.copy_(into)

    def _needed_blocks(self, targets: list[Target]) -> Iterator[tuple[Block, Tensor]]:
        """Yields the blocks of the targets: first those that several ranks need, then those only this rank needs."""
        needs = self._needs(targets)
        world_size = self.ranks.world_size
        kept = {block: block.part % world_size for block in needs if self._has_header(block)}  # read with a header
        common = sorted(
            b for b, ranks in needs.items() if len(ranks) > 1 or kept.get(b, next(iter(ranks))) not in ranks
        )
        readers = {block: kept.get(block, n % world_size) for n, block in enumerate(common)}
        yield from self.blocks.shared(readers)
        damage = ""
        try:
            yield from self.blocks.own(sorted(b for b in needs if b not in readers and self.ranks.rank in needs[b]))
        except recovery.Damaged as error:
            damage = str(error)
        self.blocks.agree(damage)

    def _needs(self, targets: list[Target]) -> dict[Block, set[int]]:
        """Returns the ranks that need each block; equal on every rank."""
        needs: dict[Block, set[int]] = defaultdict(set)
        ranks = range(self.ranks.world_size)
        for target in targets:
            stored = self.manifest.tensors[target.name]
            whole = [Piece(part=rank, start=0, stop=stored.rows) for rank in ranks]
            own = [Piece(part=0, start=target.first, stop=target.first + _count_rows(target.tensor))]
            rows_by_rank = (
                own if len(ranks) == 1 else cut_rows(stored.shape, len(ranks)) if target.shared_out else whole
            )
            for piece in stored.pieces:
                entry = self._entry(target.name, piece)
                for rank, rows in ((rows.part, rows) for rows in rows_by_rank):
                    start, stop = (_byte(entry, piece, row) for row in _find_overlap(piece, rows))
                    if start < stop:
                        for number in range(start // BLOCK, (stop - 1) // BLOCK + 1):
                            needs[Block(piece.part, number)].add(rank)
        return needs

    def _reads(self, target: Target, into: Tensor) -> Iterator[tuple[Piece, int, Tensor]]:
        """Yields each piece that overlaps the target, its first byte in the part, and the target's rows to fill."""
        stored = self.manifest.tensors[target.name]
        rows = Piece(part=0, start=target.first, stop=target.first + _count_rows(into))
        for piece in stored.pieces:
            start, stop = _find_overlap(piece, rows)
            if start >= stop or not into.numel():
                continue
            entry = self._entry(target.name, piece)
            if entry.dtype != into.dtype:
                raise self.refusal(f"{target.name} is {entry.dtype}, here {into.dtype}")
            overlap = into[start - target.first : stop - target.first] if stored.shape else into
            yield piece, _byte(entry, piece, start), overlap

    def _entry(self, name: str, piece: Piece) -> Entry:
        """Returns the header entry of a piece. Raises UserError if it contradicts the manifest."""
        entry, stored = self.headers[piece.part].get(name), self.manifest.tensors[name]
        expected = (piece.stop - piece.start, *stored.shape[1:]) if stored.shape else ()
        if entry is None or entry.shape != expected:
            raise self.refusal(f"{self.manifest.parts[piece.part].name} has no {name} of shape {list(expected)}")
        return entry

    def _has_header(self, block: Block) -> bool:
        entries = self.headers[block.part].values()
        return block.number * BLOCK < min((entry.start for entry in entries), default=BLOCK)

    @cached_property
    def headers(self) -> list[Mapping[str, Entry]]:
        """The header entries of each part; one rank reads each header."""
        own: list[bytes] = []
        damage = mistake = ""
        try:
            with ThreadPoolExecutor(AHEAD, "checkpoint-read") as pool:
                own = list(pool.map(self._header, self._parts_of(self.ranks.rank)))
        except recovery.Damaged as error:
            damage = str(error)
        except ValueError as error:
            mistake = str(error)
        results = self.ranks.exchange((damage, mistake, list(map(len, own))), within_s=self.blocks.within_s)
        raise_damage(damage for damage, _, _ in results)
        if mistakes := [mistake for _, mistake, _ in results if mistake]:
            raise self.refusal(mistakes[0])
        headers: dict[int, Mapping[str, Entry]] = {}
        for rank, (_, _, lengths) in enumerate(results):
            joined = as_tensor(b"".join(own)) if rank == self.ranks.rank else None
            data = self.blocks.sent(joined, rank, sum(lengths)).cpu()
            for number, text in zip(self._parts_of(rank), torch.split(data, lengths), strict=True):
                headers[number] = self._parse_entries(bytes(text.numpy().data), number)
        return [headers[number] for number in range(len(self.manifest.parts))]

    def _parts_of(self, rank: int) -> range:
        """Returns the numbers of the parts whose headers `rank` reads."""
        return range(rank, len(self.manifest.parts), self.ranks.world_size)

    def _header(self, number: int) -> bytes:
        """Reads the text of a part's header. Raises ValueError if its length is impossible."""
        stored = self.manifest.parts[number]
        recovery.require_size(self.blocks.store, stored)
        length = self.blocks.begin(number, 0, min(stored.bytes, part.LENGTH_BYTES))
        end = part.LENGTH_BYTES + part.header_bytes(length, stored.bytes)
        return self.blocks.begin(number, part.LENGTH_BYTES, end)

    def _parse_entries(self, header: bytes, number: int) -> dict[str, Entry]:
        try:
            return part.entries(header, self.manifest.parts[number].bytes)
        except ValueError as error:
            raise self.refusal(str(error)) from None

    def refusal(self, reason: str) -> UserError:
        """Returns the error for a checkpoint that contradicts its manifest."""
        return UserError(
            f"checkpoint {self.manifest.name} contradicts its manifest ({reason}): another program has written it. "
            "Delete it to resume from the previous one."
        )


def _count_rows(tensor: Tensor) -> int:
    return len(tensor) if tensor.ndim else 1


def _find_overlap(a: Piece, b: Piece) -> tuple[int, int]:
    return max(a.start, b.start), min(a.stop, b.stop)


def _byte(entry: Entry, piece: Piece, row: int) -> int:
    """Returns the first byte of a row of the tensor, in the part with the piece."""
    return entry.start + (row - piece.start) * entry.row_bytes


def _stretches(number: int, start: int, bytes_: Tensor) -> Iterator[tuple[Block, int, Tensor]]:
    """Splits bytes from `start` of part `number` at its blocks; yields each block, the offset in it, and the bytes."""
    position = 0
    while position < len(bytes_):
        block, offset = divmod(start + position, BLOCK)
        stretch = bytes_[position : position + BLOCK - offset]
        yield Block(number, block), offset, stretch
        position += len(stretch)
