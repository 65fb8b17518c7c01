"""How fast specs are checked: a compiled pipeline, and one of 2,000 steps, against the least that each must take.

python -m benchmarks.checking
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from benchmarks import turns

COPIES = 400


def enlarged(spec: dict, copies: int) -> dict:
    """The pipeline with every step, plain ones and custom jobs alike, there `copies` times more."""
    components, executors = spec["components"], spec["deploymentSpec"]["executors"]
    tasks = components["comp-exit-handler-1"]["dag"]["tasks"]
    for name, task in list(tasks.items()):
        component = components[task["componentRef"]["name"]]
        executor = executors[component["executorLabel"]]
        for number in range(copies):
            tasks[f"{name}-x{number}"] = {**task, "componentRef": {"name": f"comp-{name}-x{number}"}}
            components[f"comp-{name}-x{number}"] = {**component, "executorLabel": f"exec-{name}-x{number}"}
            executors[f"exec-{name}-x{number}"] = executor
    return spec


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        python = [sys.executable, "-W", "ignore"]
        subprocess.run([*python, "-m", "vgp", "compile", "--out", folder], check=True, capture_output=True)
        small, large = Path(folder) / "training.json", Path(folder) / "large.json"
        spec = enlarged(json.loads(small.read_text()), COPIES)
        large.write_text(json.dumps(spec, indent=1))
        steps = len(spec["deploymentSpec"]["executors"])
        size = f"{steps:,} steps, {large.stat().st_size / 1e6:.0f} MB"
        commands = {
            "python -c pass": [*python, "-c", "pass"],
            "import kfp": [*python, "-c", "import kfp"],
            "pipelines check, compiled pipeline": [*python, "-m", "vgp", "check", str(small)],
            f"json.load, {size}": [*python, "-c", "import json, sys; json.load(open(sys.argv[1]))", str(large)],
            f"pipelines check, {size}": [*python, "-m", "vgp", "check", str(large)],
        }
        times = turns.seconds(commands)
    console = Console()
    console.print(turns.table(times))
    console.print("pipelines check of a compiled pipeline: at most 0.5 s")


if __name__ == "__main__":
    main()
