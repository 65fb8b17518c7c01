"""What is said of features that are made of several rows."""

import ibis
import pyarrow as pa
import pytest

from training.data import identity
from training.data.engines import canonical
from training.data.schema import Field
from training.data.tables import features
from training.data.tabular import TabularTask

SCHEMA = (Field("day", pa.date32()), Field("x", pa.float64()), Field("done", pa.bool_(), known="after"))
ROWS = ibis.table(canonical.schema(SCHEMA), name="source")


def task(made, time: str = "") -> TabularTask:
    said = {"schema": SCHEMA, "target": "done", "time": time, "features": lambda self, rows: made(rows)}
    return type("Mine", (TabularTask,), said)()


def notes(time: str = "", dialect: str = "duckdb", **values) -> tuple[str, ...]:
    def made(rows):
        return {"x": rows.x, **{name: value(rows) for name, value in values.items()}}

    return features.notes(task(made, time), ROWS, dialect)


@pytest.mark.parametrize(
    "value",
    [
        lambda rows: rows.x - rows.x.mean(),
        lambda rows: rows.x.sum().over(ibis.window(group_by=rows.day)),
        lambda rows: rows.x.rank(),
    ],
    ids=["mean", "window", "rank"],
)
def test_a_feature_over_the_whole_table_is_noted_where_no_time_tells_rows_apart(value):
    (note,) = notes(made=value)
    assert note.startswith("Computed over several rows, those of the test split among them: made.")
    assert notes(time="day", made=value) == ()  # the past is computed again alone: tables/future.py


def test_features_of_one_row_each_are_not_worth_a_word():
    assert notes(made=lambda rows: (rows.x + 1).log(), day=lambda rows: rows.day.year()) == ()


def test_how_the_rows_themselves_were_made_is_no_matter():
    """Rows without a key are numbered by a window."""
    numbered = ROWS.mutate(_row_id=ibis.row_number().over(ibis.window(order_by="x")))
    assert features.notes(task(lambda rows: {"x": rows.x}), numbered, "duckdb") == ()
    for dialect in ("duckdb", "bigquery"):
        hashed = identity.numbered(ROWS, ["day", "x"], dialect, "_row_id")
        assert features.notes(task(lambda rows: {"x": rows.x}), hashed, dialect) == ()


def test_what_bigquery_may_compute_in_its_own_way_is_noted_there_and_only_there():
    assert notes(half=lambda rows: rows.x.round(1)) == ()
    (note,) = notes(dialect="bigquery", half=lambda rows: rows.x.round(1))
    assert "otherwise than DuckDB" in note and "half: numbers half-way between two that are rounded to digits." in note
    assert notes(dialect="bigquery", half=lambda rows: rows.x.round()) == ()
