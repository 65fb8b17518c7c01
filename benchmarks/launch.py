"""How long does it take from the command to the first collective, against torchrun?

    python -m benchmarks.launch --nproc 2

Both start one function, which joins a gloo process group and adds one number over all ranks.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import machine

RUNS = 5
TORCHRUN = "import torch.distributed as dist, benchmarks.launch as l; dist.init_process_group('gloo'); l.add({}, None)"


def add(argument: dict[str, Any], rank: Any) -> float:
    """Runs the first collective, and returns its end in seconds since 1970."""
    import torch
    import torch.distributed as dist

    one = torch.ones(1)
    dist.all_reduce(one)
    done = time.time()
    if dist.get_rank() == 0:
        print(done, flush=True)
    return done


def ours(nproc: int) -> list[str]:
    return [
        sys.executable,
        "-c",
        f"from vgp.train.processes.launch import launch; launch('benchmarks.launch:add', {{}}, nproc={nproc})",
    ]


def torchrun(nproc: int, *flags: str) -> list[str]:
    script = os.path.join(os.environ["SCRATCH"], "rank.py")
    with open(script, "w") as file:
        file.write(f"import sys; sys.path.insert(0, {os.getcwd()!r})\n{TORCHRUN}\ndist.destroy_process_group()\n")
    return [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={nproc}", *flags, script]


def seconds(command: list[str]) -> tuple[float, float]:
    """Returns the seconds to the first collective, and to the end of the command."""
    began = time.time()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[0]) - began, time.time() - began


def main() -> None:
    import tempfile

    parser = argparse.ArgumentParser()
    parser.add_argument("--nproc", type=int, default=2)
    nproc = parser.parse_args().nproc
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["SCRATCH"] = scratch
        commands = {
            "vgp.train.processes.launch": ours(nproc),
            "torchrun": torchrun(nproc, "--master-port=29517"),
            "torchrun --standalone": torchrun(nproc, "--standalone"),
        }
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for number in range(RUNS + 1):  # the first warms the file cache
            for name, command in commands.items():
                taken[name] += [seconds(command)] if number else []
    table = Table("", "to the first collective, s", "to the end, s", title=f"{nproc} processes; {machine.describe()}")
    for name, pairs in taken.items():
        table.add_row(name, *(f"{statistics.median(column):.2f}" for column in zip(*pairs, strict=True)))
    Console().print(table)


if __name__ == "__main__":
    main()
