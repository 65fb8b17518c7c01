"""The checkpoints of a run, as one rank saves them while it trains, and how often.

Saving, and doing again what a kill has undone, are to cost least together: J. W. Young, A first order approximation to
the optimum checkpoint interval, CACM 17(9), 1974, https://doi.org/10.1145/361147.361115; here in the higher order of
J. T. Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, FGCS 22(3), 2006,
https://doi.org/10.1016/j.future.2004.11.016. What counts as the cost of a save is what training loses by it. That a
save takes longer until it can be read loses as much again at every kill whatever the interval, and so does not move the
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
from vgp.train.checkpoint import state
from vgp.train.checkpoint.store import store_at
from vgp.train.checkpoint.writer import Origin, Writer
from vgp.train.loop.learner import Learner
from vgp.train.loop.training_request import RATE_PER_H, TrainingRequest, rate_per_h
from vgp.train.processes.rank import Rank

#: When the first save is due, which tells what one costs; earlier where kills are frequent.
_FIRST_S = 60.0
#: No save is due earlier: below, the store's requests and a line of the log for each are the larger part of the cost.
LEAST_S = 10.0
#: None is due later: what is lost with a machine, half an hour at most, should not depend on a rate that is a guess.
MOST_S = 1800.0
#: The share of time that saving may take, whatever is lost then: a rate that is far too high must not stop training.
MOST_SHARE = 0.05
#: Costs of saves that are looked at, and the paces of steps without one: medians, since other work disturbs.
_COSTS, _PACES, _LEAST_PACES = 5, 64, 3
#: By how much it must have moved to be told again.
_MOVED = 2.0


def optimum(save_s: float, failure_every_s: float) -> float:
    """Seconds of work between two saves that lose least; both arguments in seconds, positive."""
    ratio = save_s / (2 * failure_every_s)
    if ratio >= 1:
        return failure_every_s
    return math.sqrt(2 * save_s * failure_every_s) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - save_s


class Interval:
    """Seconds from the begin of one save to that of the next, on one rank.

    Args:
        chosen: A number, or `auto`: by what saves turn out to cost.
        rate: Expected interruptions an hour.
    """

    def __init__(self, chosen: float | Literal["auto"], rate: float = RATE_PER_H):
        self.is_auto, self.failure_every_s = chosen == "auto", 3600 / rate
        first_s = max(LEAST_S, min(_FIRST_S, self.failure_every_s / 10))
        self.every_s: float = first_s if chosen == "auto" else chosen
        self.told_s = 0.0
        self.costs: deque[float] = deque(maxlen=_COSTS)
        self.paces: deque[float] = deque(maxlen=_PACES)
        #: Of the save under way: what it held training up, and the steps meanwhile with their seconds.
        self.held_s = self.meanwhile_s = 0.0
        self.steps = 0
        self.is_open = False

    def begin(self, held_s: float) -> None:
        """A save has begun, which has held training up for so long."""
        self.held_s, self.meanwhile_s, self.steps, self.is_open = held_s, 0.0, 0, True

    def hold(self, seconds: float) -> None:
        """A step has waited for the save under way, among its other seconds."""
        self.held_s += seconds

    def add(self, steps: int, seconds: float, *, writing: bool) -> str:
        """Takes note of steps and their seconds; a sentence when the interval is new.

        Args:
            writing: Whether the save is still under way.
        """
        if not self.is_open:
            self.paces.append(seconds / steps)
            return ""
        self.steps, self.meanwhile_s = self.steps + steps, self.meanwhile_s + seconds
        if writing:
            return ""
        self.is_open = False
        if len(self.paces) < _LEAST_PACES:
            # Of slow steps: with a save beside each one nobody would ever know by what saves slow them down.
            self.every_s = min(2 * self.every_s, MOST_S) if self.is_auto else self.every_s
            return ""
        self.costs.append(self._cost())
        return self._settle() if self.is_auto else ""

    def _cost(self) -> float:
        """What the last save took from training: what waited for it, and that steps were slower beside it."""
        slower_s = self.meanwhile_s - self.steps * statistics.median(self.paces)
        return max(self.held_s, slower_s, 1e-4)

    @property
    def cost_s(self) -> float:
        """What training loses by a save; 0 = not known yet."""
        return statistics.median(self.costs) if self.costs else 0.0

    def _settle(self) -> str:
        cost_s = self.cost_s
        best_s = optimum(cost_s, self.failure_every_s)
        self.every_s = max(min(best_s, MOST_S), LEAST_S, cost_s / MOST_SHARE)
        if self.told_s and 1 / _MOVED < self.every_s / self.told_s < _MOVED:
            return ""
        self.told_s = self.every_s
        bound = "" if self.every_s == best_s else self._bound(best_s)
        return (
            f"checkpoints every {seconds_in_words(self.every_s)}: a save costs {seconds_in_words(cost_s)}, and one "
            f"interruption in {seconds_in_words(self.failure_every_s)} is expected{bound}"
        )

    def _bound(self, best_s: float) -> str:
        if self.every_s in (LEAST_S, MOST_S):
            return f" ({seconds_in_words(best_s)} would lose least; {'least' if self.every_s == LEAST_S else 'most'})"
        return f" ({seconds_in_words(best_s)} would lose least; saving takes {MOST_SHARE:.0%} of the time at most)"


def seconds_in_words(seconds: float) -> str:
    """Such as 0.004 s, 84 s, 12 min, 2.5 h."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"


def device_kind(rank: Rank) -> str:
    """Such as `NVIDIA L4` or `cpu`: what may round otherwise than another kind."""
    return torch.cuda.get_device_name(rank.device) if rank.device.type == "cuda" else rank.device.type


class Saving:
    """This rank's share of every checkpoint, and when the next one is due by its clock."""

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
        #: By rank 0's, whose clock decides.
        self.interval = Interval(self.config.checkpoint_every_s, rate_per_h(os.environ))
        #: How long a rank may work alone on files, such as rank 0 on a commit, while the others wait.
        self.patience_s = self.config.checkpoint_patience_s + self.config.hang_after_s
        #: How long a rank that writes waits before it says so.
        self.look_s = min(1.0, self.config.hang_after_s / 4)
        self.saved_at = time.monotonic()
        #: The step of the checkpoint that the run has gone on from; 0 = none.
        self.resumed_from = 0

    @property
    def is_due(self) -> bool:
        return time.monotonic() - self.saved_at >= self.interval.every_s and not self.writer.busy

    def add(self, steps: int, seconds: float) -> str:
        """Takes note of steps and how long they took; a sentence when how often is saved has changed by that."""
        return self.interval.add(steps, seconds, writing=self.writer.busy)

    def _wait_copied(self) -> None:
        if not self.writer.snapshot.pending:
            return
        began = time.monotonic()
        self.writer.wait_copied()
        self.interval.hold(time.monotonic() - began)

    def save(self, step: int, history: JsonObject, *, hurried: bool = False) -> None:
        """Begins to save the state after `step` steps, once the checkpoint before is written.

        Args:
            hurried: Whether the process is about to end, as `Writer.save`.
        """
        self.wait(step)
        began = time.monotonic()
        tensors = self.learner.tensors()
        layout = state.stored(tensors, self.rank.world_size)
        share = state.share(tensors, layout, self.rank.rank)
        self.writer.save(step, share, layout, self.learner.scalars(), history, self.learner.stable(),
                         self.learner.state.scalars(), hurried=hurried)  # fmt: skip
        self.saved_at = time.monotonic()
        self.interval.begin(self.saved_at - began)

    def wait(self, step: int) -> None:
        """Until no rank is writing: rank 0 commits what all have written, and may take its time.

        However slow the store, none waits in silence: those that still write say so at every look, so that a rank
        that does not come has stopped, and no collective begins before all are here.
        """
        self.rank.trace.mark(step, "a checkpoint")
        began = time.monotonic()
        while True:
            writing, error, is_down = False, "", False
            try:
                writing = not self.writer.wait(self.look_s)
            except OSError as failure:
                error, is_down = str(failure), is_store_down(failure)
            told = self.rank.exchange(
                (writing, error, time.monotonic() - began, is_down), within_s=self.config.hang_after_s + self.look_s
            )
            self._require_patience(told)
            if not any(writing for writing, *_ in told):
                return

    def _require_patience(self, told: list[tuple[bool, str, float, bool]]) -> None:
        """Raises ProcessFailed, on every rank, if a rank has failed or is still writing after the patience.

        StoreDown if a rank has failed since the store did not answer.
        """
        waited_s = told[0][2]  # one clock decides for all
        late = [str(rank) for rank, (writing, *_) in enumerate(told) if writing]
        why, is_down = next(((error, is_down) for _, error, _, is_down in told if error), ("", False))
        if not why and late and waited_s > self.patience_s:  # longer than rank 0 waits for the others' parts
            why = (
                f"rank {', '.join(late)} is still writing its share to {self.store}, {waited_s:.0f} s after it was due"
            )
        if why:
            failure = StoreDown if is_down else ProcessFailed
            raise failure(
                f"no checkpoint could be saved for {self.config.checkpoint_patience_s:g} s "
                f"(checkpoint_patience_s): {why}"
            )

    def newest(self) -> int:
        """The step of the newest good checkpoint, of this launch or an earlier one; 0 = none."""
        return self.writer.newest() or self.resumed_from
