"""What a step of a local run costs over the same call in one process, in CPU-seconds of all processes together.

    python -m benchmarks.local_run

Runs `prepare -> train -> evaluate -> decide` on scikit-learn's digits both ways, in turn.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile

from rich.console import Console

from benchmarks import machine, turns
from vgp.text.table import table

RUNS = 5
TASK = "docs.examples.digits:Digits"
CALLS = f"""
import sys
from pathlib import Path
from training import steps
at = Path(sys.argv[1])
steps.prepare('', at / 'data', task={TASK!r})
steps.train(at / 'data', at / 'model', at / 'checkpoints', epochs=3, global_batch_size=64, nproc=1)
steps.evaluate(at / 'data', at / 'model', at / 'evaluation', task={TASK!r})
steps.decide(at / 'data', at / 'model', at / 'evaluation', at / 'report.html', at / 'summary.md')
"""
STEPS = 4


def cpu_seconds(command: list[str]) -> tuple[float, str]:
    """User and system time of the command with all its children, and what it printed."""
    start = turns.cpu()
    # One thread each: a second one spins while it waits.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *command], check=True, capture_output=True, text=True, env=environment
    )
    return turns.cpu() - start, done.stdout


def direct(folder: str) -> float:
    """The four functions, one after the other in one process."""
    return cpu_seconds(["-c", CALLS, folder])[0]


def pipeline(folder: str) -> float:
    """`pipelines run` of the same four."""
    words = ["-m", "vgp", "run", "training", "--json", "--out", folder, "--nproc", "1"]
    for parameter in (f"task={TASK}", "epochs=3", "global_batch_size=64"):
        words += ["--set", parameter]
    seconds, printed = cpu_seconds(words)
    assert [step["state"] for step in json.loads(printed)["steps"]] == ["succeeded"] * STEPS
    return seconds


def main() -> None:
    rows = []
    for number in range(RUNS + 1):
        with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
            taken = (direct(first), pipeline(second))
            rows += [taken] if number else []  # the first fills the caches of the disk
    called, whole = (statistics.median(row[column] for row in rows) for column in range(2))
    lines = [("the four functions in one process", f"{called:.2f}"), ("pipelines run", f"{whole:.2f}")]
    console = Console()
    console.print(machine.line())
    console.print(table(("", "median CPU-s"), lines, right=("median CPU-s",)))
    overhead = statistics.median((row[1] - row[0]) / STEPS for row in rows)
    console.print(f"overhead per step: {overhead:.2f} CPU-s (at most 0.8)")


if __name__ == "__main__":
    main()
