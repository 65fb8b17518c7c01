"""A task of your own on texts, in one file: CSV files with the columns `text` and `label`, and maybe `split`.

    vgp run training --nproc 2 --set 'data=topics/*.csv' --set task=docs.examples.topics:Topics \
      --set epochs=10 --set global_batch_size=64 --set learning_rate=1e-2

Words become numbers by a hash, so there is no vocabulary that would change from night to night.
"""

import re
import zlib
from collections.abc import Mapping, Sequence
from hashlib import md5
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv
from torch import Tensor, nn
from torch.nn import functional as F

from vgp.base.exits import UserError
from vgp.base.storage import download, storage
from vgp.data.task import Batch, Task
from vgp.protocol.manifest import Manifest

SPLITS = ("train", "validation", "test")


class Topics(Task):
    """What is the text about? Options: the words of a text that are read, the hash's buckets, the network's width."""

    classes = ("sport", "weather")
    settings = {"words": 64, "buckets": 4096, "width": 32, "test_share": 0.2, "validation_share": 0.1}

    def __init__(self, options: Mapping[str, Any] | None = None):
        super().__init__(options)
        self.chosen = {**self.settings, **self.options}

    # ---- the data: a file is a shard, so let no file be larger than memory

    def shards(self, data: str) -> Sequence[str]:
        return [file.path for part in storage.parts(data) for file in storage.find(part, (".csv",))]

    def rows(self, shard: str, statistics: Mapping[str, Any]) -> dict[str, pa.Table]:
        with download.local_copy(shard) as path:
            table = csv.read_csv(path, parse_options=csv.ParseOptions(newlines_in_values=True))
        for column in ("text", "label"):
            if column not in table.column_names:
                raise UserError(f"{shard} has no column {column!r}; it has {', '.join(table.column_names)}.")
        texts, labels = ([str(value or "") for value in table[name].to_pylist()] for name in ("text", "label"))
        for line, label in enumerate(labels, 2):
            if label not in self.classes:
                raise UserError(f"{shard}, row {line - 1}: the label {label!r} is none of {', '.join(self.classes)}.")
        splits = table["split"].to_pylist() if "split" in table.column_names else list(map(self._split, texts))
        codes = pa.array([self.classes.index(label) for label in labels], pa.int64())
        rows = self._table(texts).append_column("label", codes)
        return {name: rows.filter(pa.array([split == name for split in splits])) for name in SPLITS}

    def inputs(self, rows: Sequence[Mapping[str, Any]], statistics: Mapping[str, Any]) -> pa.Table:
        """Texts without a label, each under `text`, to be predicted."""
        return self._table([str(row.get("text") or "") for row in rows])

    def _table(self, texts: Sequence[str]) -> pa.Table:
        numbers = np.array([self._numbers(text) for text in texts], np.int32)
        return pa.table({"words": pa.FixedSizeListArray.from_arrays(numbers.ravel(), self.chosen["words"])})

    def _split(self, text: str) -> str:
        """Texts that are alike go to the same split."""
        place = int.from_bytes(md5(text.encode()).digest()[:4]) / 2**32
        test, validation = self.chosen["test_share"], self.chosen["validation_share"]
        return "test" if place < test else "validation" if place < test + validation else "train"

    def _numbers(self, text: str) -> list[int]:
        """One number for each of the first words, then 0 for none."""
        words = re.findall(r"\w+", text.lower())[: self.chosen["words"]]
        numbers = [1 + zlib.crc32(word.encode()) % self.chosen["buckets"] for word in words]
        return numbers + [0] * (self.chosen["words"] - len(numbers))

    # ---- the model: the mean of its words' vectors, then two layers

    def model(self, data: Manifest) -> nn.Module:
        return Bag(self.chosen["buckets"] + 1, self.chosen["width"], len(self.classes))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return F.cross_entropy(model(batch["words"]), batch["label"])

    def predict(self, model: nn.Module, batch: Batch) -> Tensor:
        return model(batch["words"]).float().softmax(dim=-1)


class Bag(nn.Module):
    def __init__(self, buckets: int, width: int, classes: int):
        super().__init__()
        self.vectors = nn.Embedding(buckets, width, padding_idx=0)
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(width, classes))

    def forward(self, words: Tensor) -> Tensor:
        """(B, words) numbers -> (B, C) logits."""
        words = words.long()
        count = (words > 0).sum(dim=1, keepdim=True).clamp(min=1)
        mean: Tensor = self.vectors(words).sum(dim=1) / count
        logits: Tensor = self.head(mean.float())
        return logits
