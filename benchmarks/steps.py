"""Steps per second of training.loop's step against a plain hand-written PyTorch loop.

    python -m benchmarks.steps runs/data --nproc 2

Same model, data, batch size, microbatches, clipping, schedule and optimizer, in the same processes, in turn. The plain
loop shuffles once and then slices tensors in memory; it cannot resume: no seeds, no order by step, no shared losses.
"""

import argparse
import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import machine

TURNS, STEPS = 5, 100


def compare(argument: dict[str, Any], rank: Any) -> dict[str, list[float]]:
    """Steps per second of both, turn by turn; runs in every rank."""
    from training.config import TrainConfig

    config = TrainConfig(**argument["config"])
    loops = {
        "plain PyTorch loop": plain(argument["data"], config, rank),
        "training.learner": ours(argument["data"], config, rank),
    }
    rates: dict[str, list[float]] = {name: [] for name in loops}
    for turn in range(TURNS + 1):
        for name, steps in loops.items():
            began = time.perf_counter()
            steps(turn * STEPS)
            rates[name] += [STEPS / (time.perf_counter() - began)] if turn else []
    return rates


def prepared(data: str) -> Any:
    from training import tasks
    from training.data import manifest as manifests

    manifest = manifests.load(data)
    return manifest, tasks.load(manifest.task, manifest.options, train_months=manifest.train_months,
                                test_month=manifest.test_month)  # fmt: skip


def plain(data: str, config: Any, rank: Any) -> Callable[[int], None]:
    """The loop that one would write by hand."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    from training.data.rows import open_rows

    manifest, task = prepared(data)
    columns = {
        name: torch.from_numpy(values).to(rank.device) for name, values in open_rows(data, "train").columns.items()
    }
    torch.manual_seed(0)
    module = task.model(manifest).to(rank.device)
    model: Any = DistributedDataParallel(module, gradient_as_bucket_view=True) if rank.world_size > 1 else module
    optimizer = task.optimizer(module, config.learning_rate, config.weight_decay)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: 0.5 * (1 + math.cos(math.pi * min(step, 600) / 600))
    )
    own, size = config.microbatches // rank.world_size, config.global_batch_size // config.microbatches
    rows = len(next(iter(columns.values())))
    order = torch.randperm(rows)
    columns = {name: values[order] for name, values in columns.items()}

    def steps(first: int) -> None:
        for step in range(first, first + STEPS):
            for number in range(own):
                start = (step * own + number) * size % (rows - size)
                batch = {name: values[start : start + size] for name, values in columns.items()}
                with model.no_sync() if rank.world_size > 1 and number < own - 1 else nullcontext():
                    (task.loss(model, batch) / own).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()

    return steps


def ours(data: str, config: Any, rank: Any) -> Callable[[int], None]:
    """The step of `training.loop`, with its feeding and its pulse's losses."""
    from training.batches import microbatches, tensors
    from training.data.rows import open_rows
    from training.learner import Learner, gather
    from training.order import Plan, deal

    manifest, task = prepared(data)
    rows = open_rows(data, "train")
    plan = Plan(len(rows), 100, config.global_batch_size, config.microbatches, config.seed)
    dealt = deal(plan.microbatches, rank.world_size, rank.rank)
    learner = Learner(task, manifest, config, plan, rank, dealt)
    learner.warm_up(tensors(rows.take(plan.rows(0, 1, range(dealt.start, dealt.start + 1))), rank.device))
    batches = microbatches(rows, plan, dealt, 0, rank.device)

    def steps(first: int) -> None:
        pending: list[Any] = []
        for step in range(first, first + STEPS):
            pending += learner.step(step, batches)
        gather([float(loss) for loss in pending], len(pending))

    return steps


def main() -> None:
    import statistics

    from training.launch import launch

    parser = argparse.ArgumentParser()
    parser.add_argument("data", help="a prepared dataset")
    parser.add_argument("--nproc", type=int, default=2)
    parser.add_argument("--batch", type=int, default=1024, help="global batch size")
    given = parser.parse_args()
    config = {"global_batch_size": given.batch, "microbatches": 4}
    rates = launch("benchmarks.steps:compare", {"data": given.data, "config": config}, nproc=given.nproc)
    base = statistics.median(rates["plain PyTorch loop"])
    table = Table("", "steps/s", "samples/s", "ratio", title=f"{given.nproc} processes; {machine.line()}")
    for name, values in rates.items():
        rate = statistics.median(values)
        table.add_row(name, f"{rate:.1f}", f"{rate * given.batch:,.0f}", f"{rate / base:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
