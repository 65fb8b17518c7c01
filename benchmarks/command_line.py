"""How fast the command line answers: --help, and compile against the bare minimum that kfp needs for the same spec.

python -m benchmarks.command_line
"""

import statistics
import sys
import tempfile

from rich.console import Console

from benchmarks import turns

BARE = """
import sys, kfp
from kfp import compiler
from pipelines import settings
from vgp.compiling.vertex import Vertex
from pipelines.training import build
compiler.Compiler().compile(build(Vertex(settings.load())), sys.argv[1] + "/bare.json")
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        python = [sys.executable, "-W", "ignore"]
        commands = {
            "pipelines --help": [*python, "-m", "vgp", "--help"],
            "python -c pass": [*python, "-c", "pass"],
            "pipelines compile": [*python, "-m", "vgp", "compile", "--out", folder],
            "import kfp + compile": [*python, "-c", BARE, folder],
        }
        times = turns.seconds(commands)
    pairs = zip(times["pipelines compile"], times["import kfp + compile"], strict=True)
    ratio = statistics.median(ours / bare for ours, bare in pairs)
    console = Console()
    console.print(turns.table(times))
    console.print(f"pipelines compile / bare: {ratio:.2f} (at most 1.3)")


if __name__ == "__main__":
    main()
