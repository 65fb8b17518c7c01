"""How long do saves stall training, and when are they on disk, against torch.distributed.checkpoint and torch.save?

    python -m benchmarks.checkpoint --nproc 2 --megabytes 64,256

The state is a model and two more tensors per parameter, as in AdamW. Every method saves in one training loop, in turn:
one save, then steps until the save is on disk. The table shows, for the slowest rank:

stall           time in the call that saves, and time until the optimizer may change the weights
loop lost       additional time of the steps against steps without a save; medians of paired turns
durable after   time from the call until the checkpoint can be read, without training
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

TURNS, STEPS, ROWS, WIDTH, LAYERS = 5, 6, 64, 1024, 8


class Way:
    """A method to save: `save` begins, `wait_copied` returns when the state may change, `wait` when it is on disk."""

    def __init__(self, save: Callable[[int], Any], wait_copied: Callable[[], None] = lambda: None):
        self.begin, self.wait_copied, self.pending = save, wait_copied, None

    def save(self, turn: int) -> None:
        self.pending = self.begin(turn)

    def wait(self) -> None:
        if self.pending:
            self.pending()


class Loop:
    """A training loop on one rank's own data; every rank holds the whole state, as under DDP."""

    def __init__(self, megabytes: int):
        import torch
        from torch import nn

        torch.manual_seed(0)
        rows = int(megabytes * 2**20 / 4 / WIDTH / 3 / LAYERS)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, rows, bias=False) for _ in range(LAYERS))
        self.optimizer = torch.optim.AdamW(self.layers.parameters(), fused=True)
        self.batch = torch.randn(ROWS, WIDTH)
        self.step(lambda: None)
        state = self.optimizer.state
        self.state = {f"model/{n}": p.detach() for n, p in enumerate(self.layers.parameters())}
        self.state |= {f"optimizer/{n}/{kind}": state[p][kind] for n, p in enumerate(self.layers.parameters())
                       for kind in ("exp_avg", "exp_avg_sq")}  # fmt: skip

    def step(self, wait_copied: Callable[[], None]) -> float:
        """Returns the seconds in `wait_copied`."""
        sum(layer(self.batch).square().mean() for layer in self.layers).backward()  # type: ignore[union-attr]
        began = time.perf_counter()
        wait_copied()
        waited = time.perf_counter() - began
        self.optimizer.step()
        self.optimizer.zero_grad()
        return waited

    def turn(self, way: Way | None, turn: int) -> tuple[float, float]:
        """Returns the seconds of the stall, and of the whole turn."""
        began = time.perf_counter()
        if way:
            way.save(turn)
        stalled = time.perf_counter() - began
        for _ in range(STEPS):
            stalled += self.step(way.wait_copied if way else lambda: None)
        whole = time.perf_counter() - began
        if way:
            way.wait()
        return stalled, whole


def compare(argument: dict[str, Any], rank: Any) -> dict[str, list[float]]:
    """Returns median stall, lost time and time to durable of every method, in seconds."""
    warnings.simplefilter("ignore")
    loop = Loop(argument["megabytes"])
    found = ways(loop.state, Path(argument["folder"]), rank)
    taken: dict[str, list[list[float]]] = {name: [] for name in found}
    for turn in range(TURNS + 1):
        without = measure_seconds(lambda turn=turn: loop.turn(None, turn)[1:])[0]
        for name, way in found.items():
            stall, whole = measure_seconds(lambda way=way, turn=turn: loop.turn(way, turn))
            (durable,) = measure_seconds(lambda way=way, turn=turn: (quiet(way, 1000 + turn),))
            taken[name] += [[stall, whole - without, durable]] if turn else []
        clear(Path(argument["folder"]), rank)
    return {name: [statistics.median(column) for column in zip(*rows, strict=True)] for name, rows in taken.items()}


def clear(folder: Path, rank: Any) -> None:
    """Removes the files of the rivals; our checkpoints remove old ones themselves."""
    rank.agree(None)
    if rank.leads:
        for path in folder.iterdir():
            if path.name != "ours":
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def measure_seconds(act: Callable[[], Any]) -> list[float]:
    """Returns the seconds of `act` on the slowest rank."""
    import torch
    import torch.distributed as dist

    dist.barrier()
    slowest = torch.tensor(act(), dtype=torch.float64)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return list(slowest.tolist())


def quiet(way: Way, turn: int) -> float:
    began = time.perf_counter()
    way.save(turn)
    way.wait_copied()
    way.wait()
    return time.perf_counter() - began


def ways(state: dict[str, Any], folder: Path, rank: Any) -> dict[str, Way]:
    import torch
    import torch.distributed.checkpoint as dcp

    def synchronous(turn: int) -> None:
        dcp.save(dict(state), checkpoint_id=folder / f"dcp-{turn}")

    def asynchronous(turn: int) -> Any:
        return dcp.async_save(dict(state), checkpoint_id=folder / f"async-{turn}").result

    def plain(turn: int) -> None:
        if rank.leads:
            torch.save(state, folder / f"plain-{turn}.pt")

    return {"vgp.train.checkpoint": ours(state, folder, rank), "DCP async_save": Way(asynchronous),
            "DCP save": Way(synchronous), "torch.save on rank 0 (no fsync)": Way(plain)}  # fmt: skip


def ours(state: dict[str, Any], folder: Path, rank: Any) -> Way:
    from vgp.train.checkpoint import training_state as states
    from vgp.train.checkpoint.checkpoint_store import DiskStore
    from vgp.train.checkpoint.writer import Writer

    writer = Writer(DiskStore(folder / "ours"), rank.another_rendezvous(), rank=rank.rank, world_size=rank.world_size,
                    run=0, launch_id="0" * 8, settings={}, keep=3, patience_s=600)  # fmt: skip
    layout = states.layout_of(state, rank.world_size)

    def save(turn: int) -> Callable[[], None]:
        writer.save(turn, states.share_of(state, layout, rank.rank), layout, {}, {}, state.keys())
        return writer.wait

    return Way(save, writer.wait_copied)


def main() -> None:
    from vgp.train.processes.launch import launch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nproc", type=int, default=2)
    parser.add_argument("--megabytes", default="64,256")
    parser.add_argument("--folder", help="folder to write to; default: the temporary folder")
    given = parser.parse_args()
    columns = ("state", "", "stall, s", "of async_save's", "loop lost, s", "durable after, s")
    table = Table(*columns, title=f"{given.nproc} processes; {machine.describe()}")
    for megabytes in map(int, given.megabytes.split(",")):
        scratch = tempfile.mkdtemp(dir=given.folder)
        try:
            argument = {"megabytes": megabytes, "folder": scratch}
            found = launch("benchmarks.checkpoint:compare", argument, nproc=given.nproc, environment=dict(os.environ))
        finally:
            shutil.rmtree(scratch)
        base = found["DCP async_save"][0]
        for name, (stall, lost, durable) in found.items():
            ratio = f"{stall / base:.2f}"
            table.add_row(f"{megabytes} MB", name, f"{stall:.4f}", ratio, f"{lost:.3f}", f"{durable:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
