"""How often to save: so that saving, and doing again what a kill has undone, together cost least.

J. W. Young, A first order approximation to the optimum checkpoint interval, CACM 17(9), 1974,
https://doi.org/10.1145/361147.361115; here in the higher order of J. T. Daly, A higher order estimate of the optimum
checkpoint interval for restart dumps, FGCS 22(3), 2006, https://doi.org/10.1016/j.future.2004.11.016. What counts as
the cost of a save is what training loses by it. That a save takes longer until it can be read loses as much again at
every kill whatever the interval, and so does not move the optimum: N. H. Vaidya, Impact of checkpoint latency on
overhead ratio of a checkpointing scheme, IEEE Trans. Computers 46(8), 1997, https://doi.org/10.1109/12.609281.
"""

import math
import statistics
from collections import deque
from collections.abc import Mapping
from typing import Literal

from vgp.base.exits import UserError

#: The launcher's word on how often the whole job is interrupted.
RATE_VARIABLE = "TRAINING_PREEMPTIONS_PER_HOUR"
#: Without one: a day between two ends of any cause. Machines that fail are rarer (6.5 in 1,000 days of a machine of 8
#: GPUs: A. Kokolis et al., Revisiting reliability in large-scale machine learning research clusters, HPCA 2025,
#: https://arxiv.org/abs/2410.21680), but a process that runs out of memory, a full disk and a timeout count as well.
RATE_PER_H = 1 / 24
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


def rate_per_h(environment: Mapping[str, str]) -> float:
    """How often an hour the job is expected to be interrupted. Raises UserError if the variable holds no rate."""
    text = environment.get(RATE_VARIABLE, "")
    try:
        rate = float(text) if text else RATE_PER_H
    except ValueError:
        rate = math.nan
    if not 0 < rate <= 3600:
        raise UserError(f"{RATE_VARIABLE}={text!r}: give a number above 0, such as 0.5 for one in two hours.")
    return rate


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
