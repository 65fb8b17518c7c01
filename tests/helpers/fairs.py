"""A table with a time and no group, of days that are like no other: what a model gains on them is luck."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import torch
from torch import nn

from vgp.data import bundle, prepare
from vgp.data.bundle import ModelCard
from vgp.data.schema import Field
from vgp.data.tabular import TabularTask
from vgp.protocol import manifest

FIRST, DAYS, TEST_DAYS, ROWS = datetime(2026, 1, 1, tzinfo=UTC), 24, 20, 60


class Crowd(nn.Module):
    """The weight that the model gives to the day's crowd."""

    def __init__(self, slope: float):
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(slope))

    def forward(self, batch):
        return torch.stack([torch.zeros_like(batch["crowd"]), self.slope * batch["crowd"]], dim=1)


class Fairs(TabularTask):
    schema = (
        Field("id", pa.int64()),
        Field("at", pa.timestamp("s", tz="UTC")),
        Field("crowd", pa.float64()),
        Field("sold", pa.bool_(), known="after"),
    )
    key = ("id",)
    time = "at"
    target = "sold"
    settings: ClassVar = {**TabularTask.settings, "test": f"{TEST_DAYS} days"}

    def features(self, rows):
        return {"crowd": rows.crowd}

    def model(self, data):
        return Crowd(0.0)


class ByRow(Fairs):
    """The task of a fair, declared as if rows of one day had nothing in common."""

    group = "row"


class ByDay(Fairs):
    group = "day"


def write(path: Path, seed: int) -> Path:
    """Every day draws its crowd, and how well it sells, independently: neither predicts the other."""
    random, lines = np.random.default_rng(seed), ["id,at,crowd,sold"]
    for day in range(DAYS):
        crowd, chance = random.normal(), 1 / (1 + np.exp(-2 * random.normal()))
        for row in range(ROWS):
            at = FIRST + timedelta(days=day, minutes=23 * row)
            sold = str(bool(random.random() < chance)).lower()
            lines.append(f"{day * ROWS + row},{at:%Y-%m-%dT%H:%M:%SZ},{crowd:.3f},{sold}")
    path.write_text("\n".join(lines) + "\n")
    return path


def prepared(folder: Path, task: type[Fairs] = Fairs, seed: int = 0, **options: str) -> Path:
    folder.mkdir()
    table, name = write(folder / "fairs.csv", seed), f"fairs:{task.__name__}"
    prepare.prepare(name, str(table), folder / "data", options=options, workers=1)
    return folder / "data"


def model(folder: Path, data: Path, slope: float) -> Path:
    """A model that gives the crowd this weight; the true weight is 0."""
    made = manifest.load(data)
    card = ModelCard(
        task=made.task, options=made.options, columns=made.columns, statistics=made.statistics,
        config={"seed": 0}, steps=1, parameters=1,
    )  # fmt: skip
    bundle.save(folder, Crowd(slope).eval(), card)
    return folder
