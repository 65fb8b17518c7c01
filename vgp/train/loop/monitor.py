"""Where the ranks meet, about twice a second: what they share of their steps, and what is shown of it.

They share the losses since the last time, whether any was asked to stop, and whether rank 0's clock wants a checkpoint.
"""

import math
import os
import resource
import sys
import time
from collections.abc import Mapping
from dataclasses import astuple, dataclass

import torch
from torch import Tensor

from vgp.networks.shape import Workload
from vgp.protocol import environment as variables
from vgp.train.loop.curves import Curves, History
from vgp.train.loop.health import Health
from vgp.train.loop.order import assignment
from vgp.train.loop.outcome import device_name
from vgp.train.loop.profiling import Requests
from vgp.train.loop.progress import Pace, Progress, throughput
from vgp.train.loop.selection import LOSS
from vgp.train.loop.training_request import TrainingRequest
from vgp.train.loop.weighting import gather, global_mean
from vgp.train.processes.gpu import Gpu, Reading, scalars
from vgp.train.processes.rank import Rank

_MEETING_EVERY_S = 0.5
_MOST_STEPS = 4096


@dataclass(frozen=True)
class Decision:
    """What all ranks do at the same step."""

    #: Whether one of them was asked to stop.
    stop: bool
    #: Whether rank 0's clock wants a checkpoint.
    save: bool
    #: Whether rank 0's clock wants a validation.
    validate: bool
    #: Steps to trace from here on; 0 = none.
    profile: int = 0


def curves_folder(request: TrainingRequest) -> str:
    """Where TensorBoard finds the run: what was started anew beside older checkpoints is a run of its own there.

    A job of Vertex AI with a TensorBoard is told the folder that is uploaded:
    https://docs.cloud.google.com/gemini-enterprise-agent-platform/machine-learning/experiments/tensorboard-training
    """
    folder = os.environ.get(variables.TENSORBOARD, "").rstrip("/") or f"{request.checkpoints}/tensorboard"
    return folder + (f"/run{request.run:03}" if request.run else "")


class Monitor:
    """One rank's side of the meetings; rank 0 shows the progress and writes the curves."""

    def __init__(
        self, request: TrainingRequest, rank: Rank, health: Health, history: History, work: Workload, step: int
    ):
        self.plan = request.plan
        self.intervals = [request.config.checkpoint_every_steps, request.config.validate_every_steps]
        self.rank, self.health, self.history = rank, health, history
        self.norm = health.learner.norm
        self.progress = Progress(
            self.plan.steps, step, self.plan.global_batch_size, terminal=rank.terminal, workload=work,
            device=device_name(rank), devices=rank.world_size,
        )  # fmt: skip
        self.curves = Curves(curves_folder(request), step) if rank.leads else None
        self.gpu = Gpu(str(torch.cuda.get_device_properties().uuid)) if rank.device.type == "cuda" else None
        self.pace = Pace(rank.local_world_size)
        self.work = work
        #: Of all steps so far: what their losses weighed, and their rows.
        self.weight, self.rows = 0.0, 0
        self.requests = Requests(request.checkpoints) if rank.leads else None
        #: The most memory that any rank's device has held so far.
        self.peak_bytes = 0
        #: Steps that were skipped until the last meeting (`Scaler`).
        self.skipped = health.learner.scaler.skipped if health.learner.scaler else 0
        #: What the last meeting found: the last step's loss and the norm of its whole gradient before it was clipped;
        #: what a step has waited for its batches on the rank that waited longest; the speed.
        self.latest: dict[str, float] = {}
        #: Steps up to the last meeting since the one before, and their seconds.
        self.steps, self.elapsed_s = 0, 0.0
        #: The last step that the curves have a point of.
        self.drawn = step
        #: Of each of this rank's microbatches since the last meeting.
        self.losses: list[Tensor] = []
        #: Steps from one meeting to the next, and the number of steps that will be done then.
        self.interval = 1
        self.next_step = self._stop_before(step, step + 1)
        self.met_at = time.monotonic()

    def close(self) -> None:
        if self.requests:
            self.requests.close()
        if self.curves:
            self.curves.close()

    def add(self, losses: list[Tensor]) -> None:
        """Takes the losses of a step's microbatches."""
        self.losses += losses

    def meet(self, step: int, *, save: bool, validate: bool = False) -> Decision:
        """Shares what happened with all ranks, after `step` steps.

        Args:
            save: Whether this rank's clock wants a checkpoint.
            validate: Whether it wants a validation.

        Raises:
            UserError: a loss or a gradient was not finite.
        """
        self.rank.trace.mark(step, "the meeting of the ranks")
        count = len(self.losses) // len(self._assigned(self.rank.rank))
        elapsed = time.monotonic() - self.met_at
        values = [float(self.rank.stopping), float(save + 2 * validate), self._next_interval(elapsed / count)]
        values += [float(self.norm.total), float(self.health.learner.gradients.calls)]
        losses_here = torch.stack(self.losses).flatten().tolist()  # waits for the device
        reading = self.gpu.read() if self.gpu else Reading()
        values += [self.health.learner.stopwatch.waited_s / count]
        values += [float(self.requests.take() if self.requests else 0)]
        values += [self.health.learner.stopwatch.take(), float(peak_bytes(self.rank.device)), *astuple(reading)]
        head = len(values)
        values += losses_here
        width = self.losses[0].numel()  # 2 for a sum and its weight
        everyone = gather(values, head + count * len(self._assigned(0)) * width)
        self.losses.clear()
        losses = self._global_losses(everyone[:, head:], count, width, step - count)
        self._tell_skipped()
        self._warn_of_buffers()
        fault = self.norm.first_fault()
        for number, loss in enumerate(losses, step - count):
            self.health.require_finite(number, loss, gradient_is_finite=number != fault)
            self.history.add(number, loss)
        self.health.require_same_step(step - 1, everyone[:, 3], everyone[:, 4])
        self.interval = int(everyone[0, 2])
        self.peak_bytes = int(everyone[:, 8].max())
        self._compare(everyone[:, 7].tolist(), elapsed / (count * len(self._assigned(0))), elapsed)
        self.progress.gpus = [Reading(*values) for values in everyone[:, 9:head].tolist()]
        self.latest = {
            "loss/train": losses[-1], "gradient_norm": float(everyone[0, 3]),
            "data_wait_s": float(everyone[:, 5].max()), "samples_per_s": count * self.plan.global_batch_size / elapsed,
        }  # fmt: skip
        self.elapsed_s, self.steps = elapsed, count
        self._show(step)
        wishes = int(everyone[0, 1])
        return Decision(stop=bool(everyone[:, 0].any()), save=bool(wishes & 1), validate=bool(wishes & 2),
                        profile=int(everyone[0, 6]))  # fmt: skip

    def go_on(self, step: int) -> None:
        """Sets the next meeting, once all has been done that was decided."""
        self.next_step = self._stop_before(step, step + self.interval)
        self.met_at = time.monotonic()

    def validated(self, step: int, measured: Mapping[str, float]) -> None:
        """Shows and keeps what was measured after `step` steps, but for what is no number."""
        finite = {}
        for name, value in measured.items():
            shown = name.replace("_", " ") if name == LOSS else name
            if math.isfinite(value):
                finite[name] = value
            elif self.rank.leads:  # the weights are finite, so it is a row of the split, or the figure itself
                self.progress.say(f"warning: after step {step} the {shown} is {value:g}; it is left out")
        self.history.validated(step, finite.get(LOSS), {name: v for name, v in finite.items() if name != LOSS})
        if self.curves:
            named = {"loss/validation" if name == LOSS else f"validation/{name}": v for name, v in finite.items()}
            self.curves.add(named, step)

    def _tell_skipped(self) -> None:
        """Which steps had no update, since their gradients overflowed in float16."""
        scaler = self.health.learner.scaler
        if scaler and scaler.skipped > self.skipped and self.rank.leads:
            self.progress.say(
                f"steps skipped since their gradients overflowed in float16: {scaler.skipped - self.skipped}; the loss "
                f"is now scaled by {scaler.scale:,.0f}"
            )
        self.skipped = scaler.skipped if scaler else 0

    def _warn_of_buffers(self) -> None:
        buffers = self.health.learner.buffers
        for text in buffers.warnings if self.rank.leads else ():
            self.progress.say(text)
        buffers.warnings.clear()

    def _assigned(self, rank: int) -> range:
        return assignment(self.plan.microbatches, self.rank.world_size, rank)

    def _global_losses(self, values: Tensor, count: int, width: int, first: int) -> list[float]:
        """Each step's mean loss over the global batch; added microbatch by microbatch, whoever computed them."""
        sizes = [len(self._assigned(rank)) for rank in range(self.rank.world_size)]
        parts = [values[rank, : count * size * width].view(count, size, width) for rank, size in enumerate(sizes)]
        every = torch.cat(parts, dim=1)
        if width == 2:
            self.weight, self.rows = (
                self.weight + float(every[..., 1].sum()),
                self.rows + count * self.plan.global_batch_size,
            )
            if self.work.weighed and self.weight > 0:
                self.progress.workload = self.work.filled(self.weight / self.rows)
            return [
                global_mean(each[:, 0].tolist(), each[:, 1].tolist(), number)
                for number, each in enumerate(every, first)
            ]
        total = torch.zeros(count, dtype=torch.float64)
        for number, column in enumerate(every[..., 0].unbind(dim=1)):
            total += column * self.plan.share(number)
        return total.tolist()

    def _next_interval(self, step_s: float) -> int:
        """Steps to the next meeting, by rank 0's clock; at most double the last, since first steps are slow."""
        return max(1, min(2 * self.interval, int(_MEETING_EVERY_S / max(step_s, 1e-6)), _MOST_STEPS))

    def _stop_before(self, step: int, wanted: int) -> int:
        """`wanted`, or the step before it at which something must happen."""
        stops = [wanted, self.plan.steps, self.plan.epoch_end(step)]
        stops += [(step // every + 1) * every for every in self.intervals if every]
        return min(stops)

    def _compare(self, own_s: list[float], whole_s: float, seconds: float) -> None:
        text = self.pace.add(own_s, whole_s, seconds)
        if text and self.rank.leads and self.rank.world_size > 1:
            self.progress.say(text)

    def flush(self) -> None:
        """Writes the curves up to here, before a checkpoint holds this step."""
        if self.curves:
            self.curves.flush()

    def stopped(self, step: int) -> None:
        """Shows that training ends here, after `step` steps, before all are done."""
        self._show(step, stopped=True)

    def _show(self, step: int, *, stopped: bool = False) -> None:
        if not self.curves:
            return
        done = step == self.plan.steps
        self.progress.show(step, self.latest["loss/train"], epoch=self.plan.epoch(step), done=done, stopped=stopped)
        if (done or stopped or self.curves.due) and self.drawn < step:
            rates = {n: float(group["lr"]) for n, group in enumerate(self.health.learner.optimizer.param_groups)}
            self.drawn = step
            self.curves.add(
                self.latest
                | {f"learning_rate/{n}" if n else "learning_rate": rate for n, rate in rates.items()}
                | throughput(
                    self.progress.workload, self.latest["samples_per_s"], self.progress.device, self.rank.world_size
                )
                | {"memory/peak_gib": self.peak_bytes / 2**30} | scalars(self.progress.gpus), step
            )  # fmt: skip


def peak_bytes(device: torch.device) -> int:
    """What this process has held at most: of the GPU's memory in tensors, or of the host's where there is no GPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS
    return kib if sys.platform == "darwin" else kib << 10
