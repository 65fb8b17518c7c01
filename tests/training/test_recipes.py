"""What a run computes is exact over a kill and a resume with all that a recipe adds: optimizers, scaler, schedule."""

import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from training import bundle, tasks
from training.data import manifest
from training.errors import ProcessFailed
from training.loop.learner import seed_everything
from training.loop.order import seed_of
from training.processes.launch import launch

RECIPES = {"ddp": {}, "fsdp": {"strategy": "fsdp"}, "exact": {"exact": True}}
RESUMED = 6


@pytest.fixture(scope="module")
def runs(digits, tmp_path_factory):
    """Runs of two processes: the recipes from start to end, from a checkpoint on, and one that was killed."""
    sys.path.insert(0, str(Path(__file__).parent))
    import recipes

    folder = tmp_path_factory.mktemp("recipes")
    argument = {"data": str(recipes.prepared(digits, folder / "data")), "folder": str(folder), "recipes": RECIPES}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")  # virtual machines may offer AMX and then fault
        with pytest.raises(ProcessFailed, match="rank 1 of 2 on .* was killed by SIGKILL"):
            launch("recipes:begin", argument, nproc=2)
        figures = launch("recipes:go_on", {**argument, "step": RESUMED}, nproc=2)
    sys.path.pop(0)
    return recipes, folder, figures


def test_optimizers_scaler_and_schedule_go_on_exactly_with_each_strategy(runs):
    recipes, folder, figures = runs
    for name, found in zip(RECIPES, figures, strict=False):
        assert (found["resumed_from"], found["skipped_steps"], found["precision"]) == (RESUMED, 2, "fp16")
        assert recipes.state(folder / name / "resumed") == recipes.state(folder / name / "whole"), name
        before, after = (recipes.state(folder / name / "whole", step)[2] for step in (RESUMED, recipes.STEPS))
        assert before == {"scaler": {"scale": 2.0**16, "good": 2, "skipped": 1}}, name  # each of them counts
        assert after == {"scaler": {"scale": 2.0**16, "good": 2, "skipped": 2}}, name


def test_every_optimizer_has_its_state_and_its_options_in_the_checkpoint(runs):
    recipes, folder, _ = runs
    tensors, scalars, _, history = recipes.state(folder / "ddp" / "whole")
    kinds = {
        name.removeprefix("optimizer/") for name in tensors if name.startswith("optimizer/") and "step" not in name
    }
    assert kinds == {
        "blocks.1.0.weight/momentum_buffer", "blocks.1.3.weight/momentum_buffer", "layers.0.weight/exp_avg",
        "layers.0.weight/exp_avg_sq", "layers.4.weight/exp_avg", "layers.4.weight/exp_avg_sq",
        *(f"{name}.bias/momentum_buffer" for name in ("blocks.1.0", "blocks.1.3", "layers.0", "layers.1", "layers.4")),
        "layers.1.weight/momentum_buffer",
    }  # fmt: skip
    muon, adamw, sgd = scalars["groups"]
    assert [group["lr"] for group in scalars["groups"]] == pytest.approx([0.006, 0.003, 0.003])
    assert (muon["ns_steps"], adamw["betas"], sgd["momentum"]) == (5, [0.8, 0.9], 0.9)
    rates = [point["learning_rate"] for point in history["points"]]
    assert rates == pytest.approx([0.005, *[0.01] * 5, *[0.003] * 4])


def test_frozen_parameters_stay_as_they_were_made_with_each_strategy(runs):
    _, folder, _ = runs
    begun, ended = (load_file(folder / name / "model" / bundle.WEIGHTS) for name in ("ddp/whole", "fsdp/whole"))
    frozen = [name for name in begun if name.startswith("blocks.0")]
    first = {name: tensor for name, tensor in made(folder).items() if name in frozen}
    assert len(frozen) == 4
    for name, tensor in first.items():
        assert torch.equal(begun[name], tensor) and torch.equal(ended[name], tensor), name


def made(folder):
    """The model as its seed makes it."""
    data = manifest.load(folder / "data")
    seed_everything(seed_of(0, "model"))
    return tasks.load("recipes:Recipes", data.options).model(data).state_dict()


def test_a_killed_run_ends_with_the_bits_of_one_that_was_not(runs):
    recipes, folder, figures = runs
    assert 2 <= figures[-1]["resumed_from"] <= 8
    assert recipes.state(folder / "killed") == recipes.state(folder / "ddp" / "whole")
    files = [(folder / name / "model" / bundle.WEIGHTS).read_bytes() for name in ("killed", "ddp/whole")]
    assert files[0] == files[1]
