"""What a person sees of training: a line that rewrites itself on a terminal, a line every few seconds in a log.

Which rank holds the others up: each measures what it does alone, and they compare it where they meet.

What a rank does alone is to get its batch and to run the forward pass; in the rest of a step all wait for the slowest.
Under FSDP2 they wait for each other in the forward pass too, so there only the batches tell.
"""

import statistics
import time
from collections.abc import Sequence

import torch

from vgp.base.gpu_peaks import peak_flops
from vgp.base.text.printable import report
from vgp.networks.shape import Workload
from vgp.train.processes.gpu import Reading, summary

#: Seconds between lines in a log that is not a terminal.
_LOG_EVERY_S = 10.0


class Progress:
    """Rank 0's progress line: step, loss, throughput, use of the GPUs, time left."""

    def __init__(
        self,
        steps: int,
        first_step: int,
        samples_per_step: int,
        *,
        terminal: bool,
        workload: Workload | None = None,
        device: str = "cpu",
        devices: int = 1,
    ):
        self.workload, self.device, self.devices = workload or Workload(), device, devices
        self.steps, self.first_step, self.samples_per_step = steps, first_step, samples_per_step
        self.terminal = terminal
        self.began = self.last_shown = time.monotonic()
        self.recent = (self.began, first_step)
        self.rate = 0.0
        #: What was read last of each GPU.
        self.gpus: list[Reading] = []

    def show(self, step: int, loss: float, *, epoch: float, done: bool = False, stopped: bool = False) -> None:
        """Reports that `step` steps are done; prints only when a line is due.

        Args:
            done: Whether these are all steps.
            stopped: Whether training ends before all are done.
        """
        now = time.monotonic()
        due = 0.1 if self.terminal else _LOG_EVERY_S
        ended = done or stopped
        if not ended and now - self.last_shown < due and self.last_shown != self.began:
            return
        self._measure(now, step)
        if ended:  # the whole run, not the last stretch
            self.rate = (step - self.first_step) / max(now - self.began, 1e-9)
        left = "stopped" if stopped else f"{_clock((self.steps - step) / self.rate if self.rate else 0.0)} left"
        shown = [f"step {step}/{self.steps}", f"epoch {epoch:.2f}", f"loss {loss:.4f}", self._throughput()]
        line = "  ".join(filter(None, [*shown, summary(self.gpus), left]))
        self._print(line, ended)
        self.last_shown = now

    def _throughput(self) -> str:
        """Such as `51,200 tokens/s  MFU 41.3%`; the use only where the task knows its operations."""
        rows_per_s, work = self.rate * self.samples_per_step, self.workload
        shown = f"{rows_per_s * work.units_per_row:,.0f} {work.unit}/s"
        if not work.flops_per_row:
            return shown
        share = utilisation(rows_per_s * work.flops_per_row, self.device, self.devices)
        return f"{shown}  MFU {'n/a' if share is None else f'{share:.1%}'}"

    def say(self, text: str) -> None:
        """A line that stays."""
        report(("\r\x1b[K" if self.terminal else "") + text)

    def _measure(self, now: float, step: int) -> None:
        """Steps per second over the last stretch, smoothed."""
        then, before = self.recent
        if step > before and now > then:
            current = (step - before) / (now - then)
            self.rate = 0.5 * (self.rate + current) if self.rate else current
            self.recent = (now, step)

    def _print(self, line: str, ended: bool) -> None:
        if self.terminal:
            report("\r\x1b[K" + line, end="\n" if ended else "")
        else:
            report(line)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


# ---- how fast a GPU can be at most, and what share of that a training run uses (model FLOPs utilisation, MFU)


def utilisation(flops_per_s: float, device_name: str, devices: int) -> float | None:
    """The share of the peak of all devices; None where the peak or the work is not known."""
    peak = peak_flops(device_name)
    return flops_per_s / (peak * devices) if peak and flops_per_s else None


def throughput(work: Workload, rows_per_s: float, device_name: str, devices: int) -> dict[str, float]:
    """Figures of a run beside samples/s: its own unit, such as `tokens_per_s`, and `mfu` where it is known."""
    share = utilisation(rows_per_s * work.flops_per_row, device_name, devices)
    own = {} if work.unit == "samples" else {f"{work.unit}_per_s": round(rows_per_s * work.units_per_row, 1)}
    return own if share is None else own | {"mfu": round(share, 4)}


#: Seconds over which ranks are compared; how much longer than the median the slowest takes; and what share of a whole
#: microbatch that must cost.
_WINDOW_S = 30.0
_SLOWER = 1.3
_SHARE = 0.1


class Stopwatch:
    """What this rank has taken by itself since it was asked last. On a GPU one microbatch stands for all."""

    def __init__(self, device: torch.device):
        self.events: list[torch.cuda.Event] = []
        if device.type == "cuda":
            self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]  # type: ignore[no-untyped-call]
        self.reset()
        self.began = 0.0

    def reset(self) -> None:
        #: Seconds on the host, of them those until the batch was there, and how many microbatches that was for.
        self.host_s, self.waited_s, self.forwards = 0.0, 0.0, 0

    def begin(self) -> None:
        self.began = time.perf_counter()

    def has_batch(self) -> None:
        self.waited_s += time.perf_counter() - self.began
        if self.events:
            self.host_s += time.perf_counter() - self.began
            self.events[0].record()

    def has_loss(self) -> None:
        if self.events:
            self.events[1].record()
        else:
            self.host_s += time.perf_counter() - self.began
        self.forwards += 1

    def take(self) -> float:
        """Seconds for a microbatch; called when the device has done all that it was given."""
        forward_s = 0.0
        if self.events and self.forwards:
            self.events[1].synchronize()
            forward_s = self.events[0].elapsed_time(self.events[1]) / 1000
        own_s = self.host_s / max(self.forwards, 1) + forward_s
        self.reset()
        return own_s


class Pace:
    """The ranks compared, on rank 0."""

    def __init__(self, local_world_size: int, window_s: float = _WINDOW_S):
        self.local_world_size, self.window_s = local_world_size, window_s
        self.totals: list[float] = []
        self.whole_s = self.seconds = 0.0
        #: The rank that was named last; -1 = none.
        self.named = -1

    def add(self, own_s: Sequence[float], whole_s: float, seconds: float) -> str:
        """A sentence when a rank is to be named; else "".

        Args:
            own_s: What a microbatch took each rank by itself, in the last so many `seconds`.
            whole_s: What a microbatch took as a whole.
        """
        self.totals = [a + s * seconds for a, s in zip(self.totals or [0.0] * len(own_s), own_s, strict=True)]
        self.whole_s += whole_s * seconds
        self.seconds += seconds
        if self.seconds < self.window_s:
            return ""
        means, whole = [total / self.seconds for total in self.totals], self.whole_s / self.seconds
        window, self.totals, self.whole_s, self.seconds = self.seconds, [], 0.0, 0.0
        usual, slowest = statistics.median_low(means), max(means)
        rank = means.index(slowest)
        if slowest < _SLOWER * usual or slowest - usual < _SHARE * whole:
            self.named = -1
            return ""
        before, self.named = self.named, rank
        if rank == before:
            return ""
        return (
            f"rank {rank} (machine {rank // self.local_world_size}) holds the others up: for {window:.0f} s it has "
            f"taken {slowest * 1e3:.3g} ms to get a batch and run the forward pass; the median is {usual * 1e3:.3g} ms"
        )
