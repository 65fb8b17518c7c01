"""A regression over a small table whose truth is known: prices that spread the more, the larger the flat."""

import csv
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch

from vgp.data import bundle, tasks
from vgp.data.bundle import ModelCard
from vgp.data.rows import open_rows
from vgp.data.schema import Field
from vgp.data.tabular import TabularTask
from vgp.protocol import manifest as manifests

QUANTILES = (0.1, 0.5, 0.9)
ROWS = 1_200


class Prices(TabularTask):
    schema = (
        Field("number", pa.int64()),
        Field("street", pa.int64()),
        Field("city", pa.string()),
        Field("area", pa.float64(), nullable=True),
        Field("price", pa.float64(), nullable=True, known="after"),
    )
    key = ("number",)
    group = "street"
    target = "price"
    unit = "EUR"
    unlabelled = "not sold yet"
    quantiles = QUANTILES
    slices = ("city",)


class Halves(Prices):
    """The same table, for other quantiles."""

    quantiles = (0.25, 0.5, 0.75)


class ByCity(Prices):
    """The same table, whose rows of one city are not independent."""

    group = "city"
    slices = ()


def rows(count: int = ROWS) -> list[dict[str, object]]:
    """Every tenth has no price."""
    random = np.random.default_rng(7)
    area, south = random.uniform(20, 120, count), random.random(count) < 0.4
    price = 1_000 * area * (1 + 0.3 * south) * (1 + 0.2 * random.normal(size=count)) + 20_000
    return [
        {"number": i, "street": i % 120, "city": "Ulm" if south[i] else "Kiel", "area": f"{area[i]:.2f}",
         "price": f"{price[i]:.2f}" if i % 10 else ""}
        for i in range(count)
    ]  # fmt: skip


def write(path: Path, table: list[dict[str, object]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]))
        writer.writeheader()
        writer.writerows(table)
    return path


def trained(directory: Path, data: Path, steps: int, task: str = "prices:Prices") -> Path:
    """A model after so many steps on all train rows."""
    dataset = manifests.load(data)
    work = tasks.load(task, {"hidden": [16], "dropout": 0.0})
    torch.manual_seed(0)
    module = work.model(dataset)
    batch = {name: torch.from_numpy(np.array(v)) for name, v in open_rows(data, "train").columns.items()}
    optimizer = torch.optim.Adam(module.parameters(), lr=0.02)
    for _ in range(steps):
        optimizer.zero_grad()
        work.loss(module, batch).backward()
        optimizer.step()
    card = ModelCard(
        task=task, options=work.options, columns=dataset.columns, statistics=dataset.statistics,
        data=dataset.fingerprint, config={"seed": 0}, steps=steps, parameters=4,
    )  # fmt: skip
    bundle.save(directory, module.eval(), card)
    return directory
