"""A small task of a user's own, in a file of its own as a user would write it, and CSV files for it."""

import random
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

import pytest
from helpers.run_wing import *  # noqa: F403

TASK = '''
import os
import signal
import time
from dataclasses import replace

import pyarrow as pa

from vgp.data import current_place
from vgp.data.schema import Field
from vgp.data.tabular import TabularTask
from vgp.data.task import Task


class Visits(TabularTask):
    schema = (
        Field("visitor", pa.int64()),
        Field("day", pa.date32()),
        Field("page", pa.string()),
        Field("seconds", pa.float64(), nullable=True),
        Field("refunded", pa.float64(), nullable=True, known="after"),
        Field("bought", pa.bool_(), nullable=True, known="after"),
    )
    key = ("visitor", "day")
    time = "day"
    target = "bought"
    group = "day"
    slices = ("page",)
    unlabelled = "not over yet"


class Leaky(Visits):
    def features(self, rows):
        return {"page": rows.page, "refunded": rows.refunded}


class Hidden(Visits):
    """Brings the outcome in by a back door: a column that is declared as known before."""

    schema = tuple(replace(field, known="before") if field.name == "refunded" else field for field in Visits.schema)

    def features(self, rows):
        return {"page": rows.page, "hint": rows.refunded}


class Trusting(Hidden):
    trusted = ("hint",)


class Timeless(Visits):
    time = ""
    group = ("visitor", "week")
    slices = ()

    def features(self, rows):
        return {"page": rows.page, "seconds": rows.seconds, "week": rows.day.strftime("%W")}


class Pieces(Task):
    """No table: rows are made piece by piece."""

    def shards(self, data):
        return list(range(8))

    def rows(self, shard, statistics):
        table = pa.table({"x": [0.5, 1.5 + shard], "label": pa.array([0, 1], pa.int64())})
        return {"train": table, "test": table}

    def model(self, data): ...

    def loss(self, model, batch): ...

    def predict(self, model, batch): ...


class Together(Pieces):
    group = "user"

    def rows(self, shard, statistics):
        rows = super().rows(shard, statistics)
        return {split: table.append_column("user", pa.array([shard, 9], pa.int64())) for split, table in rows.items()}


class Leaving(Pieces):
    def rows(self, shard, statistics):
        current_place.record_place("mail.txt", shard)
        if shard == 3:
            raise SystemExit(self.options.get("code"))
        return super().rows(shard, statistics)


class Dying(Pieces):
    def rows(self, shard, statistics):
        os.kill(os.getpid(), signal.SIGKILL)


class Failing(Pieces):
    def rows(self, shard, statistics):
        raise OSError(28, "No space left on device", "rows-0")


class Slow(Pieces):
    def rows(self, shard, statistics):
        os.write(1, b"started\\n")
        time.sleep(60)
'''

HEADER = "visitor,day,page,seconds,refunded,bought"


@pytest.fixture(scope="session")
def visits_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("user")
    (folder / "visits_task.py").write_text(TASK)
    return folder


@pytest.fixture
def visits_module(visits_folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of the module; a test can import it, in child processes too."""
    monkeypatch.syspath_prepend(visits_folder)
    return "visits_task"


def visit_rows(days: int = 120, per_day: int = 20, seed: int = 0) -> list[str]:
    """CSV lines without header from 2024-01-01 on; a purchase is likelier on the page `offer`."""
    draw = random.Random(seed)
    lines = []
    for i in range(days * per_day):
        page = draw.choice(["home", "offer", "help, and more"])
        bought = draw.random() < (0.7 if page == "offer" else 0.2)
        seconds = "" if draw.random() < 0.1 else f"{draw.gauss(60, 20):.3f}"
        day = date(2024, 1, 1) + timedelta(days=i // per_day)
        lines.append(f'{i},{day},"{page}",{seconds},{5 if bought else 0},{str(bought).lower()}')
    return lines


@pytest.fixture
def write_csv(tmp_path: Path) -> Callable[..., Path]:
    def write(lines: list[str], name: str = "visits.csv", header: str = HEADER) -> Path:
        path = tmp_path / name
        path.write_text("\n".join([header, *lines]) + "\n")
        return path

    return write
