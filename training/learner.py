"""The model, its optimizer and how gradients cross processes: one optimizer step, and the state to save.

The arithmetic of a step depends on its number alone (`training.order`), never on what ran before in the process.
"""

import contextlib
import os
import random
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from training.buffers import MovingBuffers
from training.checkpoint import state
from training.config import TrainConfig
from training.data.manifest import Manifest
from training.order import Plan, learning_rate_factor, seed_of
from training.rank import Rank
from training.task import Task

Batch = dict[str, Tensor]


class Learner:
    """A task's model in training on one rank."""

    def __init__(self, task: Task, data: Manifest, config: TrainConfig, plan: Plan, rank: Rank, dealt: range):
        self.task, self.config, self.plan, self.rank, self.dealt = task, config, plan, rank, dealt
        make_deterministic(config.deterministic)
        seed_everything(seed_of(config.seed, "model"))
        self.module: nn.Module = task.model(data).to(rank.device)
        self.model = self._wrapped()
        self.optimizer = task.optimizer(self.module, config.learning_rate, config.weight_decay)
        self.peaks = [float(group["lr"]) for group in self.optimizer.param_groups]
        self.parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        self.generator = torch.Generator(rank.device)
        self.augments = type(task).augment is not Task.augment
        # DDP averages over the ranks; the step wants the sum of the microbatches' weighted means.
        self.weights = [plan.share(number) * rank.world_size for number in dealt]
        self.autocast = bf16(config.precision, rank.device)

    def _wrapped(self) -> nn.Module:
        if self.config.compile:
            self.module.compile()
        if self.rank.world_size == 1 or not any(p.requires_grad for p in self.module.parameters()):
            return self.module
        return DistributedDataParallel(
            self.module, device_ids=[self.rank.device] if self.rank.device.type == "cuda" else None,
            gradient_as_bucket_view=True, forward_sync_buffers=False,
        )  # fmt: skip

    def warm_up(self, batch: Batch) -> None:
        """One forward and backward that change nothing, and show which buffers a forward changes.

        DDP orders its gradient buckets by the first backward and uses that order from the second on: without
        this, the first step after a resume would add in another order than it did the first time.
        """
        before = {name: buffer.clone() for name, buffer in self.module.named_buffers()}
        self._backward(0, self.dealt.start, batch, 1.0)
        self.optimizer.zero_grad()
        self.buffers = MovingBuffers(self.module, before)

    def step(self, step: int, batches: Iterator[Batch]) -> list[Tensor]:
        """One optimizer step; the mean loss of each of this rank's microbatches, float32 scalars."""
        losses = []
        self.buffers.begin_step()
        for number, weight in zip(self.dealt, self.weights, strict=True):
            self.buffers.begin_microbatch()
            with self._joint(number == self.dealt.stop - 1):
                losses.append(self._backward(step, number, next(batches), weight))
            self.buffers.end_microbatch(self.plan.share(number))
        self.buffers.end_step()
        if self.config.clip_norm:
            nn.utils.clip_grad_norm_(self.parameters, self.config.clip_norm)
        factor = learning_rate_factor(step, self.plan.steps, self.config.warmup_fraction)
        for group, peak in zip(self.optimizer.param_groups, self.peaks, strict=True):
            group["lr"] = peak * factor
        self.optimizer.step()
        self.optimizer.zero_grad()
        return losses

    def _joint(self, last: bool) -> contextlib.AbstractContextManager[None]:
        """Gradients cross processes once a step, with the last microbatch."""
        if last or self.model is self.module:
            return contextlib.nullcontext()
        assert isinstance(self.model, DistributedDataParallel)
        return self.model.no_sync()

    def _backward(self, step: int, microbatch: int, batch: Batch, weight: float) -> Tensor:
        seed_step(self.config.seed, step, microbatch, self.rank.device)
        if self.augments:
            self.generator.manual_seed(seed_of(self.config.seed, "augment", step, microbatch))
            batch = self.task.augment(batch, self.generator)
        with self.autocast:
            loss = self.task.loss(self.model, batch)
        (loss if weight == 1.0 else loss * weight).backward()
        return loss.detach()

    def losses(self, batches: list[Batch]) -> list[Tensor]:
        """Mean losses in evaluation mode, without gradients."""
        self.module.eval()
        with torch.no_grad(), self.autocast:
            found = [self.task.loss(self.module, batch).detach() for batch in batches]
        self.module.train()
        return found

    def tensors(self) -> dict[str, Tensor]:
        return state.tensors_of(self.module, self.optimizer)

    def scalars(self) -> dict[str, Any]:
        return state.scalars_of(self.module, self.optimizer)

    def restore(self, tensors: Mapping[str, Tensor], scalars: Mapping[str, Any]) -> None:
        state.restore(self.module, self.optimizer, tensors, scalars)


def make_deterministic(wanted: bool) -> None:
    """Same inputs, same bits: https://docs.pytorch.org/docs/stable/notes/randomness.html"""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(wanted)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # a debugging aid that costs a pass over memory
    torch.backends.cudnn.benchmark = not wanted


def seed_everything(seed: int) -> None:
    """For code that runs once, such as the making of a model."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def seed_step(seed: int, step: int, microbatch: int, device: torch.device) -> None:
    """Dropout of a microbatch depends on its place alone. `torch.manual_seed` would cost 340 us more."""
    number = seed_of(seed, step, microbatch)
    torch.default_generator.manual_seed(number)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index].manual_seed(number)


def bf16(precision: str, device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Autocast to bfloat16 if asked for, or if the GPU computes in it."""
    if precision == "auto":
        precision = "bf16" if device.type == "cuda" and torch.cuda.is_bf16_supported(False) else "fp32"
    return torch.autocast(device.type, torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()


def gather(values: list[float], length: int) -> Tensor:
    """Every rank's `values`, padded to `length`: float64 (world_size, length) on the CPU, over gloo."""
    own = torch.zeros(length, dtype=torch.float64)
    own[: len(values)] = torch.tensor(values, dtype=torch.float64)
    everyone = torch.empty(dist.get_world_size() * length, dtype=torch.float64)
    dist.all_gather_single(everyone, own)
    return everyone.view(-1, length)
