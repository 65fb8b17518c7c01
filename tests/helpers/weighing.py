"""A per-token loss in every way that microbatches and processes can share it."""

import os
from typing import Any

import torch
import torch.distributed as dist
from digits import Digits
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from vgp.base.exits import UserError
from vgp.data.task import Task, WeightedLoss
from vgp.train.loop.learner import Learner
from vgp.train.loop.sample_order import Plan, assignment
from vgp.train.train_config import TrainConfig

ROWS, STEPS = 32, 3


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(5, 5), nn.Tanh()) for _ in range(2))
        self.head = nn.Linear(5, 7)

    def forward(self, hidden: Tensor) -> Tensor:
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(hidden)


class Tokens(Task):
    """Rows of one to six tokens."""

    def __init__(self, way: str, rank: int) -> None:
        super().__init__()
        self.way, self.odd, self.passes = way, rank == 1, 0

    def shards(self, data: str) -> Any: ...

    def rows(self, shard: Any, statistics: Any) -> Any: ...

    def model(self, data: Any) -> nn.Module:
        return Model()

    def loss(self, model: Any, batch: dict[str, Tensor]) -> Any:
        self.passes += 1
        logits = model(batch["values"]).flatten(0, 1)
        losses = nn.functional.cross_entropy(logits, batch["targets"].flatten(), ignore_index=-1, reduction="sum")
        weight = (batch["targets"] >= 0).sum()
        if self.way == "tuple":
            return losses, weight
        if self.way == "rows":
            return losses.new_ones(3) * losses
        if (self.way == "kinds" and self.passes > 2) or (self.way == "odd" and self.odd):
            return losses / weight
        return WeightedLoss(losses, weight * 0 if self.way == "nothing" else weight.item())

    def optimizer(self, model: Any, learning_rate: float, weight_decay: float) -> Any:
        return torch.optim.SGD(model.parameters(), lr=0.5)


def rows(step: int, first: int, last: int) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(step)
    values, targets = torch.randn(ROWS, 6, 5, generator=random), torch.randint(0, 7, (ROWS, 6), generator=random)
    counts = torch.randint(1, 4, (ROWS, 1), generator=random) * (1 + (torch.arange(ROWS) >= 24).long())[:, None]
    return {"values": values[first:last], "targets": targets.masked_fill(torch.arange(6) >= counts, -1)[first:last]}


def curves(argument: list[dict[str, Any]], rank: Any) -> list[list[Any]]:
    """Of each trial what every rank has: the losses of the steps and the weights, or its error."""
    found = [attempt(trial, rank) for trial in argument]
    return [list(ranks) for ranks in zip(*rank.exchange(found, within_s=60), strict=True)]


def attempt(trial: dict[str, Any], rank: Any) -> Any:
    plan = Plan(samples=ROWS * STEPS, epochs=1, global_batch_size=ROWS, microbatches=trial["microbatches"], seed=0)
    settings = {name: value for name, value in trial.items() if name not in ("way", "microbatches")}
    config = TrainConfig(
        epochs=1,
        clip_norm=0,
        schedule="constant",
        warmup_fraction=0,
        hang_after_s=20,
        **{"precision": "fp32", **settings},
    )
    assigned = assignment(plan.microbatches, rank.world_size, rank.rank)
    if not assigned:
        return None
    task = Tokens(trial.get("way", ""), rank.rank)
    try:
        learner = Learner(task, None, config, plan, rank, assigned, rows(0, 0, ROWS))  # type: ignore[arg-type]
        learner.warm_up(rows(0, *plan.span(assigned.start)))
        steps = [learner.step(step, (rows(step, *plan.span(n)) for n in assigned)) for step in range(STEPS)]
    except UserError as error:
        return str(error)
    sums = torch.stack([torch.stack(each).sum(0) for each in steps])
    dist.all_reduce(sums)
    tensors = learner.module.state_dict().values()
    weights = [(t.full_tensor() if isinstance(t, DTensor) else t).flatten() for t in tensors]
    return {"losses": (sums[:, 0] / sums[:, 1]).tolist(), "weights": torch.cat(weights).tolist()}


def plain() -> dict[str, list[float]]:
    """The same by hand, with the whole batch at once."""
    from vgp.train.loop import model_building
    from vgp.train.loop.sample_order import seed_of

    model_building.seed_everything(seed_of(0, "model"))
    model, losses = Model(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(STEPS):
        batch = rows(step, 0, ROWS)
        logits = model(batch["values"]).flatten(0, 1)
        loss = nn.functional.cross_entropy(logits, batch["targets"].flatten(), ignore_index=-1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    weights = torch.cat([tensor.flatten() for tensor in model.state_dict().values()])
    return {"losses": losses, "weights": weights.tolist()}


class Contrasting(Digits):
    """Compares the rows of all processes, as CLIP does."""

    def loss(self, model: Any, batch: dict[str, Tensor]) -> Any:
        logits = model(batch["pixels"])
        with torch.no_grad():
            everyone = [torch.zeros_like(logits) for _ in range(int(os.environ["WORLD_SIZE"]))]
            dist.all_gather(everyone, logits)
        loss = nn.functional.cross_entropy(logits, batch["label"], reduction="sum")
        return WeightedLoss(loss + 0 * sum(everyone).sum(), len(logits))
