import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vgp.train.loop.order import Plan, assignment, count_microbatches, permute, seed_of


@given(size=st.integers(1, 3000), seed=st.integers(0, 2**62))
@settings(max_examples=60, deadline=None)
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
@settings(max_examples=80, deadline=None)
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
