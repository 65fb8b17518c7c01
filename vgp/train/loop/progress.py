"""What a person sees of training: a line that rewrites itself on a terminal, a line every few seconds in a log."""

import time

from vgp.base.printable import report
from vgp.networks.workload import Workload
from vgp.train.loop.accelerator import utilisation
from vgp.train.processes.nvml import Reading, summary

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
