"""What a local run costs over calling the same functions directly, per step.

    python -m benchmarks.local_run

Runs `prepare -> train -> evaluate -> decide` on scikit-learn's digits both ways, in turn.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import machine

RUNS = 3
TASK = "docs.examples.digits:Digits"
HEAD = "import sys; from pathlib import Path; from training import steps; at = Path(sys.argv[1])"
CALLS = (
    f"steps.prepare('', at / 'data', task={TASK!r})",
    "steps.train(at / 'data', at / 'model', at / 'checkpoints', epochs=3, global_batch_size=64, nproc=1)",
    "steps.evaluate(at / 'data', at / 'model', at / 'evaluation')",
    "steps.decide(at / 'data', at / 'model', at / 'evaluation', at / 'report.html', at / 'summary.md')",
)


def direct(folder: Path) -> float:
    """Seconds for the four functions, each in a process of its own, as a pipeline has to run them."""
    start = time.perf_counter()
    for call in CALLS:
        command = [sys.executable, "-W", "ignore", "-c", f"{HEAD}; {call}", str(folder)]
        subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def pipeline(folder: Path) -> tuple[float, float]:
    """Seconds for `pipelines run`, and the sum of its steps' own seconds."""
    start = time.perf_counter()
    settings = [f"task={TASK}", "epochs=3", "global_batch_size=64"]
    command = [sys.executable, "-W", "ignore", "-m", "vgp", "run", "training", "--json", "--out", str(folder)]
    command += ["--nproc", "1", *(word for setting in settings for word in ("--set", setting))]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    steps = json.loads(done.stdout)["steps"]
    return time.perf_counter() - start, sum(step["seconds"] for step in steps)


def main() -> None:
    rows = []
    for number in range(RUNS + 1):
        with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
            taken = (direct(Path(first)), *pipeline(Path(second)))
            rows += [taken] if number else []
    table = Table("", "median s", title=machine.line())
    called, whole, inside = (statistics.median(row[column] for row in rows) for column in range(3))
    table.add_row("the four functions called directly", f"{called:.2f}")
    table.add_row("pipelines run, all of it", f"{whole:.2f}")
    table.add_row("pipelines run, inside the steps", f"{inside:.2f}")
    console = Console()
    console.print(table)
    overhead = statistics.median((row[1] - row[0]) / len(CALLS) for row in rows)
    console.print(f"overhead per step: {overhead:.2f} s (at most 1)")


if __name__ == "__main__":
    main()
