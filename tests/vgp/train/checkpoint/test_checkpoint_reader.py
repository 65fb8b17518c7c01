"""What a rank reads of a checkpoint: the rows that it needs, in verified blocks."""

import random

import google_crc32c
import pytest
import torch

from vgp.data.tensor_file import Checksums, encode
from vgp.train.checkpoint import recovery, training_state
from vgp.train.checkpoint.checkpoint_manifest import BLOCK, Manifest, Part, part_name
from vgp.train.checkpoint.checkpoint_reader import CheckpointReader, Target
from vgp.train.checkpoint.checkpoint_store import DiskStore

#: Three blocks and a bit in one part, so that tensors lie across the ends of blocks.
WIDE = 3 * BLOCK // 4 // 1000 + 200


class Watched(DiskStore):
    """Remembers what was read of which part."""

    def __init__(self, directory):
        super().__init__(directory)
        self.reads = []

    def read(self, name, start=0, stop=None):
        if name.endswith(".safetensors"):
            self.reads.append((name, start, stop))
        return super().read(name, start, stop)


def saved(directory, tensors, world_size):
    """The checkpoint of these tensors by so many ranks."""
    store, layout, parts = Watched(directory), training_state.layout_of(tensors, world_size), []
    for rank in range(world_size):
        sums, name = Checksums(), part_name(0, 1, "ab", rank)
        store.write(name, sums.pieces(encode(training_state.share_of(tensors, layout, rank))))
        blocks = sums.blocks if len(sums.blocks) > 1 else ()
        parts.append(Part(name=name, bytes=sums.size, crc32c=sums.crc32c, blocks=blocks))
    manifest = Manifest(run=0, step=1, settings={}, parts=tuple(parts), tensors=layout)
    store.commit(manifest.name, manifest.encode())
    return store, recovery.read_manifest(store, manifest.name)


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    torch.manual_seed(0)
    tensors = {"wide": torch.randn(1000, WIDE), "scalar": torch.tensor(7.0), "bytes": torch.ones(11, dtype=torch.uint8)}
    return tensors, *saved(tmp_path_factory.mktemp("wide"), tensors, 1)


def test_the_checksums_are_of_the_file_and_of_each_of_its_blocks(wide):
    _, store, manifest = wide
    (part,) = manifest.parts
    data = store.read(part.name)
    assert part.bytes == len(data) and part.crc32c == google_crc32c.value(data) == store.checksum(part.name)
    assert list(part.blocks) == [google_crc32c.value(data[at : at + BLOCK]) for at in range(0, len(data), BLOCK)]
    assert len(part.blocks) == 4


def test_any_rows_come_back_and_no_block_is_read_that_holds_none_of_them(wide):
    tensors, store, manifest = wide
    for first, count in ((0, 1), (999, 1), (400, 5), (100, 800)):
        source, into = CheckpointReader(store, manifest), torch.empty(count, WIDE)
        store.reads.clear()
        source.fill([Target("wide", into, first)])
        assert torch.equal(into, tensors["wide"][first : first + count])
        needed = {0} | set(range(first * WIDE * 4 // BLOCK, (first + count) * WIDE * 4 // BLOCK + 1))
        assert {start // BLOCK for _, start, _ in store.reads} <= needed
        assert len(store.reads) <= len(needed) + 1  # the header's block may be read again


def test_a_rank_of_many_reads_its_share_of_the_bytes(wide):
    """As under FSDP2: each of four ranks its own rows."""
    _, store, manifest = wide
    for rank in range(4):
        store.reads.clear()
        CheckpointReader(store, manifest).fill([Target("wide", torch.empty(250, WIDE), 250 * rank)])
        assert sum(min(stop, manifest.parts[0].bytes) - start for _, start, stop in store.reads) <= 3 * BLOCK


def test_a_flipped_bit_is_found_by_whoever_reads_its_block_and_by_no_one_else(wide, tmp_path):
    tensors, store, manifest = wide
    (part,) = manifest.parts
    data = bytearray(store.read(part.name))
    data[2 * BLOCK + 5] ^= 1
    (tmp_path / part.name).write_bytes(data)
    source = CheckpointReader(DiskStore(tmp_path), manifest)
    into = torch.empty(1, WIDE)
    source.fill([Target("wide", into, 0)])
    assert torch.equal(into, tensors["wide"][:1])
    with pytest.raises(recovery.Damaged, match="fails its checksum"):
        source.fill([Target("wide", torch.empty(1000, WIDE), 0)])
    with pytest.raises(recovery.Damaged, match="fails its checksum"):
        recovery.verify(source.blocks.store, manifest)


@pytest.mark.parametrize("seed", range(5))
def test_what_any_number_of_ranks_wrote_any_number_can_read(tmp_path, seed):
    dice = random.Random(seed)
    shapes = [(), (0,), (1,), (7, 3), (dice.randint(1, 40), 2), (dice.randint(1, 40),)]
    tensors = {f"t{n}": torch.randn(shape).to(dice.choice([torch.float32, torch.bfloat16, torch.float64]))
               for n, shape in enumerate(shapes)}  # fmt: skip
    store, manifest = saved(tmp_path, tensors, dice.randint(1, 5))
    source = CheckpointReader(store, manifest)
    assert all(torch.equal(value, tensors[name]) for name, value in source.tensors().items())
    readers = dice.randint(1, 5)
    for name, layout in training_state.layout_of(tensors, readers).items():
        for piece in layout.pieces:
            expected = tensors[name][piece.start : piece.stop] if layout.shape else tensors[name]
            into = torch.zeros_like(expected)
            source.fill([Target(name, into, piece.start)])
            assert torch.equal(into, expected)


def test_rows_that_are_not_contiguous_in_memory_are_filled(tmp_path):
    tensor = torch.randn(6, 3, 4, 5)
    store, manifest = saved(tmp_path, {"image": tensor}, 2)
    into = torch.empty(6, 3, 4, 5).to(memory_format=torch.channels_last)
    CheckpointReader(store, manifest).fill([Target("image", into)])
    assert torch.equal(into, tensor) and not into.is_contiguous()
