import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training.data import events

EVENT = st.tuples(st.sampled_from("abc"), st.integers(400_000, 400_012), st.integers(-5, 50))


def counted(found: list[tuple[str, int, int]]) -> pa.Table:
    places, hours, values = ([event[i] for event in found] for i in range(3))
    return events.counted(pa.array(places, pa.string()), np.array(hours, np.int64), np.array(values, np.int64))


@settings(deadline=None)
@given(
    st.lists(st.lists(EVENT, max_size=15), min_size=1, max_size=4),
    st.lists(st.tuples(st.sampled_from("abcz"), st.integers(399_998, 400_020)), min_size=1, max_size=10),
    st.integers(1, 6),
    st.integers(1, 6),
)
def test_a_row_sees_the_events_of_the_hours_before_its_own(shards, rows, one, other):
    first, last = max(one, other), min(one, other)
    history = events.merged({"x": counted(shard)} for shard in shards)["x"]
    hours = np.array([hour for _, hour in rows])
    places = pa.array([place for place, _ in rows])
    (mean, count), _ = events.lately(history, places, hours, [(first, last), (1, 1)])
    for i, (place, hour) in enumerate(rows):
        seen = [v for shard in shards for p, h, v in shard if p == place and hour - first <= h <= hour - last]
        assert count[i] == len(seen)
        assert mean[i] == pytest.approx(np.mean(seen)) if seen else np.isnan(mean[i])


def test_the_order_of_the_shards_does_not_change_a_bit():
    draw = np.random.default_rng(0)
    shards = [{"x": counted([("a", int(h), int(v)) for h, v in draw.integers(0, 50, (40, 2))])} for _ in range(40)]
    assert events.merged(shards)["x"].sort_by("hour") == events.merged(shards[::-1])["x"].sort_by("hour")


@pytest.mark.parametrize(("first", "last"), [(0, 0), (3, 0), (1, 2), (1, -1)])
def test_a_window_that_reaches_the_rows_own_hour_is_refused(first, last):
    with pytest.raises(ValueError, match="must end at least one hour ago"):
        events.lately(counted([("a", 1, 1)]), pa.array(["a"]), np.array([5]), [(1, 1), (first, last)])
