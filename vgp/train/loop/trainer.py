"""Training on one rank, from the first or the resumed step to the finished model.

Ranks exchange gradients at every step and meet every few steps (`vgp.train.loop.monitor`). All decisions depend only on
values shared in the meetings, so all ranks take them at one step.
"""

import gc
import os
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import Preempted, UserError
from vgp.base.text.printable import join_names, report
from vgp.data import tasks
from vgp.data.rows import open_rows
from vgp.data.task import Task
from vgp.protocol import manifest
from vgp.protocol.capacity.progress import Pace, reporter
from vgp.train.checkpoint.checkpoint_manifest import Manifest as Checkpoint
from vgp.train.checkpoint.lease_holder import clock
from vgp.train.loop import initial_state, model_building, profiling, run_results, validation_metric
from vgp.train.loop.arithmetic import NotDeterministic
from vgp.train.loop.batches import microbatches, tensors
from vgp.train.loop.checkpoint_saving import Saving, device_kind
from vgp.train.loop.curves import History
from vgp.train.loop.health import Health
from vgp.train.loop.initial_state import Match, landing_difference
from vgp.train.loop.learner import Learner
from vgp.train.loop.monitor import Decision, Monitor, peak_bytes
from vgp.train.loop.profiling import Profiler
from vgp.train.loop.sample_order import assignment
from vgp.train.loop.trainer_state import Average, Best
from vgp.train.loop.training_request import TrainingRequest
from vgp.train.loop.validation import Validation
from vgp.train.processes.rank import SLOWEST_BYTES_PER_S, Rank

#: Number of rows for checks before training.
_SOME_ROWS = 256


def run(request: TrainingRequest, rank: Rank) -> JsonObject:
    """Trains and returns the figures of the run; `vgp.train.processes.launch` calls it in every rank."""
    # Machines may see the checkpoint folder differently, so all ranks use the request of rank 0.
    request = TrainingRequest.model_validate_json(rank.agree(request.model_dump_json() if rank.leads else ""))
    trainer = Trainer(request, rank)
    try:
        return trainer.train()
    finally:
        trainer.profiler.close()
        trainer.monitor.close()
        if trainer.tracker:
            trainer.tracker.close()
        if trainer.reporter:
            trainer.reporter.close()


class Trainer:
    """One rank of a run; the constructor restores the initial state."""

    def __init__(self, request: TrainingRequest, rank: Rank):
        self.request, self.rank = request, rank
        self.config, self.plan = request.config, request.plan
        self.assigned = assignment(self.plan.microbatches, rank.world_size, rank.rank)
        profiling.remember_allocations(request, rank)
        self.data = manifest.load(request.data)
        if self.config.freeze:
            model_building.require_frozen_names(self._load_task(), self.data, self.config)
        self.rows = open_rows(request.data, "train")
        self.validation = Validation(request, self.data, rank, self._load_task())
        # One process of a machine decodes rows for the others, so no collective may start before all have them.
        size = sum(file.bytes for files in self.data.splits.values() for file in files)
        rank.exchange(None, within_s=self.config.hang_after_s + size / SLOWEST_BYTES_PER_S)
        operation = self._make_ready()
        checkpoint = initial_state.restore_newest(request, rank, self.learner)
        if self.learner.spoilt and not checkpoint:
            del self.learner, self.saving, self.health, self.average, self.best
            self._build(operation)
        self.warm = None if checkpoint else self._warm_start()
        self.saving.resumed_from = checkpoint.step if checkpoint else 0
        self.step = self.resumed_from = checkpoint.step if checkpoint else 0
        self.history = History(self.plan, self.config.learning_rate, self.learner.schedule.factor)
        if checkpoint:
            _accept(checkpoint, self.history, self.plan.steps)
        if rank.leads:
            self._introduce(checkpoint)
        self.monitor = Monitor(
            request, rank, self.health, self.history, self.learner.task.workload(self.data), self.step
        )
        self.profiler = Profiler(request, rank)
        self.tracker = run_results.start_tracker(self.request) if rank.leads else None
        self.began = self.saving.saved_at = time.monotonic()
        #: Reports the progress to the job's launcher, if there is one.
        start_s = clock() - request.asked_at
        self.reporter = reporter(os.environ, self.plan.steps, self.step, start_s) if rank.leads else None
        self.pace = Pace()
        self._report_progress()

    def _load_task(self) -> Task:
        return tasks.load(self.config.task, self.data.options)

    def _make_ready(self) -> str:
        """Creates the learner and warms it up.

        Returns:
            The operation that has no deterministic kernel here, so that `deterministic=auto` is false; "" = none.
        """
        try:
            self._build()
            return ""
        except NotDeterministic as error:
            if self.config.deterministic != "auto" or self.config.exact:
                raise
            operation = error.operation
        self.__dict__.pop("learner", None)
        gc.collect()  # the model and its gradients are in cycles
        self._build(operation)
        return operation

    def _build(self, operation: str = "") -> None:
        """Creates the learner and warms it up, with some rows of the data."""
        some_rows = self.rows.take(self.plan.rows(0, 1, range(1))[:_SOME_ROWS])
        self.learner = Learner(
            self._load_task(), self.data, self.config, self.plan, self.rank,
            self.assigned, tensors(some_rows, self.rank.device), self.request.begun, operation,
        )  # fmt: skip
        self.request = self.request.settled(self.learner.config)
        self.learner.out_of_memory = partial(profiling.write_memory_snapshot, self.request, self.rank)
        self.saving = Saving(self.request, self.rank, self.learner)
        self.health = Health(self.learner, self.saving, self.plan, self.rows, self.config, self.rank)
        first = self.plan.rows(0, 1, range(self.assigned.start, self.assigned.start + 1))
        self.learner.warm_up(tensors(self.rows.take(first), self.rank.device))
        self.validation.rehearse(self.learner)
        self._add_state()

    def _add_state(self) -> None:
        """Adds the average and the best validation to the state of every checkpoint."""
        learner, config = self.learner, self.config
        #: The moving average of the weights, if `ema_decay` is set.
        self.average: Average | None = None
        if config.ema_decay:
            self.average = Average(learner.module, learner.norm.parameters, config.ema_decay)
            learner.after_update = self.average.update
            learner.state.add("ema", self.average)
        #: The best validation, if there are validations.
        self.best: Best | None = None
        if self.validation.sizes:
            direction = validation_metric.metrics(learner.task)[config.best_metric]
            self.best = Best(learner.module, config, direction, keeps=config.keep_best is not False)
            learner.state.add("best", self.best)

    def _warm_start(self) -> Match | None:
        """Loads the weights of a warm start, if the request has one; a resumed run does not need them."""
        if not self.request.warm_start:
            return None
        learner, patience_s = self.learner, self.saving.patience_s
        match = initial_state.take_weights(
            learner.module, self.request.warm_start, learner.task, self.config, self.rank, patience_s
        )
        self.health.require_weights(self.config.warm_start)
        if self.average:
            self.average.begin()
        return match

    def _introduce(self, checkpoint: Checkpoint | None) -> None:
        """Logs the task, the resolved settings and the initial state."""
        if about := self.learner.task.describe(self.data):
            report(about)
        report(f"chosen: {self.learner.arithmetic}")
        if layers := self.learner.rounding.in_float32:
            half = {"bf16": "bfloat16", "fp16": "float16"}[self.learner.config.precision]
            report(f"in float32, because {half} would round their raw inputs too much: {join_names(layers, 5)}")
        if self.learner.sharded and self.learner.config.precision != "fp32":
            report(self.learner.rounding.describe_gathers(self.learner.module, self.learner.config))
        if frozen := self.learner.frozen:
            report(f"frozen, {len(frozen)} parameters: {join_names(frozen, 5)}")
        if match := self.warm:
            new = f"; new: {join_names(match.new, 5)}" if match.new else ""
            report(f"warm start: {len(match.taken)} tensors from {self.config.warm_start}{new}")
        if reason := self.learner.made_whole:
            report(
                "the model cannot be built shard by shard, so every process first built it whole in host memory: "
                f"{reason}"
            )
        if unused := self.learner.unused:
            report(f"the loss did not use these parameters, so they get no gradient: {join_names(unused, 5)}")
        before = checkpoint.settings.get("microbatches", 0) if checkpoint else 0
        if before and before < self.plan.microbatches:
            report(
                f"microbatches: {before} before, {self.plan.microbatches} now, one for each process; dropout, "
                "augmentation and batch norm differ from here on"
            )
        if checkpoint and self.is_done:
            report(
                f"all steps are done; writing the model from the checkpoint of step {self.step} of {self.plan.steps}"
            )
        elif checkpoint:
            report(f"resuming from step {checkpoint.step} of {self.plan.steps}")
            device, count = device_kind(self.rank), self.plan.microbatches
            if difference := landing_difference(checkpoint, self.learner.config, self.rank.world_size, device, count):
                report(difference)

    def train(self) -> JsonObject:
        """Runs all steps, validations and saves, then writes the model; returns the figures ({} unless rank 0)."""
        for _ in self.steps():
            pass
        return self._finish(time.monotonic() - self.began)

    def steps(self) -> Iterator[int]:
        """Runs the steps with their meetings, validations and saves; yields the number of steps done after each."""
        batches = microbatches(self.rows, self.plan, self.assigned, self.step, self.rank.device)
        while not self.is_done:
            self.profiler.begin_step(self.step)
            self.monitor.add(self.learner.step(self.step, batches))
            self.step += 1
            self.profiler.end_step(self.step)
            if self.step == self.monitor.next_step or self.learner.norm.faulty:
                self._act(self.monitor.meet(self.step, save=self.saving.is_due, validate=self.validation.is_due))
            yield self.step

    @property
    def is_done(self) -> bool:
        """Whether all steps are done or training stops early; equal on every rank."""
        return self.step == self.plan.steps or (self.best is not None and self.best.stopped)

    def _report_progress(self) -> None:
        """Passes the progress to the job's launcher, if there is one, without waiting for it."""
        if self.reporter:
            writer = self.saving.writer
            saved = self.resumed_from if writer.durable_step is None else writer.durable_step
            self.reporter.update(replace(
                self.reporter.progress, step=self.step, saved_step=saved, save_s=writer.durable_after_s,
                seconds_per_step=self.pace.add(self.step), save_cost_s=self.saving.interval.cost_s,
                checkpoint_every_s=self.saving.interval.every_s,
            ))  # fmt: skip

    def _act(self, decision: Decision) -> None:
        """Validates, saves or stops as the meeting decided. Raises Preempted if the run stops before its end."""
        interval_change = self.saving.add(self.monitor.steps, self.monitor.elapsed_s)
        if interval_change and self.rank.leads:
            self.monitor.progress.print_line(interval_change)
        every, ends_epoch = self.config.checkpoint_every_steps, self.plan.ends_epoch(self.step - 1)
        save = decision.save or decision.stop or bool(every and self.step % every == 0) or self.step == self.plan.steps
        validate = self.validation.is_validated_after(self.step, wanted=decision.validate)
        if save or ends_epoch or validate or self.learner.norm.faulty:
            self.monitor.complete()
        self.monitor.show(self.step)
        if save or ends_epoch or validate:
            self.health.require_state(self.step)
        elif self.step == self.resumed_from + 1:
            self.health.require_same_model(self.step)
        if validate:
            self._validate()
        if (decision.stop or self.is_done) and self.step < self.plan.steps:
            self.monitor.stopped(self.step)
        if save or self.is_done:
            self.monitor.flush()
            self.saving.save(self.step, self.history.state, hurried=decision.stop and not self.is_done)
        if decision.profile:
            self.profiler.ask(self.step, decision.profile)
        if decision.stop and not self.is_done:
            self.profiler.finish(self.step)
            if self.tracker:
                self.tracker.end("SCHEDULED")
            self.saving.wait(self.step)
            self._report_progress()
            raise Preempted(
                f"step {self.step} of {self.plan.steps} is saved in {self.saving.store}; start again to resume."
            )
        if self.tracker:
            self.tracker.update(self.history.points)
        self._report_progress()
        self.monitor.go_on(self.step)

    def _validate(self) -> None:
        """Measures the model with the weights that it would be exported with: their average, if there is one."""
        assert self.best
        self.rank.trace.mark(self.step, "validation")
        self.learner.before_update()  # the average replaces weights that a writer may still copy after a skipped step
        with self.average.applied() if self.average else nullcontext():
            measured = self.validation.measure(self.learner)
            self.best.validated(self.step, measured[self.config.best_metric])
        self.monitor.validated(self.step, measured)

    def _finish(self, seconds: float) -> JsonObject:
        """Writes the model and the figures on rank 0; the other ranks return without waiting for it."""
        self.profiler.finish(self.step)  # a run may stop early during a trace
        self.saving.wait(self.step)
        self._report_progress()
        self.rank.trace.mark(self.step, "the end")
        shipped = run_results.load_best_weights(self.step, self.plan, self.history, self.best, self.average)
        if self.rank.leads and str(shipped):
            report(str(shipped))
        run_results.write_model(self.request, self.data, self.learner, self.history, shipped, self.rank, report)
        if not self.rank.leads:
            return {}
        workload = self.monitor.progress.workload
        peak = max(self.monitor.peak_bytes, peak_bytes(self.rank.device))
        figures = run_results.figures(
            self.request, self.rank, self.learner, self.history, workload, shipped,
            resumed_from=self.resumed_from, seconds=seconds, peak_bytes=peak,
        )  # fmt: skip
        run_results.write_figures(self.request, figures, report)
        if self.tracker:
            self.tracker.update(self.history.points)
            self.tracker.end("FINISHED", figures, run_results.model_tags(self.request))
        return figures


def _accept(checkpoint: Checkpoint, history: History, steps: int) -> None:
    """Restores the learning curve of a checkpoint. Raises UserError if the step or the curve is implausible."""
    try:
        if checkpoint.step > steps:
            raise ValueError(f"step {checkpoint.step} of {steps}")
        history.go_on(checkpoint.history, checkpoint.step)
    except ValueError as error:
        raise UserError(
            f"checkpoint {checkpoint.name} contradicts its manifest ({error}). Delete it to resume from the previous "
            "one."
        ) from None
