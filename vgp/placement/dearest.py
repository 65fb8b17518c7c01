"""The dearest way up a ladder: what it costs at most."""

from collections.abc import Sequence


def dearest_way(rungs: Sequence[tuple[float, float]], limit_s: float) -> list[float]:
    """Seconds on each rung in the dearest way that a ladder can go: the time that there is, on the dearest rungs.

    Args:
        rungs: $/hour of all machines of a rung, and for how many seconds its jobs may run together.
        limit_s: How long the whole may take.
    """
    seconds, left_s = [0.0] * len(rungs), limit_s
    for number in sorted(range(len(rungs)), key=lambda number: (-rungs[number][0], number)):
        seconds[number] = min(left_s, rungs[number][1])
        left_s -= seconds[number]
    return seconds
