"""Small models that use their parts as they like, trained in every way by one set of processes."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from vgp.base.exits import UserError
from vgp.data.task import Task
from vgp.train.loop.health import Health
from vgp.train.loop.learner import Learner
from vgp.train.loop.sample_order import Plan, assignment
from vgp.train.loop.weighting import gather
from vgp.train.processes.rank import Rank
from vgp.train.train_config import TrainConfig

PLAN = Plan(samples=320, epochs=1, global_batch_size=32, microbatches=4, seed=0)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inputs = nn.Linear(4, 8)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(3))
        self.head, self.spare = nn.Linear(8, 1), nn.Linear(8, 1)

    def encode(self, values: Tensor, blocks: Any) -> Tensor:
        hidden = self.inputs(values)
        for number in blocks:
            hidden = hidden + self.blocks[number](hidden)
        return hidden

    def forward(self, values: Tensor, blocks: Any = (0, 1, 2), spare: bool = True) -> Tensor:
        hidden = self.encode(values, blocks)
        return self.head(hidden) + (self.spare(hidden) if spare else 0)


class Branching(Task):
    """Goes a way that is named: another one after the third pass, or on rank 1, or on each rank."""

    def __init__(self, way: str, rank: int):
        super().__init__()
        self.way, self.odd, self.passes = way, rank == 1, 0

    def shards(self, data: str) -> Any: ...

    def rows(self, shard: Any, statistics: Any) -> Any: ...

    def model(self, data: Any) -> nn.Module:
        self.kept = Model()
        return self.kept.eval()  # as a pretrained model comes

    def loss(self, model: Any, batch: dict[str, Tensor]) -> Tensor:
        self.passes += 1
        later = self.passes > 3
        values, way = batch["values"], self.way
        if way == "method":
            predicted = model.head(model.encode(values, (0, 1, 2))) + model.spare(
                model.blocks[1](model.encode(values, ()))
            )
        elif way == "kept":
            predicted = self.kept(values)
        elif way == "constant" and later:
            return torch.zeros(())
        elif way == "too large" and later:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a long message.")
        else:
            blocks = {"other block": (0, 1), "other order": (2, 1, 0)}.get(way) if self.odd else None
            blocks = None if way == "other order" and not later else blocks
            spare = not (way == "unused" or (way == "later unused" and later))
            spare = bool(torch.rand(()) < 0.5) if way == "random" else spare
            predicted = model(values, blocks or (0, 1, 2), spare)
        return nn.functional.mse_loss(predicted.squeeze(1), values.sin().sum(1))

    def optimizer(self, model: Any, learning_rate: float, weight_decay: float) -> Any:
        optimizer = super().optimizer(model, learning_rate, weight_decay)
        if self.way in ("noise", "noise of its own"):
            generator = torch.Generator().manual_seed(int(self.odd)) if self.way == "noise of its own" else None
            optimizer.register_step_post_hook(lambda *_: _add_noise(model, generator))
        return optimizer


def _add_noise(model: nn.Module, generator: Any) -> None:
    for parameter in model.parameters():
        parameter.data += 0.01 * torch.randn(parameter.shape, generator=generator)


def batch(step: int, microbatch: int) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(1_000 * step + microbatch)
    return {"values": torch.randn(8, 4, generator=random)}


def trials(argument: list[dict[str, Any]], rank: Any) -> list[list[Any]]:
    """Returns the result of every rank for each trial: losses and its part of the spare weights' norm, or its error.

    `alone` is without the other ranks.
    """
    alone = Rank(0, 1, 0, 1, rank.device)
    found = [attempt(trial, alone if trial.get("alone") else rank) for trial in argument]
    return [list(ranks) for ranks in zip(*rank.exchange(found, within_s=60), strict=True)]


def attempt(trial: dict[str, Any], rank: Any) -> Any:
    task = Branching(trial["way"], rank.rank)
    settings = {name: value for name, value in trial.items() if name not in ("way", "alone")}
    config = TrainConfig(epochs=1, learning_rate=0.01, hang_after_s=20, **settings)
    assigned = assignment(PLAN.microbatches, rank.world_size, rank.rank)
    try:
        learner = Learner(task, None, config, PLAN, rank, assigned, batch(0, 0))  # type: ignore[arg-type]
        assert learner.module.training
        learner.out_of_memory = lambda step: f"written of step {step}"
        learner.warm_up(batch(0, assigned.start))
        batches = (batch(step, number) for step in range(PLAN.steps) for number in assigned)
        losses = [sum(loss.item() for loss in learner.step(step, batches)) for step in range(PLAN.steps)]
        spare: Any = learner.module.spare.weight.detach()
        spare = spare.full_tensor() if isinstance(spare, DTensor) else spare
        losses.append(float(spare.norm()) / rank.world_size)
        health = Health(learner, _Nowhere(), PLAN, None, config, rank)  # type: ignore[arg-type]
        if rank.world_size == 1:
            return losses
        health.require_same_model(PLAN.steps)
        shared = gather([float(learner.norm.total), float(learner.gradients.calls)], 2)
        health.require_same_step(PLAN.steps - 1, *shared.T)
    except UserError as error:
        return str(error)
    return losses


class _Nowhere:
    """Saves nothing."""

    patience_s, store = 20.0, ""

    def newest(self) -> int:
        return 0
