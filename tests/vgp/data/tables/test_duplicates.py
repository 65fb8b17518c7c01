"""Keys that occur twice, rows that do, and keys that share a number."""

from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

from tests.vgp.data.computed import engine_of, stated_ids, stated_number
from vgp.base.exits import UserError
from vgp.data.engine import ID
from vgp.data.identity import with_ids


def ids_of(table: pa.Table, scratch, key: tuple[str, ...] = ()) -> list[int]:
    with engine_of(table, scratch, key=key) as engine:
        rows = with_ids(engine, engine.source(), key, table.column_names)
        return engine.read(rows.order_by("_record").select(ID))[ID].to_pylist()


def table(**columns: list[object]) -> pa.Table:
    return pa.table(columns)


@pytest.mark.parametrize(
    ("key", "written"),
    [
        ([3, 5, 3], "k=3"),
        ([True, False, True], "k=True"),
        (["a|b", "a", "a|b"], r"k=a\|b"),
        ([0.0, 1.0, -0.0], "k=0.0"),
        ([0.1, 0.2, 0.1], "k=0.1.*keep one of the two.$"),
        (
            [12345678901234567.0, 1.5, 12345678901234569.0],
            "k=1.2345678901234568e.16.*k is compared as float64, of which 15 digits are exact.*declare pa.int64()",
        ),
        ([date(2024, 1, 1), date(2024, 1, 2), date(2024, 1, 1)], "k=2024-01-01"),
        (
            [datetime(1969, 1, 1, tzinfo=UTC), datetime(2024, 1, 2, tzinfo=UTC), datetime(1969, 1, 1, tzinfo=UTC)],
            "1969",
        ),
    ],
    ids=str,
)
def test_a_key_that_occurs_twice_is_refused_with_both_places(key, written, tmp_path):
    with pytest.raises(
        UserError, match=rf"x.csv, line 4 repeats the key of x.csv, line 2: (?=.* must occur once).*{written}"
    ):
        ids_of(table(k=key, n=[1, 2, 3]), tmp_path, ("k",))


def test_keys_that_only_look_alike_are_several(tmp_path):
    first = ["1", "11", "1|1", "1", "a", "a:", "\u00e9", "e\u0301", "", "1:1", "0.1"]
    second = ["12", "2", "2", "1|2", ":b", "b", "x", "x", "1", "", "0.10"]
    made = ids_of(table(a=first, b=second), tmp_path, ("a", "b"))
    expected = [stated_number(pair, ["string", "string"]) for pair in zip(first, second, strict=True)]
    assert made == expected and len(set(made)) == len(first)


def test_equal_rows_without_a_key_are_numbered(tmp_path):
    words, numbers = ["x", "y", "x", "x", "", "y"], [1, 2, 1, 1, 3, 2]
    made = ids_of(table(w=words, n=numbers), tmp_path)
    stated = stated_ids(list(zip(words, numbers, strict=True)), ["string", "int64"])
    assert sorted(made) == sorted(stated) and len(set(made)) == 6
    assert [made[1], made[4]] == [stated[1], stated[4]] or made[1] in (stated[1], stated[5])


def test_different_keys_that_share_a_number_are_told_apart(tmp_path):
    """Of a billion keys two may; here three numbers are all there are."""
    keys = table(k=list(range(40)))
    with engine_of(keys, tmp_path, key=("k",)) as engine:
        few = engine.source()
        few = few.mutate(**{ID: few[ID] % 3})
        rows = with_ids(engine, few, ("k",), ["k"])
        made = engine.read(rows.order_by("k"))[ID].to_pylist()
    assert len(set(made)) == 40
    assert made == [stated_number((k, "again"), ["int64", "string"]) for k in range(40)]


def test_a_table_of_one_row_and_one_of_none(tmp_path):
    assert len(ids_of(table(k=[1]), tmp_path / "one", ("k",))) == 1
    assert ids_of(pa.table({"k": pa.array([], pa.int64())}), tmp_path / "none", ("k",)) == []


def test_ids_that_are_counted_in_groups_are_those_that_are_sorted(tmp_path, monkeypatch):
    rows = table(k=[5, 1, 5, 2, 1, 9])
    with engine_of(rows, tmp_path) as engine:
        asked = (engine.source(), "k", 1), (engine.source(), "k", 10)
        sorted_here = [engine.repeated(*question) for question in asked]
        monkeypatch.setattr("vgp.data.engines.duckdb.MOST_SORTED", 0)
        assert sorted_here == [engine.repeated(*question) for question in asked] == [[1], [1, 5]]
