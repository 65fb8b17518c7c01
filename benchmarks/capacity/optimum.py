"""Computes a lower bound of a job's cost, with all supplies known, by dynamic programming.

Time and work are cut into ticks. A state is (tick, work left, mode), and the modes are: without machines, on Spot, on
demand. A tick has Spot if any zone has it at any time of the tick, changing the zone costs nothing, and a change-over
takes whole ticks, rounded down; so no policy can be cheaper.
"""

from collections.abc import Sequence

import numpy as np

from benchmarks.capacity.supply import Supply


def find_ticks(supplies: Sequence[Supply], count: int, tick_s: float) -> np.ndarray:
    """Returns whether any supply has machines within each tick; shape (count,)."""
    there = np.zeros(count, dtype=bool)
    for supply in supplies:
        edges = [0.0, *(each for each in supply.changes if each < count * tick_s), count * tick_s]
        for place in range(0 if supply.first else 1, len(edges) - 1, 2):
            there[int(edges[place] // tick_s) : int(np.ceil(edges[place + 1] / tick_s))] = True
    return there


def compute_optimum(
    spot_JT: np.ndarray, work_s: float, change_over_s: float, spot_usd: float, demand_usd: float, tick_s: float
) -> np.ndarray:
    """Returns the least cost of each of J jobs, in USD. `spot_JT` is true at ticks with Spot; the last tick ends at the
    deadline.
    """
    jobs, ticks = spot_JT.shape
    work, over = int(work_s // tick_s), int(change_over_s // tick_s)
    spot_tick, demand_tick = spot_usd * tick_s / 3600, demand_usd * tick_s / 3600
    shape = (jobs, work + 1)
    end = np.full(shape, np.inf, dtype=np.float32)
    end[:, 0] = 0.0
    idle, spot, demand = [end], [end], [end]  # values at later ticks, the next tick last
    held = np.cumsum(~spot_JT, axis=1)
    for tick in range(ticks - 1, -1, -1):
        on_demand = end.copy()
        on_demand[:, 1:] = demand[-1][:, :-1] + demand_tick
        on_spot = end.copy()
        on_spot[:, 1:] = np.where(spot_JT[:, tick, None], spot[-1][:, :-1] + spot_tick, np.inf)
        after = tick + over
        nothing = idle[-1].copy()
        if after <= ticks:
            later = -1 - (over - 1) if over else None
            start_demand = (demand[later] if later is not None else on_demand) + over * demand_tick
            np.minimum(nothing, start_demand, out=nothing)
            gaps = held[:, min(after, ticks) - 1] - (held[:, tick - 1] if tick else 0) if over else 0
            start_spot = (spot[later] if later is not None else on_spot) + over * spot_tick
            np.minimum(nothing, np.where((gaps == 0)[:, None] if over else True, start_spot, np.inf), out=nothing)
        np.minimum(on_demand, nothing, out=on_demand)
        np.minimum(on_spot, nothing, out=on_spot)
        for values, new in ((idle, nothing), (spot, on_spot), (demand, on_demand)):
            values.append(new)
            del values[: -max(over, 1)]
    return idle[-1][:, work]
