"""A shop whose visits come day by day, with a champion of known quality, for tests of the decision to train."""

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from vgp.data import bundle
from vgp.data.bundle import ModelCard
from vgp.data.events import Events, hours
from vgp.data.schema import Field
from vgp.data.tabular import TabularTask
from vgp.protocol import manifest
from vgp.registry import changes, registry
from vgp.registry.documents import Version
from vgp.steps import calls as steps
from vgp.train.train_config import parse_config

TASK = "shops:Shops"
OPTIONS = {"train": "20 days", "test": "10 days", "hidden": [4], "dropout": 0.0}
FIRST = date(2020, 1, 1)
#: Days after which the champion was trained, of which the last ten tested it.
TRAINED = 30


class Shops(TabularTask):
    schema = (
        Field("id", pa.int64()),
        Field("day", pa.date32()),
        Field("colour", pa.string()),
        Field("size", pa.float64(), nullable=True),
        Field("bought", pa.bool_(), nullable=True, known="after"),
    )
    key = ("id",)
    time = "day"
    target = "bought"

    def events(self, rows):
        return {"visits": Events(rows.mutate(hour=hours(rows.day)), ("colour",), ((48, 24),))}

    def features(self, rows):
        return {"colour": rows.colour, "size": rows.size, "lately": rows.visits_count_48_24}


class Looking(Shops):
    """Has a feature of all rows before."""

    def features(self, rows):
        import ibis

        return {**super().features(rows), "nth": ibis.row_number().over(order_by=[rows.day, rows.id]).cast("float64")}


def day(number: int, colours: str = "red green", chance: float = 0.3, labelled: bool = True) -> list[str]:
    """The lines of one day: 30 visits, the same for the same number."""
    random, on = np.random.default_rng(number), FIRST + timedelta(days=number)
    lines = []
    for i in range(30):
        bought = str(bool(random.random() < chance)).lower() if labelled else ""
        size = "" if i == 0 else f"{random.normal():.3f}"
        lines.append(f"{number * 100 + i},{on},{random.choice(colours.split())},{size},{bought}")
    return lines


def write(path: Path, *days: list[str], header: str = "id,day,colour,size,bought") -> None:
    path.write_text("\n".join([header, *(line for lines in days for line in lines)]) + "\n")


def begun(folder: Path, task: str = TASK) -> None:
    """The data of the champion's days, and the champion, version 1 of the registry beside it."""
    data, root = folder / "data", folder / "registry"
    data.mkdir(parents=True)
    write(data / "a.csv", *(day(n) for n in range(TRAINED)))
    resolved = steps.resolve(
        folder / "runs" / "first", pipeline="training", run="first", data=str(data), task=task, task_options=OPTIONS,
        registry=str(root), champion="auto",
    )  # fmt: skip
    steps.prepare("", folder / "prepared", task=task, pins=resolved.data)
    prepared = manifest.load(folder / "prepared")
    torch.manual_seed(0)
    work = steps.tasks.load(task, prepared.options)
    module = work.model(prepared)
    with torch.no_grad():  # predicts 0.3 for every row
        for parameter in list(module.parameters())[-2:]:
            parameter.zero_()
        list(module.parameters())[-1].copy_(torch.tensor([0.7, 0.3]).log())
    config = parse_config({"task": task}).decisive_fields()
    card = ModelCard(
        task=prepared.task, options=prepared.options, columns=prepared.columns, statistics=prepared.statistics,
        config=config, steps=1, parameters=1,
    )  # fmt: skip
    record = registry.open(str(root), resolved.model_name)
    bundle.save(record.version_folder("a" * 64), module, card)
    loss = float(-(0.3 * np.log(0.3) + 0.7 * np.log(0.7)))
    version = Version(
        key="a" * 64, model=record.version_folder("a" * 64), created="2020-01-31T00:00:00Z", task=prepared.task,
        pins=resolved.uri, metrics={"loss": loss},
    )  # fmt: skip
    words = {"who": "a test", "why": "it is the first"}
    record.change(lambda old: changes.register(old, version, who="a test"))
    record.change(lambda old: changes.promote(old, 1, expected=None, key="b" * 64, **words))


def asked(folder: Path, **given: Any) -> dict[str, Any]:
    """The arguments of the step resolve for the data and the registry in the folder."""
    return {
        "pipeline": "training", "run": "second", "data": f"{folder}/data",
        "task": TASK, "task_options": OPTIONS, "registry": f"{folder}/registry", "champion": "auto", **given,
    }  # fmt: skip
