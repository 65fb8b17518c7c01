"""A loss without its weights: raw values compute, everything computed from weights has a shape only."""

import pytest
import torch
from torch import nn

from vgp.train.loop import precision
from vgp.train.loop.dry_run import DryRun, run_without_graph
from vgp.train.loop.gradients import Loss

CPU = torch.device("cpu")


class Raw(nn.Module):
    """Raw columns, a mask, an integer column, statistics that are not trained, and weights without memory."""

    def __init__(self, device="meta"):
        super().__init__()
        self.mean = nn.Parameter(torch.tensor([101_325.0, 0.0]), requires_grad=False)
        self.shift = nn.Parameter(torch.zeros(2, device=device))
        self.register_buffer("scale", torch.tensor([100.0, 1.0]))
        self.straight, self.standard = nn.Linear(2, 4, device=device), nn.Linear(2, 4, device=device)
        self.kinds, self.norm = nn.Embedding(3, 4, device=device), nn.LayerNorm(4, device=device)
        self.own, self.cell = nn.Parameter(torch.zeros(4, 4, device=device)), nn.GRU(4, 4, device=device)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True, device=device)

    def forward(self, rows):
        standard = self.standard((rows["raw"] - self.mean) / self.scale + self.shift)
        x = (self.straight(rows["raw"]) + standard)[rows["mask"]] @ self.own.T
        x = self.norm(x) + self.kinds(rows["kind"])[rows["mask"]]
        return self.attention(x[None], x[None], x[None])[0].sum() + self.cell(x)[0].sum()


def rows():
    raw = torch.randn(64, 2, generator=torch.Generator().manual_seed(0)) * torch.tensor([100.0, 1.0])
    return {"raw": raw + torch.tensor([101_325.0, 0.0]), "kind": torch.arange(64) % 3, "mask": torch.arange(64) % 5 > 0}


def dry_run(module):
    return DryRun(Loss(module, lambda module, rows: module(rows)), rows(), CPU)


def test_a_model_without_memory_shows_which_layers_need_float32_and_which_parameters_autocast_rounds():
    module = Raw()
    assert precision.keep_float32(module, dry_run(module), torch.bfloat16) == ["straight"]
    rounded = precision.find_rounded(module, dry_run(module), torch.bfloat16, "cpu")
    assert {"standard.weight", "standard.bias", "own"} <= set(rounded)
    exact = {"mean", "shift", "straight.weight", "straight.bias", "kinds.weight", "norm.weight", "norm.bias"}
    assert not exact & set(rounded)
    assert module.training and all(parameter.is_meta for parameter in (module.own, module.shift))


def test_a_dry_run_finds_the_layers_that_a_real_run_finds():
    module = Raw(device="cpu")
    names = precision.keep_float32(module, lambda: run_without_graph(lambda: module(rows())), torch.bfloat16)
    assert names == ["straight"]


def test_a_loss_that_reads_an_output_rejects_a_dry_run():
    module = nn.Linear(2, 1)
    with pytest.raises(Exception, match="data-dependent"):
        DryRun(Loss(module, lambda module, rows: 0 if module(rows["raw"]).sum() > 0 else 1), rows(), CPU)()


class Counter(nn.Linear):
    """Keeps a buffer in place, another one by assignment, a number, and an output."""

    def __init__(self):
        super().__init__(2, 1)
        self.register_buffer("seen", torch.zeros(()))
        self.register_buffer("calls", torch.zeros(()))
        self.count, self.output = 0, None

    def forward(self, rows):
        self.seen += len(rows["raw"])
        self.calls = self.calls + 1
        self.count += 1
        self.output = super().forward(rows["raw"])
        return self.output.sum()


def test_a_dry_run_leaves_buffers_and_attributes_as_they_were():
    module = Counter()
    assert precision.keep_float32(module, dry_run(module), torch.bfloat16) == [
        "Counter (all of it: its own code multiplies them)"
    ]
    assert (module.seen, module.calls, module.count, module.output) == (0, 0, 0, None)


@pytest.mark.parametrize("keeps_vectors", [True, False])
def test_a_trained_gain_of_raw_columns_shows_that_the_product_needs_float32(keeps_vectors):
    class Gain(nn.Module):
        def __init__(self):
            super().__init__()
            self.gain, self.weight = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2, 3))

        def forward(self, rows):
            return (rows["raw"] * self.gain) @ self.weight

    module = Gain()
    dry = DryRun(Loss(module, lambda module, rows: module(rows)), rows(), CPU, keeps_vectors=keeps_vectors)
    assert len(precision.keep_float32(module, dry, torch.bfloat16)) == keeps_vectors


def test_a_run_without_a_graph_keeps_no_tensor():
    weight, kept = torch.ones(4, 4, requires_grad=True), []

    class Kept(torch.autograd.graph.saved_tensors_hooks):
        def __init__(self):
            super().__init__(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor)

    def forward():
        return (weight.exp() @ weight.exp()).sum()

    with Kept():
        forward()
        assert len(kept) == 4
        loss = run_without_graph(forward)
    assert len(kept) == 4 and loss.requires_grad
