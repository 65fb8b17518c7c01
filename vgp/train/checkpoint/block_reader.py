"""Reads the blocks of a checkpoint: each from the store once, by one rank, which broadcasts it to the others.

Every block (`manifest.BLOCK` bytes) is verified. A rank reads up to `AHEAD` blocks at once. If a block is damaged, all
ranks learn of it before any of them waits for it in a collective.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import NamedTuple, Protocol, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from vgp.base.storage.files import CHECKSUM_BLOCK as BLOCK
from vgp.train.checkpoint import recovery
from vgp.train.checkpoint.checkpoint_manifest import Manifest
from vgp.train.checkpoint.checkpoint_store import Store

T = TypeVar("T")

#: Blocks to read ahead.
AHEAD = 4
#: Blocks with headers to keep for later reads.
_MOST_KEPT = 16


class Block(NamedTuple):
    """The n-th block of a part."""

    part: int
    number: int


class Ranks(Protocol):
    """A rank among those that read together: `vgp.train.processes.rank.Rank`."""

    rank: int
    world_size: int
    device: torch.device

    def exchange(self, value: T, *, within_s: float) -> list[T]: ...


class Alone:
    """A single process that reads by itself."""

    rank, world_size, device = 0, 1, torch.device("cpu")

    def exchange(self, value: T, *, within_s: float) -> list[T]:
        return [value]


class Blocks:
    """The blocks of one checkpoint.

    Args:
        within_s: How long ranks wait for a reading rank.
    """

    def __init__(self, store: Store, manifest: Manifest, ranks: Ranks, within_s: float):
        self.store, self.manifest, self.ranks, self.within_s = store, manifest, ranks, within_s
        self.kept: dict[Block, Tensor] = {}

    def read(self, block: Block) -> Tensor:
        """Returns the verified bytes of the block, uint8 on the CPU. Raises Damaged."""
        if block in self.kept:
            return self.kept.pop(block)
        data = recovery.read_block(self.store, self.manifest.parts[block.part], block.number)
        return as_tensor(data)

    def begin(self, part: int, start: int, stop: int) -> bytes:
        """Returns bytes [start, stop) of a part, and keeps their blocks for later."""
        first = start // BLOCK
        blocks = [self._kept(Block(part, number)) for number in range(first, -(-stop // BLOCK))]
        return bytes(torch.cat(blocks)[start - first * BLOCK : stop - first * BLOCK].numpy().data)

    def _kept(self, block: Block) -> Tensor:
        data = self.kept[block] if block in self.kept else self.read(block)
        if len(self.kept) < _MOST_KEPT:
            self.kept[block] = data
        return data

    def agree(self, damage: str) -> None:
        """Raises Damaged on every rank if one of them passes a description of damage."""
        raise_damage(self.ranks.exchange(damage, within_s=self.within_s))

    def own(self, blocks: Iterable[Block]) -> Iterator[tuple[Block, Tensor]]:
        """Yields blocks that only this rank needs. Raises Damaged, on this rank only."""
        with ThreadPoolExecutor(AHEAD, "checkpoint-read") as pool:
            todo = iter(blocks)
            waiting: deque[tuple[Block, Future[Tensor]]] = deque()
            waiting.extend((block, pool.submit(self.read, block)) for block in islice(todo, AHEAD))
            while waiting:
                block, read = waiting.popleft()
                data = read.result()
                waiting.extend((block, pool.submit(self.read, block)) for block in islice(todo, 1))
                yield block, data

    def shared(self, readers: Mapping[Block, int]) -> Iterator[tuple[Block, Tensor]]:
        """Yields blocks that several ranks need, on the device of each rank. Raises Damaged on every rank.

        Args:
            readers: The rank that reads each block.
        """
        queues = [[b for b, reader in readers.items() if reader == rank] for rank in range(self.ranks.world_size)]
        reading = self.own(queues[self.ranks.rank])
        for turn in range(max(map(len, queues), default=0)):
            own, damage = None, ""
            try:
                own = next(reading, None)
            except recovery.Damaged as error:
                damage = str(error)
            self.agree(damage)
            for rank, queue in enumerate(queues):
                if turn < len(queue):
                    block = queue[turn]
                    yield (
                        block,
                        self.sent(own[1] if own and rank == self.ranks.rank else None, rank, self._block_size(block)),
                    )

    def sent(self, data: Tensor | None, source: int, size: int) -> Tensor:
        """Broadcasts `data`, `size` bytes on rank `source` (None on the others), to all ranks."""
        if self.ranks.world_size == 1:
            assert data is not None
            return data
        if not size:
            return torch.empty(0, dtype=torch.uint8)
        buffer = torch.empty(size, dtype=torch.uint8, device=self.ranks.device)
        if data is not None:
            buffer.copy_(data)
        dist.broadcast(buffer, src=source)
        return buffer

    def _block_size(self, block: Block) -> int:
        return min(BLOCK, self.manifest.parts[block.part].bytes - block.number * BLOCK)


def as_tensor(data: bytes) -> Tensor:
    """Copies the bytes into a uint8 tensor, which may be written to."""
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)


def raise_damage(damages: Iterable[str]) -> None:
    """Raises Damaged with the first text that is not empty, if any."""
    for damage in filter(None, damages):
        raise recovery.Damaged(damage)
