"""What does the command line cost against importing kfp? CPU seconds of --help, list and compile.

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
from pipelines.training import training
compiler.Compiler().compile(training, sys.argv[1] + "/bare.json")
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        python = [sys.executable, "-W", "ignore"]
        commands = {
            "vgp --help": [*python, "-m", "vgp", "--help"],
            "python -c pass": [*python, "-c", "pass"],
            "import kfp": [*python, "-c", "import kfp"],
            "vgp list": [*python, "-m", "vgp", "list"],
            "vgp compile": [*python, "-m", "vgp", "compile", "--out", folder],
            "import kfp + compile": [*python, "-c", BARE, folder],
        }
        times = turns.time_commands(commands, clock=turns.read_cpu_seconds)
    console = Console()
    console.print(turns.render_table(times))
    for ours, bare, most in (
        ("--help", "import kfp", 0.2),
        ("list", "import kfp", 1.0),
        ("compile", "import kfp + compile", 1.3),
    ):
        pairs = zip(times[f"vgp {ours}"], times[bare], strict=True)
        ratio = statistics.median(one / other for one, other in pairs)
        console.print(f"vgp {ours} / {bare}: {ratio:.2f} (at most {most})")


if __name__ == "__main__":
    main()
