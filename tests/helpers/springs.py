"""A regression whose truth is known: how far springs stretch. For the tests of evaluation and report."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from torch import nn

from vgp.data import bundle, prepare
from vgp.data.bundle import ModelCard
from vgp.data.task import Task
from vgp.protocol import manifest as manifests


class Spring(nn.Module):
    def __init__(self):
        super().__init__()
        self.stiffness = nn.Parameter(torch.tensor(3.0))

    def forward(self, batch):
        mean = self.stiffness * batch["weight_kg"]
        return torch.stack([mean, mean - 1.28, mean, mean + 1.28], dim=1)


class Springs(Task):
    """Stretches 3 cm for each kg, give or take 1; the colour has no effect."""

    classes = ()
    quantiles = (0.1, 0.5, 0.9)
    slices = ("colour",)
    unit = "cm"

    def shards(self, data):
        return [0]

    def rows(self, shard, statistics):
        return {split: self.table(number) for number, split in enumerate(["train", "validation", "test"])}

    def table(self, number: int) -> pa.Table:
        random, count = np.random.default_rng(number), 300
        weight = random.random(count) * 5
        return pa.table(
            {
                "row_id": np.arange(count) + 1_000 * number,
                "weight_kg": pa.array(weight, pa.float32()),
                "colour": random.choice(["blue", "red"], count),
                "label": 3 * weight + random.normal(size=count),
            }
        )

    def model(self, data):
        return Spring()

    def loss(self, model, batch):
        return (model(batch)[:, 0] - batch["label"].float()).square().mean()

    def predict(self, model, batch):
        return model(batch)


def evaluated(folder: Path) -> tuple[Path, Path]:
    """A dataset and a model that knows the truth, in the folder."""
    prepare.prepare("springs:Springs", "", folder / "data", workers=1)
    manifest = manifests.load(folder / "data")
    card = ModelCard(task="springs:Springs", columns=manifest.columns, config={}, steps=1, parameters=1)
    bundle.save(folder / "model", Spring(), card)
    return folder / "data", folder / "model"
