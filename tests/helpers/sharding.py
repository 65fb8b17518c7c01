"""What the tests of sharded models run in every one of several training processes."""

import random
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from torch import nn
from torch.distributed.tensor import DTensor

from vgp.data import bundle
from vgp.data import tensor_file as part
from vgp.data.task import Task
from vgp.train.checkpoint import block_reader, checkpoint_manifest, checkpoint_reader, recovery, training_state
from vgp.train.checkpoint.checkpoint_manifest import Manifest, Part, part_name
from vgp.train.checkpoint.checkpoint_store import DiskStore
from vgp.train.loop import initial_state, tensor_recording
from vgp.train.loop.learner import Learner
from vgp.train.loop.model_building import seed_everything
from vgp.train.loop.sample_order import Plan, seed_of
from vgp.train.train_config import TrainConfig
from vgp.train.warm_start_files import open_weights

WIDTH = 33


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        nn.init.orthogonal_(self.up.weight)

    def forward(self, values):
        return values + self.down(torch.relu(self.up(values)))


class Model(nn.Module):
    """Makes its weights in many ways: twice, by copies, from numpy, from one another; reads them; ties them."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, WIDTH, padding_idx=3)
        self.rates = [rate.item() for rate in torch.linspace(0, 0.1, 3)]
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm = nn.BatchNorm1d(WIDTH)
        self.register_buffer("mask", torch.ones(WIDTH, WIDTH).triu(1).bool(), persistent=False)
        self.register_buffer("noise", torch.rand(WIDTH, WIDTH))
        self.head = nn.Linear(WIDTH, 50, bias=False)
        self.head.weight = self.embedding.weight
        self.lstm = nn.LSTM(WIDTH, 7, bidirectional=True)
        self.scaled = nn.Parameter(torch.ones(5, WIDTH) * self.head.weight.std().item())
        self.frozen = nn.Parameter(torch.from_numpy(np.random.randn(9, WIDTH)).float(), requires_grad=False)
        with torch.no_grad():
            own = torch.Generator().manual_seed(5)
            self.embedding.weight[5:8].normal_(generator=own)
            self.embedding.weight.data[9].fill_(random.random())
            self.scaled[:, :5].copy_(torch.linalg.qr(torch.randn(5, 5))[0])
            for parameter in self.blocks[1].parameters():
                if parameter.device.type == "cpu" and not parameter.is_meta:
                    nn.init.trunc_normal_(parameter, std=0.02)

    def forward(self, tokens):
        values = self.embedding(tokens) + self.noise[0] + self.frozen.mean(0) + self.scaled.sum(0)
        for block in self.blocks:
            values = block(values)
        values = self.norm(values)
        return self.head(values) + self.lstm(values)[0].sum()


class Tokens(Task):
    def shards(self, data): ...

    def rows(self, shard, statistics): ...

    def model(self, data):
        return Model()

    def loss(self, model, batch):
        return nn.functional.cross_entropy(model(batch["tokens"]), batch["tokens"])


class Counted(DiskStore):
    """Counts the bytes that are read of parts."""

    bytes = 0

    def read(self, name, start=0, stop=None):
        data = super().read(name, start, stop)
        self.bytes += len(data) if name.endswith(".safetensors") else 0
        return data


def whole(seed=0):
    """The model as one process makes it."""
    seed_everything(seed_of(seed, "model"))
    return Model()


def learner(rank, **changes):
    config = TrainConfig(precision="fp32", hang_after_s=60, **changes)
    plan = Plan(samples=240, epochs=1, global_batch_size=24, microbatches=12, seed=0)
    own = range(12 * rank.rank // rank.world_size, 12 * (rank.rank + 1) // rank.world_size)
    return Learner(Tokens(), None, config, plan, rank, own, batch(0))


def batch(seed):
    return {"tokens": torch.randint(0, 50, (6,), generator=torch.Generator().manual_seed(seed))}


def train(one, steps):
    one.warm_up(batch(1))
    for step in range(steps):
        one.step(step, (batch(100 * step + number) for number in one.assigned))


def values(one):
    """Every tensor of a learner, whole."""
    return {n: (t.full_tensor() if isinstance(t, DTensor) else t).detach().clone() for n, t in one.tensors().items()}


def same(found, expected):
    return found.keys() == expected.keys() and all(torch.equal(found[name], expected[name]) for name in expected)


def made_filled_and_exported(folder, rank):
    """A sharded model has the bits of the whole one when it is made, warm-started and written."""
    tensor_recording.LARGE = 512
    one, expected = learner(rank, strategy="fsdp"), whole()
    assert not one.made_whole and one.module.head.weight is one.module.embedding.weight
    full = {name: parameter.full_tensor() for name, parameter in one.module.named_parameters()}
    assert same(full, dict(expected.named_parameters())), rank.rank
    assert [p.requires_grad for p in one.module.parameters()] == [p.requires_grad for p in expected.parameters()]
    assert same(dict(one.module.named_buffers()), dict(expected.named_buffers()))
    bundle.save_weights(Path(folder) / "sharded", one.module, one.pieces, leads=rank.leads)
    other = whole(seed=1)
    if rank.leads:
        bundle.save_weights(Path(folder) / "whole", expected)
        files = [(Path(folder) / name / bundle.WEIGHTS).read_bytes() for name in ("sharded", "whole")]
        assert files[0] == files[1]
        bundle.save_weights(Path(folder) / "other", other)
    train(one, 1)
    rank.exchange(None, within_s=60)
    initial_state.take_weights(
        one.module, open_weights(str(Path(folder) / "other")), one.task, one.config, one.rank, 60
    )
    full = {n: t.full_tensor() if isinstance(t, DTensor) else t for n, t in one.module.state_dict().items()}
    assert same(full, other.state_dict())


def a_constructor_that_cannot_be_recorded(folder, rank):
    tensor_recording.LARGE = 512
    Model.__init__, before = reading_values(Model.__init__), Model.__init__
    try:
        one, expected = learner(rank, strategy="fsdp"), whole()
    finally:
        Model.__init__ = before
    assert "numpy" in one.made_whole
    full = {name: parameter.full_tensor() for name, parameter in one.module.named_parameters()}
    assert same(full, dict(expected.named_parameters()))


def reading_values(make):
    def made(self):
        make(self)
        self.largest = self.embedding.weight.detach().numpy().max()

    return made


def read_once(folder, rank):
    """For any writing and reading layout, one rank reads each byte of the parts once, and all ranks have the state."""
    for module in (checkpoint_manifest, part, recovery, checkpoint_reader, block_reader):
        module.BLOCK = 4096
    first = learner(rank)
    train(first, 2)
    expected, scalars = values(first), first.scalars()
    for writers in (1, rank.world_size, rank.world_size + 1):
        place = Path(folder) / f"by-{writers}"
        if rank.leads:
            commit(place, expected, scalars, 2, writers)
        rank.exchange(None, within_s=60)
        for switches in ({}, {"strategy": "fsdp"}):
            one = learner(rank, **switches)
            store = Counted(place)
            initial_state.store_at = lambda *_, store=store, **__: store
            assert initial_state.restore_newest(request(place), rank, one).step == 2
            assert same(values(one), expected), (switches, writers)
            size = sum(path.stat().st_size for path in place.glob("*.safetensors"))
            assert sum(rank.exchange(store.bytes, within_s=60)) == size, (switches, writers)
    goes_on_offloaded_and_recomputed(place, first, rank)


def goes_on_offloaded_and_recomputed(place, first, rank):
    one = learner(rank, strategy="fsdp", cpu_offload=True, activation_checkpointing=True)
    one.warm_up(batch(1))
    assert initial_state.restore_newest(request(place), rank, one).step == 2
    for each in (first, one):
        each.step(2, (batch(200 + number) for number in each.assigned))
    expected, found = values(first), values(one)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-3, atol=1e-3, msg=name)


def damage_that_one_rank_reads(folder, rank):
    """All ranks take the older checkpoint; and none, if that is damaged too."""
    initial_state.store_at = lambda folder, **_: DiskStore(folder)
    for module in (checkpoint_manifest, part, recovery, checkpoint_reader, block_reader):
        module.BLOCK = 4096
    one = learner(rank, strategy="fsdp")
    train(one, 1)
    older = values(one), one.scalars()
    train(one, 2)
    newer = values(one), one.scalars()
    if rank.leads:
        for step, (tensors, scalars) in enumerate((older, newer), 1):
            commit(Path(folder), tensors, scalars, step, rank.world_size)
        flip_last(Path(folder), 2, rank.world_size - 1)
    rank.exchange(None, within_s=60)
    assert initial_state.restore_newest(request(folder), rank, one).step == 1
    assert same(values(one), older[0])
    rank.exchange(None, within_s=60)
    if rank.leads:
        flip_last(Path(folder), 1, 0)
    rank.exchange(None, within_s=60)
    assert initial_state.restore_newest(request(folder), rank, one) is None and one.spoilt


def request(folder):
    config = TrainConfig(hang_after_s=60)
    return SimpleNamespace(config=config, start=SimpleNamespace(folder=str(folder), run=0))


def commit(folder, tensors, scalars, step, writers):
    """The checkpoint of whole tensors, as so many ranks write it."""
    store, layout, parts = DiskStore(folder), training_state.layout_of(tensors, writers), []
    for rank in range(writers):
        sums, name = part.Checksums(), part_name(0, step, "ab", rank)
        store.write(name, sums.pieces(part.encode(training_state.share_of(tensors, layout, rank))))
        blocks = sums.blocks if len(sums.blocks) > 1 else ()
        parts.append(Part(name=name, bytes=sums.size, crc32c=sums.crc32c, blocks=blocks))
    made = Manifest(run=0, step=step, settings={}, parts=tuple(parts), tensors=layout, scalars=scalars)
    store.commit(made.name, made.encode())


def flip_last(folder, step, number):
    path = folder / part_name(0, step, "ab", number)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def everything(argument, rank):
    folder = Path(argument)
    for check in (
        made_filled_and_exported,
        a_constructor_that_cannot_be_recorded,
        read_once,
        damage_that_one_rank_reads,
    ):
        large, sizes = tensor_recording.LARGE, checkpoint_manifest.BLOCK
        place = folder / check.__name__
        place.mkdir(exist_ok=True)
        check(str(place), rank)
        tensor_recording.LARGE = large
        for module in (checkpoint_manifest, part, recovery, checkpoint_reader, block_reader):
            module.BLOCK = sizes
    return "all held"
