"""The meetings of the ranks, every few steps, and the progress and curves that follow from them.

The ranks share requests to stop, whether rank 0's clock wants a checkpoint, and the losses up to the meeting before: a
GPU has computed those by now, so that no meeting waits for the steps that it still computes. The last losses are shared
before a validation, a checkpoint and the end. A host is therefore ahead of its GPU by the steps of at most two
intervals, which also bounds the time to a stop.
"""

import math
import os
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass

import torch
from torch import Tensor

from vgp.networks.shape import Workload
from vgp.protocol import environment as variables
from vgp.train.loop.curves import Curves, History
from vgp.train.loop.finite_checks import GradientNorm
from vgp.train.loop.health import Health
from vgp.train.loop.profiling import Requests
from vgp.train.loop.progress_line import PaceMonitor, Progress, throughput
from vgp.train.loop.run_results import device_name
from vgp.train.loop.sample_order import assignment
from vgp.train.loop.training_request import TrainingRequest
from vgp.train.loop.validation_metric import LOSS
from vgp.train.loop.weighting import gather, global_mean
from vgp.train.processes.gpu_readings import Gpu, Reading, gpu_scalars
from vgp.train.processes.rank import Rank

#: Seconds between meetings, counted in steps of the last interval, and the most steps.
_MEETING_EVERY_S = 0.5
_MOST_STEPS = 4096
#: Seconds between readings of a GPU.
_READING_EVERY_S = 2.0


class Snapshot:
    """The losses and the gradient norm of the steps of an interval, on their way to host memory."""

    def __init__(self, losses: Sequence[Tensor], norm: GradientNorm, calls: int, *, step: int, count: int):
        """
        Args:
            losses: The losses of this rank's microbatches.
            calls: A checksum of the blocks that this rank has called (FSDP2).
            step: The steps done at the end of the interval.
            count: The steps of the interval.
        """
        self.step, self.count, self.calls, self.width = step, count, calls, losses[0].numel()
        device = losses[0].device
        state = torch.stack([norm.total.double(), norm.fault.double()]).to(device, non_blocking=True)
        values = torch.cat([state, torch.stack(list(losses)).flatten().double()])
        self.event: torch.cuda.Event | None = None
        if device.type == "cuda":
            host = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
            self.values = host.copy_(values, non_blocking=True)
            self.event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self.event.record()
        else:
            self.values = values

    def read(self) -> list[float]:
        """Returns the norm of the last step's gradient, the first step whose gradient was not finite (-1 = none), the
        checksum of the calls, and the losses; waits until the device has computed the interval.
        """
        if self.event:
            self.event.synchronize()
        total, fault, *losses = self.values.tolist()
        return [total, fault, float(self.calls), *losses]


@dataclass(frozen=True)
class Decision:
    """The actions that all ranks take after a meeting."""

    #: Whether a rank was asked to stop.
    stop: bool
    #: Whether rank 0's clock wants a checkpoint.
    save: bool
    #: Whether rank 0's clock wants a validation.
    validate: bool
    #: Number of steps to trace from now on; 0 = none.
    profile: int = 0


def curves_folder(request: TrainingRequest) -> str:
    """Returns the TensorBoard folder of the run; a run started anew beside older checkpoints has its own.

    On Vertex AI, the environment of a job with a TensorBoard names the folder that Vertex AI uploads:
    https://docs.cloud.google.com/gemini-enterprise-agent-platform/machine-learning/experiments/tensorboard-training
    """
    folder = os.environ.get(variables.TENSORBOARD, "").rstrip("/") or f"{request.checkpoints}/tensorboard"
    return folder + (f"/run{request.run:03}" if request.run else "")


class Monitor:
    """A rank's part in the meetings; rank 0 also shows the progress and writes the curves."""

    def __init__(
        self, request: TrainingRequest, rank: Rank, health: Health, history: History, work: Workload, step: int
    ):
        self.plan = request.plan
        self.intervals = [request.config.checkpoint_every_steps, request.config.validate_every_steps]
        self.rank, self.health, self.history = rank, health, history
        self.norm = health.learner.norm
        #: The interval before the last meeting, whose losses are not shared yet.
        self.pending: Snapshot | None = None
        self.progress = Progress(
            self.plan.steps, step, self.plan.global_batch_size, terminal=rank.terminal, workload=work,
            device=device_name(rank), devices=rank.world_size,
        )  # fmt: skip
        self.curves = Curves(curves_folder(request), step) if rank.leads else None
        self.gpu = Gpu(str(torch.cuda.get_device_properties().uuid)) if rank.device.type == "cuda" else None
        self.reading, self.read_at = Reading(), -math.inf
        self.pace = PaceMonitor(rank.local_world_size)
        self.work = work
        #: The total weight of the losses of all steps so far, and their rows.
        self.weight, self.rows = 0.0, 0
        self.requests = Requests(request.checkpoints) if rank.leads else None
        #: The largest peak memory of all ranks so far.
        self.peak_bytes = 0
        #: Number of skipped steps at the last meeting (`Scaler`).
        self.skipped = health.learner.scaler.skipped if health.learner.scaler else 0
        #: Figures that the ranks last exchanged: loss, gradient norm before clipping, the longest wait of a rank for a
        #: batch, and the speed; and the number of steps that they cover.
        self.latest: dict[str, float] = {}
        self.known = step
        #: Steps between the last two meetings, and their seconds.
        self.steps, self.elapsed_s = 0, 0.0
        #: The last step with a point on the curves.
        self.drawn = step
        #: The losses of this rank's microbatches since the last meeting.
        self.losses: list[Tensor] = []
        #: Steps between meetings, and the step count at the next one.
        self.interval = 1
        self.next_step = self._stop_before(step, step + 1)
        self.met_at = time.monotonic()

    def close(self) -> None:
        if self.requests:
            self.requests.close()
        if self.curves:
            self.curves.close()

    def add(self, losses: list[Tensor]) -> None:
        """Adds the losses of a step's microbatches."""
        self.losses += losses

    def meet(self, step: int, *, save: bool, validate: bool = False) -> Decision:
        """Meets all other ranks after `step` steps; returns the common decision.

        Args:
            save: Whether this rank's clock wants a checkpoint.
            validate: Whether this rank's clock wants a validation.

        Raises:
            UserError: a loss or a gradient was not finite.
        """
        self.rank.trace.mark(step, "the meeting of the ranks")
        count = len(self.losses) // len(self._assigned(self.rank.rank))
        pending, learner = self.pending, self.health.learner
        self.pending = Snapshot(self.losses, self.norm, learner.gradients.calls, step=step, count=count)
        self.losses.clear()
        shared = pending.read() if pending else []  # waits for the interval before, which bounds the host's lead
        elapsed = time.monotonic() - self.met_at
        values = [float(self.rank.stopping), float(save + 2 * validate), self._next_interval(elapsed / count)]
        values += [learner.stopwatch.waited_s / count, float(self.requests.take() if self.requests else 0)]
        values += [learner.stopwatch.take(), float(peak_bytes(self.rank.device)), *astuple(self._read_gpu())]
        head = len(values)
        everyone = gather(values + shared, head + self._length(pending))
        self.interval = int(everyone[0, 2])
        self.peak_bytes = int(everyone[:, 6].max())
        self._compare(everyone[:, 5].tolist(), elapsed / (count * len(self._assigned(0))), elapsed)
        self.progress.gpus = [Reading(*values) for values in everyone[:, 7:head].tolist()]
        self.latest |= {
            "data_wait_s": float(everyone[:, 3].max()), "samples_per_s": count * self.plan.global_batch_size / elapsed,
        }  # fmt: skip
        self.elapsed_s, self.steps = elapsed, count
        self._log_skipped()
        self._warn_of_buffers()
        if pending:
            self._add_losses(everyone[:, head:], pending)
        flags = int(everyone[0, 1])
        return Decision(stop=bool(everyone[:, 0].any()), save=bool(flags & 1), validate=bool(flags & 2),
                        profile=int(everyone[0, 4]))  # fmt: skip

    def complete(self) -> None:
        """Shares the losses of all steps so far, which waits for the device; every rank must call it after a meeting.

        Raises:
            UserError: a loss or a gradient was not finite.
        """
        pending, self.pending = self.pending, None
        if pending:
            self._add_losses(gather(pending.read(), self._length(pending)), pending)

    def _length(self, snapshot: Snapshot | None) -> int:
        """Returns the number of values that the rank with the most microbatches reads of a snapshot."""
        return 3 + snapshot.count * len(self._assigned(0)) * snapshot.width if snapshot else 0

    def _add_losses(self, everyone: Tensor, snapshot: Snapshot) -> None:
        """Checks the values of all ranks (world_size, length) and adds the losses to the history."""
        step, count = snapshot.step, snapshot.count
        losses = self._global_losses(everyone[:, 3:], count, snapshot.width, step - count)
        fault = int(everyone[0, 1])
        for number, loss in enumerate(losses, step - count):
            self.health.require_finite(number, loss, gradient_is_finite=number != fault)
            self.history.add(number, loss)
        self.health.require_same_step(step - 1, everyone[:, 0], everyone[:, 2])
        self.latest |= {"loss/train": losses[-1], "gradient_norm": float(everyone[0, 0])}
        self.known = step

    def _read_gpu(self) -> Reading:
        if self.gpu and time.monotonic() - self.read_at > _READING_EVERY_S:
            self.reading, self.read_at = self.gpu.read(), time.monotonic()
        return self.reading

    def go_on(self, step: int) -> None:
        """Schedules the next meeting; call it after the actions of the last decision."""
        self.next_step = self._stop_before(step, step + self.interval)
        self.met_at = time.monotonic()

    def validated(self, step: int, measured: Mapping[str, float]) -> None:
        """Adds the finite figures of a validation after `step` steps to the history and curves; warns of others."""
        finite = {}
        for name, value in measured.items():
            label = name.replace("_", " ") if name == LOSS else name
            if math.isfinite(value):
                finite[name] = value
            elif self.rank.leads:  # the weights are finite, so the cause is a row of the split or the metric itself
                self.progress.print_line(f"warning: after step {step} the {label} is {value:g}; it is left out")
        self.history.validated(step, finite.get(LOSS), {name: v for name, v in finite.items() if name != LOSS})
        if self.curves:
            named = {"loss/validation" if name == LOSS else f"validation/{name}": v for name, v in finite.items()}
            self.curves.add(named, step)

    def _log_skipped(self) -> None:
        scaler = self.health.learner.scaler
        if scaler and scaler.skipped > self.skipped and self.rank.leads:
            self.progress.print_line(
                f"steps skipped because their gradients overflowed in float16: {scaler.skipped - self.skipped}; the "
                f"loss is now scaled by {scaler.scale:,.0f}"
            )
        self.skipped = scaler.skipped if scaler else 0

    def _warn_of_buffers(self) -> None:
        buffers = self.health.learner.buffers
        for text in buffers.warnings if self.rank.leads else ():
            self.progress.print_line(text)
        buffers.warnings.clear()

    def _assigned(self, rank: int) -> range:
        return assignment(self.plan.microbatches, self.rank.world_size, rank)

    def _global_losses(self, values: Tensor, count: int, width: int, first: int) -> list[float]:
        """Returns each step's mean loss over the global batch, added in the order of the microbatches.

        Args:
            values: float64 (world_size, longest rank's count * microbatches * width).
            width: 2 for a sum and its weight, 1 for a mean.
            first: The number of the first step.
        """
        sizes = [len(self._assigned(rank)) for rank in range(self.rank.world_size)]
        parts = [values[rank, : count * size * width].view(count, size, width) for rank, size in enumerate(sizes)]
        losses = torch.cat(parts, dim=1)
        if width == 2:
            self.weight += float(losses[..., 1].sum())
            self.rows += count * self.plan.global_batch_size
            if self.work.weighed and self.weight > 0:
                self.progress.workload = self.work.filled(self.weight / self.rows)
            return [
                global_mean(pairs[:, 0].tolist(), pairs[:, 1].tolist(), number)
                for number, pairs in enumerate(losses, first)
            ]
        total = torch.zeros(count, dtype=torch.float64)
        for number, column in enumerate(losses[..., 0].unbind(dim=1)):
            total += column * self.plan.share(number)
        return total.tolist()

    def _next_interval(self, step_s: float) -> int:
        """Returns the steps to the next meeting, at most twice the last interval, because first steps are slow."""
        return max(1, min(2 * self.interval, int(_MEETING_EVERY_S / max(step_s, 1e-6)), _MOST_STEPS))

    def _stop_before(self, step: int, latest: int) -> int:
        """Returns the next step with a checkpoint, a validation or the end of an epoch; at most `latest`."""
        stops = [latest, self.plan.steps, self.plan.epoch_end(step)]
        stops += [(step // every + 1) * every for every in self.intervals if every]
        return min(stops)

    def _compare(self, own_s: list[float], whole_s: float, seconds: float) -> None:
        text = self.pace.add(own_s, whole_s, seconds)
        if text and self.rank.leads and self.rank.world_size > 1:
            self.progress.print_line(text)

    def flush(self) -> None:
        """Writes the curves so far; call it before a checkpoint of this step."""
        if self.curves:
            self.curves.flush()

    def stopped(self, step: int) -> None:
        """Shows that training stops early, after `step` steps."""
        self.show(step, stopped=True)

    def show(self, step: int, *, stopped: bool = False) -> None:
        """Shows the progress after `step` steps, with the last shared loss."""
        if not self.curves or "loss/train" not in self.latest:
            return
        done = step == self.plan.steps
        self.progress.show(step, self.latest["loss/train"], epoch=self.plan.epoch(step), done=done, stopped=stopped)
        if (done or stopped or self.curves.due) and self.drawn < self.known:
            rates = {n: float(group["lr"]) for n, group in enumerate(self.health.learner.optimizer.param_groups)}
            self.drawn = self.known
            self.curves.add(
                self.latest
                | {f"learning_rate/{n}" if n else "learning_rate": rate for n, rate in rates.items()}
                | throughput(
                    self.progress.workload, self.latest["samples_per_s"], self.progress.device, self.rank.world_size
                )
                | {"memory/peak_gib": self.peak_bytes / 2**30} | gpu_scalars(self.progress.gpus), self.known
            )  # fmt: skip


def peak_bytes(device: torch.device) -> int:
    """Returns the peak memory of this process in bytes: tensors on the GPU, or host memory without a GPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS
    return kib if sys.platform == "darwin" else kib << 10
