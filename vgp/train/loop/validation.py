"""Measures the loss and the task's metrics on a fixed set of held-out batches, assigned to the ranks."""

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
from vgp.train.loop import validation_metric
from vgp.train.loop.batches import held_out, tensors
from vgp.train.loop.learner import Learner
from vgp.train.loop.training_request import TrainingRequest
from vgp.train.loop.weighting import gather, split_loss
from vgp.train.processes.rank import Rank

_BATCHES = 64
#: A sum over the rows of a batch, and its divisor.
Sum: TypeAlias = tuple[Tensor | float, Tensor | float]


class Validation:
    """The validation of a run: this rank has every n-th batch, none if the data has no validation split.

    Under FSDP2, or with collectives in the loss, ranks must compute together and on equal numbers of rows. A rank with
    fewer batches than rank 0 gets a filler, whose figures are ignored, and all ranks compute a shorter last batch.
    """

    def __init__(self, request: TrainingRequest, data: Manifest, rank: Rank, task: Task):
        plan, self.rank, self.config = request.plan, rank, request.config
        self.plan = plan
        self.validated_at = time.monotonic()
        #: The metrics besides the loss; accuracy, which needs another forward pass, only if it is `best_metric`.
        self.metrics: tuple[str, ...] = ()
        if validation_metric.measures_itself(task):
            self.metrics = tuple(task.metrics)
        elif request.config.best_metric == validation_metric.ACCURACY:
            self.metrics = (validation_metric.ACCURACY,)
        self.sizes: list[int] = []
        self.batches: list[dict[str, Tensor]] = []
        if not data.rows("validation"):
            return
        rows = open_rows(request.data, "validation")
        indices = held_out(rows, max(1, plan.global_batch_size // plan.microbatches), _BATCHES)
        self.sizes = [len(index) for index in indices]
        world, whole = rank.world_size, sum(size == self.sizes[0] for size in self.sizes)
        turns = -(-whole // world)
        #: The rank and turn whose figures count for each batch.
        self.places = [(n % world, n // world) if n < whole else (0, turns) for n in range(len(indices))]
        own = [turn * world + rank.rank for turn in range(turns)]
        #: The batch of each of this rank's turns.
        self.numbers = [n if n < whole else 0 for n in own] + list(range(whole, len(indices)))
        #: In host memory; `Learner.measured` moves one at a time to the device.
        self.batches = [tensors(rows.take(indices[n]), torch.device("cpu")) for n in self.numbers]

    @property
    def is_due(self) -> bool:
        """Whether a validation is due by this rank's clock."""
        every_s = self.config.validate_every_s
        return bool(every_s and self.sizes) and time.monotonic() - self.validated_at >= every_s

    def is_validated_after(self, step: int, *, wanted: bool) -> bool:
        """Returns whether to validate after `step` steps; equal on every rank.

        Args:
            wanted: Whether rank 0's clock wants a validation.
        """
        every, by_clock = self.config.validate_every_steps, self.config.validate_every_s
        regular = step % every == 0 if every else not by_clock and self.plan.ends_epoch(step - 1)
        return bool(self.sizes) and (wanted or regular or step == self.plan.steps)

    def measure(self, learner: Learner) -> dict[str, float]:
        """Returns the loss and metrics over all rows of the set, equal on every rank and for every world size.

        Each is a sum over the batches divided by the sum of their weights: for the loss, the rows or the task's own
        weights.
        """
        figures = learner.measured(self.batches, partial(self.figures, learner.task), self.numbers)
        own = [v for n, batch in zip(self.numbers, figures, strict=True) for v in self._flat(*batch, self.sizes[n])]
        names = (validation_metric.LOSS, *self.metrics)
        width = 2 * len(names)
        everyone = gather(own, len(own))
        sums = [everyone[rank].view(-1, width)[turn].tolist() for rank, turn in self.places]
        means = {name: _ratio([s[2 * n] for s in sums], [s[2 * n + 1] for s in sums]) for n, name in enumerate(names)}
        self.validated_at = time.monotonic()
        return means

    def rehearse(self, learner: Learner) -> None:
        """Measures one batch with the task's own metrics, so that errors in them show before the first step."""
        if validation_metric.measures_itself(learner.task) and self.batches:
            for figures in learner.measured(self.batches[:1], partial(self.figures, learner.task), self.numbers):
                self._flat(*figures, self.sizes[self.numbers[0]])

    def figures(self, task: Task, model: nn.Module, batch: dict[str, Tensor]) -> tuple[object, Mapping[str, Sum]]:
        """Returns the loss of a batch, and the sum and the weight of each metric."""
        loss = task.loss(model, batch)
        if validation_metric.measures_itself(task):
            return loss, task.validation(model, batch)
        if not self.metrics:
            return loss, {}
        right = task.predict(model, batch).argmax(dim=1) == batch[task.label]
        return loss, {validation_metric.ACCURACY: (right.sum(), len(right))}

    def _flat(self, loss: object, values: Mapping[str, Sum], rows: int) -> list[float]:
        """Returns sum and weight of the loss and of each metric. Raises UserError if the task returned other values."""
        if not isinstance(values, Mapping) or set(values) != set(self.metrics):
            raise UserError(
                f"the task's validation returned {_shorten(values)}; it must return the names in `metrics`: "
                f"{', '.join(self.metrics)}."
            )
        value, divisor = split_loss(loss)
        figures = [value.item() * rows, float(rows)] if divisor is None else [value.item(), float(divisor)]
        for name in self.metrics:
            try:
                total, weight = values[name]
                figures += [float(total), float(weight)]
            except (TypeError, ValueError, RuntimeError):
                raise UserError(
                    f"the task's validation returned {name} = {_shorten(values[name])}; it must be two numbers: the "
                    "sum over the rows of the batch and its divisor, such as the number of rows."
                ) from None
        return figures


def _ratio(sums: list[float], weights: list[float] | list[int]) -> float:
    """Returns the sum of `sums` over the sum of `weights`; nan if either is not finite or the weights are 0."""
    try:
        return math.fsum(sums) / math.fsum(weights)
    except (ZeroDivisionError, ValueError, OverflowError):  # fsum of infinities of both signs, or beyond a float
        return math.nan


def _shorten(value: object) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, Mapping) else " ".join(str(value).split())
    return text[:80] or "nothing"
