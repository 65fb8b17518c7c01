"""A task of your own in one file: handwritten digits of scikit-learn (1,797 images of 8 x 8 pixels).

    vgp run training --nproc 2 --set task=docs.examples.digits:Digits \
      --set epochs=40 --set global_batch_size=64 --set learning_rate=5e-3
"""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import pyarrow as pa
from torch import Tensor, nn
from torch.nn import functional as F

from vgp.data.task import Batch, Task
from vgp.protocol.manifest import Manifest

ROWS, SHARDS, PIXELS = 1797, 4, 64


class Digits(Task):
    """Which digit is it? Options: `channels`, the width of the network."""

    classes = tuple("0123456789")
    slices = ("ink",)
    settings = {"channels": 16}

    # ---- the data: cut it into shards, turn each into rows

    def package(self) -> tuple[str, str]:
        return "scikit-learn", version("scikit-learn")

    def shards(self, data: str) -> Sequence[range]:
        edges = np.linspace(0, ROWS, SHARDS + 1).astype(int)
        return [range(first, last) for first, last in zip(edges[:-1], edges[1:], strict=True)]

    def rows(self, shard: range, statistics: Mapping[str, Any]) -> dict[str, pa.Table]:
        from sklearn.datasets import load_digits

        digits = load_digits()
        index = np.asarray(shard)
        images = (digits.data[index] / 16).astype(np.float32)
        ink = np.where(images.mean(axis=1) > 0.31, "bold", "thin")
        table = pa.table(
            {
                "row_id": index,
                "image": pa.FixedSizeListArray.from_arrays(images.ravel(), PIXELS),
                "ink": ink,
                "label": digits.target[index],
            }
        )
        fold = index % 5
        masks = {"train": fold < 3, "validation": fold == 3, "test": fold == 4}
        return {split: table.filter(pa.array(mask)) for split, mask in masks.items()}

    # ---- the model: what it is, what it minimizes, what it predicts

    def model(self, data: Manifest) -> nn.Module:
        channels = {**self.settings, **self.options}["channels"]
        return nn.Sequential(
            nn.Conv2d(1, channels, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, 2 * channels, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(4),
            nn.Flatten(),
            nn.Dropout(0.2),
            nn.Linear(2 * channels * 16, len(self.classes)),
        )

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return F.cross_entropy(self._logits(model, batch), batch["label"])

    def predict(self, model: nn.Module, batch: Batch) -> Tensor:
        return self._logits(model, batch).float().softmax(dim=-1)

    def _logits(self, model: nn.Module, batch: Batch) -> Tensor:
        """(B, 64) pixels -> (B, 10) logits."""
        return model(batch["image"].view(-1, 1, 8, 8))
