"""A task whose model does all that mixed precision can spoil, on columns of very different scale and offset."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from vgp.data.task import Task
from vgp.train.loop.learner import Learner
from vgp.train.loop.model_building import seed_everything
from vgp.train.loop.sample_order import Plan, Schedule, assignment, seed_of
from vgp.train.train_config import TrainConfig

#: Each column is normal with one of these deviations, around a thousand of them: as a pressure of 101,325 +- 100.
DEVIATIONS = [10.0**power for power in range(-3, 7)]
PLAN = Plan(samples=1_024, epochs=1, global_batch_size=128, microbatches=2, seed=0)


class Standard(nn.Module):
    """Statistics as parameters that are not trained, inside of a block."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = nn.Parameter(1_000 * torch.tensor(DEVIATIONS), requires_grad=False)
        self.deviation = nn.Parameter(torch.tensor(DEVIATIONS), requires_grad=False)

    def forward(self, raw: Tensor) -> Tensor:
        return (raw - self.mean) / self.deviation


class Product(nn.Module):
    """Multiplies raw columns in its own code, a thousand deviations from zero, beside what a layer has made."""

    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(len(DEVIATIONS), width) / 3)

    def forward(self, raw: Tensor, hidden: Tensor) -> Tensor:
        products = raw / raw.new_tensor(DEVIATIONS) @ self.weight - 1_000 * self.weight.sum(0)
        return products + 0.1 * hidden @ self.weight.T @ self.weight


class Block(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.raw = nn.Sequential(Standard(), nn.Linear(len(DEVIATIONS), width))
        self.product = Product(width)
        self.norm = nn.LayerNorm(width)
        self.feed = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))

    def forward(self, hidden: Tensor, raw: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
        cosine, sine = rotation
        turned = hidden * cosine + hidden.flip(1) * sine
        return hidden + self.feed(self.norm(turned + self.product(raw, self.raw(raw))))


class Model(nn.Module):
    """Statistics in buffers, batch norm and a layer on raw values, a table of rotations, a head in float32."""

    def __init__(self, width: int = 16):
        super().__init__()
        self.register_buffer("mean", 1_000 * torch.tensor(DEVIATIONS))
        self.register_buffer("deviation", torch.tensor(DEVIATIONS))
        angles = torch.outer(torch.arange(4_096.0), 10_000 ** (-torch.arange(width) / width))
        self.register_buffer("cosine", angles.cos(), persistent=False)
        self.register_buffer("sine", angles.sin(), persistent=False)
        self.batch_norm = nn.BatchNorm1d(len(DEVIATIONS))
        self.straight = nn.Sequential(nn.Linear(1, width), nn.BatchNorm1d(width))
        self.kinds = nn.Embedding(3, width)
        self.inputs = nn.Linear(2 * len(DEVIATIONS) + 1, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))
        self.head = nn.Linear(width, 1)

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        raw = batch["raw"]
        standard = torch.cat(
            [(raw - self.mean) / self.deviation, self.batch_norm(raw), batch["flag"][:, None].float()], 1
        )
        hidden = self.inputs(standard) + self.kinds(batch["kind"]) + self.straight(raw[:, -1:])
        rotation = self.cosine[batch["position"]], self.sine[batch["position"]]
        for block in self.blocks:
            hidden = block(hidden, raw, rotation)
        with torch.autocast(raw.device.type, enabled=False):
            return self.head(hidden.float()).squeeze(1)


class Scales(Task):
    def shards(self, data: str) -> Any: ...

    def rows(self, shard: Any, statistics: Any) -> Any: ...

    def model(self, data: Any) -> nn.Module:
        return Model()

    def loss(self, model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
        return nn.functional.binary_cross_entropy_with_logits(model(batch), batch["label"])


class Full(Scales):
    """Runs out of memory in its first forward pass."""

    def loss(self, model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.")


class Reader(Scales):
    """Reads the value of an output, so the model runs for real to find its sensitive layers."""

    def loss(self, model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
        loss = super().loss(model, batch)
        return loss if loss.detach() < torch.inf else loss * 2


def batch(step: int, microbatch: int) -> dict[str, Tensor]:
    """Every column, the kind and the flag have equal weight in the label."""
    random = torch.Generator().manual_seed(1_000 * step + microbatch)
    rows = PLAN.global_batch_size // PLAN.microbatches
    standard = torch.randn(rows, len(DEVIATIONS), generator=random)
    kind, flag = (torch.randint(n, (rows,), generator=random) for n in (3, 2))
    label = (standard.sum(1) / math.sqrt(len(DEVIATIONS)) + kind - 1 + flag - 0.5 > 0).float()
    return {
        "raw": (standard + 1_000) * torch.tensor(DEVIATIONS), "kind": kind, "flag": flag.bool(), "label": label,
        "position": torch.randint(4_096, (rows,), generator=random),
    }  # fmt: skip


def curves(argument: dict[str, Any], rank: Any) -> dict[str, list[float]]:
    """Every step's loss, for each configuration; the same on every rank."""
    found = {"plain": plain()}
    for name, changes in argument.items():
        task = globals()[changes.get("task", "Scales")]()
        config = TrainConfig(epochs=1, learning_rate=0.01, **changes)
        assigned = assignment(PLAN.microbatches, rank.world_size, rank.rank)
        learner = Learner(task, None, config, PLAN, rank, assigned, batch(0, 0))
        learner.warm_up(batch(0, assigned.start))
        batches = (batch(step, number) for step in range(PLAN.steps) for number in assigned)
        losses = torch.stack([sum(learner.step(step, batches)) for step in range(PLAN.steps)]) / len(assigned)
        torch.distributed.all_reduce(losses)
        found[name] = (losses / rank.world_size).tolist()
    return found


def plain() -> list[float]:
    """The same without this product: one process, float32."""
    task, losses = Scales(), []
    config = TrainConfig(learning_rate=0.01)
    seed_everything(seed_of(PLAN.seed, "model"))
    model = task.model(None)
    schedule = Schedule(config, PLAN.steps, task)
    optimizer = task.optimizer(model, 0.01, config.weight_decay)
    for step in range(PLAN.steps):
        for group in optimizer.param_groups:
            group["lr"] = 0.01 * schedule.factor(step)
        parts = [task.loss(model, batch(step, number)) / PLAN.microbatches for number in range(PLAN.microbatches)]
        sum(parts).backward()
        nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(sum(parts).item())
    return losses
