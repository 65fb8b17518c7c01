"""Times whole commands in turn, so that a drift of the machine affects all of them alike."""

import resource
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence

from rich.table import Table

from benchmarks import machine

RUNS = 9


def read_cpu_seconds() -> float:
    """Returns the user and system seconds of ended child processes, which other work on the machine hardly changes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def time_commands(
    commands: Mapping[str, Sequence[str]], runs: int = RUNS, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Returns the seconds of each command by the clock, `runs` times after a warm-up."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(runs + 1):
        for name, command in commands.items():
            start = clock()
            subprocess.run(command, check=True, capture_output=True)
            if number:
                times[name].append(clock() - start)
    return times


def render_table(times: Mapping[str, Sequence[float]]) -> Table:
    """Returns a table of median, minimum and maximum of each command."""
    drawn = Table("command", "median s", "min s", "max s", title=machine.describe())
    for name, taken in times.items():
        drawn.add_row(name, *(f"{value:.3f}" for value in (statistics.median(taken), min(taken), max(taken))))
    return drawn
