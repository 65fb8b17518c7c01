"""What is said of features that are made of several rows."""

import ibis
import pyarrow as pa
import pytest

from training.data.engines import canonical
from training.data.schema import Field
from training.data.tables import features
from training.data.tabular import TabularTask

SCHEMA = (Field("day", pa.date32()), Field("x", pa.float64()), Field("done", pa.bool_(), known="after"))
ROWS = ibis.table(canonical.schema(SCHEMA), name="source")


def notes(time: str = "", **made) -> tuple[str, ...]:
    said = {
        "schema": SCHEMA,
        "target": "done",
        "time": time,
        "features": lambda self, rows: {"x": rows.x, **computed(rows)},
    }

    def computed(rows):
        return {name: value(rows) for name, value in made.items()}

    return features.notes(type("Mine", (TabularTask,), said)(), ROWS)


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
