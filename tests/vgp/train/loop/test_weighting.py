"""A loss that is a sum and its weight: one mean over the global batch, however its parts are assigned to processes."""

import json
import math
import shutil
from pathlib import Path

import pytest
import torch

from vgp.base.exits import UserError
from vgp.data.task import WeightedLoss
from vgp.steps import calls as steps
from vgp.train.loop.weighting import global_mean, mean, split_loss
from vgp.train.processes.launch import launch

WAYS = {"ddp": {}, "exact": {"exact": True}, "fsdp": {"strategy": "fsdp"}, "fp16": {"precision": "fp16"}}


@pytest.fixture(scope="module")
def curves():
    """By number of processes, way and number of microbatches: what every rank has learned."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[3] / "helpers"))
        for nproc in (1, 2, 4):
            names = [(way, count) for way in WAYS for count in (nproc, 8, 32) if way != "exact" or count > 2]
            trials = [{"microbatches": count, **WAYS[way]} for way, count in names]
            ranks = launch("weighing:curves", trials, nproc=nproc)
            found |= {(nproc, *name): each for name, each in zip(names, ranks, strict=True)}
    return found


def test_losses_and_updates_are_those_of_the_whole_batch_for_every_number_of_microbatches_and_ranks(curves):
    from weighing import plain

    expected = plain()
    for (nproc, way, count), ranks in curves.items():
        rough = 0.03 if way == "fp16" else 1e-5
        assert ranks[0]["losses"] == pytest.approx(expected["losses"], rel=rough), (nproc, way, count)
        assert ranks[0]["weights"] == pytest.approx(expected["weights"], rel=rough, abs=rough), (nproc, way, count)
        assert all(rank == ranks[0] for rank in ranks)


def test_exact_mode_has_the_same_bits_on_one_two_and_four_processes(curves):
    assert curves[1, "exact", 8][0] == curves[2, "exact", 8][0] == curves[4, "exact", 8][0]


def test_a_loss_of_another_form_or_of_two_kinds_is_refused_before_the_first_step_where_that_shows():
    trials = [{"way": way, "microbatches": 4} for way in ("tuple", "rows", "odd", "kinds", "nothing")]
    as_tuple, rows, odd, kinds, nothing = launch("weighing:curves", trials, nproc=2)
    assert all("returned a plain tuple" in text and "WeightedLoss(total, weight)" in text for text in as_tuple)
    assert all("a tensor of shape [3]" in text for text in rows)
    assert all("WeightedLoss for one batch and a plain mean for another" in text for text in (*odd, *kinds))
    assert not math.isfinite(nothing[0]["losses"][0]) and all(map(math.isfinite, nothing[0]["weights"]))


def test_weights_that_cannot_be_are_named_and_a_step_without_any_has_the_loss_0():
    assert global_mean([6.0, 1.0], [2.0, 1.5], 7) == 2.0 and global_mean([0.0], [0.0], 7) == 0.0
    assert math.isnan(global_mean([1.0], [0.0], 7))
    for weight in (-1.0, math.nan, math.inf):
        with pytest.raises(UserError, match="weight of the loss of step 7"):
            global_mean([1.0, 1.0], [weight, 2.0], 7)


def test_a_loss_is_taken_apart_and_made_one_number():
    loss = torch.tensor(3.0)
    assert split_loss(loss) == (loss, None) and mean(WeightedLoss(loss, 2)) == 1.5
    with pytest.raises(UserError, match=r"WeightedLoss\(a tensor of shape \[\], a tensor of shape \[2\]\)"):
        split_loss(WeightedLoss(loss, torch.ones(2)))


@pytest.fixture
def contrasting(digits, tmp_path):
    """Trains a task whose loss gathers the rows of all processes; the figures."""
    data = shutil.copytree(digits, tmp_path / "data")
    text = (data / "manifest.json").read_text()
    (data / "manifest.json").write_text(json.dumps(json.loads(text) | {"task": "weighing:Contrasting"}))

    def train(nproc, **changes):
        settings = {"epochs": 1.0, "microbatches": 4, "hang_after_s": 20, "precision": "fp32", **changes}
        places = [tmp_path / f"{name}{nproc}{changes.get('strategy', '')}" for name in ("model", "checkpoints")]
        return steps.train(data, *places, task="weighing:Contrasting", nproc=nproc, **settings)

    return train


@pytest.mark.parametrize("size", [60, 32])
def test_a_loss_with_a_collective_is_validated_where_processes_have_fewer_batches_or_a_shorter_one(contrasting, size):
    """300 rows to validate on are 5 batches of 60: two for one of two processes; or 9 of 32, and one of 12."""
    ways = [(1, {}), (2, {}), (2, {"strategy": "fsdp"})]
    found = [contrasting(nproc, global_batch_size=4 * size, **way)["validation_loss"] for nproc, way in ways]
    assert found[1:] == pytest.approx([found[0]] * 2, rel=1e-4)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"microbatches": 3, "global_batch_size": 60}, "2 processes compute 3 microbatches of a step"),
        ({"microbatches": 4, "global_batch_size": 62}, "62 rows are not a multiple of 4 microbatches"),
    ],
)
def test_a_loss_with_a_collective_is_refused_where_its_processes_would_not_call_it_alike(
    contrasting, capfd, settings, text
):
    with pytest.raises(SystemExit):
        contrasting(2, **settings)
    assert f"the loss calls a collective (allgather), but {text}" in capfd.readouterr().err
