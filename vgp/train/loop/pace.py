"""Which rank holds the others up: each measures what it does alone, and they compare it where they meet.

What a rank does alone is to get its batch and to run the forward pass; in the rest of a step all wait for the slowest.
Under FSDP2 they wait for each other in the forward pass too, so there only the batches tell.
"""

import statistics
import time
from collections.abc import Sequence

import torch

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
