"""Small models that keep figures in buffers, trained in every way by one set of processes."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from vgp.base.exits import UserError
from vgp.data.task import Task
from vgp.train.loop.health import Health
from vgp.train.loop.learner import Learner
from vgp.train.loop.sample_order import Plan, assignment
from vgp.train.processes.rank import Rank
from vgp.train.train_config import TrainConfig

PLAN = Plan(samples=320, epochs=1, global_batch_size=32, microbatches=4, seed=0)


class Model(nn.Module):
    """Counts labels in whole numbers and in floats; in place, by another tensor, and by `data`."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        self.norm, self.layer = nn.BatchNorm1d(4), nn.Linear(4, 3)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(2))
        self.register_buffer("constant", torch.tensor([torch.nan, 1.0]))
        if way == "plain":
            return
        self.register_buffer("counts", torch.zeros(3, dtype=torch.int64))
        self.register_buffer("total", torch.zeros(()))
        self.register_buffer("average", torch.zeros(4))
        self.register_buffer("latest", torch.zeros(4))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("seen", torch.zeros(3, dtype=torch.bool), persistent=way != "unsaved")
        self.register_buffer("late_counts", torch.zeros(3, dtype=torch.int32))
        self.register_buffer("is_set", torch.zeros((), dtype=torch.uint8))
        self.register_buffer("scale", torch.ones(4))
        self.register_buffer("cache", torch.zeros(0), persistent=False)

    def forward(self, values: Tensor, labels: Tensor) -> Tensor:
        if self.way != "plain" and (self.training or self.way == "always"):
            self.look(values, labels)
        hidden = self.norm(values)
        for block in self.blocks:
            hidden = hidden + block(hidden)
        return self.layer(hidden)

    @torch.no_grad()
    def look(self, values: Tensor, labels: Tensor) -> None:
        counts = labels.bincount(minlength=3)
        self.counts += counts
        self.total = self.total + len(labels)
        self.average.lerp_(values.mean(0), 0.1)
        self.latest.copy_(values[-1])
        self.steps.data.add_(1)
        self.seen |= counts > 0
        if len(self.cache) < self.steps and not self.steps % 4:  # a table that grows with what it is asked for
            self.cache = torch.arange(float(self.steps) + int(counts[0]))
        if self.steps > 5:
            self.late_counts.add_(counts)
        if self.steps == 6 and not self.is_set:  # as an ActNorm that starts late
            self.scale.copy_(1 / values.std(0))
            self.is_set.data.fill_(1)


class Counting(Task):
    def __init__(self, way: str, rules: dict[str, Any]):
        self.buffers = rules  # type: ignore[misc]
        super().__init__()
        self.way = way

    def shards(self, data: str) -> Any: ...

    def rows(self, shard: Any, statistics: Any) -> Any: ...

    def model(self, data: Any) -> nn.Module:
        return Model(self.way)

    def loss(self, model: Any, batch: dict[str, Tensor]) -> Tensor:
        if self.way == "starts":
            model.layer.bias.data.copy_(batch["values"][0, :3])
        return nn.functional.cross_entropy(model(batch["values"], batch["labels"]), batch["labels"])


def batch(step: int, microbatch: int) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(1_000 * step + microbatch)
    values = torch.randn(8, 4, generator=random)
    return {"values": values, "labels": values[:, :3].argmax(1)}


def labels() -> list[list[int]]:
    """How often each label occurs, by step."""
    steps = range(PLAN.steps)
    batches = [torch.cat([batch(step, number)["labels"] for number in range(4)]) for step in steps]
    return [each.bincount(minlength=3).tolist() for each in batches]


def trials(argument: list[dict[str, Any]], rank: Any) -> dict[str, Any]:
    """The labels, and of each trial what every rank has: the buffers and weights of its model, or its error."""
    found = [attempt(trial, rank) for trial in argument]
    everyone = zip(*rank.exchange(found, within_s=60), strict=True)
    return {"labels": labels(), "trials": [list(ranks) for ranks in everyone]}


def attempt(trial: dict[str, Any], rank: Rank) -> Any:
    settings = {name: value for name, value in trial.items() if name not in ("way", "rules", "resumed")}
    config = TrainConfig(epochs=1, learning_rate=0.01, hang_after_s=20, precision="fp32", **settings)
    task = Counting(trial.get("way", ""), trial["rules"])
    assigned = assignment(PLAN.microbatches, rank.world_size, rank.rank)
    try:
        learner = Learner(task, None, config, PLAN, rank, assigned, batch(0, 0))  # type: ignore[arg-type]
        learner.warm_up(batch(0, assigned.start))
        for step in range(PLAN.steps):
            learner.step(step, (batch(step, number) for number in assigned))
            if step == 6 and trial.get("resumed"):  # between late changes, by another learner
                before, learner = learner, Learner(task, None, config, PLAN, rank, assigned, batch(0, 0))  # type: ignore[arg-type]
                learner.warm_up(batch(0, assigned.start))
                learner.module.load_state_dict(before.module.state_dict())
                learner.optimizer.load_state_dict(before.optimizer.state_dict())
            if step == 3:
                learner.measured([batch(99, rank.rank)], lambda model, rows: task.loss(model, rows), [0])
        if trial.get("way") == "apart" and rank.rank:
            learner.module.counts += 1  # type: ignore[operator]
        Health(learner, _Nowhere(), PLAN, None, config, rank).require_same_model(PLAN.steps)  # type: ignore[arg-type]
    except UserError as error:
        return str(error)
    state = learner.module.state_dict()
    whole = {n: (t.full_tensor() if isinstance(t, DTensor) else t).tolist() for n, t in state.items()}
    return {name: value for name, value in whole.items() if name != "constant"} | {"warned": learner.buffers.warnings}


class _Nowhere:
    """Saves nothing."""

    patience_s, store = 20.0, ""

    def newest(self) -> int:
        return 0
