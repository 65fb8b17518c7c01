"""How fast the command line answers: --help, and compile against the bare minimum that kfp needs for the same spec.

python -m benchmarks.command_line
"""

import statistics
import subprocess
import sys
import tempfile
import time

from rich.console import Console
from rich.table import Table

from benchmarks import machine

RUNS = 9
BARE = """
import sys, kfp
from kfp import compiler
from pipelines import settings
from pipelines.placing import Vertex
from pipelines.training import build
compiler.Compiler().compile(build(Vertex(settings.load())), sys.argv[1] + "/bare.json")
"""


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        python = [sys.executable, "-W", "ignore"]
        commands = {
            "pipelines --help": [*python, "-m", "pipelines", "--help"],
            "python -c pass": [*python, "-c", "pass"],
            "pipelines compile": [*python, "-m", "pipelines", "compile", "--out", folder],
            "import kfp + compile": [*python, "-c", BARE, folder],
        }
        times: dict[str, list[float]] = {name: [] for name in commands}
        for number in range(RUNS + 1):  # in turn, so that a drift of the machine meets all; the first is a warm-up
            for name, command in commands.items():
                took = seconds(command)
                if number:
                    times[name].append(took)
    report(times)


def report(times: dict[str, list[float]]) -> None:
    table = Table("command", "median s", "min s", "max s", title=machine.line())
    for name, taken in times.items():
        table.add_row(name, *(f"{value:.3f}" for value in (statistics.median(taken), min(taken), max(taken))))
    pairs = zip(times["pipelines compile"], times["import kfp + compile"], strict=True)
    ratio = statistics.median(ours / bare for ours, bare in pairs)
    console = Console()
    console.print(table)
    console.print(f"pipelines compile / bare: {ratio:.2f} (at most 1.3)")


if __name__ == "__main__":
    main()
