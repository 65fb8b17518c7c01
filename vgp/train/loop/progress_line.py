"""Shows the progress of training, computes throughput, and finds a slow rank.

A terminal has one line that is overwritten; a log has a line every few seconds. To find a slow rank, each rank measures
the time that it works alone: to get its batch and to run the forward pass. In the rest of a step all ranks wait for the
slowest. Under FSDP2 ranks also wait for each other in the forward pass, so only slow batches can be found.
"""

import statistics
import time
from collections.abc import Sequence

import torch

from vgp.base.gpu_peaks import peak_flops
from vgp.base.text.printable import report
from vgp.networks.shape import Workload
from vgp.train.processes.gpu_readings import Reading, format_gpus

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
        #: The last reading of each GPU.
        self.gpus: list[Reading] = []

    def show(self, step: int, loss: float, *, epoch: float, done: bool = False, stopped: bool = False) -> None:
        """Prints the progress after `step` steps, if a line is due.

        Args:
            done: Whether all steps are done.
            stopped: Whether training stops early.
        """
        now = time.monotonic()
        due = 0.1 if self.terminal else _LOG_EVERY_S
        ended = done or stopped
        if not ended and now - self.last_shown < due and self.last_shown != self.began:
            return
        self._measure(now, step)
        if ended:  # the rate of the whole run
            self.rate = (step - self.first_step) / max(now - self.began, 1e-9)
        left = "stopped" if stopped else f"{_format_clock((self.steps - step) / self.rate if self.rate else 0.0)} left"
        parts = [f"step {step}/{self.steps}", f"epoch {epoch:.2f}", f"loss {loss:.4f}", self._throughput()]
        line = "  ".join(filter(None, [*parts, format_gpus(self.gpus), left]))
        self._print(line, ended)
        self.last_shown = now

    def _throughput(self) -> str:
        """Formats the throughput, for example `51,200 tokens/s  MFU 41.3%`; MFU only if the task's FLOPs are known."""
        rows_per_s, work = self.rate * self.samples_per_step, self.workload
        speed = f"{rows_per_s * work.units_per_row:,.0f} {work.unit}/s"
        if not work.flops_per_row:
            return speed
        share = flops_utilisation(rows_per_s * work.flops_per_row, self.device, self.devices)
        return f"{speed}  MFU {'n/a' if share is None else f'{share:.1%}'}"

    def print_line(self, text: str) -> None:
        """Prints a line that the progress line does not overwrite."""
        report(("\r\x1b[K" if self.terminal else "") + text)

    def _measure(self, now: float, step: int) -> None:
        """Updates the smoothed rate in steps per second."""
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


def _format_clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def flops_utilisation(flops_per_s: float, device_name: str, devices: int) -> float | None:
    """Returns the model FLOPs utilisation (MFU): the share of all devices' peak FLOP/s; None if unknown."""
    peak = peak_flops(device_name)
    return flops_per_s / (peak * devices) if peak and flops_per_s else None


def throughput(work: Workload, rows_per_s: float, device_name: str, devices: int) -> dict[str, float]:
    """Returns the speed in the task's unit (unless samples), for example `tokens_per_s`, and `mfu` if known."""
    share = flops_utilisation(rows_per_s * work.flops_per_row, device_name, devices)
    own = {} if work.unit == "samples" else {f"{work.unit}_per_s": round(rows_per_s * work.units_per_row, 1)}
    return own if share is None else own | {"mfu": round(share, 4)}


#: Seconds over which ranks are compared.
_WINDOW_S = 30.0
#: A rank is slow if it takes this multiple of the median, and if the difference is this share of a whole microbatch.
_SLOWER = 1.3
_SHARE = 0.1


class Stopwatch:
    """A stopwatch for the time that this rank works alone. On a GPU it measures one microbatch at a time."""

    def __init__(self, device: torch.device):
        self.events: list[torch.cuda.Event] = []
        if device.type == "cuda":
            self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]  # type: ignore[no-untyped-call]
        #: Whether the events may record the next pass, and the seconds between those of the last one on the device.
        self.is_free, self.forward_s = True, 0.0
        self.reset()
        self.began = 0.0

    def reset(self) -> None:
        #: Seconds on the host, seconds of waiting for batches (included), and the number of microbatches.
        self.host_s, self.waited_s, self.forwards = 0.0, 0.0, 0

    def begin(self) -> None:
        self.began = time.perf_counter()

    def has_batch(self) -> None:
        self.waited_s += time.perf_counter() - self.began
        if self.events:
            self.host_s += time.perf_counter() - self.began
            if self.is_free:
                self.events[0].record()

    def has_loss(self) -> None:
        if self.events and self.is_free:
            self.events[1].record()
            self.is_free = False
        elif not self.events:
            self.host_s += time.perf_counter() - self.began
        self.forwards += 1

    def take(self) -> float:
        """Returns the seconds for a microbatch and resets; on a GPU with the last measured pass, without waiting."""
        if self.events and not self.is_free and self.events[1].query():  # type: ignore[no-untyped-call]
            self.forward_s = self.events[0].elapsed_time(self.events[1]) / 1000
            self.is_free = True
        own_s = self.host_s / max(self.forwards, 1) + self.forward_s
        self.reset()
        return own_s


class PaceMonitor:
    """A comparison of the ranks' speeds, to name a slow rank."""

    def __init__(self, local_world_size: int, window_s: float = _WINDOW_S):
        self.local_world_size, self.window_s = local_world_size, window_s
        self.totals: list[float] = []
        self.whole_s = self.seconds = 0.0
        #: The last rank that was reported as slow; -1 = none.
        self.named = -1

    def add(self, own_s: Sequence[float], whole_s: float, seconds: float) -> str:
        """Adds a measurement; returns a sentence if a rank turns out to be slow, else "".

        Args:
            own_s: Seconds that each rank worked alone on a microbatch, on average over the last `seconds`.
            whole_s: Seconds of a whole microbatch.
        """
        self.totals = [a + s * seconds for a, s in zip(self.totals or [0.0] * len(own_s), own_s, strict=True)]
        self.whole_s += whole_s * seconds
        self.seconds += seconds
        if self.seconds < self.window_s:
            return ""
        means, whole = [total / self.seconds for total in self.totals], self.whole_s / self.seconds
        window, self.totals, self.whole_s, self.seconds = self.seconds, [], 0.0, 0.0
        median, slowest = statistics.median_low(means), max(means)
        rank = means.index(slowest)
        if slowest < _SLOWER * median or slowest - median < _SHARE * whole:
            self.named = -1
            return ""
        before, self.named = self.named, rank
        if rank == before:
            return ""
        return (
            f"rank {rank} (machine {rank // self.local_world_size}) slows the others down: for {window:.0f} s it took "
            f"{slowest * 1e3:.3g} ms to get a batch and run the forward pass; the median is {median * 1e3:.3g} ms"
        )
