"""Whole commands timed in turn, so that a drift of the machine meets all of them alike."""

import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence

from rich.table import Table

from benchmarks import machine

RUNS = 9


def seconds(commands: Mapping[str, Sequence[str]], runs: int = RUNS) -> dict[str, list[float]]:
    """Wall seconds of each command, `runs` times after one warm-up."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(runs + 1):
        for name, command in commands.items():
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            if number:
                times[name].append(time.perf_counter() - start)
    return times


def table(times: Mapping[str, Sequence[float]]) -> Table:
    """Median, minimum and maximum of each command."""
    drawn = Table("command", "median s", "min s", "max s", title=machine.line())
    for name, taken in times.items():
        drawn.add_row(name, *(f"{value:.3f}" for value in (statistics.median(taken), min(taken), max(taken))))
    return drawn
