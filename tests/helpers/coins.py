"""A task whose truth is known: biased coins, thrown on days that share their luck. For the evaluation's tests."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import nn

from vgp.data import bundle, prepare
from vgp.data.bundle import ModelCard, Point
from vgp.data.task import Task
from vgp.protocol import manifest as manifests

DAYS = 20


class Coin(nn.Module):
    def __init__(self, classes: int, colours: int):
        super().__init__()
        self.slope = nn.Parameter(torch.arange(classes, dtype=torch.float32))
        self.colour = nn.Embedding(colours, 1)
        nn.init.zeros_(self.colour.weight)

    def forward(self, batch):
        tilt = batch["tilt"].nan_to_num() + self.colour(batch["colour"].long()).squeeze(1)
        return tilt[:, None] * self.slope


class Coins(Task):
    """Options: `rows` a day, `sides`, `colours`, and `splits` to write; `group`; `plain`, without slices and group;
    `only`, the one class of a split by its number; `logits`, predicted in place of probabilities.
    """

    def __init__(self, options=None):
        super().__init__(options)
        self.classes = tuple("abcdefghij"[: self.options.get("sides", 2)])
        plain = self.options.get("plain", False)
        self.slices, self.group = ((), "") if plain else (("colour", "size"), self.options.get("group", "day"))

    def shards(self, data):
        return list(range(DAYS))

    def rows(self, shard, statistics):
        splits = self.options.get("splits", ["train", "validation", "test"])
        return {split: self.table(shard, index) for index, split in enumerate(splits)}

    def table(self, day: int, split: int) -> pa.Table:
        random, count = np.random.default_rng([day, split]), self.options.get("rows", 60)
        tilt = random.normal(size=count)
        chances = np.exp(np.outer(1.2 * tilt + random.normal(scale=0.5), np.arange(len(self.classes))))
        chances /= chances.sum(axis=1, keepdims=True)
        label = (random.random(count)[:, None] > chances.cumsum(axis=1)).sum(axis=1)
        if self.options.get("only", {}).get(str(split)) is not None:
            label[:] = self.options["only"][str(split)]
        tilt[0] = np.nan
        return pa.table(
            {
                "row_id": np.arange(count) + 1_000_000 * split + 1_000 * day,
                "day": np.full(count, day, np.int32),
                "colour": random.choice(self.options.get("colours", ["blue", "red"]), count),
                "tilt": pa.array(tilt, pa.float32()),
                "size": pa.array(random.random(count), pa.float32()),
                "label": label,
            }
        )

    def model(self, data):
        return Coin(len(self.classes), len(data.column("colour").values))

    def loss(self, model, batch):
        return nn.functional.cross_entropy(model(batch), batch["label"])

    def predict(self, model, batch):
        logits = model(batch)
        return logits if self.options.get("logits") else logits.softmax(dim=1)


class Dice(Coins):
    """Another task with the same classes."""


#: What was made once in this process: by what it is, the bytes of each of its files.
_made: dict[str, dict[str, bytes]] = {}


def once(kind: Any, directory: Path, make: Callable[[], object]) -> None:
    """Has in the directory what `make` leaves there, which is the same for the same kind: made once, then written."""
    key = json.dumps(kind, sort_keys=True)
    if key in _made:
        for name, content in _made[key].items():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_bytes(content)
        return
    make()
    files = [path for path in directory.rglob("*") if path.is_file()]
    _made[key] = {path.relative_to(directory).as_posix(): path.read_bytes() for path in files}


def dataset(directory: Path, **options: Any) -> Path:
    make = partial(prepare.prepare, "coins:Coins", "", directory, options=options, workers=1)
    once(["data", options], directory, make)
    return directory


def trained(directory: Path, data: Path, *, slope: float = 1.2, task: str = "coins:Coins", **colours: float) -> Path:
    """A model with this slope, and an effect on the tilt for each colour by name."""
    manifest = manifests.load(data)
    sides = manifest.options.get("sides", 2)
    module = Coin(sides, len(manifest.column("colour").values))
    with torch.no_grad():
        module.slope.mul_(slope)
        for name, effect in colours.items():
            module.colour.weight[manifest.column("colour").values.index(name)] = effect
    history = [
        Point(step=s, epoch=s / 2, loss=1 / s, learning_rate=0.1 / s, validation_loss=1 / s if s % 2 else None)
        for s in range(1, 5)
    ]
    card = ModelCard(
        task=task, options=manifest.options, columns=manifest.columns, data=manifest.fingerprint,
        config={"seed": 0, "epochs": 2.0}, steps=4, parameters=4, history=tuple(history),
    )  # fmt: skip
    bundle.save(directory, module, card)
    return directory
