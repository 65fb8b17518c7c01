"""What is not finite is neither applied, saved nor exported; the scale of a loss in float16."""

import json
import math
import shutil

import pytest
import torch
from torch import nn

from vgp.train.checkpoint import recovery
from vgp.train.checkpoint.checkpoint_store import DiskStore
from vgp.train.loop import finite_checks
from vgp.train.loop.finite_checks import GradientNorm, Scaler
from vgp.train.processes.launch import launch


@pytest.fixture
def data(digits, tmp_path):
    """The digits, for the task that breaks."""
    folder = shutil.copytree(digits, tmp_path / "data")
    text = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(text.replace("digits:Digits", "faulty:Faulty"))
    return folder


def newest_step(folder):
    store = DiskStore(folder)
    names = recovery.list_manifests(store, 0)
    return recovery.read_manifest(store, names[0]).step if names else None


#: Each of 5 steps is saved: by name, the fault, the settings, and the error's text.
FAULTS = {
    "in the last step": ("gradient:1:4", {}, "the gradient of step 4 is not finite, though its loss is"),
    "without clipping": ("gradient:0:2", {"clip_norm": 0}, "the gradient of step 2 is not finite"),
    "of a shard": ("gradient:1:3", {"strategy": "fsdp"}, "the gradient of step 3 is not finite"),
    "in exact order": ("gradient:1:1", {"exact": True}, "the gradient of step 1 is not finite"),
    "of a loss alone": ("loss:1:3", {}, "the loss of step 3 is nan"),
    "of a weight": ("weight:1:4", {"strategy": "fsdp"}, "after step 5 of 5 the state holds values that are not finite"),
    "of a statistic": ("buffer:1:4", {}, "after step 5 of 5 the state holds values that are not finite: layers.1.run"),
}
RESUMED = {
    "none": ("none:-1:0", {}, ""),
    "one poisoned": ("none:-1:0", {"poison": [5]}, ""),
    "all poisoned": ("none:-1:0", {"poison": [1, 2, 3, 4, 5]}, "training cannot resume from any checkpoint in"),
}


def test_a_run_ends_before_anything_that_is_not_finite_is_kept_and_does_not_go_on_from_it(data, tmp_path, capfd):
    trials = [{"fault": fault, "config": config, "folder": str(tmp_path / name), "data": str(data)}
              for name, (fault, config, _) in FAULTS.items()]  # fmt: skip
    trials.append({"fault": "validation:-1:0", "folder": str(tmp_path / "resumed"), "data": str(data)})
    trials += [trials[-1] | {"fault": "none:-1:0", "poison": steps} for steps in ([5], [1, 2, 3, 4, 5])]
    half = {"precision": "fp16", "epochs": 2, "checkpoint_every_steps": 50}
    trials.append({"fault": "gradient:1:3", "config": half, "folder": str(tmp_path / "half"), "data": str(data)})
    *faults, validation, resumed, refused, unscaled = launch("faulty:trials", {"trials": trials}, nproc=2)
    said = capfd.readouterr().err
    for (name, (fault, _, expected)), errors in zip(FAULTS.items(), faults, strict=True):
        assert errors[0] == errors[1], name  # the ranks agree
        assert expected in errors[0]
        assert "learning_rate" in errors[0]
        step = int(fault[-1])
        assert newest_step(tmp_path / name) == (step or None), name
        assert f"checkpoint is of step {step}" in errors[0], name
        assert not (tmp_path / name / "model" / "model.json").exists(), name
        assert ("Parameters whose gradients are not finite: layers.0.weight, " in errors[0]) == ("gradient" in fault)
    assert "the gradient of step 19 is not finite, though its loss is" in unscaled[0]  # 16 times half of 2^16, and 1
    assert unscaled[0] == unscaled[1] and "at a loss scale of 1" in unscaled[0] and "precision=fp32" in unscaled[0]
    assert validation == resumed == ["", ""]
    assert "warning: after step 5 the validation loss is nan; it is left out" in said
    passed = "checkpoint skipped: run000-step000000005.json holds values that are not finite (model/layers.0.weight)"
    assert said.count(passed) == 2
    assert "resuming from step 4 of 5" in said
    json.loads((tmp_path / "resumed" / "model" / "model.json").read_text(), parse_constant=pytest.fail)
    assert "cannot resume from any checkpoint" in refused[0] and "run000-step000000001.json holds" in refused[0]
    assert refused[0] == refused[1]


# ---- the norm of a gradient


def model(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 7), nn.Linear(7, 2), nn.Linear(3, 3))  # the last has no gradient


def backward(network, factor=1.0):
    (network[1](network[0](torch.ones(4, 5))).square().sum() * factor).backward()


@pytest.mark.parametrize("clip_norm", [0.0, 0.5, 1e9])
def test_clipping_is_that_of_torch(clip_norm):
    ours, theirs = model(), model()
    for network in (ours, theirs):
        backward(network)
    GradientNorm(list(ours.parameters()), clip_norm).clip(0)
    if clip_norm:
        nn.utils.clip_grad_norm_(theirs.parameters(), clip_norm)
    for own, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert own.grad is other.grad is None or torch.equal(own.grad, other.grad)


@pytest.mark.parametrize("at_once", [True, False])
def test_the_first_fault_stays_known_until_it_is_asked_for(at_once):
    """As on a GPU, which is asked twice a second: by then the steps after it have made everything a nan."""
    network = model()
    norm = GradientNorm(list(network.parameters()), 1.0, at_once=at_once)
    for step in range(3):
        backward(network)
        norm.clip(step)
    assert norm.first_fault() is None and not norm.faulty
    network[1].bias.grad[1] = torch.inf
    norm.clip(3)
    assert norm.faulty == at_once
    for parameter in network.parameters():
        parameter.grad = torch.full_like(parameter, torch.nan)
    norm.clip(4)
    assert norm.first_fault() == 3
    assert [n for n, bad in enumerate(norm.culprits()) if bad] == [3]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_gradient_that_is_large_and_a_number_is_clipped(at_once):
    """The square of 1e22 is beyond a float32."""
    network = model()
    norm = GradientNorm(list(network.parameters()), 1.0, at_once=at_once)
    backward(network)
    network[1].bias.grad[:] = 1e22
    assert norm.clip(0) and norm.first_fault() is None and float(norm.total) > 1e22
    grads = torch.cat([p.grad.reshape(-1) for p in network.parameters() if p.grad is not None])
    assert grads.norm().item() == pytest.approx(1.0, rel=1e-4)


def test_a_gradient_of_two_types_is_clipped():
    network = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).double())
    norm = GradientNorm(list(network.parameters()), 1.0)
    for parameter in network.parameters():
        parameter.grad = torch.full_like(parameter, 100.0)
    assert norm.clip(0) and float(norm.total) == pytest.approx(100 * 12**0.5)


def test_a_sparse_gradient_is_clipped_and_seen():
    table = nn.Embedding(6, 3, sparse=True)
    norm = GradientNorm(list(table.parameters()), 0.1)
    table(torch.tensor([1, 1, 4])).sum().backward()
    norm.clip(0)
    assert table.weight.grad.to_dense().norm().item() == pytest.approx(0.1, rel=1e-4)
    table.weight.grad = None
    (table(torch.tensor([2])) * torch.nan).sum().backward()
    norm.clip(1)
    assert norm.first_fault() == 1


# ---- a state


def test_a_state_is_broken_by_a_nan_or_an_infinity_but_not_by_large_numbers():
    tensors = {
        "model/good": torch.full((9,), 3e38), "model/half": torch.full((9,), 6e4, dtype=torch.float16),
        "model/double": torch.full((9,), 1e300, dtype=torch.float64), "model/whole": torch.ones(3, dtype=torch.int64),
        "model/empty": torch.ones(0, 3), "model/nan": torch.tensor([1.0, torch.nan]),
        "model/infinite": torch.tensor(-torch.inf), "optimizer/best": torch.tensor(torch.inf),
        "optimizer/nan": torch.tensor([torch.nan, torch.inf]),
    }  # fmt: skip
    assert finite_checks.find_broken(tensors) == {"model/nan", "model/infinite", "optimizer/nan"}
    assert finite_checks.find_broken({}) == set()


def test_the_scale_goes_as_that_of_torch():
    own, theirs = Scaler(), torch.amp.GradScaler("cpu")
    theirs.scale(torch.ones(()))
    overflows = torch.zeros(2 * 2_000 + 60, dtype=torch.bool)
    overflows[[0, 1, 1_000, 3_001, 3_002]] = True  # 2,000 good ones in between, just
    for number, overflow in enumerate(overflows.tolist()):
        found = torch.tensor(float(overflow))
        torch._amp_update_scale_(theirs._scale, theirs._growth_tracker, found, 2.0, 0.5, 2_000)
        assert own.accepts(math.nan if overflow else 1.0) != overflow
        assert (own.scale, own.good) == (theirs.get_scale(), theirs._get_growth_tracker()), number
    assert own.skipped == 5


def test_an_overflow_at_the_scale_1_is_not_skipped():
    own = Scaler()
    assert [own.accepts(math.inf) for _ in range(18)] == [False] * 16 + [True] * 2
    assert own.scale == 1 and own.skipped == 16


def test_the_scale_never_leaves_the_numbers_whose_inverse_is_one(monkeypatch):
    monkeypatch.setattr(finite_checks, "_GROWTH_INTERVAL", 1)
    own = Scaler()
    assert all(own.accepts(1.0) for _ in range(200)) and own.scale == 2.0**126


def test_a_state_comes_back_and_one_that_none_has_written_is_refused():
    own, other = Scaler(), Scaler()
    for norm in (math.inf, 1.0, 1.0):
        own.accepts(norm)
    other.restore(own.scalars())
    assert other.scalars() == own.scalars() == {"scale": 2.0**15, "good": 2, "skipped": 1}
    for wrong in ({"scale": 3.0}, {"scale": 0.5}, {"scale": math.inf}, {"scale": 4}, {"good": 2_000}, {"good": True},
                  {"skipped": -1}, {"more": 1}):  # fmt: skip
        with pytest.raises(ValueError):
            other.restore({**own.scalars(), **wrong})
    with pytest.raises(ValueError):
        other.restore({})


def test_the_scale_is_taken_off_the_gradient_before_it_is_clipped_and_an_overflow_is_no_fault():
    layer, own = nn.Linear(2, 1, bias=False), Scaler()
    norm = GradientNorm([layer.weight], 1.0)
    layer.weight.grad = torch.tensor([[3.0, 4.0]]) * own.scale
    assert norm.clip(0, own) and norm.total == 5
    assert layer.weight.grad.norm() == pytest.approx(1)
    layer.weight.grad = torch.tensor([[3.0, torch.inf]])
    assert not norm.clip(1, own) and norm.first_fault() is None and own.scale == 2.0**15
    own.scale = 1.0
    assert not norm.clip(2, own) and norm.first_fault() == 2
