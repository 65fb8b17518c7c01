"""Samples, seeds and learning rates by the step alone; processes that suit a step's microbatches."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgp.base.exits import UserError
from vgp.data.task import Task
from vgp.train.loop.sample_order import Plan, Schedule, assignment, count_microbatches, permute, seed_of
from vgp.train.train_config import TrainConfig, check_rungs, parse_config


@given(size=st.integers(1, 3000), seed=st.integers(0, 2**62))
def test_every_row_comes_exactly_once(size, seed):
    found = permute(np.arange(size), size, seed)
    assert np.array_equal(np.sort(found), np.arange(size))


def test_positions_are_independent_of_each_other():
    """A part of the permutation is the same whether or not the rest is computed: resuming is arithmetic."""
    whole = permute(np.arange(1000), 1000, 7)
    assert np.array_equal(permute(np.arange(400, 500), 1000, 7), whole[400:500])


def test_ten_thousand_million_rows_need_no_memory():
    found = permute(np.array([0, 1, 10**10 - 1]), 10**10, 7)
    assert len(set(found.tolist())) == 3
    assert found.max() < 10**10


def test_the_order_looks_random():
    """Where each row lands, over many seeds, is uniform; neighbours do not stay neighbours."""
    size, turns = 24, 1200
    places = np.array([permute(np.arange(size), size, seed_of("test", turn)) for turn in range(turns)])
    expected = turns / size
    for position in range(size):
        counts = np.bincount(places[:, position], minlength=size)
        chi_square = ((counts - expected) ** 2 / expected).sum()
        assert chi_square < 60  # 23 degrees of freedom: above 60 in 4 of 100,000 cases
    large = permute(np.arange(100_000), 100_000, 3)
    assert abs(np.corrcoef(large[:-1], large[1:])[0, 1]) < 0.02
    assert abs(np.corrcoef(large, np.arange(100_000))[0, 1]) < 0.02


@given(
    samples=st.integers(1, 200), batch=st.integers(1, 50), pieces=st.integers(1, 8), world=st.integers(1, 8),
    epochs=st.integers(1, 3),
)  # fmt: skip
def test_the_ranks_together_see_each_global_batch_whatever_their_number(samples, batch, pieces, world, epochs):
    pieces = min(pieces, batch)
    world = min(world, pieces)
    plan = Plan(samples, epochs, batch, pieces, seed=5)
    assigned = [assignment(pieces, world, rank) for rank in range(world)]
    assert [number for part in assigned for number in part] == list(range(pieces))
    assert max(map(len, assigned)) - min(map(len, assigned)) <= 1 and min(map(len, assigned)) >= 1
    steps = [np.concatenate([plan.rows(s, s + 1, part) for part in assigned]) for s in range(plan.steps)]
    assert all(np.array_equal(step, plan.rows(s, s + 1, range(pieces))) for s, step in enumerate(steps))
    seen = np.concatenate(steps)[: samples * epochs].reshape(epochs, samples)
    assert all(np.array_equal(np.sort(epoch), np.arange(samples)) for epoch in seen)


def test_epochs_differ():
    plan = Plan(100, 2, 100, 4, seed=5)
    assert not np.array_equal(plan.rows(0, 1, range(4)), plan.rows(1, 2, range(4)))


def test_the_shares_of_the_microbatches_add_up():
    plan = Plan(100, 1, 10, 3, seed=5)
    assert sum(plan.share(number) for number in range(3)) == pytest.approx(1)
    assert [plan.span(number) for number in range(3)] == [(0, 3), (3, 6), (6, 10)]


def test_an_epoch_ends_where_its_last_row_is_taken():
    plan = Plan(100, 3, 40, 4, seed=5)
    assert plan.steps == 8
    assert [step for step in range(plan.steps) if plan.ends_epoch(step)] == [2, 4, 7]


@pytest.mark.parametrize(
    ("world", "batch", "exact", "count"),
    [(1, 96, False, 1), (2, 96, False, 2), (3, 96, False, 3), (8, 96, False, 8), (4, 3, False, 3),
     (1, 96, True, 4), (2, 96, True, 4), (4, 96, True, 4), (8, 96, True, 8), (2, 3, True, 2), (1, 1, True, 1)],
)  # fmt: skip
def test_the_number_of_microbatches_suits_the_processes(world, batch, exact, count):
    assert count_microbatches(world, batch, exact=exact) == count


STEPS = 100


class Plain(Task):
    def shards(self, data): ...

    def rows(self, shard, statistics): ...

    def model(self, data): ...

    def loss(self, model, batch): ...


class Stairs(Plain):
    """Half as much in the second half."""

    def learning_rate(self, step, steps):
        return 1 if step < steps / 2 else np.float32(0.5)


def factors(task=None, steps=STEPS, **changes):
    schedule = Schedule(parse_config(changes), steps, task or Plain())
    schedule.check()
    return [schedule.factor(step) for step in range(steps)]


@pytest.mark.parametrize(
    "schedule", ["auto", "cosine", "linear", "constant", "warmup_stable_decay", "inverse_sqrt"]
)  # fmt: skip
def test_every_schedule_rises_to_its_peak_and_stays_above_zero_from_then_on(schedule):
    found = factors(schedule=schedule, warmup_fraction=0.1)
    assert found[:10] == [pytest.approx((step + 1) / 11) for step in range(10)]
    assert found[10] == max(found) == 1
    assert all(0 < after <= before for before, after in zip(found[10:], found[11:], strict=False))
    assert factors(schedule=schedule, steps=1, warmup_fraction=0) == [1]


def test_the_cosine_is_the_default_and_ends_near_zero():
    found = factors()
    assert found[52] == pytest.approx(0.5 * (1 + math.cos(math.pi * 47 / 95))) and found[-1] < 0.001
    assert found == factors(schedule="cosine")


@pytest.mark.parametrize("schedule", ["cosine", "linear", "warmup_stable_decay"])
def test_a_schedule_that_falls_ends_at_the_final_fraction(schedule):
    found = factors(schedule=schedule, final_lr_fraction=0.1, steps=10_000)
    assert 0.1 < found[-1] < 0.102


def test_warmup_stable_decay_falls_in_its_last_share_only():
    found = factors(schedule="warmup_stable_decay", warmup_fraction=0.1, decay_fraction=0.3)
    assert set(found[10:71]) == {1.0} and found[71] < 1
    assert found[85] == pytest.approx(0.5) and found[99] == pytest.approx(1 / 30)


def test_the_inverse_root_is_that_of_the_steps():
    found = factors(schedule="inverse_sqrt", warmup_fraction=0.1)
    assert found[43] == pytest.approx(math.sqrt(11 / 44))


def test_a_tasks_own_schedule_is_taken_after_the_same_warm_up_unless_a_setting_names_another():
    found = factors(Stairs(), warmup_fraction=0.1)
    assert found[4] == pytest.approx(5 / 11) and found[49:51] == [1.0, 0.5]
    assert all(type(factor) is float for factor in found)
    assert factors(Stairs(), schedule="cosine") == factors()


@pytest.mark.parametrize("value", [math.nan, math.inf, -0.1, None, "1", True, np.array([1.0]), 1j])
def test_what_a_task_gives_that_is_no_factor_is_named_with_its_step(value):
    class Own(Plain):
        def learning_rate(self, step, steps):
            return value if step == 50 else 1.0

    with pytest.raises(UserError, match=r"learning_rate of Own returns .* for step 50 of 101: it must return a factor"):
        factors(Own(), steps=101)


def test_a_schedule_that_counts_its_calls_is_refused():
    class Counting(Plain):
        calls = 0

        def learning_rate(self, step, steps):
            self.calls += 1
            return 1 / self.calls

    with pytest.raises(UserError, match="it must depend on the step alone, or a resumed run would differ"):
        factors(Counting())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"schedule": "step"}, "schedule='step': input should be 'auto', 'cosine'"),
        ({"schedule": "constant", "final_lr_fraction": 0.1}, "final_lr_fraction=0.1 does nothing with schedule=consta"),
        ({"decay_fraction": 0.1}, "decay_fraction=0.1 works with schedule=warmup_stable_decay only"),
        (
            {"schedule": "warmup_stable_decay", "warmup_fraction": 0.5, "decay_fraction": 0.6},
            "must not exceed 1 together",
        ),
        ({"final_lr_fraction": 1.5}, "final_lr_fraction=1.5: input should be less than or equal to 1"),
    ],
)
def test_settings_of_a_schedule_that_do_nothing_are_refused(given, message):
    with pytest.raises(UserError, match=message):
        parse_config(given)


def test_a_final_fraction_does_nothing_to_a_tasks_own_schedule_and_is_refused():
    with pytest.raises(UserError, match=r"final_lr_fraction=0.1 has no effect on the own schedule of Stairs"):
        factors(Stairs(), final_lr_fraction=0.1)


@pytest.mark.parametrize(
    ("settings", "world_sizes"),
    [({}, (3, 8)), ({"exact": True}, (1, 2, 16)), ({"microbatches": 12}, (3, 8)), ({"exact": True}, ())],
)
def test_rungs_of_any_number_that_suits_are_fine(settings, world_sizes):
    check_rungs(TrainConfig(**settings), world_sizes)


@pytest.mark.parametrize(
    ("settings", "world_sizes", "words"),
    [
        ({"exact": True}, (8, 6), "not 6 microbatches on 6 processes, one for each GPU of the step"),
        (
            {"exact": True, "microbatches": 8},
            (8, 16),
            "microbatches=8 cannot be assigned to 16 processes, one for each",
        ),
        ({"microbatches": 8}, (16,), "microbatches=8 cannot be assigned to 16 processes, one for each"),
    ],
)
def test_a_rung_whose_processes_cannot_be_is_refused(settings, world_sizes, words):
    with pytest.raises(UserError, match=words):
        check_rungs(TrainConfig(**settings), world_sizes)
