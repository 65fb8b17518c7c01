"""How fast specs are checked: a compiled pipeline, and a spec of 10 MB, against the least that each must take.

python -m benchmarks.checking
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from benchmarks import turns

LARGE_BYTES = 10_000_000


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
        times = turns.seconds(commands)
    console = Console()
    console.print(turns.table(times))
    console.print("pipelines check of a compiled pipeline: at most 0.5 s")


if __name__ == "__main__":
    main()
