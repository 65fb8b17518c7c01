"""How fast does `vgp check` check specs, and what do hostile files cost? Each row is one command in its own process.

python -m benchmarks.checking
python -m benchmarks.checking --runs 3

Pipelines of 500 and 2,000 tasks and of 10 MB have every kind of step in equal parts (plain, custom job, tuning,
prediction, deployment, loop), as JSON, and the first also as YAML; the folder has 1,000 files as people write them.
Processor seconds are more reliable than wall time on a busy machine; the peak is that of the one process.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table

from benchmarks import machine, mutations

PYTHON = [sys.executable, "-W", "ignore"]
CHECK = [*PYTHON, "-m", "vgp", "check"]
#: Limits for a hostile file.
SECONDS, MEGABYTES = 2.0, 200


@dataclass(frozen=True)
class Cost:
    """The cost of one process."""

    seconds: float
    cpu_s: float
    peak_mb: float


def measure_cost(command: list[str], runs: int) -> Cost:
    """Returns median wall and processor seconds and the highest peak of `runs` runs after a warm-up."""
    measured = [_measure(command) for _ in range(runs + 1)][1:]
    return Cost(
        statistics.median(each.seconds for each in measured),
        statistics.median(each.cpu_s for each in measured),
        max(each.peak_mb for each in measured),
    )


def _measure(command: list[str]) -> Cost:
    begin = time.perf_counter()
    with Path(os.devnull).open("w") as nothing:
        process = subprocess.Popen(command, stdout=nothing, stderr=nothing)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode in (0, 1, 2), f"{command} ended with {process.returncode}"
    return Cost(time.perf_counter() - begin, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def repeat_steps(spec: dict[str, Any], tasks: int, padding: int = 0) -> dict[str, Any]:
    """Returns the pipeline with its steps repeated up to `tasks` tasks, each with its own component and executor."""
    components, executors = spec["components"], spec["deploymentSpec"]["executors"]
    here = spec["root"]["dag"]["tasks"]
    own = {name: task for name, task in here.items() if task["componentRef"]["name"] in components}
    number = 0
    while len(here) < tasks:
        for name, task in own.items():
            component = components[task["componentRef"]["name"]]
            copied = {key: value for key, value in task.items() if key != "dependentTasks"}
            here[f"{name}-x{number}"] = {**copied, "componentRef": {"name": f"comp-{name}-x{number}"}}
            label = component.get("executorLabel")
            components[f"comp-{name}-x{number}"] = (
                {**component, "executorLabel": f"e-{name}-x{number}"} if label else component
            )
            if label:
                executors[f"e-{name}-x{number}"] = _pad(executors[label], padding)
        number += 1
    return spec


def _pad(executor: dict[str, Any], padding: int) -> dict[str, Any]:
    if not padding or "container" not in executor:
        return executor
    container = executor["container"]
    return {**executor, "container": {**container, "args": [*container.get("args", []), "--note", "x" * padding]}}


def write_large_files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yields the name and file of each size."""
    code = "import pathlib, sys; from tests.vgp.check import every_kind; every_kind.compiled(pathlib.Path(sys.argv[1]))"
    _run_separately(code, folder)
    text = (folder / "p.json").read_text()
    for name, tasks, padding in (("500 tasks", 500, 0), ("2,000 tasks", 2_000, 0), ("10 MB", 2_000, 3_000)):
        path = folder / f"{tasks}-{padding}.json"
        path.write_text(json.dumps(repeat_steps(json.loads(text), tasks, padding), indent=1))
        yield f"{name}, JSON, {path.stat().st_size / 1e6:.1f} MB", path
        if tasks == 500:
            other = path.with_suffix(".yaml")
            other.write_text(yaml.safe_dump(json.loads(path.read_text())))
            yield f"{name}, YAML, {other.stat().st_size / 1e6:.1f} MB", other


def write_thousand_files(folder: Path) -> Path:
    """Writes the files of the rules' pages, each under many names, and returns the folder."""
    target, texts = folder / "thousand", list(mutations.read_rule_pages().items())
    target.mkdir()
    for number in range(1_000):
        name, text = texts[number % len(texts)]
        (target / f"{number}-{name}").write_text(text)
    return target


def write_hostile_files(folder: Path) -> Iterator[tuple[str, Path]]:
    code = """import pathlib, sys; from tests.vgp.check import hostile
for name, text in hostile.FILES.items(): (pathlib.Path(sys.argv[1]) / name).write_text(text, encoding="utf-8")"""
    target = folder / "hostile"
    target.mkdir()
    _run_separately(code, target)
    yield from ((path.name, path) for path in sorted(target.iterdir()))


def _run_separately(code: str, folder: Path) -> None:
    """Runs code in a process of its own, because the memory of this process counts as a peak of its children."""
    subprocess.run([*PYTHON, "-c", code, str(folder)], check=True)


def render_table(title: str, rows: dict[str, Cost]) -> Table:
    rows_table = Table(title, "s", "CPU s", "peak MB", title=machine.describe())
    for name, each in rows.items():
        rows_table.add_row(name, f"{each.seconds:.2f}", f"{each.cpu_s:.2f}", f"{each.peak_mb:.0f}")
    return rows_table


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        commands = {
            "python -c pass": [*PYTHON, "-c", "pass"],
            "import kfp": [*PYTHON, "-c", "import kfp"],
            **{f"check, {what}": [*CHECK, str(path)] for what, path in write_large_files(folder)},
            "check, a folder of 1,000 files": [*CHECK, str(write_thousand_files(folder))],
        }
        normal = {what: measure_cost(command, runs) for what, command in commands.items()}
        worst = {what: _measure([*CHECK, str(path)]) for what, path in write_hostile_files(folder)}
    console = Console()
    console.print(render_table("command", normal))
    slowest = dict(sorted(worst.items(), key=lambda item: -item[1].cpu_s)[:8])
    largest = dict(sorted(worst.items(), key=lambda item: -item[1].peak_mb)[:3])
    console.print(render_table(f"hostile files: the slowest and largest of {len(worst)}", {**slowest, **largest}))
    over = [what for what, each in worst.items() if each.cpu_s > SECONDS or each.peak_mb > MEGABYTES]
    console.print(f"over {SECONDS:g} s of the processor or {MEGABYTES} MB: {', '.join(over) or 'none'}")
    raise SystemExit(bool(over))


if __name__ == "__main__":
    main()
