"""What is measured on a fixed set of held-out batches, assigned to the ranks: the loss, and the task's own metrics."""

import math
import time
from collections.abc import Mapping
from functools import partial
from typing import TypeAlias

import torch
from torch import Tensor, nn

from vgp.base.exits import UserError
from vgp.data.rows import open_rows
from vgp.data.task import Task
from vgp.protocol.manifest import Manifest
from vgp.train.loop import selection
from vgp.train.loop.batches import held_out, tensors
from vgp.train.loop.learner import Learner
from vgp.train.loop.training_request import TrainingRequest
from vgp.train.loop.weighting import gather, parts
from vgp.train.processes.rank import Rank

_BATCHES = 64
#: A sum over the rows of a batch, and what it is divided by.
Sum: TypeAlias = tuple[Tensor | float, Tensor | float]


class Validation:
    """This rank's every n-th batch of the set; empty if the data has no validation split."""

    def __init__(self, request: TrainingRequest, data: Manifest, rank: Rank, task: Task):
        """Ranks that share one model (FSDP2), or whose loss calls a collective, can only compute together, and on as
        many rows: one with fewer batches than rank 0 gets a filler, whose figures do not count, and a last batch that
        is shorter is computed by all of them."""
        plan, self.rank, self.config = request.plan, rank, request.config
        self.plan = plan
        self.validated_at = time.monotonic()
        #: What is measured besides the loss. The accuracy needs a forward pass of its own, so only where it decides.
        self.metrics: tuple[str, ...] = ()
        if selection.measures_itself(task):
            self.metrics = tuple(task.metrics)
        elif request.config.best_metric == selection.ACCURACY:
            self.metrics = (selection.ACCURACY,)
        self.sizes: list[int] = []
        self.batches: list[dict[str, Tensor]] = []
        if not data.rows("validation"):
            return
        rows = open_rows(request.data, "validation")
        chosen = held_out(rows, max(1, plan.global_batch_size // plan.microbatches), _BATCHES)
        self.sizes = [len(index) for index in chosen]
        world, whole = rank.world_size, sum(size == self.sizes[0] for size in self.sizes)
        turns = -(-whole // world)
        #: The rank and the turn that each batch's figures are taken of, and the batch of each of this rank's turns.
        self.places = [(n % world, n // world) if n < whole else (0, turns) for n in range(len(chosen))]
        own = [turn * world + rank.rank for turn in range(turns)]
        self.numbers = [n if n < whole else 0 for n in own] + list(range(whole, len(chosen)))
        #: In host memory: `Learner.measured` brings one after the other to the device.
        self.batches = [tensors(rows.take(chosen[n]), torch.device("cpu")) for n in self.numbers]

    @property
    def is_due(self) -> bool:
        """By this rank's clock."""
        every_s = self.config.validate_every_s
        return bool(every_s and self.sizes) and time.monotonic() - self.validated_at >= every_s

    def follows(self, step: int, *, wanted: bool) -> bool:
        """Whether the model is validated after `step` steps; on every rank the same.

        Args:
            wanted: Whether rank 0's clock wants it.
        """
        every, by_clock = self.config.validate_every_steps, self.config.validate_every_s
        regular = step % every == 0 if every else not by_clock and self.plan.ends_epoch(step - 1)
        return bool(self.sizes) and (wanted or regular or step == self.plan.steps)

    def measure(self, learner: Learner) -> dict[str, float]:
        """Loss and metrics over all rows of the set, the same on every rank, in the same order for every world size.

        Each is a sum over the batches, divided by the sum of what they weigh: of the loss their rows, or what the
        task divides it by.
        """
        figures = learner.measured(self.batches, partial(self.figures, learner.task), self.numbers)
        own = [v for n, each in zip(self.numbers, figures, strict=True) for v in self._flat(*each, self.sizes[n])]
        names = (selection.LOSS, *self.metrics)
        width = 2 * len(names)
        everyone = gather(own, len(own))
        each = [everyone[rank].view(-1, width)[turn].tolist() for rank, turn in self.places]
        sums = {name: _ratio([f[2 * n] for f in each], [f[2 * n + 1] for f in each]) for n, name in enumerate(names)}
        self.validated_at = time.monotonic()
        return sums

    def rehearse(self, learner: Learner) -> None:
        """Measures one batch if the task does so itself: what is wrong with that shows before the first step."""
        if selection.measures_itself(learner.task) and self.batches:
            for figures in learner.measured(self.batches[:1], partial(self.figures, learner.task), self.numbers):
                self._flat(*figures, self.sizes[self.numbers[0]])

    def figures(self, task: Task, model: nn.Module, batch: dict[str, Tensor]) -> tuple[object, Mapping[str, Sum]]:
        """The loss of a batch, and the sum and the weight of each metric."""
        loss = task.loss(model, batch)
        if selection.measures_itself(task):
            return loss, task.validation(model, batch)
        if not self.metrics:
            return loss, {}
        right = task.predict(model, batch).argmax(dim=1) == batch[task.label]
        return loss, {selection.ACCURACY: (right.sum(), len(right))}

    def _flat(self, loss: object, measured: Mapping[str, Sum], rows: int) -> list[float]:
        """Sum and weight of the loss and of each metric. Raises UserError if the task gave something else."""
        if not isinstance(measured, Mapping) or set(measured) != set(self.metrics):
            raise UserError(
                f"the task's validation gave {_short(measured)}; it must give what `metrics` "
                f"names: {', '.join(self.metrics)}."
            )
        value, divisor = parts(loss)
        figures = [value.item() * rows, float(rows)] if divisor is None else [value.item(), float(divisor)]
        for name in self.metrics:
            try:
                total, weight = measured[name]
                figures += [float(total), float(weight)]
            except (TypeError, ValueError, RuntimeError):
                raise UserError(
                    f"the task's validation gave {name} = {_short(measured[name])}; it must be two "
                    "numbers: the sum over the rows of the batch, and what it is divided by, such as their number."
                ) from None
        return figures


def _ratio(sums: list[float], weights: list[float] | list[int]) -> float:
    """nan where there is nothing to divide by, or a sum is not finite."""
    try:
        return math.fsum(sums) / math.fsum(weights)
    except (ZeroDivisionError, ValueError, OverflowError):  # fsum of infinities of both signs, or beyond a float
        return math.nan


def _short(value: object) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, Mapping) else " ".join(str(value).split())
    return text[:80] or "nothing"
