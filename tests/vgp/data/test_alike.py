from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vgp.data import shares
from vgp.data.engines.duckdb import DuckDB

from .computed import engine_of


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    """Counts the rows of some numbers by kind."""

    def kinds(numbers: list[int]) -> shares.Kinds:
        with engine_of(pa.table({"kind": pa.array(numbers, pa.int64())}), scratch, threads=1) as engine:
            assert isinstance(engine, DuckDB)
            return shares.count_kinds(engine, engine.source(), "kind")

    scratch = tmp_path_factory.mktemp("alike")
    return kinds


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(numbers=st.lists(st.integers(0, 8) | st.integers(0, 2**60 - 1), min_size=1, max_size=100))
def test_kinds_are_counted_by_their_numbers(counted, numbers):
    found, counts, total = counted(numbers), Counter(numbers), len(numbers)
    common = sorted(kind for kind, n in counts.items() if n > max(4, total / 400))
    assert (found.rows, found.kinds) == (total, len(counts))
    assert found.alike == sum(n for n in counts.values() if n > 1)
    assert found.concentration == pytest.approx(sum(n * n for n in counts.values()) / total**2)
    assert list(found.common) == common and found.common_rows == sum(counts[kind] for kind in common)


def test_large_tables_have_at_most_four_hundred_common_kinds(counted):
    numbers = np.minimum(np.random.default_rng(0).zipf(1.3, 60_000), 2**60).tolist()
    assert 20 < len(counted(numbers).common) < 400


def test_a_million_rows_of_one_kind_are_one_kind(counted):
    assert counted([7] * 1_000_000) == shares.Kinds(1_000_000, 1, 1_000_000, 1.0, (7,), 1_000_000)
