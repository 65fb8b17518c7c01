"""The most expensive course of a ladder: its maximum cost, with the hours in which two jobs hold machines."""

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

from vgp.protocol.capacity.plan import HANDOVER_S


class Terms(NamedTuple):
    """The cost inputs of a rung: $/hour of all its machines, and the seconds that its jobs may run in total."""

    usd_per_hour: float
    timeout_s: float
    #: standard, spot, flex_start or reservation.
    strategy: str = "standard"


class RungTime(NamedTuple):
    """Seconds that a rung's machines are held: by one job at a time, and while a job takes over from another."""

    jobs_s: float
    handover_s: float = 0.0

    @property
    def total_s(self) -> float:
        return self.jobs_s + self.handover_s


def find_dearest_course(rungs: Sequence[Terms], limit_s: float) -> list[RungTime]:
    """Returns the seconds on each rung in the most expensive course: all the time goes to the most expensive rungs.

    A Spot job that takes over from an on-demand job has its machines before that job ends. This overlap counts once for
    each hour on demand, at the highest Spot price. The jobs of all rungs take no longer than the limit in total, and
    the overlap comes on top.

    Args:
        limit_s: Maximum duration of the ladder, in seconds.
    """
    seconds, left_s = [0.0] * len(rungs), limit_s
    dearest = sorted(range(len(rungs)), key=lambda number: (-rungs[number].usd_per_hour, number))
    for number in dearest:
        seconds[number] = min(left_s, rungs[number].timeout_s)
        left_s -= seconds[number]
    spot = next((number for number in dearest if rungs[number].strategy == "spot"), None)
    on_demand_s = min(limit_s, sum(rung.timeout_s for rung in rungs if rung.strategy == "standard"))
    handover_s = HANDOVER_S * ceil(on_demand_s / 3600)
    return [RungTime(jobs_s, handover_s if number == spot else 0.0) for number, jobs_s in enumerate(seconds)]
