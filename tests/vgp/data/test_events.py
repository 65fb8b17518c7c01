"""What rows look back on, against the events one by one."""

from datetime import datetime
from itertools import count

import ibis
import numpy as np
import pyarrow as pa
import pytest
import sqlglot
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.vgp.data.computed import keep
from vgp.base.exits import UserError
from vgp.data import events
from vgp.data.engines.duckdb import DuckDB
from vgp.data.events import Events, compute_window_sums, hours

BEGIN = 400_000
CALLS = count()
NAMES = {pa.string(): "string", pa.int64(): "int64", pa.timestamp("us"): "timestamp"}
EVENT = st.tuples(
    st.sampled_from([*"abc", ""]), st.sampled_from([None, 1, 2]), st.none() | st.integers(BEGIN, BEGIN + 12),
    st.none() | st.integers(-5, 2**40),
)  # fmt: skip
SEEKER = st.tuples(st.sampled_from("abcz"), st.sampled_from([None, 1, 2]), st.integers(BEGIN - 2, BEGIN + 20))


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    with DuckDB.open(tmp_path_factory.mktemp("events"), 256 << 20, 1) as engine:
        yield engine


def table(engine: DuckDB, name: str, rows: list[tuple[object, ...]], **kinds: pa.DataType):
    columns = zip(*rows, strict=True) if rows else [[]] * len(kinds)
    arrays = [pa.array(list(values), kind) for values, kind in zip(columns, kinds.values(), strict=True)]
    made = pa.table(arrays, list(kinds))
    keep(engine, name, made)
    return ibis.table({field: NAMES[kind] for field, kind in kinds.items()}, name=name)


def seen_back(engine: DuckDB, happened, rows, windows):
    """The rows with what they look back on, in their order."""
    call = next(CALLS)
    placed = {"place": pa.string(), "gate": pa.int64(), "hour": pa.int64()}
    source = table(engine, f"rows {call}", [(*row, i) for i, row in enumerate(rows)], **placed, number=pa.int64())
    events_table = table(engine, f"events {call}", happened, **placed, delay=pa.int64())
    lately = Events(events_table, ("place", "gate"), windows, value="delay")
    asked = events.select_row_hours(source, ["place", "gate"], source.hour)
    sums = events.sums(events.sum_events(lately, ["place", "gate"]), asked, ["place", "gate"])
    joined = [
        events.join_history(source, history, "x", lately, "hour").order_by("number")
        for history in (engine.create_window_sums("x", sums, lately), events.sum_windows(sums, "x", lately))
    ]
    here, there = (engine.read(rows).to_pylist() for rows in joined)
    assert here == there, "numpy's windows and the engine's"
    return here


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    happened=st.lists(EVENT, max_size=40),
    rows=st.lists(SEEKER, min_size=1, max_size=10),
    window=st.tuples(st.integers(1, 6), st.integers(1, 6)).map(lambda pair: (max(pair), min(pair))),
)
def test_a_row_sees_the_events_of_the_hours_before_its_own_and_no_others(engine, happened, rows, window):
    windows = tuple(dict.fromkeys([window, (1, 1)]))
    found = seen_back(engine, happened, rows, windows)
    assert len(found) == len(rows)
    for (place, gate, hour), row in zip(rows, found, strict=True):
        for first, last in windows:
            seen = [
                value
                for p, g, happened_at, value in happened
                if (p, g) == (place, gate) and None not in (g, happened_at) and first >= hour - happened_at >= last
            ]
            known = [value for value in seen if value is not None]
            assert row[f"x_count_{first}_{last}"] == len(seen)
            assert row[f"x_mean_{first}_{last}"] == (pytest.approx(np.mean(known)) if known else None)


def test_nothing_of_a_rows_own_hour_or_later_changes_what_it_sees(engine):
    draw = np.random.default_rng(0)
    happened = [("a", 1, BEGIN + int(h), int(v)) for h, v in draw.integers(0, 60, (300, 2))]
    rows = [("a", 1, BEGIN + hour) for hour in (0, 20, 40, 60, 80)]
    windows = ((1, 1), (24, 2), (500, 1))
    before = seen_back(engine, happened, rows, windows)
    for i, (_, _, hour) in enumerate(rows):
        past = [event for event in happened if event[2] < hour]
        assert seen_back(engine, past, rows, windows)[i] == before[i]


def test_the_order_of_the_events_changes_no_bit(engine):
    draw = np.random.default_rng(1)
    happened = [("a", 1, BEGIN + int(h), int(v)) for h, v in draw.integers(0, 2**50, (2000, 2)) % [9, 2**50]]
    rows = [("a", 1, BEGIN + hour) for hour in range(12)]
    assert seen_back(engine, happened, rows, ((9, 1),)) == seen_back(engine, happened[::-1], rows, ((9, 1),))


def test_an_hour_begins_on_the_hour_before_1970_too(engine):
    moments = [datetime(1969, 12, 31, 23, 59, 59), datetime(1970, 1, 1, 0, 59, 59), datetime(2013, 1, 1, 5)]
    rows = table(engine, "moments", [(moment,) for moment in moments], time=pa.timestamp("us"))
    found = engine.read(rows.select(hour=hours(rows.time), day=hours(rows.time.cast("date")))).to_pylist()
    assert [row["hour"] for row in found] == [-1, 0, 376_949] and [row["day"] for row in found] == [-24, 0, 376_944]


ROWS = ibis.table({"place": "string", "gate": "int64", "time": "timestamp('UTC')"}, name="rows")
HAPPENED = ibis.table({"place": "string", "gate": "string", "hour": "int64", "delay": "float64"}, name="happened")


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"windows": ((0, 0),)}, r"the window \(0, 0\) is not valid"),
        ({"windows": ((3, 0),)}, "with 1 <= last <= first"),
        ({"windows": ((1, 2),)}, "with 1 <= last <= first"),
        ({"windows": ((1, -1),)}, "with 1 <= last <= first"),
        ({"windows": ((1.5, 1),)}, "whole hours"),
        ({"windows": ((True, True),)}, "whole hours"),
        ({"windows": ()}, "`windows` must name at least one window"),
        ({"windows": ((1, 1), (1, 1))}, "`windows` must name at least one window, each once"),
        ({"value": "delay"}, "the value 'delay' must be a column of whole numbers; it is float64"),
        ({"value": "gone"}, "the value 'gone' must be a column of whole numbers; it is none of its columns"),
        ({"weight": "place"}, "the weight 'place' must be a column of whole numbers; it is string"),
        ({"hour": "place"}, "the hour 'place' must be a column of whole numbers; it is string"),
        ({"by": ("site",)}, "by 'site' must be a column of both the events and the rows, known before the outcome"),
        ({"by": ("gate",)}, "by 'gate' is string in the events and int64 in the rows"),
    ],
)  # fmt: skip
def test_events_that_cannot_be_looked_back_on_are_refused(attributes, message):
    lately = Events(**{"table": HAPPENED, "by": ("place",), "windows": ((1, 1),), **attributes})
    with pytest.raises(UserError, match=f"the events late: {message}|the events late: .*{message}"):
        events.check("late", lately, dict(ROWS.schema().items()))


def test_bigquery_is_asked_the_same():
    """Its windows go by the hour, not by rows, and end before the row's own."""
    lately = Events(HAPPENED.mutate(n=1), ("place",), ((24, 2),), value="n")
    asked = events.select_row_hours(ROWS, ["place"], hours(ROWS.time))
    history = events.sum_windows(events.sums(events.sum_events(lately, ["place"]), asked, ["place"]), "late", lately)
    sql = str(ibis.to_sql(history, dialect="bigquery"))
    frames = [str(spec) for spec in sqlglot.parse_one(sql, read="bigquery").find_all(sqlglot.exp.WindowSpec)]
    assert frames and all("range between 24 preceding and 2 preceding" in frame.lower() for frame in frames)


def test_an_event_counts_as_often_as_its_weight(engine):
    rows = table(engine, "weighed rows", [("a", BEGIN + 1)], place=pa.string(), hour=pa.int64())
    kinds = {"place": pa.string(), "hour": pa.int64(), "delay": pa.int64(), "flights": pa.int64()}
    happened = [("a", BEGIN, 10, 3), ("a", BEGIN, None, 2), ("a", BEGIN, 50, 1), ("a", BEGIN, 7, None)]
    lately = Events(table(engine, "weighed", happened, **kinds), ("place",), ((1, 1),), value="delay", weight="flights")
    sums = events.sums(
        events.sum_events(lately, ["place"]), events.select_row_hours(rows, ["place"], rows.hour), ["place"]
    )
    joined = events.join_history(rows, engine.create_window_sums("w", sums, lately), "w", lately, "hour")
    assert engine.read(joined.select("w_count_1_1", "w_mean_1_1")).to_pylist() == [
        {"w_count_1_1": 6.0, "w_mean_1_1": (3 * 10 + 50) / 4}
    ]


@pytest.mark.parametrize("by", ["hour", "Rows", "known", "Total", "asked"])
def test_what_is_looked_up_by_has_any_name_that_a_column_may_have(engine, by):
    kinds = {by: pa.string(), "at": pa.int64()}
    rows = table(engine, f"seekers by {by}", [("a", BEGIN + 1), ("b", BEGIN + 1)], **kinds)
    happened = table(engine, f"named by {by}", [("a", BEGIN), ("a", BEGIN)], **kinds)
    lately = Events(happened, (by,), ((1, 1),), hour="at")
    sums = events.sums(events.sum_events(lately, [by]), events.select_row_hours(rows, [by], rows["at"]), [by])
    for history in (engine.create_window_sums("n", sums, lately), events.sum_windows(sums, "n", lately)):
        joined = engine.read(events.join_history(rows, history, "n", lately, "at")).to_pylist()
        assert {row[by]: row["n_count_1_1"] for row in joined} == {"a": 2.0, "b": 0.0}


# ---- windows over the hours before, however the sums arrive

SUMS = ibis.table({"place": "string", "gate": "int64", "hour": "int64", "delay": "int64"}, name="happened")
WINDOWS = ((1, 1), (5, 2), (40, 3))
LATELY = Events(SUMS, ("place", "gate"), WINDOWS, value="delay")
HUGE = 2**61


def sums(draw: np.random.Generator) -> pa.RecordBatch:
    """Two hundred places and hours, in order; a place has few hours or most."""
    cells = sorted({(str(p), int(g), int(h)) for p, g, h in draw.integers(0, [4, 2, 90], (200, 3))})
    places, gates, hours = zip(*cells, strict=True)
    count = len(cells)
    rows = draw.integers(0, 3, count)
    known = rows * draw.integers(0, 2, count)
    return pa.RecordBatch.from_pydict(
        {"place": places, "gate": gates, "_hour": hours, "_rows": rows, "_known": known,
         "_total": np.where(known, draw.choice([-HUGE, 7, HUGE], count), 0), "_asked": draw.integers(0, 2, count)}
    )  # fmt: skip


def one_by_one(cells: pa.RecordBatch) -> list[dict[str, object]]:
    rows, seen = cells.to_pylist(), []
    for row in (row for row in rows if row["_asked"]):
        found = {"_x_0": row["place"], "_x_1": row["gate"], "_x_hour": row["_hour"]}
        for first, last in WINDOWS:
            inside = [
                other
                for other in rows
                if (other["place"], other["gate"]) == (row["place"], row["gate"])
                and first >= row["_hour"] - other["_hour"] >= last
            ]
            known = sum(other["_known"] for other in inside)
            found[f"x_count_{first}_{last}"] = float(sum(other["_rows"] for other in inside))
            found[f"x_mean_{first}_{last}"] = sum(other["_total"] for other in inside) / known if known else None
        seen.append(found)
    return seen


def test_windows_are_those_of_the_cells_one_by_one_wherever_batches_end():
    cells = sums(np.random.default_rng(5))
    expected = one_by_one(cells)
    for rows in (1, 7, 64, 1000):
        batches = [cells.slice(start, rows) for start in range(0, len(cells), rows)]
        found = pa.Table.from_batches(compute_window_sums(batches, "x", LATELY)).to_pylist()
        assert found == expected, f"batches of {rows}"
