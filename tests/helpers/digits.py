"""A small real task for the training tests: scikit-learn's 8x8 digits, with dropout, batch norm and augmentation."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import torch
from torch import nn

from vgp.data.task import Task

#: Whether this process, a rank, came with what its first optimizer imports: before the fork it costs all ranks once.
FORKED_WITH_OPTIMIZERS = "torch._dynamo" in sys.modules


class Net(nn.Module):
    def __init__(self, hidden: int, dropout: float, wide: int = 0, blocks: int = 0):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(64, hidden), nn.Tanh(), nn.Dropout(dropout), nn.Linear(hidden, 64))
            for _ in range(blocks)
        )
        layers = [nn.Linear(64, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Dropout(dropout)]
        for _ in range(wide):
            layers += [nn.Linear(hidden, hidden), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(hidden, 10))

    def forward(self, pixels):
        values = pixels / 16
        for block in self.blocks:
            values = values + block(values)
        return self.layers(values)


class Digits(Task):
    classes = tuple("0123456789")

    def shards(self, data):
        return [data]

    def rows(self, shard, statistics):
        return tables()

    def model(self, data):
        assert FORKED_WITH_OPTIMIZERS or "LOCAL_RANK" not in os.environ
        options = self.options
        return Net(
            options.get("hidden", 64), options.get("dropout", 0.2), options.get("wide", 0), options.get("blocks", 0)
        )

    def loss(self, model, batch):
        self.interrupt()
        loss = nn.functional.cross_entropy(model(batch["pixels"]), batch["label"])
        if self.options.get("bad_row") is not None and (batch["row_id"] == self.options["bad_row"]).any():
            loss = loss * float("nan")
        return loss

    calls = 0

    def interrupt(self):
        """DIGITS_SIGNAL=rank:calls:signal has that rank send itself a signal at that call, once per process."""
        self.calls += 1
        rank, calls, number = map(int, os.environ.get("DIGITS_SIGNAL", "-1:0:0").split(":"))
        if rank == int(os.environ.get("RANK", "0")) and calls == self.calls:
            os.kill(os.getpid(), number)

    def sample(self, model, data):
        """DIGITS_SAMPLE=kill is killed while it makes its sample; =alone waits until no other rank is left."""
        chosen, deadline = os.environ.get("DIGITS_SAMPLE", ""), time.monotonic() + 20
        if chosen == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        while chosen == "alone" and len(psutil.Process(os.getppid()).children()) > 1:
            if time.monotonic() > deadline:
                return "not alone"
            time.sleep(0.05)
        return chosen

    def predict(self, model, batch):
        return model(batch["pixels"]).softmax(dim=1)

    def augment(self, batch, generator):
        noise = torch.randn(batch["pixels"].shape, generator=generator)
        return batch | {"pixels": batch["pixels"] + noise}


def tables() -> dict[str, Any]:
    import pyarrow as pa
    from sklearn.datasets import load_digits

    pixels, label = load_digits(return_X_y=True)
    columns = {
        "row_id": pa.array(range(len(label)), pa.int64()),
        "label": pa.array(label, pa.int64()),
        "pixels": pa.FixedSizeListArray.from_arrays(pa.array(pixels.astype("float32").reshape(-1)), 64),
    }
    whole = pa.table(columns)
    return {"train": whole.slice(0, 1200), "validation": whole.slice(1200, 300), "test": whole.slice(1500)}


def prepare(directory: Path, **options: Any) -> Path:
    """Writes the dataset by hand, as `vgp.data.prepare` would."""
    import hashlib

    import pyarrow.parquet as pq

    from vgp.protocol import manifest as manifests

    directory.mkdir(parents=True)
    splits = {}
    for split, table in tables().items():
        path = directory / f"{split}-00000.parquet"
        pq.write_table(table, path)
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        splits[split] = (
            manifests.ShardFile(path=path.name, rows=len(table), bytes=path.stat().st_size, sha256=sha256),
        )
    columns = (
        manifests.Column(name="row_id", kind="id", type="int64"),
        manifests.Column(name="label", kind="number", type="int64"),
        manifests.Column(name="pixels", kind="vector", type="fixed_size_list<element: float>[64]", width=64),
    )
    fingerprint = hashlib.sha256(json.dumps([options, [s[0].sha256 for s in splits.values()]]).encode()).hexdigest()
    manifests.save(
        manifests.Manifest(
            task="digits:Digits", options=options, columns=columns, splits=splits, fingerprint=fingerprint
        ),
        directory,
    )
    return directory
