"""The notes on features that are computed from several rows."""

import ibis
import numpy as np
import pyarrow as pa
import pytest

from tests.vgp.data.computed import engine_of
from vgp.data import identity
from vgp.data.engines.duckdb import DuckDB
from vgp.data.events import Events, hours
from vgp.data.schema import Field, canonical_schema
from vgp.data.tables import features
from vgp.data.tabular import TabularTask

SCHEMA = (Field("day", pa.date32()), Field("x", pa.float64()), Field("done", pa.bool_(), known="after"))
ROWS = ibis.table(canonical_schema(SCHEMA), name="source")


def task(made, time: str = "") -> TabularTask:
    attributes = {"schema": SCHEMA, "target": "done", "time": time, "features": lambda self, rows: made(rows)}
    return type("Mine", (TabularTask,), attributes)()


def notes(time: str = "", dialect: str = "duckdb", **values) -> tuple[str, ...]:
    def made(rows):
        return {"x": rows.x, **{name: value(rows) for name, value in values.items()}}

    return noted(task(made, time), ROWS, dialect)


def noted(work, rows, dialect: str) -> tuple[str, ...]:
    return features.list_notes(work, features.ask_features(work, rows), dialect)


@pytest.mark.parametrize(
    "value",
    [
        lambda rows: rows.x - rows.x.mean(),
        lambda rows: rows.x.sum().over(ibis.window(group_by=rows.day)),
        lambda rows: rows.x.rank(),
    ],
    ids=["mean", "window", "rank"],
)
def test_a_feature_over_the_whole_table_is_noted_where_no_time_separates_rows(value):
    (note,) = notes(made=value)
    assert note.startswith("Computed over several rows, including rows of the test split: made.")
    assert notes(time="day", made=value) == ()  # the past is computed again alone: tables/future.py


def test_features_of_one_row_each_are_not_worth_a_word():
    assert notes(made=lambda rows: (rows.x + 1).log(), day=lambda rows: rows.day.year()) == ()


def test_how_the_rows_themselves_were_made_is_no_matter():
    """Rows without a key are numbered by a window."""
    numbered = ROWS.mutate(_row_id=ibis.row_number().over(ibis.window(order_by="x")))
    assert noted(task(lambda rows: {"x": rows.x}), numbered, "duckdb") == ()
    for dialect in ("duckdb", "bigquery"):
        hashed = identity.number_rows(ROWS, ["day", "x"], dialect, "_row_id")
        assert noted(task(lambda rows: {"x": rows.x}), hashed, dialect) == ()


def test_what_bigquery_may_compute_in_its_own_way_is_noted_there_and_only_there():
    assert notes(half=lambda rows: rows.x.round(1)) == ()
    (note,) = notes(dialect="bigquery", half=lambda rows: rows.x.round(1))
    assert (
        "differently from DuckDB" in note and "half: numbers half-way between two that are rounded to digits." in note
    )
    assert notes(dialect="bigquery", half=lambda rows: rows.x.round()) == ()


def test_rows_look_back_on_the_same_whether_they_are_counted_by_all_places_first_or_not(tmp_path, monkeypatch):
    schema = (
        Field("at", pa.timestamp("us")), Field("shop", pa.string()), Field("till", pa.int64()),
        Field("waited", pa.int64(), nullable=True, known="after"),
    )  # fmt: skip

    def events(self, rows):
        happened = rows.mutate(hour=hours(rows.at))
        busy = happened.group_by(["shop", "hour"]).agg(n=happened.count())
        return {
            "shop": Events(happened, ("shop",), ((1, 1), (24, 2)), value="waited"),
            "till": Events(happened, ("shop", "till"), ((3, 1),), value="waited"),
            "busy": Events(busy, ("shop",), ((2, 1),), weight="n"),
        }

    task = type("Shops", (TabularTask,), {"schema": schema, "target": "waited", "time": "at", "events": events})
    draw, count = np.random.default_rng(0), 2000
    table = pa.table({
        "at": pa.array(draw.integers(0, 30 * 3600 * 10**6, count), pa.timestamp("us")),
        "shop": draw.choice(["north", "", "south"], count), "till": draw.integers(1, 4, count),
        "waited": pa.array(draw.integers(-50, 50, count), mask=draw.random(count) < 0.2),
    })  # fmt: skip
    found = []
    for few in (True, False):
        monkeypatch.setattr(DuckDB, "has_few_values", lambda *_, few=few: few)
        with engine_of(table, tmp_path / str(few), schema) as engine:
            rows = features.join_events(task(), engine, engine.source())
            found.append(engine.read(rows.order_by("_record")))
    assert found[0].equals(found[1]) and found[0].num_columns > 10
    assert sum(found[0]["till_count_3_1"].to_pylist()) > count
