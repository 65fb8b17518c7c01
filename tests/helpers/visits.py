"""A small table of visits, a few on each day, for tests of pins."""

from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa

from vgp.data.schema import Field
from vgp.data.tabular import TabularTask
from vgp.data.task import Task

TASK = "visits:Visits"
FIRST = date(2026, 1, 1)


class Visits(TabularTask):
    schema = (
        Field("id", pa.int64()),
        Field("day", pa.date32()),
        Field("size", pa.int64()),
        Field("yes", pa.bool_(), known="after"),
    )
    key = ("id",)
    time = "day"
    target = "yes"


class Untimed(TabularTask):
    schema = tuple(field for field in Visits.schema if field.name != "day")
    key = ("id",)
    target = "yes"


class Own(Task):
    """A task whose data comes from a source without versions."""

    def shards(self, data): ...

    def rows(self, shard, statistics): ...

    def model(self, data): ...

    def loss(self, model, batch): ...

    def predict(self, model, batch): ...


class Self(Own):
    """Reads `data` in its own way."""

    finds_files = False


def table(first: int, last: int) -> bytes:
    """Visits on the days from `first` to `last`, counted from FIRST."""
    lines = ["id,day,size,yes"]
    for day in range(first, last + 1):
        on = FIRST + timedelta(days=day)
        lines += [f"{day * 10 + i},{on},{(day + i) * 7 % 13},{str(day * i % 5 < 2).lower()}" for i in range(6)]
    return ("\n".join(lines) + "\n").encode()


def write(folder: Path, **days: tuple[int, int]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, (first, last) in days.items():
        (folder / f"{name}.csv").write_bytes(table(first, last))
    return folder
