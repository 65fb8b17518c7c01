"""How fast specs are checked: a compiled pipeline, and a spec of 10 MB, against the least that each must take.

python -m benchmarks.checking
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

RUNS = 7
LARGE_BYTES = 10_000_000


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True)
    assert done.returncode in (0, 1), done.stderr
    return time.perf_counter() - start


def enlarged(spec: dict) -> dict:
    """The pipeline with one of its steps repeated until its JSON has LARGE_BYTES."""
    tasks, components, executors = spec["root"]["dag"]["tasks"], spec["components"], spec["deploymentSpec"]["executors"]
    name, task = next(iter(tasks.items()))
    component = components[task["componentRef"]["name"]]
    executor = executors[component["executorLabel"]]
    each = sum(len(json.dumps(part)) for part in (task, component, executor))
    for number in range(LARGE_BYTES // each):
        tasks[f"{name}-x{number}"] = {**task, "componentRef": {"name": f"comp-x{number}"}}
        components[f"comp-x{number}"] = {**component, "executorLabel": f"exec-x{number}"}
        executors[f"exec-x{number}"] = executor
    return spec


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        python = [sys.executable, "-W", "ignore"]
        subprocess.run([*python, "-m", "pipelines", "compile", "--out", folder], check=True, capture_output=True)
        small, large = Path(folder) / "training.json", Path(folder) / "large.json"
        large.write_text(json.dumps(enlarged(json.loads(small.read_text())), indent=1))
        commands = {
            "python -c pass": [*python, "-c", "pass"],
            "import kfp": [*python, "-c", "import kfp"],
            "pipelines check, compiled pipeline": [*python, "-m", "pipelines", "check", str(small)],
            "json.load, 10 MB": [*python, "-c", "import json, sys; json.load(open(sys.argv[1]))", str(large)],
            "pipelines check, 10 MB": [*python, "-m", "pipelines", "check", str(large)],
        }
        times: dict[str, list[float]] = {name: [] for name in commands}
        for number in range(RUNS + 1):  # in turn, so that a drift of the machine meets all; the first is a warm-up
            for name, command in commands.items():
                took = seconds(command)
                if number:
                    times[name].append(took)
    table = Table("command", "median s", "min s", "max s", title=machine.line())
    for name, taken in times.items():
        table.add_row(name, *(f"{value:.3f}" for value in (statistics.median(taken), min(taken), max(taken))))
    console = Console()
    console.print(table)
    console.print("pipelines check of a compiled pipeline: at most 0.5 s")


if __name__ == "__main__":
    main()
