"""The switches for large models: sharding, offload, activation checkpointing, compilation, bfloat16."""

import signal

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from training import bundle
from training.checkpoint import recovery
from training.checkpoint.disk import DiskStore
from training.config import parse
from training.errors import Preempted, UserError
from training.fit import train
from training.loop import blocks
from training.models.blocks import repeated


def run(folder, data, nproc, **changes):
    given = {"task": "digits:Digits", "epochs": 4, "global_batch_size": 96, "microbatches": 2, **changes}
    return train(parse(given), data=data, model=folder / "model", checkpoints=folder / "checkpoints", nproc=nproc)


@pytest.fixture(scope="module")
def blocky(tmp_path_factory, digits):
    """The digits for a model with two blocks."""
    from digits import prepare

    return prepare(tmp_path_factory.mktemp("blocky") / "data", blocks=2, hidden=16)


def stopped_and_resumed(folder, data, monkeypatch, nproc, **changes):
    """Stops in the middle, then goes on; the figures of the second start."""
    monkeypatch.setenv("DIGITS_SIGNAL", f"0:40:{signal.SIGTERM}")
    with pytest.raises(Preempted):
        run(folder, data, nproc, **changes)
    monkeypatch.delenv("DIGITS_SIGNAL")
    figures = run(folder, data, nproc, **changes)
    assert 0 < figures["resumed_from"] < figures["steps"]
    return figures


def weights(folder):
    return load_file(folder / "model" / bundle.WEIGHTS)


def names_of_newest(folder):
    store = DiskStore(folder / "checkpoints")
    return recovery.read_manifest(store, recovery.committed(store, 0)[0]).tensors.keys()


@pytest.fixture(scope="module")
def plain(blocky, tmp_path_factory, request):
    import sys
    from pathlib import Path

    sys.path.insert(0, str(Path(__file__).parent))
    folder = tmp_path_factory.mktemp("plain")
    run(folder, blocky, 1)
    sys.path.pop(0)
    return folder


def test_compiled_and_recomputed_blocks_resume_exactly_under_the_names_of_the_plain_model(
    plain, blocky, tmp_path, monkeypatch
):
    switches = {"compile": True, "activation_checkpointing": True}
    run(tmp_path / "whole", blocky, 1, **switches)
    stopped_and_resumed(tmp_path / "stopped", blocky, monkeypatch, 1, **switches)
    assert names_of_newest(tmp_path / "stopped") == names_of_newest(plain)
    found, whole, expected = (weights(folder) for folder in (tmp_path / "stopped", tmp_path / "whole", plain))
    assert all(torch.equal(found[name], whole[name]) for name in expected)
    assert all(torch.allclose(found[name], expected[name], atol=0.1) for name in expected)


def test_a_model_recomputed_in_bfloat16_resumes_exactly(plain, blocky, tmp_path, monkeypatch):
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")  # virtual machines may offer AMX and then fault
    switches = {"precision": "bf16", "activation_checkpointing": True}
    stopped_and_resumed(tmp_path / "stopped", blocky, monkeypatch, 1, **switches)
    run(tmp_path / "whole", blocky, 1, precision="bf16")
    found, whole, fp32 = (weights(folder) for folder in (tmp_path / "stopped", tmp_path / "whole", plain))
    assert all(torch.equal(found[name], whole[name]) for name in whole)
    assert not all(torch.equal(found[name], fp32[name]) for name in whole)
    assert all(value.dtype != torch.bfloat16 for value in whole.values())


def test_a_sharded_offloaded_and_recomputed_model_resumes(plain, blocky, tmp_path, monkeypatch):
    switches = {"strategy": "fsdp", "cpu_offload": True, "activation_checkpointing": True}
    stopped_and_resumed(tmp_path, blocky, monkeypatch, 2, **switches)
    assert names_of_newest(tmp_path) == names_of_newest(plain)
    losses = [[point.loss for point in bundle.load_card(f / "model").history] for f in (tmp_path, plain)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


class Net(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.names = nn.ModuleList([nn.Embedding(3, 4), nn.Embedding(3, 4)])
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), *layers) for _ in range(2))

    def forward(self, values):
        for block in self.blocks:
            values = block(values)
        return values.sum()


def test_the_blocks_are_the_members_of_lists_that_have_layers_of_their_own():
    net = Net(nn.ModuleList([nn.Sequential(nn.Linear(4, 4))]))
    assert repeated(nn.Sequential(net)) == list(net.blocks)
    assert repeated(nn.Linear(4, 4)) == []


def test_recomputing_keeps_less_and_gives_the_same_gradients():
    found = []
    for recomputed in (False, True):
        torch.manual_seed(0)
        net, kept = Net(nn.Tanh()), []
        if recomputed:
            blocks.recompute(repeated(net))
        with torch.autograd.graph.saved_tensors_hooks(lambda t, kept=kept: kept.append(t) or t, lambda t: t):
            loss = net(torch.ones(2, 4, requires_grad=True))
        loss.backward()
        found.append((len(kept), [p.grad for p in net.parameters() if p.grad is not None]))
    (kept, expected), (kept_less, grads) = found
    assert kept_less < kept
    assert len(grads) == 4 and all(map(torch.equal, grads, expected))


def test_blocks_that_cannot_be_recomputed_are_named():
    with pytest.raises(UserError, match="no blocks to recompute.*nn.ModuleList"):
        blocks.recompute(repeated(Net(nn.BatchNorm1d(4))))


def test_offload_without_sharding_is_refused():
    with pytest.raises(UserError, match="cpu_offload=true works with strategy=fsdp only"):
        parse({"cpu_offload": True})
