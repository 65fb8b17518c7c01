import math

import pytest
import torch
from torch import nn

from vgp.train.loop import precision
from vgp.train.loop.finite import GradientNorm
from vgp.train.loop.precision import Scaler


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
    monkeypatch.setattr(precision, "_GROWTH_INTERVAL", 1)
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
