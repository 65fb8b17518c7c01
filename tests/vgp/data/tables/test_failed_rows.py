"""The error of an expression that fails names the expression, the row, and the values of the row."""

import ibis
import pyarrow as pa
import pytest

from tests.vgp.data.computed import engine_of
from vgp.base.exits import UserError
from vgp.data.engine import Uncomputable
from vgp.data.events import Events, hours
from vgp.data.schema import Field
from vgp.data.tables import failed_rows
from vgp.data.tabular import TabularTask

SCHEMA = (
    Field("id", pa.int64()),
    Field("day", pa.date32()),
    Field("word", pa.string()),
    Field("n", pa.int64(), nullable=True),
    Field("x", pa.float64(), nullable=True),
    Field("late", pa.bool_(), known="after"),
)
#: Rows, of which the third and the seventh are special.
COUNT, THIRD, SEVENTH = 9, 2, 6


def table(**special: object) -> pa.Table:
    columns = {
        "id": list(range(COUNT)), "day": [18_000 + i for i in range(COUNT)], "word": [str(i) for i in range(COUNT)],
        "n": [10 + i for i in range(COUNT)], "x": [i + 0.5 for i in range(COUNT)],
        "late": [bool(i % 2) for i in range(COUNT)],
    }  # fmt: skip
    for name, value in special.items():
        columns[name][THIRD] = columns[name][SEVENTH] = value
    return pa.table(
        {f.name: pa.array(columns[f.name], f.type if f.name != "day" else pa.int32()).cast(f.type) for f in SCHEMA}
    )


def task(**methods: object) -> TabularTask:
    attributes = {
        "schema": SCHEMA, "key": ("id",), "target": "late", "features": lambda self, rows: {"n": rows.n}, **methods
    }  # fmt: skip
    return type("Mine", (TabularTask,), attributes)()


def complaint(mine: TabularTask, rows: pa.Table, scratch, error: Exception | None = None) -> str:
    """Returns the message for an error, by default for the error that the engine raises on all rows."""
    with (
        engine_of(rows, scratch, SCHEMA) as engine,
        pytest.raises(UserError) as refused,
        failed_rows.name_errors(mine, engine),
    ):
        raise error or Uncomputable("DuckDB cannot compute that: no", "no")
    return str(refused.value)


BY_ID = ibis.window(order_by="id")


@pytest.mark.parametrize(
    ("feature", "special", "expected"),
    [
        (lambda r: r.word.cast("int64"), {"word": "x"}, "(word = 'x'): Conversion Error: Could not"),
        (lambda r: ("200" + r.word).as_date("%Y").year(), {"word": "x"}, "(word = 'x'): Invalid Input Error: "),
        (lambda r: r.n % (r.n - 3), {"n": 3}, "(n = 3): Invalid Input Error: Division by zero"),
        (lambda r: r.n * r.id * r.n, {"n": 2**62}, "(id = 2, n = 4611686018427387904): Out of Range Error: Overflow"),
        (lambda r: r.x, {"x": 1e300}, "(x = 1e+300): Conversion Error: Type DOUBLE"),
        (lambda r: ibis.date(2024, r.n.cast("int32") - 8, 1).day(), {"n": 21}, "(n = 21): "),
        # The row is that of the part which fails, whatever is made of it.
        (lambda r: r.word.cast("int64").sum().over(BY_ID), {"word": "x"}, "(word = 'x'): Conversion"),
        (lambda r: r.n - r.word.cast("int64").max(), {"word": "x"}, "(word = 'x'): Conversion"),
    ],
    ids=["cast", "date", "division", "overflow", "float32", "made date", "window", "aggregate"],
)  # fmt: skip
def test_a_feature_that_fails_is_named_with_its_first_row_and_values(feature, special, expected, tmp_path):
    mine = task(features=lambda self, rows: {"n": rows.n % 7, "made": feature(rows)})
    message = complaint(mine, table(**special), tmp_path)
    assert message.startswith(f"Mine.features: made cannot be computed for x.csv, line {THIRD + 2} {expected}")


def test_a_condition_that_leaves_rows_out_keeps_the_blame_from_them(tmp_path):
    """By itself the cast would fail for the third row, too."""
    mine = task(
        features=lambda self, rows: {"made": ibis.cases((rows.n < 14, 0), else_=rows.word.cast("int64"))}
    )  # fmt: skip
    assert f"x.csv, line {SEVENTH + 2} (word = 'x', n = 16)" in complaint(mine, table(word="x"), tmp_path)


def test_a_sum_that_overflows_is_of_no_row(tmp_path):
    mine = task(features=lambda self, rows: {"made": rows.n - rows.n.sum().cast("int32")})
    message = complaint(mine, table(n=2**31 - 99), tmp_path)
    assert message.startswith("Mine.features: made cannot be computed: ") and "line" not in message


@pytest.mark.parametrize("method", ["labels", "days"])
def test_labels_and_days_are_named(method, tmp_path):
    expression = (
        (lambda self, rows: rows.word.cast("date"))
        if method == "days"
        else (lambda self, rows: rows.word.cast("int64"))
    )
    mine = task(**{method: expression, "time": "day", "schema": SCHEMA})
    dated = table().set_column(2, "word", pa.array(["2024-01-01" if method == "days" else "1"] * 8 + ["2024-13-01"]))
    assert complaint(mine, dated, tmp_path).startswith(
        f"Mine.{method} cannot be computed for x.csv, line 10 (word = '2024-13-01'): "
    )


def test_an_event_is_named_with_its_column(tmp_path):
    def events(self, rows):
        seen = rows.filter(rows.n > 0).mutate(hour=hours(rows.day), size=rows.word.cast("int64"))
        return {"lately": Events(seen, by=("word",), windows=((24, 1),), value="size")}

    mine = task(events=events, time="day")
    assert complaint(mine, table(word="x"), tmp_path).startswith(
        f"Mine.events: lately, size cannot be computed for x.csv, line {THIRD + 2} (word = 'x'): Conversion"
    )


def test_an_error_of_no_expression_stays_as_it_is(tmp_path):
    assert complaint(task(), table(), tmp_path) == "DuckDB cannot compute that: no"


def test_an_infinite_feature_is_named_with_its_first_row(tmp_path):
    from vgp.data.columns import Infinite

    mine = task(features=lambda self, rows: {"n": rows.n, "made": rows.x / (rows.n - rows.n)})
    message = complaint(mine, table(x=0.0), tmp_path, Infinite("made"))
    assert message.endswith("or clip them. The first is in x.csv, line 2 (n = 10, x = 0.5).")
