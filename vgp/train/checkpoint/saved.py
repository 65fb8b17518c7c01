"""A committed checkpoint as tensors: ranks read the rows that they need together, and every byte of them is verified.

Memory: the tensors that are filled, and a few blocks (`vgp.train.checkpoint.reading`).
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
from vgp.train.checkpoint.manifest import Manifest, Piece, cut
from vgp.train.checkpoint.reading import AHEAD, Alone, Block, Blocks, Ranks, as_tensor, raise_first
from vgp.train.checkpoint.store import Store


@dataclass(frozen=True)
class Target:
    """A tensor to fill with the rows of the saved tensor `name` from `first` on."""

    name: str
    tensor: Tensor
    first: int = 0
    #: Whether each rank fills its own rows of it; else all fill the same.
    shared_out: bool = False


class Saved:
    """Reads tensors of a checkpoint. Each method must be called by all of the `ranks`, who read together.

    Raises (every method):
        Damaged: what is stored is not what was written; on every rank.
        UserError: it is intact, but makes no sense: someone else has made it.
    """

    def __init__(self, store: Store, manifest: Manifest, ranks: Ranks | None = None, *, within_s: float = 600):
        self.manifest, self.ranks = manifest, ranks or Alone()
        self.blocks = Blocks(store, manifest, self.ranks, within_s)

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
        """Reads into the targets, in the order of the files; no block is read twice, by whichever ranks."""
        targets = list(targets)
        scattered = [(t, torch.empty_like(t.tensor, memory_format=torch.contiguous_format))
                     for t in targets if not t.tensor.is_contiguous()]  # fmt: skip
        flat = {id(target): into for target, into in scattered}
        places: dict[Block, list[tuple[int, Tensor]]] = defaultdict(list)
        for target in targets:
            for piece, start, rows in self._reads(target, flat.get(id(target), target.tensor)):
                for block, offset, stretch in _stretches(piece.part, start, rows.reshape(-1).view(torch.uint8)):
                    places[block].append((offset, stretch))
        for block, data in self._needed(targets):
            for offset, stretch in places[block]:
                stretch.copy_(data[offset : offset + len(stretch)])
        for target, into in scattered:
            target.tensor.copy_(into)

    def _needed(self, targets: list[Target]) -> Iterator[tuple[Block, Tensor]]:
        """The blocks of the targets: first those that several ranks need, then those that only this one needs."""
        needs = self._needs(targets)
        world_size = self.ranks.world_size
        begun = {block: block.part % world_size for block in needs if self._has_header(block)}  # there already
        several = sorted(
            b for b, ranks in needs.items() if len(ranks) > 1 or begun.get(b, next(iter(ranks))) not in ranks
        )
        readers = {block: begun.get(block, n % world_size) for n, block in enumerate(several)}
        yield from self.blocks.shared(readers)
        damage = ""
        try:
            yield from self.blocks.own(sorted(b for b in needs if b not in readers and self.ranks.rank in needs[b]))
        except recovery.Damaged as error:
            damage = str(error)
        self.blocks.agree(damage)

    def _needs(self, targets: list[Target]) -> dict[Block, set[int]]:
        """The ranks that need each block; on every rank the same."""
        needs: dict[Block, set[int]] = defaultdict(set)
        everyone = range(self.ranks.world_size)
        for target in targets:
            stored = self.manifest.tensors[target.name]
            whole = [Piece(part=rank, start=0, stop=stored.rows) for rank in everyone]
            own = [Piece(part=0, start=target.first, stop=target.first + _rows(target.tensor))]
            wanted = own if len(everyone) == 1 else cut(stored.shape, len(everyone)) if target.shared_out else whole
            for piece in stored.pieces:
                entry = self._entry(target.name, piece)
                for rank, rows in ((rows.part, rows) for rows in wanted):
                    start, stop = (_byte(entry, piece, row) for row in _overlap(piece, rows))
                    if start < stop:
                        for number in range(start // BLOCK, (stop - 1) // BLOCK + 1):
                            needs[Block(piece.part, number)].add(rank)
        return needs

    def _reads(self, target: Target, into: Tensor) -> Iterator[tuple[Piece, int, Tensor]]:
        """Piece, first byte in its part, and rows of the target to fill, of each piece that the target overlaps."""
        stored = self.manifest.tensors[target.name]
        rows = Piece(part=0, start=target.first, stop=target.first + _rows(into))
        for piece in stored.pieces:
            start, stop = _overlap(piece, rows)
            if start >= stop or not into.numel():
                continue
            entry = self._entry(target.name, piece)
            if entry.dtype != into.dtype:
                raise self.refusal(f"{target.name} is {entry.dtype}, here {into.dtype}")
            wanted = into[start - target.first : stop - target.first] if stored.shape else into
            yield piece, _byte(entry, piece, start), wanted

    def _entry(self, name: str, piece: Piece) -> Entry:
        """Where a piece of a tensor lies in its part, which must say of it what the manifest says."""
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
        """What each part holds; each header is read by one rank."""
        own: list[bytes] = []
        damage = wrong = ""
        try:
            with ThreadPoolExecutor(AHEAD, "checkpoint-read") as pool:
                own = list(pool.map(self._header, self._parts_begun(self.ranks.rank)))
        except recovery.Damaged as error:
            damage = str(error)
        except ValueError as error:
            wrong = str(error)
        told = self.ranks.exchange((damage, wrong, list(map(len, own))), within_s=self.blocks.within_s)
        raise_first(damage for damage, _, _ in told)
        if wrongs := [wrong for _, wrong, _ in told if wrong]:
            raise self.refusal(wrongs[0])
        headers: dict[int, Mapping[str, Entry]] = {}
        for rank, (_, _, lengths) in enumerate(told):
            joined = as_tensor(b"".join(own)) if rank == self.ranks.rank else None
            data = self.blocks.sent(joined, rank, sum(lengths)).cpu()
            for number, text in zip(self._parts_begun(rank), torch.split(data, lengths), strict=True):
                headers[number] = self._entries(bytes(text.numpy().data), number)
        return [headers[number] for number in range(len(self.manifest.parts))]

    def _parts_begun(self, rank: int) -> range:
        return range(rank, len(self.manifest.parts), self.ranks.world_size)

    def _header(self, number: int) -> bytes:
        """The text of a part's header. Raises ValueError if it cannot be one."""
        stored = self.manifest.parts[number]
        recovery.require_size(self.blocks.store, stored)
        length = self.blocks.begin(number, 0, min(stored.bytes, part.LENGTH_BYTES))
        end = part.LENGTH_BYTES + part.header_bytes(length, stored.bytes)
        return self.blocks.begin(number, part.LENGTH_BYTES, end)

    def _entries(self, header: bytes, number: int) -> dict[str, Entry]:
        try:
            return part.entries(header, self.manifest.parts[number].bytes)
        except ValueError as error:
            raise self.refusal(str(error)) from None

    def refusal(self, why: str) -> UserError:
        return UserError(
            f"checkpoint {self.manifest.name} does not hold what its manifest says ({why}): "
            "this program has not written it. Delete it to go on from the one before."
        )


def _rows(tensor: Tensor) -> int:
    return len(tensor) if tensor.ndim else 1


def _overlap(one: Piece, other: Piece) -> tuple[int, int]:
    return max(one.start, other.start), min(one.stop, other.stop)


def _byte(entry: Entry, piece: Piece, row: int) -> int:
    """Where a row of the tensor begins in the part that has the piece."""
    return entry.start + (row - piece.start) * entry.row_bytes


def _stretches(number: int, start: int, bytes_: Tensor) -> Iterator[tuple[Block, int, Tensor]]:
    """What fills these bytes, which begin at `start` of a part: blocks, where in them, and which of the bytes."""
    done = 0
    while done < len(bytes_):
        block, offset = divmod(start + done, BLOCK)
        stretch = bytes_[done : done + BLOCK - offset]
        yield Block(number, block), offset, stretch
        done += len(stretch)
