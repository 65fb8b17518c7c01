"""The switches for large models: sharding, offload, activation checkpointing, compilation, bfloat16."""

import shutil
from collections import Counter

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from vgp.base.exits import UserError
from vgp.data import bundle
from vgp.networks.repeated_blocks import find_blocks
from vgp.train.checkpoint import recovery
from vgp.train.checkpoint.checkpoint_reader import CheckpointReader
from vgp.train.checkpoint.checkpoint_store import DiskStore
from vgp.train.fit import train
from vgp.train.loop import arithmetic
from vgp.train.train_config import parse_config

STEPS = 10  # whole batches, of training and of validation: a compiler gets one shape


def run(folder, data, nproc=1, **changes):
    given = {"task": "digits:Digits", "epochs": 1, "global_batch_size": 120, "microbatches": 2,
             "checkpoint_every_steps": STEPS // 2, **changes}  # fmt: skip
    return train(
        parse_config(given), data=data, model=folder / "model", checkpoints=folder / "checkpoints", nproc=nproc
    )


@pytest.fixture(scope="module")
def blocky(tmp_path_factory, digits):
    """The digits for a model with two blocks."""
    from digits import prepare

    return prepare(tmp_path_factory.mktemp("blocky") / "data", blocks=2, hidden=16)


def resumed(folder, data, whole, nproc=1, **changes):
    """A run that goes on from the middle of a whole one, as if that had been stopped there."""
    last = shutil.ignore_patterns(f"run000-step{STEPS:09d}*")
    shutil.copytree(whole / "checkpoints", folder / "checkpoints", ignore=last)
    assert run(folder, data, nproc, **changes)["resumed_from"] == STEPS // 2
    return folder


def weights(folder):
    return load_file(folder / "model" / bundle.WEIGHTS)


def newest(folder):
    """The tensors of the last checkpoint, of model and optimizer."""
    store = DiskStore(folder / "checkpoints")
    manifest = recovery.read_manifest(store, recovery.list_manifests(store, 0)[0])
    assert manifest.step == STEPS
    return CheckpointReader(store, manifest).tensors()


@pytest.fixture(scope="module")
def plain(blocky, tmp_path_factory, request):
    import sys
    from pathlib import Path

    sys.path.insert(0, str(Path(__file__).parents[2] / "helpers"))
    folder = tmp_path_factory.mktemp("plain")
    run(folder, blocky)
    sys.path.pop(0)
    return folder


def test_compiled_and_recomputed_blocks_resume_exactly_under_the_names_of_the_plain_model(plain, blocky, tmp_path):
    switches = {"compile": True, "activation_checkpointing": True}
    run(tmp_path / "whole", blocky, **switches)
    resumed(tmp_path / "resumed", blocky, tmp_path / "whole", activation_checkpointing=True)  # as the run began
    assert bundle.load_card(tmp_path / "resumed" / "model").config["compile"] is True
    found, whole, expected = (newest(folder) for folder in (tmp_path / "resumed", tmp_path / "whole", plain))
    assert found.keys() == expected.keys() and all(torch.equal(found[name], whole[name]) for name in expected)
    found, whole, expected = (weights(folder) for folder in (tmp_path / "resumed", tmp_path / "whole", plain))
    assert all(torch.equal(found[name], whole[name]) for name in expected)
    assert all(torch.allclose(found[name], expected[name], atol=0.1) for name in expected)


def test_a_model_recomputed_in_bfloat16_goes_on_exactly_as_one_that_is_not(plain, blocky, tmp_path):
    run(tmp_path / "whole", blocky, precision="bf16")
    resumed(tmp_path / "resumed", blocky, tmp_path / "whole", activation_checkpointing=True)  # as the run began
    with pytest.raises(UserError, match='config.precision: "bf16" -> "fp32"'):
        run(tmp_path / "resumed", blocky, precision="fp32")
    found, whole, fp32 = (weights(folder) for folder in (tmp_path / "resumed", tmp_path / "whole", plain))
    assert all(torch.equal(found[name], whole[name]) for name in whole)
    assert not all(torch.equal(found[name], fp32[name]) for name in whole)
    assert all(value.dtype != torch.bfloat16 for value in whole.values())


def test_a_sharded_compiled_run_in_bfloat16_resumes_exactly(blocky, tmp_path, capfd):
    switches = {"strategy": "fsdp", "precision": "bf16", "compile": True, "gradient_precision": "bf16"}
    recomputed = {"activation_checkpointing": "selective"}
    run(tmp_path / "whole", blocky, nproc=2, **switches, **recomputed)
    resumed(tmp_path / "resumed", blocky, tmp_path / "whole", nproc=2, **switches, **recomputed)
    found, whole = (newest(folder) for folder in (tmp_path / "resumed", tmp_path / "whole"))
    assert all(torch.equal(found[name], whole[name]) for name in whole)
    assert "of the parameters in bf16, and the others in float32" in capfd.readouterr().err
    with pytest.raises(UserError, match='gradient_precision: "bf16" -> '):
        run(tmp_path / "resumed", blocky, nproc=2, **switches | {"gradient_precision": "fp32"})


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
    assert find_blocks(nn.Sequential(net)) == list(net.blocks)
    assert find_blocks(nn.Linear(4, 4)) == []


def test_recomputing_keeps_less_and_gives_the_same_gradients():
    found = []
    for recomputed in (False, True):
        torch.manual_seed(0)
        net, kept = Net(nn.Tanh()), []
        if recomputed:
            arithmetic.recompute_blocks(find_blocks(net))
        with torch.autograd.graph.saved_tensors_hooks(lambda t, kept=kept: kept.append(t) or t, lambda t: t):
            loss = net(torch.ones(2, 4, requires_grad=True))
        loss.backward()
        found.append((len(kept), [p.grad for p in net.parameters() if p.grad is not None]))
    (kept, expected), (kept_less, grads) = found
    assert kept_less < kept
    assert len(grads) == 4 and all(map(torch.equal, grads, expected))


class Operators(TorchDispatchMode):
    """Counts the calls of each operator."""

    def __init__(self):
        super().__init__()
        self.calls = Counter()

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        self.calls[operator.overloadpacket.__name__] += 1
        return operator(*args, **(kwargs or {}))


def test_selective_recomputation_repeats_what_is_cheap_and_no_matrix_product():
    found = {}
    for name in ("plain", "selective", "whole"):
        torch.manual_seed(0)
        net = Net(nn.Tanh())
        if name != "plain":
            arithmetic.recompute_blocks(find_blocks(net), is_selective=name == "selective")
        with Operators() as operators:
            net(torch.ones(2, 4, requires_grad=True)).backward()
        found[name] = operators.calls, [p.grad for p in net.parameters() if p.grad is not None]
    calls = {name: (calls["addmm"], calls["tanh"]) for name, (calls, _) in found.items()}
    assert calls == {"plain": (2, 2), "selective": (2, 4), "whole": (4, 4)}
    assert all(map(torch.equal, found["selective"][1], found["plain"][1]))


def test_a_compiled_block_recomputes_selectively():
    grads = []
    for is_selective in (False, True):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 4))
        if is_selective:
            arithmetic.recompute_blocks([net], is_selective=True)
        arithmetic.compile_blocks(net, [net], deterministic=True, asked=True)
        net(torch.ones(2, 4, requires_grad=True)).sum().backward()
        grads.append([p.grad for p in net.parameters()])
    torch.testing.assert_close(*grads)


def test_blocks_that_cannot_be_recomputed_are_named():
    with pytest.raises(UserError, match="no blocks to recompute.*nn.ModuleList"):
        arithmetic.recompute_blocks(find_blocks(Net(nn.BatchNorm1d(4))))


def test_offload_without_sharding_is_refused():
    with pytest.raises(UserError, match="cpu_offload=true works with strategy=fsdp only"):
        parse_config({"cpu_offload": True})
