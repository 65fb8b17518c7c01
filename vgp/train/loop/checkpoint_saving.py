"""Saves the checkpoints of a run on one rank, and chooses the interval between them.

The interval minimises the time lost to saves and to work repeated after a kill: J. W. Young, A first order
approximation to the optimum checkpoint interval, CACM 17(9), 1974, https://doi.org/10.1145/361147.361115; here in the
higher order of J. T. Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, FGCS 22(3),
2006, https://doi.org/10.1016/j.future.2004.11.016. The cost of a save is the time that training loses by it. The
latency until a checkpoint is readable adds an equal loss at every kill for any interval, so it does not change the
optimum: N. H. Vaidya, Impact of checkpoint latency on overhead ratio of a checkpointing scheme, IEEE Trans. Computers
46(8), 1997, https://doi.org/10.1109/12.609281.
"""

import math
import os
import statistics
import time
from collections import deque
from typing import Literal

import torch

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import ProcessFailed, StoreDown, is_store_down
from vgp.train.checkpoint import training_state
from vgp.train.checkpoint.checkpoint_store import store_at
from vgp.train.checkpoint.writer import Origin, Writer
from vgp.train.loop.learner import Learner
from vgp.train.loop.training_request import RATE_PER_H, TrainingRequest, read_failure_rate
from vgp.train.processes.rank import Rank

#: Seconds until the first save, which measures the cost; fewer if kills are frequent.
_FIRST_S = 60.0
#: The shortest `auto` interval; below it, requests to the store and log lines dominate the cost.
LEAST_S = 10.0
#: The longest `auto` interval, so that a wrong rate of kills cannot lose more than half an hour.
MOST_S = 1800.0
#: The largest share of time for saves, so that a wrong rate of kills cannot stop training.
MOST_SHARE = 0.05
#: Numbers of costs and of paces without a save to take medians of, and the least number of paces.
_COSTS, _PACES, _LEAST_PACES = 5, 64, 3
#: A new interval is logged if it differs by this factor.
_MOVED = 2.0


def optimal_interval(save_s: float, failure_every_s: float) -> float:
    """Returns the seconds of work between two saves that lose least time; both arguments in seconds, positive."""
    ratio = save_s / (2 * failure_every_s)
    if ratio >= 1:
        return failure_every_s
    return math.sqrt(2 * save_s * failure_every_s) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - save_s


class Interval:
    """The interval between the starts of two saves, on one rank.

    Args:
        chosen: A number of seconds, or `auto` = from the measured cost of saves.
        rate: Expected interruptions per hour.
    """

    def __init__(self, interval: float | Literal["auto"], rate: float = RATE_PER_H):
        self.is_auto, self.failure_every_s = interval == "auto", 3600 / rate
        first_s = max(LEAST_S, min(_FIRST_S, self.failure_every_s / 10))
        self.every_s: float = first_s if interval == "auto" else interval
        self.logged_s = 0.0
        self.costs: deque[float] = deque(maxlen=_COSTS)
        self.paces: deque[float] = deque(maxlen=_PACES)
        #: Seconds that training waited for the save in progress, and seconds and number of the steps during it.
        self.held_s = self.meanwhile_s = 0.0
        self.steps = 0
        self.is_open = False

    def begin(self, held_s: float) -> None:
        """Records the start of a save, for which training waited `held_s` seconds."""
        self.held_s, self.meanwhile_s, self.steps, self.is_open = held_s, 0.0, 0, True

    def hold(self, seconds: float) -> None:
        """Records that a step waited for the save in progress."""
        self.held_s += seconds

    def add(self, steps: int, seconds: float, *, writing: bool) -> str:
        """Records steps and their seconds; returns a sentence if the interval has changed, else "".

        Args:
            writing: Whether the save is still in progress.
        """
        if not self.is_open:
            self.paces.append(seconds / steps)
            return ""
        self.steps, self.meanwhile_s = self.steps + steps, self.meanwhile_s + seconds
        if writing:
            return ""
        self.is_open = False
        if len(self.paces) < _LEAST_PACES:
            # With slow steps, a save during each step would hide its cost, so the interval doubles.
            self.every_s = min(2 * self.every_s, MOST_S) if self.is_auto else self.every_s
            return ""
        self.costs.append(self._cost())
        return self._settle() if self.is_auto else ""

    def _cost(self) -> float:
        """Returns the seconds that training lost by the last save: waiting, or slower steps meanwhile."""
        slower_s = self.meanwhile_s - self.steps * statistics.median(self.paces)
        return max(self.held_s, slower_s, 1e-4)

    @property
    def cost_s(self) -> float:
        """Seconds that training loses by a save; 0 = unknown yet."""
        return statistics.median(self.costs) if self.costs else 0.0

    def _settle(self) -> str:
        cost_s = self.cost_s
        best_s = optimal_interval(cost_s, self.failure_every_s)
        self.every_s = max(min(best_s, MOST_S), LEAST_S, cost_s / MOST_SHARE)
        if self.logged_s and 1 / _MOVED < self.every_s / self.logged_s < _MOVED:
            return ""
        self.logged_s = self.every_s
        bound = "" if self.every_s == best_s else self._bound(best_s)
        return (
            f"checkpoints every {seconds_in_words(self.every_s)}: a save costs {seconds_in_words(cost_s)}, and one "
            f"interruption in {seconds_in_words(self.failure_every_s)} is expected{bound}"
        )

    def _bound(self, best_s: float) -> str:
        optimal = f"{seconds_in_words(best_s)} would lose least time"
        if self.every_s in (LEAST_S, MOST_S):
            return f" ({optimal}, but this is the {'shortest' if self.every_s == LEAST_S else 'longest'} interval)"
        return f" ({optimal}, but saves may take at most {MOST_SHARE:.0%} of the time)"


def seconds_in_words(seconds: float) -> str:
    """Formats seconds, for example 0.004 s, 84 s, 12 min, 2.5 h."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"


def device_kind(rank: Rank) -> str:
    """Returns the type of device, for example `NVIDIA L4` or `cpu`; different types may round differently."""
    return torch.cuda.get_device_name(rank.device) if rank.device.type == "cuda" else rank.device.type


class Saving:
    """The saving of this rank's share of every checkpoint, and its clock for the next one."""

    def __init__(self, request: TrainingRequest, rank: Rank, learner: Learner):
        self.config, self.rank, self.learner = request.config, rank, learner
        self.store = store_at(request.checkpoints)
        self.writer = Writer(
            self.store, rank.another_rendezvous(), rank=rank.rank, world_size=rank.world_size, run=request.run,
            launch_id=request.launch_id, settings=request.settings, keep=self.config.keep,
            patience_s=self.config.checkpoint_patience_s, fence=request.fence,
            origin=Origin(request.job, device_kind(rank)),
        )  # fmt: skip
        learner.before_update = self._wait_copied
        #: Rank 0's interval and clock decide.
        self.interval = Interval(self.config.checkpoint_every_s, read_failure_rate(os.environ))
        #: Seconds for which a rank may work alone on files, such as rank 0 on a commit, while the others wait.
        self.patience_s = self.config.checkpoint_patience_s + self.config.hang_after_s
        #: Seconds between the signs of life of a rank that is still writing.
        self.look_s = min(1.0, self.config.hang_after_s / 4)
        self.saved_at = time.monotonic()
        #: The step of the checkpoint that the run resumed from; 0 = none.
        self.resumed_from = 0

    @property
    def is_due(self) -> bool:
        return time.monotonic() - self.saved_at >= self.interval.every_s and not self.writer.busy

    def add(self, steps: int, seconds: float) -> str:
        """Records steps and their seconds; returns a sentence if the interval has changed, else ""."""
        return self.interval.add(steps, seconds, writing=self.writer.busy)

    def _wait_copied(self) -> None:
        if not self.writer.snapshot.pending:
            return
        began = time.monotonic()
        self.writer.wait_copied()
        self.interval.hold(time.monotonic() - began)

    def save(self, step: int, history: JsonObject, *, hurried: bool = False) -> None:
        """Starts to save the state after `step` steps, after the previous checkpoint is written.

        Args:
            hurried: Whether the process is about to end, as `Writer.save`.
        """
        self.wait(step)
        began = time.monotonic()
        tensors = self.learner.tensors()
        layout = training_state.layout_of(tensors, self.rank.world_size)
        share = training_state.share_of(tensors, layout, self.rank.rank)
        self.writer.save(step, share, layout, self.learner.scalars(), history, self.learner.stable(),
                         self.learner.state.scalars(), hurried=hurried)  # fmt: skip
        self.saved_at = time.monotonic()
        self.interval.begin(self.saved_at - began)

    def wait(self, step: int) -> None:
        """Waits until no rank is writing, including rank 0, which commits.

        However slow the store is, a writing rank exchanges a sign of life every `look_s`: a rank that misses one has
        stopped, and no collective starts before all ranks have written.
        """
        self.rank.trace.mark(step, "a checkpoint")
        began = time.monotonic()
        while True:
            writing, error, is_down = False, "", False
            try:
                writing = not self.writer.wait(self.look_s)
            except OSError as failure:
                error, is_down = str(failure), is_store_down(failure)
            states = self.rank.exchange(
                (writing, error, time.monotonic() - began, is_down), within_s=self.config.hang_after_s + self.look_s
            )
            self._require_patience(states)
            if not any(writing for writing, *_ in states):
                return

    def _require_patience(self, states: list[tuple[bool, str, float, bool]]) -> None:
        """Raises ProcessFailed, on every rank, if a rank has failed or is still writing after `patience_s`.

        Raises StoreDown instead if a rank has failed because the store did not answer.
        """
        waited_s = states[0][2]  # rank 0's clock decides
        late = [str(rank) for rank, (writing, *_) in enumerate(states) if writing]
        reason, is_down = next(((error, is_down) for _, error, _, is_down in states if error), ("", False))
        if not reason and late and waited_s > self.patience_s:  # longer than rank 0 waits for the others' parts
            ranks = ", ".join(late)
            reason = f"rank {ranks} is still writing its share to {self.store}, {waited_s:.0f} s after it was due"
        if reason:
            failure = StoreDown if is_down else ProcessFailed
            raise failure(
                f"no checkpoint could be saved for {self.config.checkpoint_patience_s:g} s "
                f"(checkpoint_patience_s): {reason}"
            )

    def newest(self) -> int:
        """Returns the step of the newest good checkpoint, of this attempt or an earlier one; 0 = none."""
        return self.writer.newest() or self.resumed_from
