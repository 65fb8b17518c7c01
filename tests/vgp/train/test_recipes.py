"""What a run computes is exact over a kill and a resume with all that a recipe adds: optimizers, scaler, schedule."""

import shutil
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from vgp.base.exits import ProcessFailed, UserError
from vgp.data import bundle
from vgp.train.fit import train
from vgp.train.processes.launch import launch
from vgp.train.train_config import parse_config

RECIPES = {"ddp": {}, "fsdp": {"strategy": "fsdp"}, "exact": {"exact": True}}
RESUMED = 6


@pytest.fixture(scope="module")
def runs(digits, tmp_path_factory):
    """Runs of two processes: the recipes from start to end, from a checkpoint on, and one that was killed."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "helpers"))
    import recipes

    folder = tmp_path_factory.mktemp("recipes")
    argument = {"data": str(recipes.prepared(digits, folder / "data")), "folder": str(folder), "recipes": RECIPES,
                "weights": str(folder / "weights")}  # fmt: skip
    recipes.weights = recipes.pretrained(folder / "data", folder / "weights")
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
        before, after = (recipes.state(folder / name / "whole", step)[2]["scaler"] for step in (RESUMED, recipes.STEPS))
        assert before == {"scale": 2.0**16, "good": 2, "skipped": 1}, name  # each of them counts
        assert after == {"scale": 2.0**16, "good": 2, "skipped": 2}, name


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


def test_frozen_parameters_stay_as_the_warm_start_has_them_with_each_strategy(runs):
    recipes, folder, _ = runs
    frozen = [name for name in recipes.weights if name.startswith("blocks.0")]
    for strategy in RECIPES:
        ended = load_file(folder / strategy / "whole" / "model" / bundle.WEIGHTS)
        for name, tensor in recipes.weights.items():
            assert torch.equal(ended[name], tensor) == (name in frozen), (strategy, name)
            assert torch.allclose(ended[name].float(), tensor.float(), atol=0.5) or "running" in name or "num" in name


def test_a_run_does_not_go_on_with_other_weights_to_begin_with(runs, tmp_path):
    recipes, folder, _ = runs
    shutil.copytree(folder / "weights", tmp_path / "weights")
    shutil.copytree(folder / "ddp" / "whole", tmp_path / "checkpoints")
    config = parse_config({**recipes.RECIPE, "warm_start": str(folder / "weights")})
    places = {"data": folder / "data", "model": tmp_path / "model", "checkpoints": tmp_path / "checkpoints"}
    name = "model-00001-of-00002.safetensors"
    try:
        save_file({key: t + 1 for key, t in load_file(folder / "weights" / name).items()}, folder / "weights" / name)
        with pytest.raises(UserError, match=rf"warm_start\.{name}: .*CRC-32C(.|\n)*resume=never"):
            train(config, **places, nproc=2)
    finally:
        shutil.copy(tmp_path / "weights" / name, folder / "weights" / name)


def test_a_killed_run_ends_with_the_bits_of_one_that_was_not(runs):
    recipes, folder, figures = runs
    assert 2 <= figures[-1]["resumed_from"] <= 8
    assert recipes.state(folder / "killed") == recipes.state(folder / "ddp" / "whole")
    files = [(folder / name / "model" / bundle.WEIGHTS).read_bytes() for name in ("killed", "ddp/whole")]
    assert files[0] == files[1]
