"""The tasks that the GPU hour trains: a small mixed classifier, a language model, a table and images."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tools.gpu_hour.tasks import STOPWATCH, Drawn
from training.tasks.language_model import LanguageModel
from vgp.data.task import Batch, WeightedLoss
from vgp.networks.shape import Shape
from vgp.networks.tabular import TabularNetwork
from vgp.protocol.manifest import Manifest

#: Air pressure in pascal, and its deviation: a raw column that bfloat16 and TF32 round to a constant.
PRESSURE, DEVIATION = 101_325.0, 100.0


class Mixed(Drawn):
    """A small classifier with everything that arithmetic may spoil: a raw column, a masked loss, and moving buffers.

    Its optimizer is SGD, because the first steps of Adam turn a rounding error into a whole step. Options: `width`,
    `depth`, `raw` (whether the column `pressure` is in pascal), `norm` (batch norm), `dropout`, `kept` (the share of
    rows whose loss counts), `gain` (a factor of the loss, which overflows in float16), and `fill` (memory that the loss
    takes, as a share of the GPU's).
    """

    def draw(self, rows: int, random: np.random.Generator) -> dict[str, np.ndarray]:
        standard = random.standard_normal((rows, 2)).astype(np.float32)
        is_raw = self.options.get("raw", True)
        pressure = PRESSURE + DEVIATION * standard[:, 0] if is_raw else standard[:, 0]
        label = (standard.sum(axis=1) > 0).astype(np.int64)
        mask = (random.random(rows) < self.options.get("kept", 0.7)).astype(np.float32)
        return {"pressure": pressure.astype(np.float32), "other": standard[:, 1], "mask": mask, "label": label}

    def model(self, data: Manifest) -> nn.Module:
        return MixedNetwork(self.options)

    def loss(self, model: nn.Module, batch: Batch) -> WeightedLoss:
        if share := self.options.get("fill"):
            torch.empty(int(share * torch.cuda.mem_get_info()[1]), dtype=torch.uint8, device="cuda")
        losses = F.cross_entropy(model(batch).float(), batch["label"], reduction="none")
        return WeightedLoss((losses * batch["mask"]).sum() * self.options.get("gain", 1.0), batch["mask"].sum())

    def plain_loss(self, model: nn.Module, batch: Batch) -> Tensor:
        model.keeps_raw = True
        return super().plain_loss(model, batch)

    def optimizer(self, model: nn.Module, learning_rate: float, weight_decay: float) -> torch.optim.Optimizer:
        optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], learning_rate, momentum=0.9)
        optimizer.register_step_post_hook(STOPWATCH.tick)
        return optimizer


class MixedNetwork(nn.Module):
    """The network of `Mixed`. `keeps_raw` = its own code keeps the raw column in float32, as an expert would."""

    def __init__(self, options: Mapping[str, Any]):
        super().__init__()
        width = options.get("width", 64)
        self.keeps_raw = False
        self.raw, self.other = nn.Linear(1, width), nn.Linear(1, width)
        self.raw.requires_grad_(False)  # its gradient is a small difference of large numbers
        self.norm = nn.BatchNorm1d(width) if options.get("norm", True) else nn.Identity()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(),
                          nn.Dropout(options.get("dropout", 0.0)), nn.Linear(2 * width, width))
            for _ in range(options.get("depth", 2))
        )  # fmt: skip
        self.last = nn.Linear(width, 2)

    def forward(self, batch: Batch) -> Tensor:
        pressure, other = batch["pressure"][:, None], batch["other"][:, None]
        with torch.autocast(pressure.device.type, enabled=False) if self.keeps_raw else nullcontext():
            hidden = self.raw(pressure)
        hidden = self.norm(hidden) + self.other(other)
        for block in self.blocks:
            hidden = hidden + block(hidden)
        return self.last(hidden)


class Tokens(Drawn, LanguageModel):
    """The shipped language model on drawn tokens, with a vocabulary of any size; the option `tokens` is its size."""

    settings: ClassVar[Mapping[str, Any]] = {**LanguageModel.settings, "tokens": 50_304}

    def draw(self, rows: int, random: np.random.Generator) -> dict[str, np.ndarray]:
        length, size = int(self.chosen["sequence_length"]), int(self.chosen["tokens"])
        tokens = random.integers(0, size - 1, (rows, length + 1), dtype=np.uint16)
        return {"tokens": tokens, "count": np.full(rows, length, np.int64)}

    def shape(self, data: Manifest) -> Shape:
        return replace(super().shape(data), vocab=int(self.chosen["tokens"]))

    def plain_loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Returns the loss of the blocks with a head as it is usually written: all logits, and PyTorch's own loss."""
        tokens, start = batch["tokens"].long(), model.shape.vocab - 1
        inputs, targets = tokens[:, :-1], tokens[:, 1:].masked_fill(tokens[:, 1:] == start, -1)
        rotation = model.cosine_TK, model.sine_TK
        hidden = model.embedding(inputs)
        if torch.is_autocast_enabled(hidden.device.type):
            hidden = hidden.to(torch.get_autocast_dtype(hidden.device.type))
        for block in model.blocks:
            hidden = block(hidden, rotation)
        logits = F.linear(model.norm(hidden), model.embedding.weight)
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), ignore_index=-1)


class Numbers(Drawn):
    """A table of 24 numbers and two classes, for the library's network for tables. Option: `hidden`."""

    def draw(self, rows: int, random: np.random.Generator) -> dict[str, np.ndarray]:
        values = random.standard_normal((rows, 24)).astype(np.float32)
        named = {f"x{number}": np.ascontiguousarray(values[:, number]) for number in range(24)}
        return {**named, "label": (values[:, :3].sum(axis=1) > 0).astype(np.int64)}

    def model(self, data: Manifest) -> nn.Module:
        return TabularNetwork(data.columns, 2, hidden=self.options.get("hidden", [256, 256]), dropout=0.1)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return F.cross_entropy(model(batch).float(), batch["label"])


class Images(Drawn):
    """Square images of bytes in ten classes, for a small residual network. Options: `side`, `width`."""

    classes = tuple("0123456789")

    def draw(self, rows: int, random: np.random.Generator) -> dict[str, np.ndarray]:
        pixels = random.integers(0, 256, (rows, 3 * self.options.get("side", 64) ** 2), dtype=np.uint8)
        return {"pixels": pixels, "label": random.integers(0, 10, rows)}

    def model(self, data: Manifest) -> nn.Module:
        width = self.options.get("width", 64)
        sizes = [width, 2 * width, 4 * width, 8 * width]
        stages = [Residual(before, after) for before, after in zip([3, *sizes], sizes, strict=False)]
        network = nn.Sequential(*stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(sizes[-1], 10))
        # On a CPU without AVX-512, oneDNN in PyTorch 2.13 corrupts memory in a 1x1 convolution with stride 2 that reads
        # fewer than 8 channels, channels last, on one thread.
        return network.to(memory_format=torch.channels_last) if torch.cuda.is_available() else network

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return F.cross_entropy(self._logits(model, batch), batch["label"])

    def predict(self, model: nn.Module, batch: Batch) -> Tensor:
        return self._logits(model, batch).softmax(dim=1)

    def _logits(self, model: nn.Module, batch: Batch) -> Tensor:
        side = self.options.get("side", 64)
        return model(batch["pixels"].view(-1, 3, side, side).float() / 255).float()


class Residual(nn.Module):
    """Two convolutions with batch norm beside a third one; halves each side of the image."""

    def __init__(self, before: int, after: int):
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(before, after, 3, 2, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU(),
            nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after),
        )  # fmt: skip
        self.beside = nn.Conv2d(before, after, 1, 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.inner(x) + self.beside(x))
