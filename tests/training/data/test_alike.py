from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from training.data import alike, keys
from training.data.alike import CountFile

SHARD = st.lists(st.integers(0, 8) | st.integers(0, 2**64 - 1), min_size=1, max_size=30)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shards=st.lists(SHARD, min_size=1, max_size=5), merge_rows=st.integers(3, 40))
def test_kinds_are_counted_alike_however_the_rows_are_cut(shards, merge_rows, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(keys, "MERGE_ROWS", merge_rows)
    found = alike.count([CountFile.write(tmp_path / f"k{i}", np.array(s, np.uint64)) for i, s in enumerate(shards)])
    counts = Counter(kind for shard in shards for kind in shard)
    total = sum(counts.values())
    common = sorted(kind for kind, n in counts.items() if n > max(4, total / 400))
    assert (found.rows, found.kinds) == (total, len(counts))
    assert found.alike == sum(n for n in counts.values() if n > 1)
    assert found.concentration == pytest.approx(sum(n * n for n in counts.values()) / total**2)
    assert found.common.tolist() == common and found.common_rows == sum(counts[kind] for kind in common)


def test_a_kind_takes_the_same_space_however_often_it_occurs(tmp_path: Path):
    """A hundred million rows of fourteen kinds fill neither memory nor disk."""
    file = CountFile.write(tmp_path / "k", np.arange(100_000, dtype=np.uint64) % 14)
    assert file.rows == 14 and sum(path.stat().st_size for path in tmp_path.iterdir()) < 1000


def test_large_tables_have_at_most_four_hundred_common_kinds(tmp_path: Path):
    shards = [np.random.default_rng(i).zipf(1.3, 20_000).astype(np.uint64) for i in range(3)]
    found = alike.count([CountFile.write(tmp_path / f"k{i}", shard) for i, shard in enumerate(shards)])
    assert 20 < len(found.common) < 400
