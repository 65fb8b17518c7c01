from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from training.data import keys
from training.data.keys import KeyFile, Row

SHARDS = st.lists(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 5), max_size=12), min_size=1, max_size=5)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shards=SHARDS, merge_rows=st.integers(1, 8))
def test_every_repeated_hash_is_found_and_nothing_else(shards, merge_rows, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(keys, "MERGE_ROWS", merge_rows)
    files = [KeyFile.write(tmp_path / f"k{i}", np.array(shard, np.uint64)) for i, shard in enumerate(shards)]
    value = {Row(s, r): hash_ for s, shard in enumerate(shards) for r, hash_ in enumerate(shard)}
    pairs = list(keys.duplicates(files))
    assert all(first != second and value[first] == value[second] for first, second in pairs)
    repeated = len(value) - len(set(value.values()))
    assert len(set(pairs)) == len(pairs) == repeated


def test_a_hash_depends_on_every_column_and_not_on_the_neighbours():
    words, numbers = ["a", "b", "a", "b"], [1, 1, 2, 2]
    all_four = keys.hashed([pa.array(words), pa.array(numbers, pa.int32())])
    assert len(set(all_four.tolist())) == 4
    for i, (word, number) in enumerate(zip(words, numbers, strict=True)):
        alone = keys.hashed([pa.array([word]), pa.array([number], pa.int32())])
        assert alone[0] == all_four[i]


def test_columns_of_every_type_can_be_keys():
    day = pa.array([0, 1], pa.int32())
    columns = [
        day.cast(pa.date32()),
        pa.array([0, 1], pa.timestamp("s", tz="UTC")),
        pa.array([True, False]),
        pa.array([0.5, -0.5]),
        pa.array([1, 2], pa.uint8()),
        pa.array(["", "x"]),
        pa.array([2**64 - 1, 2**63], pa.uint64()),
        pa.array([Decimal("1.50"), Decimal("1.51")]),
        pa.array(["", "x"], pa.large_string()),
        pa.array([b"\xff", b"\xfe"]),
        pa.array(["a", "b"]).dictionary_encode(),
        pa.array([0.5, 0.25], pa.float16()),
        pa.array([0, 1], pa.time32("s")),
        pa.array([0, 1], pa.duration("ms")),
    ]
    for column in columns:
        first, second = keys.hashed([column])
        assert first != second
        missing = pa.concat_arrays([column, pa.nulls(2, column.type)])
        hashes = keys.hashed([missing])
        assert hashes[:2].tolist() == [first, second] and hashes[2] == hashes[3]
        assert len(set(hashes.tolist())) == 3  # a missing value is neither


def test_values_that_are_equal_have_equal_hashes():
    zeros = pa.array([0.0, -0.0, float("nan"), -float("nan")])
    first, second, third, fourth = keys.hashed([zeros])
    assert first == second and third == fourth
    assert keys.hashed([pa.array(["a"])]) == keys.hashed([pa.array(["a"]).dictionary_encode()])


def test_no_rows_have_no_hashes():
    assert len(keys.hashed([pa.array([], pa.string()), pa.array([], pa.int64())])) == 0
