"""How many CPU-seconds does a step of a local run cost over the bare call in a process of its own?

    python -m benchmarks.local_run

Runs `resolve -> prepare -> train -> evaluate -> decide` on scikit-learn's digits in three ways, in turn. Each step of a
run has a process of its own, as on Vertex AI; compared with one process, most of the cost is importing PyTorch again.
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


def measure_cpu_seconds(command: list[str]) -> tuple[float, str]:
    """Returns the user and system time of a command with all its children, and its output."""
    start = turns.read_cpu_seconds()
    # One thread each, because further threads spin while they wait.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *command], check=True, capture_output=True, text=True, env=environment
    )
    return turns.read_cpu_seconds() - start, done.stdout


def run_in_one_process(folder: str) -> float:
    """Runs the five functions in one process and returns the CPU-seconds."""
    return measure_cpu_seconds(["-c", "; ".join((HEAD, *CALLS)), folder])[0]


def run_in_processes(folder: str) -> float:
    """Runs the five functions, each in a process of its own, and returns the CPU-seconds."""
    return sum(measure_cpu_seconds(["-c", f"{HEAD}; {call}", folder])[0] for call in CALLS)


def run_pipeline(folder: str) -> float:
    """Runs `vgp run`, which also has the steps register and notify, and returns the CPU-seconds."""
    words = ["-m", "vgp", "run", "training", "--json", "--out", folder, "--nproc", "1"]
    for parameter in (f"task={TASK}", "epochs=3", "global_batch_size=64"):
        words += ["--set", parameter]
    seconds, printed = measure_cpu_seconds(words)
    assert [step["state"] for step in json.loads(printed)["steps"]] == ["succeeded"] * (len(CALLS) + 2)
    return seconds


WAYS = {
    "the five functions in one process": run_in_one_process,
    "each in a process of its own": run_in_processes,
    "vgp run": run_pipeline,
}


def main() -> None:
    turns_taken = []
    for number in range(RUNS + 1):
        taken = []
        for way in WAYS.values():
            with tempfile.TemporaryDirectory() as folder:
                taken.append(way(folder))
        turns_taken += [taken] if number else []  # the first turn fills the disk cache
    medians = (statistics.median(taken[column] for taken in turns_taken) for column in range(len(WAYS)))
    console = Console()
    console.print(machine.describe())
    lines = [(name, f"{median:.2f}") for name, median in zip(WAYS, medians, strict=True)]
    console.print(table(("", "median CPU-s"), lines, right=("median CPU-s",)))
    overhead = statistics.median((taken[2] - taken[1]) / len(CALLS) for taken in turns_taken)
    console.print(f"a step of a run over the same call in a process of its own: {overhead:.2f} CPU-s (at most 0.8)")


if __name__ == "__main__":
    main()
