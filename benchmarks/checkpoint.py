"""How long saving holds training up, and until it is on the disk, against torch.distributed.checkpoint and torch.save.

    python -m benchmarks.checkpoint --nproc 2 --megabytes 64,256

State: a model and two more tensors per parameter, as AdamW has. Every way writes each state several times; medians.
"""

import argparse
import os
import shutil
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import machine

TURNS = 5
Ways = dict[str, Callable[[int], tuple[float, float]]]


def compare(argument: dict[str, Any], rank: Any) -> dict[str, list[float]]:
    """Median stall and time to durable of every way, in seconds, as the slowest rank saw them."""
    import torch
    import torch.distributed as dist

    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    rows = int(argument["megabytes"] * 2**20 / 4 / 1024 / 3 / 8)
    state = {f"{kind}.{n}": torch.randn(rows, 1024) for n in range(8) for kind in ("model", "exp_avg", "exp_avg_sq")}
    taken: dict[str, list[float]] = {}
    for name, save in ways(state, Path(argument["folder"]), rank).items():
        figures = []
        for turn in range(TURNS + 1):
            dist.barrier()
            slowest = torch.tensor(save(turn))
            dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
            figures += [slowest.tolist()] if turn else []
        taken[name] = [statistics.median(column) for column in zip(*figures, strict=True)]
    return taken


def ways(state: dict[str, Any], folder: Path, rank: Any) -> Ways:
    import torch
    import torch.distributed.checkpoint as dcp

    def synchronous(turn: int) -> tuple[float, float]:
        began = time.perf_counter()
        dcp.save(dict(state), checkpoint_id=folder / f"dcp-{turn}")
        return (time.perf_counter() - began,) * 2

    def asynchronous(turn: int) -> tuple[float, float]:
        began = time.perf_counter()
        pending = dcp.async_save(dict(state), checkpoint_id=folder / f"async-{turn}")
        stalled = time.perf_counter() - began
        pending.result()
        return stalled, time.perf_counter() - began

    def plain(turn: int) -> tuple[float, float]:
        began = time.perf_counter()
        if rank.leads:
            torch.save(state, folder / f"plain-{turn}.pt")
        return (time.perf_counter() - began,) * 2

    return {"training.checkpoint": ours(state, folder, rank), "DCP save": synchronous, "DCP async_save": asynchronous,
            "torch.save on rank 0 (no fsync)": plain}  # fmt: skip


def ours(state: dict[str, Any], folder: Path, rank: Any) -> Callable[[int], tuple[float, float]]:
    from training.checkpoint import state as states
    from training.checkpoint.disk import DiskStore
    from training.checkpoint.writer import Writer

    writer = Writer(DiskStore(folder / "ours"), rank.another_rendezvous(), rank=rank.rank, world_size=rank.world_size,
                    run=0, token="0" * 8, settings={}, keep=3, patience_s=600)  # fmt: skip
    layout = states.stored(state, rank.world_size)

    def save(turn: int) -> tuple[float, float]:
        began = time.perf_counter()
        writer.save(turn, states.share(state, layout, rank.rank), layout, {}, {})
        stalled = time.perf_counter() - began
        writer.wait()
        return stalled, time.perf_counter() - began

    return save


def main() -> None:
    from training.launch import launch

    parser = argparse.ArgumentParser()
    parser.add_argument("--nproc", type=int, default=2)
    parser.add_argument("--megabytes", default="64,256")
    parser.add_argument("--folder", help="where to write; default: the temporary folder")
    given = parser.parse_args()
    table = Table("state", "", "stall, s", "durable after, s", title=f"{given.nproc} processes; {machine.line()}")
    for megabytes in map(int, given.megabytes.split(",")):
        scratch = tempfile.mkdtemp(dir=given.folder)
        try:
            argument = {"megabytes": megabytes, "folder": scratch}
            found = launch("benchmarks.checkpoint:compare", argument, nproc=given.nproc, environment=dict(os.environ))
        finally:
            shutil.rmtree(scratch)
        for name, (stall, durable) in found.items():
            table.add_row(f"{megabytes} MB", name, f"{stall:.3f}", f"{durable:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
