"""What the ways to split have in common: rows that are alike, and groups in two splits."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.vgp.data.computed import engine_of
from vgp.data import split_parts
from vgp.data.engines.duckdb import DuckDB
from vgp.data.prepare import prepare


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    """Counts the rows of some numbers by kind."""

    def kinds(numbers: list[int]) -> split_parts.Kinds:
        with engine_of(pa.table({"kind": pa.array(numbers, pa.int64())}), scratch, threads=1) as engine:
            assert isinstance(engine, DuckDB)
            return split_parts.count_kinds(engine, engine.source(), "kind")

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
    assert counted([7] * 1_000_000) == split_parts.Kinds(1_000_000, 1, 1_000_000, 1.0, (7,), 1_000_000)


# ---- groups, such as users, whose rows are in the train split and in another


def marks(values, kind=None) -> split_parts.Marks:
    return split_parts.group_marks(pa.chunked_array([pa.array(values, kind)]))


def list_notes(**splits) -> list[str]:
    return list(split_parts.notes_on_groups("user", splits))


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32(), pa.dictionary(pa.int32(), pa.string())])
def test_the_share_of_the_groups_of_a_split_that_are_in_the_train_split_is_reported(kind):
    def of(numbers):
        return marks([str(number) for number in numbers] if pa.types.is_dictionary(kind) else list(numbers), kind)

    (note,) = list_notes(train=of(range(30)), test=of(range(20, 60)), validation=of(range(60, 70)))
    assert note.startswith("Of the values of user in the test split 25.0% are in the train split too")
    assert not list_notes(train=of(range(30)), test=of(range(30, 60))) and not list_notes(train=of(range(3)))


def test_of_more_groups_than_are_remembered_the_share_is_estimated():
    train, test = np.arange(100_000), np.arange(80_000, 130_000)
    (note,) = list_notes(train=marks(train), test=marks(test))
    assert len(marks(train)) == split_parts.MOST_MARKS
    assert abs(float(note.split()[9].rstrip("%")) - 40) < 5


def test_what_is_remembered_depends_on_no_order_and_no_cut():
    values = np.arange(20_000)
    parts = [{"train": marks(part)} for part in np.array_split(values[::-1], 7)]
    whole = parts[0]
    for part in parts[1:]:
        whole = split_parts.merge_marks(part, whole)
    assert np.array_equal(whole["train"], marks(values))


@pytest.mark.parametrize(
    "task, message", [("Together", "in the test split 100.0% are in the train split"), ("Pieces", "")]
)
def test_shared_groups_are_reported_for_a_task_that_makes_its_own_rows(visits_module, tmp_path, capfd, task, message):
    prepare(f"{visits_module}:{task}", "", tmp_path / "data", workers=1)
    words = capfd.readouterr().err
    assert message in words and ("Of the values of user" in words) == bool(message)
