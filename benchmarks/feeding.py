"""How many samples per second does data loading give, against an array, PyTorch's DataLoader, and training's need?

    python -m benchmarks.feeding runs/data

All methods give shuffled batches of tensors of equal rows and columns, as fast as one process can take them, without
reading ahead. DataLoader fetches a whole batch by one list of indices, as for rows in memory, without and with worker
processes; from one tensor instead of a tensor per column; and row by row, its default.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import machine

TURNS = 5


def training_batches(data: str, batch: int) -> Iterator[Any]:
    """Yields the batches of `vgp.train.loop.batches`, as a run with one process uses them."""
    import torch

    from vgp.data.rows import open_rows
    from vgp.train.loop.batches import microbatches
    from vgp.train.loop.sample_order import Plan

    rows = open_rows(data, "train")
    return microbatches(rows, Plan(len(rows), 1000, batch, 1, 0), range(1), 0, torch.device("cpu"))


def memory_mapped(data: str, batch: int, folder: Path) -> Iterator[Any]:
    """Yields batches of one float32 array on disk, indexed by a stored permutation: close to optimal."""
    import torch

    from vgp.data.rows import open_rows

    columns = open_rows(data, "train").columns
    path = folder / "rows.npy"
    np.save(path, np.stack([values.astype(np.float32) for values in columns.values()], axis=1))
    array, random = np.load(path, mmap_mode="r"), np.random.default_rng(0)
    while True:
        order = random.permutation(len(array))
        for start in range(0, len(order) - batch + 1, batch):
            yield torch.from_numpy(array[order[start : start + batch]])


def data_loader(data: str, batch: int, workers: int, *, by_row: bool = False) -> Iterator[Any]:
    """Yields batches of torch.utils.data.DataLoader; `by_row`: row by row through `default_collate`, its default."""
    import torch
    from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

    from vgp.data.rows import open_rows

    columns = open_rows(data, "train").columns
    rows = TensorDataset(*(torch.from_numpy(values) for values in columns.values()))
    batches = BatchSampler(RandomSampler(rows), batch, drop_last=True)
    while True:
        if by_row:
            yield from DataLoader(rows, batch, shuffle=True, num_workers=workers, drop_last=True)
        else:
            yield from DataLoader(rows, batch_size=None, sampler=batches, num_workers=workers)


def one_tensor(data: str, batch: int, workers: int) -> Iterator[Any]:
    """Yields batches of a DataLoader at its fastest: one tensor with all columns, one `index_select` for each batch."""
    import torch
    from torch.utils.data import DataLoader, Dataset

    from vgp.data.rows import open_rows

    class Rows(Dataset[Any]):
        def __init__(self) -> None:
            columns = open_rows(data, "train").columns
            self.rows = torch.stack([torch.from_numpy(values).float() for values in columns.values()], 1)

        def __getitem__(self, batch: Any) -> Any:
            return self.rows.index_select(0, batch)

    rows = Rows()
    while True:
        batches = [part for part in torch.randperm(len(rows.rows)).split(batch) if len(part) == batch]
        yield from DataLoader(rows, batch_size=None, sampler=batches, num_workers=workers)


def measure_rate(batches: Iterator[Any], batch: int, seconds: float) -> float:
    """Returns samples per second after the first batch, measured for about `seconds`."""
    next(batches)
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        next(batches)
        count += batch
    return count / (time.perf_counter() - began)


def main() -> None:
    from benchmarks.steps import measure

    parser = argparse.ArgumentParser()
    parser.add_argument("data", help="a prepared dataset")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=1.5, help="seconds of each method in each turn")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        ways: dict[str, Callable[[], Iterator[Any]]] = {
            "training.batches": lambda: training_batches(given.data, given.batch),
            "memory-mapped array": lambda: memory_mapped(given.data, given.batch, Path(scratch)),
            "DataLoader": lambda: data_loader(given.data, given.batch, 0),
            "DataLoader, 2 workers": lambda: data_loader(given.data, given.batch, 2),
            "DataLoader, one tensor": lambda: one_tensor(given.data, given.batch, 0),
            "DataLoader, row by row": lambda: data_loader(given.data, given.batch, 0, by_row=True),
        }
        open_ways = {name: way() for name, way in ways.items()}
        rates: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(TURNS):
            for name, batches in open_ways.items():
                rates[name].append(measure_rate(batches, given.batch, given.seconds))
    trained = statistics.median(measure(given.data, 1, given.batch, 4, weak=True)["training.learner"]) * given.batch
    ours = statistics.median(rates["training.batches"])
    table = Table("", "samples/s", "ours is faster by", title=machine.describe())
    for name, values in rates.items():
        table.add_row(name, f"{statistics.median(values):,.0f}", f"{ours / statistics.median(values):.2f}")
    table.add_row("training consumes (1 process, 1 thread)", f"{trained:,.0f}", f"{ours / trained:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
