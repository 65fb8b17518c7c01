"""Whether new rows are from the distribution of the champion's training rows, where days differ by themselves."""

import numpy as np
import pyarrow as pa
import pytest

from vgp.data import columns
from vgp.decision.retraining import shift
from vgp.protocol.manifest import Column


def days(random, count, spread, tilt=0.0):
    """Rows by day and bin of days that differ from each other, int64 (count, 6)."""
    tilts = random.normal(scale=spread, size=(count, 1)) * np.linspace(-1, 1, 6) + tilt * np.arange(6)
    chances = np.exp(tilts)
    chances /= chances.sum(axis=1, keepdims=True)
    return np.stack([random.multinomial(n, p) for n, p in zip(random.integers(50, 150, count), chances, strict=True)])


def column(tally):
    return Column(
        name="x", kind="number", type="float", edges=tuple(range(len(tally) - 2)), tally=tuple(tally.tolist())
    )


@pytest.mark.parametrize(("spread", "new_days"), [(0.0, 28), (1.0, 28), (1.0, 8)])
def test_without_drift_a_column_is_flagged_as_often_as_its_level_says(spread, new_days):
    random = np.random.default_rng(7)
    found = [
        shift.shift(column(days(random, 60, spread).sum(axis=0)), days(random, new_days, spread), 60, by_day=True)
        for _ in range(250)
    ]
    assert np.mean([one.p_value < 0.05 for one in found]) < 0.085
    assert np.mean([one.p_value < 0.25 for one in found]) > 0.1, "nor is it blind"


def test_rows_of_days_that_differ_do_not_count_as_independent():
    random = np.random.default_rng(3)
    before, after = column(days(random, 60, 1.0).sum(axis=0)), days(random, 10, 1.0)
    together = shift.shift(before, after, 60, by_day=False)
    assert shift.shift(before, after, 60, by_day=True).p_value > 0.01 > 1e-6 > together.p_value


def test_a_shift_is_seen_through_the_days():
    random = np.random.default_rng(1)
    found = shift.shift(column(days(random, 60, 0.3).sum(axis=0)), days(random, 14, 0.3, tilt=0.4), 60, by_day=True)
    assert found.p_value < 1e-4 and found.index > 0.25 > found.expected


def test_a_value_that_is_the_same_all_day_takes_more_than_a_few_days_to_shift():
    seven = np.eye(7, dtype=np.int64) * 1_000
    before = column(np.append(np.full(6, 10_000), 0))
    assert shift.shift(before, seven[:5], 60, by_day=True).p_value > 0.05


def test_a_column_drifts_only_where_chance_does_not_explain_it_and_it_is_large():
    shifts = [
        shift.Shift(column=name, index=index, expected=0.01, p_value=p)
        for name, index, p in (("small", 0.05, 1e-9), ("chance", 0.9, 0.2), ("large", 0.3, 1e-9))
    ]
    judged = shift.judge_shifts(shifts, [1e-8, 0.2, 1e-8], 0.25, 0.005)
    assert [(one.column, one.drifted) for one in judged] == [("large", True), ("chance", False), ("small", False)]


def test_new_rows_fall_into_the_bins_that_the_card_keeps():
    values = np.arange(100, dtype=np.float32)
    inner = columns.bin_edges(values)
    known = Column(name="x", kind="number", type="float", edges=tuple(inner), tally=tuple(columns.tally(values, inner)))
    same = shift.test_values(known, values, None, 1)
    assert same.index == 0 and same.p_value > 0.99
    assert shift.test_values(known, np.full(50, np.nan, np.float32), None, 1).missing == (0.0, 1.0)


def test_values_that_the_champion_never_saw_have_a_bin_and_a_name():
    known = Column(name="c", kind="category", type="int32", values=("", "red", "blue"), counts=(0, 50, 50))
    new = shift.test_values(known, np.array([1, 2, -1, -1]), None, 1)
    assert new.index > 1
    assert shift.unseen(known, pa.chunked_array([["red", "teal", "teal", ""]])) == (0.5, ("teal",))
