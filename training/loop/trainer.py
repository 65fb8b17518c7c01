"""Training on one rank, from the first or the resumed step to the finished model.

Ranks talk twice: gradients at every step, and a pulse about twice a second in which they share the losses since the
last one, whether anyone was asked to stop, and whether rank 0's clock wants a checkpoint. All decisions are made
from the pulse's figures, which every rank sees alike, so all ranks take them at the same step.
"""

import json
import math
import os
import sys
import time
from collections.abc import Mapping
from typing import Any

import torch
import torch._dynamo  # every optimizer imports it at its first use: here once, before the ranks fork
from torch import Tensor

from training import bundle, tasks
from training.checkpoint import state
from training.checkpoint.manifest import Manifest as Checkpoint
from training.checkpoint.store import store_at
from training.checkpoint.writer import Writer
from training.config import TrainConfig
from training.data import manifest as manifests
from training.data.rows import open_rows
from training.errors import Preempted, ProcessFailed, UserError
from training.loop import resume
from training.loop.accelerator import throughput
from training.loop.batches import microbatches, tensors
from training.loop.health import Health, listed
from training.loop.history import History
from training.loop.learner import Learner, gather
from training.loop.order import Plan, deal
from training.loop.progress import Progress
from training.loop.validation import Validation
from training.processes.rank import SLOWEST_BYTES_PER_S, Rank
from training.storage import storage

_PULSE_S = 0.5
#: Rows that are looked at before training.
_SOME_ROWS = 256


def run(argument: Mapping[str, Any], rank: Rank) -> dict[str, Any]:
    """Trains; the figures of the run. Called in every rank by `training.processes.launch`."""
    argument = rank.agree(argument)  # rank 0 has looked at the checkpoints; machines may see folders differently
    with Trainer(argument, rank) as trainer:
        trainer.start()
        return trainer.train()


class Trainer:
    """One rank of a run."""

    def __init__(self, argument: Mapping[str, Any], rank: Rank):
        self.rank, self.argument = rank, argument
        self.config = TrainConfig(**argument["config"])
        self.plan = Plan(**argument["plan"])
        self.dealt = deal(self.plan.microbatches, rank.world_size, rank.rank)
        self.data = manifests.load(argument["data"])
        self.rows = open_rows(argument["data"], "train")
        self.validation = Validation(argument, self.data, self.plan, rank, shared_model=self.config.strategy == "fsdp")
        # One process of a machine decodes what the others then map: no collective before all have their rows.
        size = sum(file.bytes for files in self.data.splits.values() for file in files)
        rank.exchange(None, within_s=self.config.hang_after_s + size / SLOWEST_BYTES_PER_S)
        self.task = tasks.load(self.config.task, self.data.options)
        some = tensors(self.rows.take(self.plan.rows(0, 1, range(1))[:_SOME_ROWS]), rank.device)
        self.learner = Learner(self.task, self.data, self.config, self.plan, rank, self.dealt, some)
        self.store = store_at(argument["checkpoints"])
        self.writer = Writer(
            self.store, rank.another_rendezvous(), rank=rank.rank, world_size=rank.world_size, run=argument["run"],
            token=argument["token"], settings=argument["settings"], keep=self.config.keep,
            patience_s=self.config.checkpoint_patience_s, job=argument["job"],
        )  # fmt: skip
        self.health = Health(self.learner, self.writer, self.plan, self.rows, self.config, rank)
        self.learner.before_update = self.writer.settle
        self.pending: list[Tensor] = []

    def __enter__(self) -> "Trainer":
        return self

    def __exit__(self, *failure: Any) -> None:
        if self.rank.leads and hasattr(self, "tensorboard"):
            self.tensorboard.close()

    # ---- start and resume

    def start(self) -> None:
        """Warms up, then takes the state of the checkpoint to go on from, if there is one."""
        first = self.plan.rows(0, 1, range(self.dealt.start, self.dealt.start + 1))
        self.learner.warm_up(tensors(self.rows.take(first), self.rank.device))
        if self.config.warm_start:
            self.learner.take_weights(self.config.warm_start)
            self.health.require_weights(self.config.warm_start)
        found = resume.newest(self.argument, self.rank, self.learner, self.config)
        self.step = found.step if found else 0
        self.resumed_from = self.health.resumed_from = self.step
        self.history = History(self.plan, self.config.learning_rate, self.config.warmup_fraction)
        if found:
            self._accept(found)
        self.workload = self.task.workload(self.data)
        self.progress = Progress(
            self.plan.steps, self.step, self.plan.global_batch_size, terminal=self.rank.terminal,
            workload=self.workload, device=self._device_name(), devices=self.rank.world_size,
        )  # fmt: skip
        self.began = self.saved_at = self.pulsed_at = time.monotonic()
        self.pulse_steps = 1
        self.next_pulse = self._boundary(self.step + 1)
        if self.rank.leads:
            self._lead(found)

    def _accept(self, found: Checkpoint) -> None:
        """Takes its learning curve. Raises UserError if the step or the curve make no sense."""
        try:
            if found.step > self.plan.steps:
                raise ValueError(f"step {found.step} of {self.plan.steps}")
            self.history.go_on(found.history, found.step)
        except ValueError as error:
            raise UserError(
                f"checkpoint {found.name} does not hold what this program writes ({error}). "
                "Delete it to go on from the one before."
            ) from None

    def _lead(self, found: Checkpoint | None) -> None:
        from training.loop.curves import Curves

        self.tensorboard = Curves(self.argument["tensorboard"], purge_step=self.step if found else None)
        if about := self.task.describe(self.data):
            self._say(about)
        if layers := self.learner.in_float32:
            self._say(f"in float32, since bfloat16 would spoil their raw inputs: {listed(layers, 5)}")
        if found:
            self._say(f"resuming from step {found.step} of {self.plan.steps}")

    def _say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    # ---- steps

    def train(self) -> dict[str, Any]:
        batches = microbatches(self.rows, self.plan, self.dealt, self.step, self.rank.device)
        while self.step < self.plan.steps:
            self.pending += self.learner.step(self.step, batches)
            self.step += 1
            if self.step == self.next_pulse or self.learner.norm.faulty:
                self._pulse()
        return self._finish()

    def _pulse(self) -> None:
        self.rank.trace.mark(self.step, "the meeting of the ranks")
        count = len(self.pending) // len(self.dealt)
        elapsed = time.monotonic() - self.pulsed_at
        values = [float(self.rank.stopping), float(self._save_is_due()), self._next_interval(elapsed / count)]
        values += torch.stack(self.pending).tolist()
        widest = len(deal(self.plan.microbatches, self.rank.world_size, 0))
        everyone = gather(values, 3 + count * widest)
        self.pending.clear()
        losses = self._global_losses(everyone[:, 3:], count)
        fault = self.learner.norm.first_fault()
        for step, loss in enumerate(losses, self.step - count):
            self.health.require_finite(step, loss, gradient_is_finite=step != fault)
            self.history.add(step, loss)
        self._act(stop=bool(everyone[:, 0].any()), save=bool(everyone[0, 1]), interval=int(everyone[0, 2]))
        if self.rank.leads:
            self._show(losses[-1], elapsed, count)
        self.pulsed_at = time.monotonic()

    def _global_losses(self, values: Tensor, count: int) -> list[float]:
        """Each step's mean loss over the global batch; added microbatch by microbatch, whoever computed them."""
        parts = []
        for rank in range(self.rank.world_size):
            dealt = deal(self.plan.microbatches, self.rank.world_size, rank)
            parts.append(values[rank, : count * len(dealt)].view(count, len(dealt)))
        total = torch.zeros(count, dtype=torch.float64)
        for number, column in enumerate(torch.cat(parts, dim=1).unbind(dim=1)):
            total += column * self.plan.share(number)
        return total.tolist()

    def _save_is_due(self) -> bool:
        return time.monotonic() - self.saved_at >= self.config.checkpoint_every_s and not self.writer.busy

    def _next_interval(self, step_s: float) -> int:
        """Steps to the next pulse, by rank 0's clock; at most double the last, since first steps are slow."""
        return max(1, min(2 * self.pulse_steps, int(_PULSE_S / max(step_s, 1e-6)), 4096))

    def _act(self, *, stop: bool, save: bool, interval: int) -> None:
        every, ends_epoch = self.config.checkpoint_every_steps, self.plan.ends_epoch(self.step - 1)
        save = save or stop or bool(every and self.step % every == 0) or self.step == self.plan.steps
        if save or ends_epoch:
            self.health.require_state(self.step)
        if ends_epoch:
            self._validate()
        if save:
            self._save()
        if stop and self.step < self.plan.steps:
            self._wait()
            raise Preempted(f"step {self.step} of {self.plan.steps} is saved in {self.store}; start again to resume.")
        self.pulse_steps = interval
        self.next_pulse = self._boundary(self.step + interval)

    def _boundary(self, wanted: int) -> int:
        """`wanted`, or the step before it at which something must happen."""
        stops = [wanted, self.plan.steps, self._epoch_end()]
        if every := self.config.checkpoint_every_steps:
            stops.append((self.step // every + 1) * every)
        return min(stops)

    def _epoch_end(self) -> int:
        """Steps done when the epoch that step `self.step` belongs to has ended."""
        done = int(self.plan.epoch(self.step) + 1e-12)
        return max(self.step + 1, math.ceil((done + 1) * self.plan.samples / self.plan.global_batch_size))

    def _validate(self) -> None:
        if not self.validation.sizes:
            return
        self.rank.trace.mark(self.step, "validation")
        loss = self.validation.loss(self.learner)
        if not math.isfinite(loss):  # the weights are finite, so it is a row of the split, or the loss itself
            if self.rank.leads:
                self.progress.say(f"warning: after step {self.step} the validation loss is {loss:g}; it is left out")
            return
        self.history.validated(loss)
        if self.rank.leads:
            self.tensorboard.add_scalar("loss/validation", loss, self.step)

    # ---- saving and the end

    def _wait(self) -> None:
        """Until no rank is writing: rank 0 commits what all have written, and may take its time."""
        self.rank.trace.mark(self.step, "a checkpoint")
        try:
            self.writer.wait()
        except OSError as error:
            raise ProcessFailed(
                f"no checkpoint could be saved for {self.config.checkpoint_patience_s:g} s "
                f"(checkpoint_patience_s): {error}"
            ) from None
        self.rank.exchange(None, within_s=self.health.patience_s)

    def _save(self) -> None:
        self._wait()
        whole = self.learner.tensors()
        layout = state.stored(whole, self.rank.world_size)
        self.writer.save(self.step, state.share(whole, layout, self.rank.rank), layout, self.learner.scalars(),
                         self.history.state, self.learner.steady())  # fmt: skip
        self.saved_at = time.monotonic()

    def _show(self, loss: float, elapsed: float, count: int) -> None:
        done = self.step == self.plan.steps
        self.progress.show(self.step, loss, epoch=self.plan.epoch(self.step), done=done)
        self.tensorboard.add_scalar("loss/train", loss, self.step)
        self.tensorboard.add_scalar("learning_rate", self.learner.optimizer.param_groups[0]["lr"], self.step)
        self.tensorboard.add_scalar("samples_per_s", count * self.plan.global_batch_size / elapsed, self.step)

    def _finish(self) -> dict[str, Any]:
        """Rank 0 writes the model, then works on what may take long or fail; the others leave, and wait for nothing."""
        seconds = time.monotonic() - self.began
        self._wait()
        self.rank.trace.mark(self.step, "the end")
        module = self.learner.finished()
        self.rank.exchange(None, within_s=self.config.hang_after_s)  # none leaves while another needs it
        if not self.rank.leads:
            return {}
        bundle.save(self.argument["model"], module, self._card())
        if sample := self.learner.sample(module, self._say):
            bundle.save_card(self.argument["model"], self._card(sample))
        figures = self._figures(seconds)
        text = json.dumps(figures, indent=1, sort_keys=True) + "\n"
        try:
            storage.overwrite(f"{self.argument['checkpoints']}/training.json", text.encode())
        except OSError as error:  # the model is there; its figures are in the step's output as well
            self._say(f"warning: training.json was not written: {error}")
        return figures

    def _card(self, sample: str = "") -> bundle.ModelCard:
        return bundle.ModelCard(
            task=tasks.spec(self.data.task), options=self.data.options,
            columns=self.data.columns, statistics=self.data.statistics,
            data=self.data.fingerprint, config=self.argument["settings"]["config"], steps=self.plan.steps,
            samples=self.plan.samples, parameters=self._parameter_count(),
            history=tuple(bundle.Point(**point) for point in self.history.points), sample=sample,
        )  # fmt: skip

    def _parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.learner.module.parameters())

    def _figures(self, seconds: float) -> dict[str, Any]:
        steps = self.plan.steps - self.resumed_from
        last = self.history.points[-1]
        return {
            "steps": self.plan.steps, "resumed_from": self.resumed_from, "loss": last["loss"],
            "validation_loss": last["validation_loss"], "seconds": round(seconds, 3),
            "samples_per_s": round(steps * self.plan.global_batch_size / seconds, 1),
            "world_size": self.rank.world_size, "microbatches": self.plan.microbatches,
            "parameters": self._parameter_count(), "device": self._device_name(),
            "cpu_threads": torch.get_num_threads(),
        } | throughput(self.workload, steps * self.plan.global_batch_size / seconds, self._device_name(),
                       self.rank.world_size)  # fmt: skip

    def _device_name(self) -> str:
        return torch.cuda.get_device_name() if self.rank.device.type == "cuda" else f"cpu ({os.cpu_count()} cores)"
