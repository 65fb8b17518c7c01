"""The model, its optimizer and the exchange of gradients: one optimizer step, and the state to save.

The arithmetic of a step depends on its number alone (`vgp.train.loop.sample_order`), not on earlier steps.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TypeVar

import torch
import torch._dynamo  # the first optimizer imports it (torch/_compile.py); imported here once, before the fork
from torch import Tensor, nn

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import UserError
from vgp.base.text.printable import join_names
from vgp.data.task import Task
from vgp.protocol.manifest import Manifest
from vgp.train.checkpoint import training_state
from vgp.train.checkpoint.checkpoint_reader import CheckpointReader
from vgp.train.loop import (
    arithmetic,
    finite_checks,
    gradients,
    model_building,
    optimizers,
    precision,
    profiling,
    rounding,
)
from vgp.train.loop.attributes import describe_change, keep_attributes
from vgp.train.loop.block_usage import NoCollectives
from vgp.train.loop.buffers import MovingBuffers, find_changed, keep_buffers
from vgp.train.loop.dry_run import run_without_graph
from vgp.train.loop.finite_checks import GradientNorm, Scaler
from vgp.train.loop.gradients import Loss
from vgp.train.loop.progress_line import Stopwatch
from vgp.train.loop.sample_order import Plan, Schedule, seed_of
from vgp.train.loop.sharding import Gradients, Sharded
from vgp.train.loop.trainer_state import TrainerState
from vgp.train.loop.weighting import RingSum, TreeSum, Weighting, split_loss
from vgp.train.processes.rank import Rank
from vgp.train.train_config import TrainConfig

Batch = dict[str, Tensor]
Figures = TypeVar("Figures")


class Learner:
    """A task's model in training on one rank."""

    def __init__(
        self, task: Task, data: Manifest, config: TrainConfig, plan: Plan, rank: Rank, assigned: range, rows: Batch,
        begun: JsonObject | None = None, operation: str = "",
    ):  # fmt: skip
        """
        Args:
            rows: Some rows of the data, equal on every rank.
            begun: The values of `AUTO_FIELDS` that the resumed run resolved at its start.
            operation: The operation that has no deterministic kernel here; "" = none is known.
        """
        self.task, self.data, self.config, self.plan, self.rank = task, data, config, plan, rank
        self.assigned = assigned
        self.sharded = config.strategy == "fsdp"
        self._build_model(rows, begun or {}, operation)
        config = self.config
        self.schedule = Schedule(config, plan.steps, task)
        self.optimizer = optimizers.build_optimizers(task, self.module, config.learning_rate, config.weight_decay)
        self.peaks = [float(group["lr"]) for group in self.optimizer.param_groups]
        updated = [p for group in self.optimizer.param_groups for p in group["params"] if p.requires_grad]
        self.norm = GradientNorm(updated, config.clip_norm)
        self.stopwatch = Stopwatch(rank.device)
        self.generator = torch.Generator(rank.device)
        self.augments = type(task).augment is not Task.augment
        everything = precision.EVERYTHING in self.rounding.in_float32
        self.autocast = nullcontext() if everything else precision.autocast(config, rank.device)
        #: Called before an update or a validation changes the state, which a writer may be copying.
        self.before_update: Callable[[], None] = lambda: None
        #: Further state for every checkpoint, such as an average of the weights.
        self.state = TrainerState()
        #: The scale of the loss in float16.
        self.scaler = Scaler() if config.precision == "fp16" else None
        if self.scaler:
            self.state.add("scaler", self.scaler)
        #: Factor of the gradient before the exchange; in float16 after it, so that overflows and skipped steps do not
        #: depend on the number of ranks.
        self.factor = self.gradients.weight(1.0)
        #: A context around the forward pass; in the first pass it may reject collectives, which would hang.
        self.watch: AbstractContextManager[object] = nullcontext()
        #: The divisors of losses that are not means over rows.
        self.weighting = Weighting(plan, rank, self._sum())
        #: The weight of each microbatch's loss: the gradient that its backward pass starts from.
        self.weights = [torch.tensor(plan.share(n) * (1.0 if self.scaler else self.factor), device=rank.device)
                        for n in assigned]  # fmt: skip
        #: Tensors that were not finite before the first step, such as a mask of -inf.
        self.boundless: set[str] = set()
        #: Called after each update with the number of its step, for an average of the weights.
        self.after_update: Callable[[int], None] = lambda step: None
        #: The restored checkpoint, until the optimizer's first step has succeeded with it.
        self.restored_from = ""
        #: Whether all or part of a checkpoint was read into the state.
        self.spoilt = False

    def _build_model(self, rows: Batch, begun: JsonObject, operation: str) -> None:
        """Builds the module, its precision, its recomputation and compilation, and the exchange of gradients."""
        task, config, rank = self.task, self.config, self.rank
        built = model_building.build_to_shard(task, self.data, config, rank, self._patience_s) if self.sharded else (
            model_building.build_whole(task, self.data, config, rank)
        )  # fmt: skip
        self.module: nn.Module = built.module
        self.frozen, self.made_whole = built.frozen, built.made_whole
        self.module.train()  # a pretrained model may come in evaluation mode
        self.arithmetic = arithmetic.resolve_arithmetic(config, self.module, rank.device, begun, operation)
        self.config = config = self.arithmetic.config
        self.kernels = arithmetic.select_kernels(config.deterministic is True, rank.device, tf32=config.tf32)
        self.gradients: Gradients
        #: Called with the step in which memory ran out; returns a sentence for the error message.
        self.out_of_memory: Callable[[int], str] = lambda step: ""
        self.rounding = rounding.find_rounding(
            Loss(self.module, task.loss), rows, config, rank, within_s=self._patience_s
        )
        if self.sharded:
            self.gradients = model_building.shard(
                built, task, config, rank, self.rounding.gathered_half, several=len(self.assigned) > 1
            )
        if self.rounding.obstacle:
            self.rounding.in_float32 = self._find_float32(rows)
        is_selective = config.activation_checkpointing == "selective"
        if is_selective:  # the compiler must see which results to keep
            arithmetic.recompute_blocks(task.blocks(self.module), is_selective=True)
        if config.compile:
            arithmetic.compile_blocks(
                self.module, task.compiled(self.module), deterministic=config.deterministic is True,
                asked="compile" not in self.arithmetic.reasons,
            )  # fmt: skip
        if config.activation_checkpointing and not is_selective:
            arithmetic.recompute_blocks(task.blocks(self.module))
        if not self.sharded:
            self.gradients = gradients.choose_exchange(Loss(self.module, task.loss), config, rank)

    @property
    def _patience_s(self) -> float:
        """Seconds for which ranks wait for a rank that works alone, for example on building its model."""
        return self.config.checkpoint_patience_s + self.config.hang_after_s

    def _find_float32(self, rows: Batch) -> list[str]:
        """Makes modules with sensitive raw inputs compute in float32, by a run on the rows without a graph."""
        forward = partial(self.gradients.loss if self.sharded else partial(self.task.loss, self.module), rows)
        try:
            with keep_buffers(self.module), keep_attributes(self.module), arithmetic.named_operations():
                run = partial(run_without_graph, forward)
                return rounding.keep_float32(self.module, run, rows, self.config, self.rank.device)
        except torch.OutOfMemoryError as error:
            raise UserError(self._memory_advice(0, error)) from None
        finally:
            if self.sharded:
                self._free()

    def warm_up(self, batch: Batch) -> None:
        """Runs a forward and a backward pass without effect on the state, to see which buffers they change.

        DDP orders its gradient buckets by the first backward pass and uses that order from the second on. Without a
        warm-up, the first step after a resume would therefore add in another order than without the interruption.
        """
        self.boundless = finite_checks.find_broken(self.tensors())
        norms = self._norms()
        if uneven := self._uneven():
            self.watch = NoCollectives(uneven)
        with keep_buffers(self.module) as before, keep_attributes(self.module) as attributes:
            self.unused = self.gradients.rehearse(
                lambda: self._backward(0, self.assigned.start, batch, self.weights[0])
            )
            changed = find_changed(before)
        self.watch = nullcontext()
        self.optimizer.zero_grad()
        self.stopwatch.reset()
        self._require_weights_alone(norms)
        self.weighting.settle(len(next(iter(batch.values()))), self._patience_s)
        self.buffers = MovingBuffers(
            self.module, before, changed, self.task.buffers, self.plan, self.rank, self._sum(), self._patience_s
        )
        if attributes:
            self.buffers.warnings.append(describe_change(attributes))

    def _sum(self) -> RingSum | TreeSum:
        return TreeSum(self.rank.world_size) if self.config.exact else RingSum()

    def _uneven(self) -> str:
        """Returns why a loss must not call collectives; "" = it may, or sharding or compilation prevents the check."""
        plan, world = self.plan, self.rank.world_size
        if world == 1 or self.sharded or self.config.compile:
            return ""
        if plan.microbatches % world:
            return f"{world} processes compute {plan.microbatches} microbatches of a step, some more than others"
        rest = plan.global_batch_size % plan.microbatches
        return f"{plan.global_batch_size} rows are not a multiple of {plan.microbatches} microbatches" if rest else ""

    def _norms(self) -> dict[str, float]:
        """Returns the norm of each whole parameter, to see whether a forward pass changes it."""
        parameters = {} if self.sharded else finite_checks.whole_floats(dict(self.module.named_parameters()))
        return dict(zip(parameters, finite_checks.norms(list(parameters.values())), strict=True))

    def _require_weights_alone(self, before: Mapping[str, float]) -> None:
        """Raises UserError if the forward pass has changed parameters, which depends on the rows of each process."""
        now = self._norms()
        changed = [name for name, norm in now.items() if norm != before[name] and not math.isnan(before[name])]
        if changed and self.plan.microbatches > 1:
            raise UserError(
                f"the first forward pass changes these parameters of the model: {join_names(changed)}, as an "
                "ActNorm does "
                "that starts from its first rows. Each microbatch of a step would start from another model. Set the "
                "values in the task's `model(data)`, or train on one process with microbatches=1."
            )

    def step(self, step: int, batches: Iterator[Batch]) -> list[Tensor]:
        """Runs one optimizer step; returns the mean loss (float32 scalar) or sum and weight of each own microbatch.

        A gradient that is known not to be finite (`self.norm.faulty`), or overflows in float16, changes nothing.
        """
        losses = []
        self.buffers.begin_step()
        for number, weight in zip(self.assigned, self.weights, strict=True):
            self.buffers.begin_microbatch()
            self.rank.trace.mark(step, "its batch")
            self.stopwatch.begin()
            batch = next(batches)
            self.stopwatch.has_batch()
            with self.gradients.microbatch(last=number == self.assigned.stop - 1):
                losses.append(self._backward(step, number, batch, weight))
            self.buffers.end_microbatch(number)
        self.buffers.end_step()
        self.gradients.end_step()
        self.weighting.end_step(self.norm.parameters)
        self.rank.trace.mark(step, "the update")
        if self.norm.clip(step, self.scaler, self.factor):
            self._apply(step)
        self.optimizer.zero_grad()
        return losses

    def _apply(self, step: int) -> None:
        factor = self.schedule.factor(step)
        for group, peak in zip(self.optimizer.param_groups, self.peaks, strict=True):
            group["lr"] = peak * factor
        self.before_update()
        model_building.seed_step(
            self.config.seed, step, self.plan.microbatches, self.rank.device
        )  # for optimizers that draw
        try:
            with arithmetic.named_operations():
                self.optimizer.step()
        except torch.OutOfMemoryError as error:  # the first step allocates the optimizer's state
            raise UserError(self._memory_advice(step, error)) from None
        except (LookupError, AttributeError, TypeError, ValueError, RuntimeError) as error:
            if not self.restored_from:
                raise
            raise UserError(
                f"the optimizer cannot resume from checkpoint {self.restored_from} ({type(error).__name__}: {error}): "
                "it holds the state of another optimizer. Delete it to resume from the previous one."
            ) from None
        self.restored_from = ""
        self.after_update(step)

    def _backward(self, step: int, microbatch: int, batch: Batch, weight: Tensor) -> Tensor:
        self.rank.trace.mark(step, "the forward pass")
        model_building.seed_step(self.config.seed, step, microbatch, self.rank.device)
        if self.augments:
            self.generator.manual_seed(seed_of(self.config.seed, "augment", step, microbatch))
            batch = self.task.augment(batch, self.generator)
        try:
            with arithmetic.named_operations():
                with self.autocast, self.watch:
                    loss, divisor = split_loss(self.gradients.loss(batch))
                self._require_gradient(step, loss)
                loss = loss.to(torch.promote_types(loss.dtype, torch.float32))  # half precision would round the weight
                self.stopwatch.has_loss()
                self.rank.trace.mark(step, "the backward pass")
                weight = self.weighting.factor(weight, 1.0 if self.scaler else self.factor).to(loss.dtype)
                torch.autograd.backward(loss, weight * self.scaler.scale if self.scaler else weight)
        except torch.OutOfMemoryError as error:
            raise UserError(self._memory_advice(step, error)) from None
        return self.weighting.add(loss.detach(), divisor)

    def _memory_advice(self, step: int, error: Exception) -> str:
        start, stop = self.plan.span(self.assigned.start)
        reason = str(error).partition(". ")[0].rstrip(".")
        fixes = profiling.memory_fixes(self.config, self.plan.microbatches, stop - start, self.rank.device)
        message = f"rank {self.rank.rank} ran out of memory in step {step}: {reason}.\nTry: {', '.join(fixes)}."
        return "\n".join(filter(None, [message, self.out_of_memory(step)]))

    def _require_gradient(self, step: int, loss: Tensor) -> None:
        if not loss.requires_grad:
            raise UserError(
                f"the loss of step {step} on rank {self.rank.rank} depends on no parameter of the model, so it has no "
                "gradient. For a batch without anything to learn, return 0 times the sum of the model's outputs. Do "
                "not compute the loss under torch.no_grad or with .detach()."
            )

    def measured(
        self, batches: list[Batch], figures: Callable[[nn.Module, Batch], Figures], numbers: Sequence[int]
    ) -> list[Figures]:
        """Returns the figures of the model on each batch, in evaluation mode, without gradients.

        Each batch is seeded by its number, so random figures do not depend on the validation or the number of ranks.
        """
        self.module.eval()
        measured = []
        kept = keep_buffers(self.module), keep_attributes(self.module)
        with torch.no_grad(), self.autocast, kept[0], kept[1], arithmetic.named_operations():
            for number, batch in zip(numbers, batches, strict=False):
                model_building.seed_step(self.config.seed, "validation", number, self.rank.device)
                on_device = {name: value.to(self.rank.device) for name, value in batch.items()}
                measured.append(self.gradients.loss(on_device, figures))
        self._free()  # or the next step would use the parameters gathered here
        self.module.train()
        return measured

    def _free(self) -> None:
        if isinstance(self.gradients, Sharded):
            self.gradients.free()

    def broken(self) -> set[str]:
        """Returns names in this rank's state with a nan or infinity that were finite before the first step.

        Leaves out the best weights, which were checked when they were kept.
        """
        live = {name: tensor for name, tensor in self.tensors().items() if not name.startswith("best/")}
        return finite_checks.find_broken(live) - self.boundless

    def parameter_names(self) -> list[str]:
        """Returns the names of the parameters that the optimizer updates, in the order of `self.norm.culprits`."""
        names: dict[Tensor, str] = {parameter: name for name, parameter in self.module.named_parameters()}
        return [names.get(p, f"parameter {n} of the optimizer") for n, p in enumerate(self.norm.parameters)]

    def parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.module.parameters())

    def tensors(self) -> dict[str, Tensor]:
        return training_state.tensors_of(self.module, self.optimizer) | self.state.tensors()

    def scalars(self) -> JsonObject:
        return training_state.scalars_of(self.module, self.optimizer)

    def stable(self) -> set[str]:
        frozen = {f"model/{name}" for name in self.frozen}
        return training_state.stable_names(self.module, self.optimizer) | self.state.tensors().keys() | frozen

    def restore(self, saved: CheckpointReader) -> None:
        self.spoilt = True
        training_state.restore(self.module, self.optimizer, saved, self.state.tensors())
        try:
            self.state.restore(saved.manifest.trainer)
        except ValueError as error:
            raise saved.refusal(str(error)) from None
        self.restored_from = saved.manifest.name

    def pieces(self, tensor: Tensor) -> Iterator[Tensor]:
        """Yields the values of a tensor on rank 0, as CPU tensors; every rank of a sharded model must call it.

        Ranks wait for rank 0 to write the previous tensor without a collective, whose timeout would end them.
        """
        if self.sharded:
            self.rank.exchange(None, within_s=self._patience_s)
        yield from model_building.pieces(tensor, self.rank)
