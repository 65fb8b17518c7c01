"""The dearest way up a ladder: what it costs at most, the hours in which two jobs hold machines with it."""

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

from vgp.protocol.capacity.plan import HANDOVER_S


class Terms(NamedTuple):
    """What of a rung its cost depends on: $/hour of all its machines, and seconds that its jobs may run together."""

    usd_per_hour: float
    timeout_s: float
    #: standard, spot, flex_start or reservation.
    strategy: str = "standard"


class Held(NamedTuple):
    """Seconds that a rung's machines are held: by jobs, one at a time, and while one takes over from another."""

    jobs_s: float
    handover_s: float = 0.0

    @property
    def both_s(self) -> float:
        return self.jobs_s + self.handover_s


def dearest_way(rungs: Sequence[Terms], limit_s: float) -> list[Held]:
    """The seconds on each rung in the dearest way that a ladder can go: the time that there is, on the dearest rungs.

    A job on Spot that takes over from one on demand has its machines before that one has ended: counted once for each
    hour that may be on demand, on the dearest Spot. So the jobs of all rungs together take no longer than the limit,
    and these minutes come on top of that.

    Args:
        limit_s: How long the whole may take.
    """
    seconds, left_s = [0.0] * len(rungs), limit_s
    dearest = sorted(range(len(rungs)), key=lambda number: (-rungs[number].usd_per_hour, number))
    for number in dearest:
        seconds[number] = min(left_s, rungs[number].timeout_s)
        left_s -= seconds[number]
    spot = next((number for number in dearest if rungs[number].strategy == "spot"), None)
    on_demand_s = min(limit_s, sum(rung.timeout_s for rung in rungs if rung.strategy == "standard"))
    handover_s = HANDOVER_S * ceil(on_demand_s / 3600)
    return [Held(jobs_s, handover_s if number == spot else 0.0) for number, jobs_s in enumerate(seconds)]
