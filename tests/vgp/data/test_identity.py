"""The number of a row: as it is stated in words, in the SQL of both engines, and in Python."""

import math
from collections import defaultdict
from datetime import UTC, date, datetime
from functools import cache
from time import process_time

import duckdb
import ibis
import numpy as np
import pyarrow as pa
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.vgp.data.computed import engine_of, stated_ids, stated_number
from vgp.base.exits import UserError
from vgp.data.engine import ID
from vgp.data.identity import number_rows, register_float_bytes, with_ids

EXTREMES = [
    0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf, 5e-324, -5e-324, 2.2250738585072014e-308, 2.0**-992,
    np.nextafter(2.0**-992, 0), 1.7976931348623157e308, 0.1, 1.0, np.nextafter(1, 0), np.nextafter(1, 2), 1e15, 1e16,
    2.0**61, np.nextafter(2.0**61, 0), np.nextafter(2.0**61, math.inf), 2.0**62, np.nextafter(2.0**62, 0), 2.0**63,
    2.0**992, 1e22, 1e23, 123456789012345680.0, 9007199254740993.0, 0.30000000000000004,
]  # fmt: skip
ODD = ["|", "1:", "1:|", "\N{WOMAN}\u200d\N{WOMAN}\u200d\N{GIRL}", "\u00e9", "e\u0301"]
TYPES = {
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "float64": (pa.float64(), st.floats() | st.sampled_from([float(x) for x in EXTREMES])),
    "string": (pa.string(), st.text(st.characters(codec="utf-8"), max_size=6) | st.sampled_from(ODD)),
    "boolean": (pa.bool_(), st.booleans()),
    "date": (pa.date32(), st.dates()),
    "timestamp": (pa.timestamp("us"), st.datetimes()),
    "timestamp('UTC')": (pa.timestamp("us", tz="UTC"), st.datetimes(timezones=st.just(UTC))),
}  # fmt: skip
ROW = st.tuples(*(st.none() | strategy for _, strategy in TYPES.values()))


@pytest.fixture(scope="module")
def database():
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.sql("SET TimeZone = 'UTC'")
        register_float_bytes(connection)
        yield connection


@cache
def sql_of(kinds: tuple[str, ...], dialect: str) -> str:
    """The SQL of an engine; BigQuery's as sqlglot translates it."""
    table = ibis.table({f"column {i}": kind for i, kind in enumerate(kinds)}, name="rows")
    sql = str(ibis.to_sql(number_rows(table, table.columns, dialect, "number").select("number"), dialect=dialect))
    if dialect == "duckdb":
        return sql
    return sqlglot.transpile(sql, read="bigquery", write="duckdb")[0].replace("FORMAT(", "printf(")


def computed(database: duckdb.DuckDBPyConnection, rows: list[tuple[object, ...]], kinds: list[str], dialect: str):
    arrays = [pa.array([row[i] for row in rows], TYPES[kind][0]) for i, kind in enumerate(kinds)]
    database.register("rows", pa.table(arrays, [f"column {i}" for i in range(len(kinds))]))
    result = database.sql(sql_of(tuple(kinds), dialect)).to_arrow_table()["number"]
    assert result.type == pa.int64()
    return result.to_pylist()


@settings(max_examples=12, deadline=None)
@given(rows=st.lists(ROW, min_size=1, max_size=12), turn=st.sampled_from([0, 3]))
def test_both_engines_give_the_stated_number(database, rows, turn):
    order = [*list(TYPES)[turn:], *list(TYPES)[:turn]]
    rows = [(*row[turn:], *row[:turn]) for row in rows]
    expected = [stated_number(row, order) for row in rows]
    assert computed(database, rows, order, "duckdb") == expected
    assert computed(database, rows, order, "bigquery") == expected


def test_floats_have_one_number_for_each_value(database):
    rows = [(float(value),) for value in EXTREMES]
    expected = [stated_number(row, ["float64"]) for row in rows]
    assert computed(database, rows, ["float64"], "duckdb") == expected
    assert computed(database, rows, ["float64"], "bigquery") == expected
    equal = defaultdict(set)
    for (value,), number in zip(rows, expected, strict=True):
        equal[number].add("nan" if math.isnan(value) else value)
    assert all(len(values) == 1 for values in equal.values()) and len(equal) == len(EXTREMES) - 2


@settings(max_examples=10, deadline=None)
@given(pairs=st.lists(st.tuples(*[st.text("|:12é", max_size=4)] * 2), unique=True, min_size=2, max_size=50))
def test_texts_are_not_mixed_up_over_the_border_of_columns(database, pairs):
    assert len(set(computed(database, pairs, ["string", "string"], "duckdb"))) == len(pairs)


def test_values_that_are_missing_differ_from_each_other_value(database):
    kinds = ["int64", "string", "float64", "boolean"]
    rows = [(0, "", 0.0, False), (None, "", 0.0, False), (0, None, 0.0, False), (0, "", None, False),
            (0, "", 0.0, None), (0, "", math.nan, False), (None, None, None, None)]  # fmt: skip
    numbers = computed(database, rows, kinds, "duckdb")
    assert numbers[0] == numbers[2]  # a missing string is ""
    assert len(set(numbers)) == len(rows) - 1


def test_the_number_of_a_group_of_another_type_is_that_of_its_value(database):
    """A group may be a feature of the task's own making."""
    table = ibis.table({"n": "int64"}, name="rows")
    database.register("rows", pa.table({"n": [1, 2, 3]}))
    for made in (table.n.cast("float32"), table.n.cast("int8"), table.n.cast("decimal(9, 2)"), table.n > 1):
        rows = table.mutate(made=made)
        sql = str(ibis.to_sql(number_rows(rows, ["made"], "duckdb", "number").select("number"), dialect="duckdb"))
        assert len(set(database.sql(sql).to_arrow_table()["number"].to_pylist())) == (
            2 if made.type().is_boolean() else 3
        )


def test_numbers_are_spread_evenly(database):
    numbers = np.array(computed(database, [(i,) for i in range(20_000)], ["int64"], "duckdb"))
    assert len(set(numbers.tolist())) == 20_000 and numbers.min() >= 0 and numbers.max() < 2**60
    shares = np.bincount(numbers % 100, minlength=100) / 20_000
    assert np.abs(shares - 0.01).max() < 0.004 and 0.49 < (numbers > 2**59).mean() < 0.51


def test_a_wide_table_without_a_key_is_numbered_at_once(database):
    """Ibis took a minute to print the SQL of 400 columns, which grew with the square of their number."""
    count, rows = 400, np.random.default_rng(0).standard_normal((20, 400))
    table = ibis.table({f"c{i}": "float64" for i in range(count)}, name="wide")
    began = process_time()
    sql = ibis.to_sql(number_rows(table, table.columns, "duckdb", "number").select("number"), dialect="duckdb")
    assert process_time() - began < 15
    database.register("wide", pa.table({f"c{i}": rows[:, i] for i in range(count)}))
    kinds = ["float64"] * count
    assert database.sql(str(sql)).to_arrow_table()["number"].to_pylist() == [
        stated_number(row, kinds) for row in rows.tolist()
    ]


# ---- keys that occur twice, rows that do, and keys that share a number


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
            "k=1.2345678901234568e.16.*k is compared as float64, which is exact to 15 digits.*declare pa.int64()",
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


def test_different_keys_that_share_a_number_are_distinguished(tmp_path):
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
        sorted_here = [engine.find_repeated_values(*question) for question in asked]
        monkeypatch.setattr("vgp.data.engines.duckdb.MOST_SORTED", 0)
        assert sorted_here == [engine.find_repeated_values(*question) for question in asked] == [[1], [1, 5]]
