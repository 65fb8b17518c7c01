"""Small tables for tests of BigQuery: rows of every kind, in a file and in a table, and a task over them."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from vgp.data.events import Events, hours
from vgp.data.schema import Field
from vgp.data.tabular import TabularTask

TASK = "warehouse:Parcels"
TABLE = "test-project.shop.parcels"
URI = f"bq://{TABLE}"
FIRST = datetime(2026, 1, 1, tzinfo=UTC)


class Parcels(TabularTask):
    """Every canonical type, text of all kinds, missing values, and what happened hours before."""

    schema = (
        Field("id", pa.int64()),
        Field("code", pa.string()),
        Field("sent", pa.timestamp("us", tz="UTC")),
        Field("day", pa.date32()),
        Field("local", pa.timestamp("us")),
        Field("city", pa.string(), nullable=True),
        Field("weight", pa.float64(), nullable=True),
        Field("floor", pa.int16(), nullable=True),
        Field("express", pa.bool_()),
        Field("late", pa.bool_(), nullable=True, known="after"),
    )
    key = ("id", "code", "sent")
    time = "sent"
    target = "late"
    slices = ("city",)

    def days(self, rows):
        return rows.day

    def events(self, rows):
        left = rows.mutate(hour=hours(rows.sent), grams=(rows.weight.fill_null(0) * 1000).round().cast("int64"))
        return {"sent": Events(left, ("city",), ((24, 2), (3, 1)), value="grams")}

    def features(self, rows):
        return {
            "city": rows.city, "weight": rows.weight, "root": (rows.weight.fill_null(0) + 1).log(), "floor": rows.floor,
            "express": rows.express, "weekday": rows.day.day_of_week.index().cast("float64"),
            "hour": rows.local.hour(), "recent": rows.sent_mean_24_2, "busy": rows.sent_count_3_1,
        }  # fmt: skip


CITIES = ("Köln", "", "東京", 'New "York", NY', "O'Fallon", "line\nbreak", "a\\b", " ", "Île-de-France 🚚", None)


def parcels(count: int = 600, days: int = 60) -> pa.Table:
    drawn = np.random.default_rng(5)
    sent = [FIRST + timedelta(minutes=int(m)) for m in np.sort(drawn.integers(0, days * 1440, count))]
    weight = drawn.lognormal(0, 2, count).tolist()
    return pa.table(
        {
            "id": pa.array(drawn.permutation(count) - count // 2, pa.int64()),
            "code": pa.array([CITIES[i] or "none" for i in drawn.integers(0, len(CITIES), count)], pa.string()),
            "sent": pa.array(sent, pa.timestamp("us", tz="UTC")),
            "day": pa.array([moment.date() for moment in sent], pa.date32()),
            "local": pa.array([moment.replace(tzinfo=None) for moment in sent], pa.timestamp("us")),
            "city": pa.array([CITIES[i] for i in drawn.integers(0, len(CITIES), count)], pa.string()),
            "weight": pa.array([None if i % 7 == 0 else value for i, value in enumerate(weight)], pa.float64()),
            "floor": pa.array([None if i % 5 == 0 else i % 300 - 150 for i in range(count)], pa.int64()),
            "express": pa.array((drawn.random(count) < 0.3).tolist(), pa.bool_()),
            "late": pa.array([None if i % 11 == 0 else bool(drawn.random() < 0.4) for i in range(count)], pa.bool_()),
            "spare": pa.array(["x"] * count),
        }
    )


def changed(rows: pa.Table, **columns: pa.Array) -> pa.Table:
    for name, values in columns.items():
        rows = rows.set_column(rows.column_names.index(name), name, values)
    return rows


def write(folder: Path, rows: pa.Table) -> Path:
    """The rows in a file of Parquet, whose strings are never null."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, folder / "parcels.parquet")
    return folder / "parcels.parquet"


def days_ago(cloud, days: float) -> datetime:
    return cloud.clock.now() - timedelta(days=days)


def prepared(folder: Path) -> dict[str, pa.Table]:
    """All rows of each split, in the order of the shards; the texts of categories in place of their codes."""
    from vgp.protocol import manifest

    made = manifest.load(folder)
    tables = {split: pa.concat_tables([pq.read_table(folder / file.path) for file in files])
              for split, files in made.splits.items()}  # fmt: skip
    texts = {column.name: column.values for column in made.columns if column.kind == "category"}
    return {
        split: pa.table({name: pa.array([texts[name][code] for code in table[name].to_pylist()])
                         if name in texts else table[name] for name in table.column_names})
        for split, table in tables.items()
    }  # fmt: skip


def day(number: int) -> str:
    return str(date(2026, 1, 1) + timedelta(days=number))


#: Windows in dates, so that nothing has to be asked.
WINDOWS = {"train": f"{day(0)}:{day(44)}", "test": f"{day(45)}:{day(59)}"}
