import numpy as np
import pytest
from scipy import stats

from vgp.evaluation import drift
from vgp.protocol import manifest
from vgp.protocol.manifest import Column


def test_the_index_is_the_symmetric_divergence_of_scipy():
    before, after = np.array([10, 40, 50]), np.array([30, 50, 20])
    p, q = before / 100, after / 100
    assert drift.index(before, after) == pytest.approx(stats.entropy(p, q) + stats.entropy(q, p))
    assert drift.index(before, before) == 0
    assert np.isfinite(drift.index(np.array([5, 0]), np.array([0, 5])))


def test_rows_of_one_distribution_stay_below_the_level_of_chance_95_times_in_100():
    random, below = np.random.default_rng(0), 0
    for _ in range(400):
        before, after = (random.multinomial(n, [0.2, 0.3, 0.1, 0.4]) for n in (300, 200))
        below += drift.index(before, after) < drift.chance_level(before, after)
    assert 0.92 < below / 400 < 0.98


def test_numbers_are_binned_by_tenths_of_the_train_rows_with_missing_values_apart():
    train = np.append(np.arange(100, dtype=np.float32), np.full(25, np.nan, np.float32))
    before, after = drift.number_bins(train, np.float32([-5, 3, 99, 400, np.nan]))
    assert before.tolist() == [10] * 10 + [25]
    assert after.tolist() == [2, 0, 0, 0, 0, 0, 0, 0, 0, 2, 1]
    assert drift.number_bins(np.arange(11, dtype=np.float32), np.float32([1]))[1].tolist()[:3] == [0, 1, 0]
    assert [len(counts) for counts in drift.number_bins(np.float32([np.nan]), np.float32([1]))] == [2, 2]


def test_values_that_training_never_saw_are_named_the_most_frequent_first():
    column = Column(name="shop", kind="category", type="int32", values=("", "a", "b", "c"), counts=(0, 50, 0, 0))
    found = drift._compare_column(column, np.full(50, 1), np.array([1] * 5 + [2] * 2 + [3] * 3))
    assert (found.unseen, found.unseen_values, found.shift) == (0.5, ("c", "b"), "large")


def test_what_moved_comes_first_and_what_did_not_is_no_shift(tmp_path):
    import coins

    data = coins.dataset(tmp_path, only={"2": 1})
    found = drift.drift(data, manifest.load(data), "test")
    assert found.label.shift == "large" and found.label.index > 1
    assert {column.column: column.shift for column in found.columns} == {n: "none" for n in ("colour", "size", "tilt")}
    assert (found.train_rows, found.rows, found.shifted) == (1_200, 1_200, ())
    tilt = next(column for column in found.columns if column.column == "tilt")
    assert tilt.missing == pytest.approx((20 / 1_200, 20 / 1_200))


def test_a_small_table_is_not_reported_as_shifted_by_chance():
    random = np.random.default_rng(1)
    column = Column(name="x", kind="number", type="float")
    found = drift._compare_column(
        column, random.normal(size=30).astype(np.float32), random.normal(size=20).astype(np.float32)
    )
    assert found.index > drift.LARGE and found.shift == "none"


def test_the_column_that_splits_part_and_vectors_of_tokens_are_left_out(tmp_path):
    import coins

    data = coins.dataset(tmp_path)
    found = drift.drift(data, manifest.load(data), "test", groups=("colour",))
    assert {column.column for column in found.columns} == {"size", "tilt"}
    kinds = {"fixed_size_list<item: uint16>[8]": False, "fixed_size_list<item: float>[8]": True,
             "fixed_size_binary[8]": True}  # fmt: skip
    for kind, measured in kinds.items():
        assert drift.is_measured(Column(name="v", kind="vector", type=kind, width=8)) is measured
