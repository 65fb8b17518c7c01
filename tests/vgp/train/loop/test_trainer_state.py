"""The average of the weights and the best validation, to the bit, over kills at each of them."""

import json
import math
import shutil
from contextlib import nullcontext
from types import SimpleNamespace
from unittest.mock import MagicMock, Mock

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file
from torch import nn

from vgp.base.exits import UserError
from vgp.data import bundle
from vgp.train.checkpoint import recovery, training_state
from vgp.train.checkpoint.checkpoint_manifest import parse_manifest_name
from vgp.train.checkpoint.checkpoint_reader import CheckpointReader
from vgp.train.checkpoint.checkpoint_store import DiskStore
from vgp.train.checkpoint.writer import Writer
from vgp.train.loop.trainer import Trainer
from vgp.train.loop.trainer_state import Average, Best, TrainerState
from vgp.train.processes.launch import launch
from vgp.train.train_config import parse_config


class Scale:
    """A part: how large, and since how many steps."""

    def __init__(self, size=0.0, steps=0):
        self.size, self.steps = torch.tensor(size), steps

    def tensors(self):
        return {"size": self.size}

    def scalars(self):
        return {"steps": self.steps}

    def restore(self, scalars):
        if type(scalars.get("steps")) is not int:
            raise ValueError("the scale has no number of steps")
        self.steps = scalars["steps"]


def trainer(**parts):
    module = nn.Linear(3, 2)
    trained = TrainerState()
    for name, part in parts.items():
        trained.add(name, part)
    return module, torch.optim.SGD(module.parameters()), trained


@pytest.fixture
def saved(tmp_path):
    """A checkpoint of a trainer with a scale of 3 since 7 steps."""
    module, optimizer, trained = trainer(scaler=Scale(3.0, 7))
    writer = Writer(DiskStore(tmp_path), dist.HashStore(), rank=0, world_size=1, run=0, launch_id="ab", settings={},
                    keep=3, patience_s=10)  # fmt: skip
    tensors = training_state.tensors_of(module, optimizer) | trained.tensors()
    layout = training_state.layout_of(tensors, 1)
    scalars = training_state.scalars_of(module, optimizer)
    writer.save(4, training_state.share_of(tensors, layout, 0), layout, scalars, {}, trainer=trained.scalars())
    assert writer.wait()
    return CheckpointReader(
        writer.store, recovery.read_manifest(writer.store, recovery.list_manifests(writer.store, 0)[0])
    )


def test_a_part_comes_back_with_tensors_and_scalars_which_the_manifest_lists(saved):
    assert saved.manifest.trainer == {"scaler": {"steps": 7}}
    assert "scaler/size" in saved.manifest.tensors
    module, optimizer, trained = trainer(scaler=Scale())
    training_state.restore(module, optimizer, saved, trained.tensors())
    trained.restore(saved.manifest.trainer)
    assert (trained.parts["scaler"].size.item(), trained.parts["scaler"].steps) == (3.0, 7)


def test_a_checkpoint_with_other_parts_is_refused(saved):
    module, optimizer, trained = trainer()
    with pytest.raises(UserError, match="scaler/size"):
        training_state.restore(module, optimizer, saved, trained.tensors())
    with pytest.raises(ValueError, match="it holds scaler besides model and optimizer, not nothing"):
        trained.restore(saved.manifest.trainer)
    with pytest.raises(ValueError, match="scaler is not a mapping"):
        trainer(scaler=Scale())[2].restore({"scaler": 3})
    with pytest.raises(ValueError, match="no number of steps"):
        trainer(scaler=Scale())[2].restore({"scaler": {}})


def test_no_two_parts_have_one_name():
    for name in ("scaler", "model", "a/b"):
        with pytest.raises(ValueError, match="another part"):
            trainer(scaler=Scale())[2].add(name, Scale())


def changed(module):
    """Other weights, as an update would leave them."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter))


def test_the_average_forgets_the_first_weights_soon_and_then_decays_as_told():
    torch.manual_seed(0)
    module = nn.Linear(3, 2)
    average = Average(module, list(module.parameters()), 0.5)
    changed(module)  # as a warm start does
    average.begin()
    expected = module.weight.detach().double()
    for step in range(12):
        changed(module)
        average.update(step)
        decay = min(0.5, (1 + step) / (10 + step))  # 0.1, 0.18, 0.25... and 0.5 from step 8 on
        expected = decay * expected + (1 - decay) * module.weight.detach()
        torch.testing.assert_close(average.values["weight"].double(), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_weights_and_average_come_back_to_the_bit_after_a_validation(dtype):
    module = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).to(dtype)
    average = Average(module, list(module.parameters()), 0.9)
    changed(module)
    average.update(0)
    assert {value.dtype for value in average.values.values()} == {torch.promote_types(dtype, torch.float32)}
    weights = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    values = {name: tensor.clone() for name, tensor in average.values.items()}
    with average.applied():
        now = module.state_dict()
        assert all(torch.equal(now[name], value.to(dtype)) for name, value in values.items())
        assert not torch.equal(now["0.weight"], weights["0.weight"])
    assert all(torch.equal(tensor, weights[name]) for name, tensor in module.state_dict().items())
    assert all(torch.equal(tensor, values[name]) for name, tensor in average.values.items())
    average.take()
    assert torch.equal(module.state_dict()["0.weight"], values["0.weight"].to(dtype))


def test_only_what_the_optimizer_updates_is_averaged_and_no_buffer():
    module = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    average = Average(module, list(module[0].parameters()), 0.9)
    assert sorted(average.tensors()) == ["0.bias", "0.weight"]
    assert average.scalars() == {}
    with pytest.raises(ValueError, match="the average of the weights has decay"):
        average.restore({"decay": 0.9})


#: 20 steps, validated at every second and saved at every third; `wave` is best at step 10 of them.
JUDGED = {
    "validate_every_steps": 2,
    "checkpoint_every_steps": 3,
    "best_metric": "wave",
    "patience": 4,
    "ema_decay": 0.9,
}
EXACT = JUDGED | {"exact": True, "microbatches": 4}
SHARDED = JUDGED | {"strategy": "fsdp"}
#: After the best validation, before it is saved; amid the patience; after the end, before the model is written.
KILLS = [("validated", 10), ("saved", 12), ("saved", 18)]


@pytest.fixture(scope="module")
def data(digits, tmp_path_factory):
    folder = shutil.copytree(digits, tmp_path_factory.mktemp("judged") / "data")
    text = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(text.replace("digits:Digits", "judged:Judged"))
    return folder


@pytest.fixture(scope="module")
def runs(data, tmp_path_factory):
    """Runs by name: the folder of each, and how it ended; on one process, then on two."""
    import sys
    from pathlib import Path

    root = tmp_path_factory.mktemp("runs")
    trials = {
        "exact": {"config": EXACT},
        "exact killed": {"config": EXACT, "kills": KILLS[:1], "unfinished": True},
    }
    more = {
        "exact killed": {"config": EXACT, "kills": KILLS[1:2]},
        "whole": {"config": JUDGED | {"checkpoint_every_steps": 1, "keep": 20}},
        "killed": {"config": JUDGED, "kills": KILLS},
        "sharded": {"config": SHARDED},
        "sharded killed": {"config": SHARDED, "kills": KILLS[:1]},
        "crossed": {"config": JUDGED, "kills": KILLS[1:2], "config after": SHARDED},
        "plain": {"config": {"keep_best": False, "checkpoint_every_steps": 3, "keep": 9}},
        "by the clock": {"config": {"validate_every_s": 1e-3, "checkpoint_every_steps": 3}, "kills": [("saved", 6)]},
        "no number": {"config": JUDGED, "fault": "nan"},
        "other names": {"config": JUDGED, "fault": "names"},
        "no sums": {"config": JUDGED, "fault": "values"},
    }  # fmt: skip
    ended = {}
    sys.path.insert(0, str(Path(__file__).parents[3] / "helpers"))
    for group, nproc in ((trials, 1), (more, 2)):
        placed = [{**trial, "folder": str(root / name), "data": str(data)} for name, trial in group.items()]
        ended |= dict(zip(group, launch("judged:trials", {"trials": placed}, nproc=nproc), strict=True))
    sys.path.pop(0)
    return root, ended


def card(runs, name):
    assert runs[1][name] == ""
    return bundle.load_card(runs[0] / name / "model")


def weights(runs, name):
    return load_file(runs[0] / name / "model" / bundle.WEIGHTS)


def checkpoint(runs, name, step=None):
    """The newest checkpoint of a run, or that of a step."""
    store = DiskStore(runs[0] / name / "checkpoints")
    names = recovery.list_manifests(store, 0)
    saved = [recovery.read_manifest(store, name) for name in names]
    return CheckpointReader(store, next(manifest for manifest in saved if step in (None, manifest.step)))


def averaged(runs, name, step):
    """The model with the average of its weights, in the checkpoint of a step; buffers are not averaged."""
    tensors = checkpoint(runs, name, step).tensors()
    return {n[6:]: tensors.get(f"ema/{n[6:]}", tensor) for n, tensor in tensors.items() if n.startswith("model/")}


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    "whole, killed", [("whole", "killed"), ("sharded", "sharded killed"), ("exact", "exact killed")]
)
def test_a_run_that_is_killed_anywhere_has_the_same_best_the_same_end_and_the_same_bits(runs, whole, killed):
    """In the exact mode it begins on one process and goes on with two."""
    assert card(runs, killed) == card(runs, whole)
    assert same(weights(runs, killed), weights(runs, whole))
    last, expected = checkpoint(runs, killed), checkpoint(runs, whole)
    assert (last.manifest.step, last.manifest.trainer) == (expected.manifest.step, expected.manifest.trainer)
    assert last.manifest.history == expected.manifest.history
    assert same(last.tensors(), expected.tensors())


def test_training_stops_once_no_validation_was_better_for_as_long_as_the_patience(runs):
    shipped = card(runs, "whole").shipped
    waves = [point.metrics["wave"] for point in card(runs, "whole").history if point.metrics]
    assert (shipped.steps, shipped.planned, shipped.best_step, shipped.step) == (18, 20, 10, 10)
    assert waves.index(min(waves)) == 4 and len(waves) == 9
    assert (shipped.best, shipped.last) == (min(waves), waves[-1])
    figures = json.loads((runs[0] / "whole" / "checkpoints" / "training.json").read_text())
    named = ("steps", "planned_steps", "stopped_early", "shipped_step", "best_metric", "best_step", "best")
    assert [figures[name] for name in named] == [18, 20, True, 10, "wave", 10, min(waves)]
    assert figures["shipped"].startswith("stopped at step 18 of 20: no better since step 10 (wave -0.")
    assert "the model has the weights of step 10 (wave -0." in str(shipped)


def test_a_validation_waits_for_the_copy_that_a_skipped_step_did_not_wait_for():
    """The average takes the place of the weights, and the best ones that of those before: both may be being copied."""
    done = []
    learner = SimpleNamespace(before_update=lambda: done.append("copied"))
    average = SimpleNamespace(applied=lambda: nullcontext(done.append("changed")))
    run = SimpleNamespace(
        learner=learner, average=average, best=Mock(), validation=MagicMock(), monitor=Mock(), rank=Mock(),
        config=Mock(), step=3,
    )  # fmt: skip
    Trainer._validate(run)
    assert done == ["copied", "changed"]


def test_the_weights_of_the_best_validation_are_shipped_and_need_no_checkpoint_of_their_own(runs):
    """`crossed` was replicated until step 12, and sharded from there on: the best is of step 10, to the bit."""
    for run in ("whole", "killed", "crossed"):
        assert same(weights(runs, run), averaged(runs, "whole", 10))
        assert not same(weights(runs, run), averaged(runs, "whole", 18))
    kept = recovery.list_manifests(DiskStore(runs[0] / "killed" / "checkpoints"), 0)
    assert [parse_manifest_name(name) for name in kept] == [(0, 18), (0, 15), (0, 12)]


def test_the_average_is_what_is_validated_and_what_is_trained_stays_as_it_was(runs):
    last, plain = checkpoint(runs, "whole").tensors(), checkpoint(runs, "plain", 18).tensors()
    assert same({name: t for name, t in last.items() if name.startswith(("model/", "optimizer/"))}, plain)
    waves = {point.step: point.metrics.get("wave") for point in card(runs, "whole").history}
    assert len({point.metrics["noise"] for point in card(runs, "whole").history if point.metrics}) == 1
    assert waves[18] == torch.sin(1e4 * last["ema/layers.0.weight"].double().sum()).item()
    assert waves[18] != torch.sin(1e4 * last["model/layers.0.weight"].double().sum()).item()
    assert not any(name.startswith(("ema/", "best/")) for name in plain)


def test_without_a_word_the_ends_of_epochs_are_validated_and_the_last_weights_may_be_the_best(runs):
    history = card(runs, "plain").history
    assert [point.step for point in history if point.validation_loss is not None] == [13, 20]
    assert card(runs, "plain").shipped.model_dump() == {
        "step": 20, "steps": 20, "planned": 20, "metric": "validation_loss", "best_step": 20, "ema_decay": 0.0,
        "best": history[-1].validation_loss, "last": history[-1].validation_loss,
    }  # fmt: skip
    assert str(card(runs, "plain").shipped) == ""


def test_what_was_validated_by_the_clock_stays_after_a_kill(runs):
    steps = [point.step for point in card(runs, "by the clock").history if point.validation_loss is not None]
    assert steps[0] <= 2 and steps[-1] == 20
    assert steps != [13, 20]


def test_a_metric_that_is_no_number_is_left_out_and_never_better(runs):
    """Validated at 2, 4, 6 and 8, and never better: the last weights are shipped, which are the average."""
    assert card(runs, "no number").shipped.model_dump() == {
        "step": 8, "steps": 8, "planned": 20, "metric": "wave", "best_step": 0, "best": None, "last": None,
        "ema_decay": 0.9,
    }  # fmt: skip
    assert [p.metrics.keys() for p in card(runs, "no number").history if p.validation_loss] == [{"right", "noise"}] * 4
    average = checkpoint(runs, "no number").tensors()["ema/layers.0.weight"]
    assert torch.equal(weights(runs, "no number")["layers.0.weight"], average)
    assert "step 8 of 20: wave was NaN" in str(card(runs, "no number").shipped)


def test_a_validation_that_does_not_give_what_it_declares_ends_the_run_before_its_first_step(runs):
    assert (
        "validation returned right; it must return the names in `metrics`: wave, right, noise" in runs[1]["other names"]
    )
    assert "wave = 3; it must be two numbers" in runs[1]["no sums"]
    assert not list((runs[0] / "no sums" / "checkpoints").glob("*.json"))


def test_a_best_that_nothing_has_written_is_refused():
    best = Best(torch.nn.Linear(2, 1), parse_config({}), "min", keeps=True)
    good = {"value": 0.5, "step": 3, "since": 0}
    for change in ({"value": None}, {"step": -1}, {"step": 0}, {"value": math.nan}, {"since": 0.5}, {"more": 1}):
        scalars = good | change
        with pytest.raises(ValueError):
            best.restore(scalars)
    assert (best.value, best.step, best.since) == (None, 0, 0)


def test_the_best_weights_are_read_after_their_copy_from_the_gpu_has_ended():
    best, waits = Best(torch.nn.Linear(2, 1), parse_config({}), "min", keeps=True), []
    best.copied = SimpleNamespace(synchronize=lambda: waits.append("waited"))
    assert not waits and best.tensors() and waits == ["waited"]
    best.take()
    assert waits == ["waited"] * 2


def test_better_is_by_more_than_min_delta_in_the_direction_of_the_metric():
    for direction, values in (("min", [1.0, 0.95, 0.5, 0.45]), ("max", [0.5, 0.55, 1.0, 1.05])):
        best = Best(torch.nn.Linear(2, 1), parse_config({"min_delta": 0.1, "patience": 2}), direction, keeps=False)
        states = []
        for step, value in enumerate([*values, math.inf], 1):
            best.validated(step, value)
            states.append((best.step, best.since, best.stopped))
        assert states == [(1, 0, False), (1, 1, False), (3, 0, False), (3, 1, False), (3, 2, True)], direction
