"""The dearest way up a ladder: what it costs at most, its probes with it."""

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

#: For how many seconds a probe of Spot may hold machines, and for how many all probes may, for each hour on demand that
#: has begun. A compiled ladder has both figures in its plan: what is checked and what is launched go by that.
PROBE_S, PROBES_AN_HOUR_S = 180.0, 300.0


class Terms(NamedTuple):
    """What of a rung its cost depends on: $/hour of all its machines, and seconds that its jobs may run together."""

    usd_per_hour: float
    timeout_s: float
    #: standard, spot, flex_start or reservation.
    strategy: str = "standard"


class Held(NamedTuple):
    """Seconds that a rung's machines are held: by jobs, one at a time, and by probes beside a job on demand."""

    jobs_s: float
    probes_s: float = 0.0

    @property
    def both_s(self) -> float:
        return self.jobs_s + self.probes_s


def dearest_way(rungs: Sequence[Terms], limit_s: float, probes_an_hour_s: float = 0.0) -> list[Held]:
    """The seconds on each rung in the dearest way that a ladder can go: the time that there is, on the dearest rungs.

    Spot may be probed while a job runs on demand: that is counted in full, as if all of it were on the dearest Spot. So
    the jobs of all rungs together take no longer than the limit, and the probes come on top of that.

    Args:
        limit_s: How long the whole may take.
        probes_an_hour_s: Seconds of probes for each hour on demand; 0: none are sent.
    """
    seconds, left_s = [0.0] * len(rungs), limit_s
    dearest = sorted(range(len(rungs)), key=lambda number: (-rungs[number].usd_per_hour, number))
    for number in dearest:
        seconds[number] = min(left_s, rungs[number].timeout_s)
        left_s -= seconds[number]
    spot = next((number for number in dearest if rungs[number].strategy == "spot"), None)
    on_demand_s = min(limit_s, sum(rung.timeout_s for rung in rungs if rung.strategy == "standard"))
    probes_s = probes_an_hour_s * ceil(on_demand_s / 3600)
    return [Held(jobs_s, probes_s if number == spot else 0.0) for number, jobs_s in enumerate(seconds)]


def is_probed(strategies: Sequence[str]) -> bool:
    """Whether a ladder with such rungs has any use for probes: Spot to look for, from machines that stay."""
    return "spot" in strategies and "standard" in strategies
