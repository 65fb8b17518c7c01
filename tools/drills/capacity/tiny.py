"""A task of a few rows whose steps take a given time and are recorded for the drill."""

import hashlib
import json
import os
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import nn

from tools.drills.capacity.standin import note
from vgp.data.task import Task
from vgp.protocol import manifest as manifests

NAME = "tools.drills.capacity.tiny:Tiny"
WIDTH = 8


class Tiny(Task):
    """A task with the option `seconds`, the time of a step."""

    classes = ("no", "yes")
    #: Whether there is a gradient after the last recorded step.
    fresh = False

    def shards(self, data):
        return [0]

    def rows(self, shard, statistics):
        return tables()

    def model(self, data):
        return nn.Sequential(nn.Linear(WIDTH, 16), nn.Tanh(), nn.Dropout(0.1), nn.Linear(16, 2))

    def loss(self, model, batch):
        self.fresh = torch.is_grad_enabled()
        return nn.functional.cross_entropy(model(batch["x"]), batch["label"])

    def learning_rate(self, step, steps):
        """Records the step, because the trainer calls this after the step's gradient."""
        if self.fresh and os.environ.get("RANK", "0") == "0":
            time.sleep(self.options["seconds"])
            note(os.environ.get("TRAINING_ATTEMPT", ""), step + 1)
        self.fresh = False
        return 1.0

    def predict(self, model, batch):
        return model(batch["x"]).softmax(dim=1)


def tables() -> dict[str, pa.Table]:
    random = np.random.default_rng(0)
    x = random.normal(size=(200, WIDTH)).astype(np.float32)
    label = (x.sum(axis=1) > 0).astype(np.int64)
    column = pa.FixedSizeListArray.from_arrays(pa.array(x.reshape(-1)), WIDTH)
    whole = pa.table({"row_id": np.arange(200), "label": label, "x": column})
    return {"train": whole.slice(0, 160), "validation": whole.slice(160, 20), "test": whole.slice(180)}


def prepare(folder: Path, seconds: float) -> None:
    """Writes the dataset as `vgp.data.prepare` would."""
    folder.mkdir(parents=True)
    splits = {}
    for split, table in tables().items():
        path = folder / f"{split}-00000.parquet"
        pq.write_table(table, path)
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        file = manifests.ShardFile(path=path.name, rows=len(table), bytes=path.stat().st_size, sha256=sha256)
        splits[split] = (file,)
    columns = (
        manifests.Column(name="row_id", kind="id", type="int64"),
        manifests.Column(name="label", kind="number", type="int64"),
        manifests.Column(name="x", kind="vector", type=f"fixed_size_list<element: float>[{WIDTH}]", width=WIDTH),
    )
    options = {"seconds": seconds}
    fingerprint = hashlib.sha256(json.dumps([options, [files[0].sha256 for files in splits.values()]]).encode())
    made = manifests.Manifest(
        task=NAME, options=options, columns=columns, splits=splits, fingerprint=fingerprint.hexdigest()
    )
    manifests.save(made, folder)
