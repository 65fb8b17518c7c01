"""What a step of a local run costs over the same call in a process of its own, in CPU-seconds of all processes.

    python -m benchmarks.local_run

Runs `resolve -> prepare -> train -> evaluate -> decide` on scikit-learn's digits in three ways, in turn. A step has a
process of its own so that it is what runs on Vertex AI; that costs more than one process for all, mostly PyTorch
imported again.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile

from rich.console import Console

from benchmarks import machine, turns
from vgp.base.text.figures import table

RUNS = 5
TASK = "docs.examples.digits:Digits"
HEAD = "import sys; from pathlib import Path; from vgp.steps import calls as steps; at = Path(sys.argv[1])"
CALLS = (
    f"steps.resolve(at / 'record', pipeline='training', task={TASK!r})",
    f"steps.prepare('', at / 'data', task={TASK!r})",
    f"steps.train(at / 'data', at / 'model', at / 'logs', task={TASK!r}, epochs=3, global_batch_size=64, nproc=1)",
    f"steps.evaluate(at / 'data', at / 'model', at / 'evaluation', task={TASK!r})",
    "steps.decide(at / 'data', at / 'model', at / 'evaluation', at / 'report.html', at / 'summary.md')",
)


def cpu_seconds(command: list[str]) -> tuple[float, str]:
    """User and system time of the command with all its children, and what it printed."""
    start = turns.cpu()
    # One thread each: a second one spins while it waits.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *command], check=True, capture_output=True, text=True, env=environment
    )
    return turns.cpu() - start, done.stdout


def in_one_process(folder: str) -> float:
    """The five functions, one after the other."""
    return cpu_seconds(["-c", "; ".join((HEAD, *CALLS)), folder])[0]


def each_in_its_own(folder: str) -> float:
    """The five functions, each in a process of its own."""
    return sum(cpu_seconds(["-c", f"{HEAD}; {call}", folder])[0] for call in CALLS)


def pipeline(folder: str) -> float:
    """`vgp run` of the same five, and of notify, which counts as what they cost more."""
    words = ["-m", "vgp", "run", "training", "--json", "--out", folder, "--nproc", "1"]
    for parameter in (f"task={TASK}", "epochs=3", "global_batch_size=64"):
        words += ["--set", parameter]
    seconds, printed = cpu_seconds(words)
    assert [step["state"] for step in json.loads(printed)["steps"]] == ["succeeded"] * (len(CALLS) + 1)
    return seconds


WAYS = {
    "the five functions in one process": in_one_process,
    "each in a process of its own": each_in_its_own,
    "vgp run": pipeline,
}


def main() -> None:
    turns_taken = []
    for number in range(RUNS + 1):
        taken = []
        for way in WAYS.values():
            with tempfile.TemporaryDirectory() as folder:
                taken.append(way(folder))
        turns_taken += [taken] if number else []  # the first fills the caches of the disk
    medians = (statistics.median(taken[column] for taken in turns_taken) for column in range(len(WAYS)))
    console = Console()
    console.print(machine.line())
    lines = [(name, f"{median:.2f}") for name, median in zip(WAYS, medians, strict=True)]
    console.print(table(("", "median CPU-s"), lines, right=("median CPU-s",)))
    overhead = statistics.median((taken[2] - taken[1]) / len(CALLS) for taken in turns_taken)
    console.print(f"a step of a run over the same call in a process of its own: {overhead:.2f} CPU-s (at most 0.8)")


if __name__ == "__main__":
    main()
