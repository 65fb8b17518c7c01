"""How many steps per second does our step make, against a plain PyTorch loop, Lightning Fabric and Accelerate?

    python -m benchmarks.steps runs/data --nproc 2
    python -m benchmarks.steps runs/data --weak         # 1 and 2 processes, with as many samples for each

Model, data, batch size, microbatches, clipping, schedule, optimizer and processes are equal, and the loops run in turn.
The plain loop shuffles once and then slices tensors in memory; it cannot resume: no seeds, no order by step, no shared
losses. Fabric and Accelerate (extra `benchmarks`) run the plain loop through their wrappers. Figures are medians of
turns, because other work on the machine affects all loops; a ratio is the median of the ratios within each turn.
"""

import argparse
import math
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from operator import truediv
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import machine

TURNS, STEPS = 5, 100


def compare(argument: dict[str, Any], rank: Any) -> dict[str, list[float]]:
    """Returns the steps per second of all loops, turn by turn; runs in every rank."""
    import torch

    from vgp.train.train_config import TrainConfig

    config = TrainConfig(**argument["config"])
    if argument.get("weak"):
        torch.set_num_threads(1)
    loops = {
        "plain PyTorch loop": plain(argument["data"], config, rank),
        "training.learner": ours(argument["data"], config, rank),
    }
    if not argument.get("weak"):
        loops["Lightning Fabric"] = plain(argument["data"], config, rank, fabric(rank))
        loops["Accelerate"] = plain(argument["data"], config, rank, accelerate(config, rank))
    rates: dict[str, list[float]] = {name: [] for name in loops}
    for turn in range(TURNS + 1):
        for name, steps in loops.items():
            began = time.perf_counter()
            steps(turn * STEPS)
            rates[name] += [STEPS / (time.perf_counter() - began)] if turn else []
    return rates


def load_task(data: str) -> Any:
    from vgp.data import tasks
    from vgp.protocol import manifest as manifests

    manifest = manifests.load(data)
    return manifest, tasks.load(manifest.task, manifest.options)


class Bare:
    """PyTorch's own way to wrap a model, skip communication, run backward and clip."""

    def __init__(self, rank: Any):
        self.distributed = rank.world_size > 1

    def prepare(self, module: Any, optimizer: Any) -> Any:
        from torch.nn.parallel import DistributedDataParallel

        if not self.distributed:
            return module, optimizer
        # The model's buffers are constants of the data, so they need no broadcast with every step.
        return DistributedDataParallel(module, gradient_as_bucket_view=True, forward_sync_buffers=False), optimizer

    def microbatch(self, model: Any, last: bool) -> Any:
        return nullcontext() if last or not self.distributed else model.no_sync()

    def backward(self, loss: Any) -> None:
        loss.backward()

    def clip(self, model: Any, optimizer: Any, norm: float) -> None:
        from torch.nn.utils import clip_grad_norm_

        clip_grad_norm_(model.parameters(), norm)


def fabric(rank: Any) -> Any:
    """Returns the wrapper of Lightning Fabric, in the existing process group."""
    from lightning_fabric import Fabric
    from lightning_fabric.plugins.environments import TorchElasticEnvironment
    from lightning_fabric.strategies import DDPStrategy

    one = {"strategy": "auto", "devices": 1}
    many = {"strategy": DDPStrategy(cluster_environment=TorchElasticEnvironment(), gradient_as_bucket_view=True,
                                    forward_sync_buffers=False),
            "devices": rank.world_size}  # fmt: skip
    outer = Fabric(accelerator="cpu", **(many if rank.world_size > 1 else one))
    outer.launch()

    class Wrapped(Bare):
        def prepare(self, module: Any, optimizer: Any) -> Any:
            return outer.setup(module, optimizer)

        def microbatch(self, model: Any, last: bool) -> Any:
            return outer.no_backward_sync(model, enabled=not last and self.distributed)

        def backward(self, loss: Any) -> None:
            outer.backward(loss)

        def clip(self, model: Any, optimizer: Any, norm: float) -> None:
            outer.clip_gradients(model, optimizer, max_norm=norm)

    return Wrapped(rank)


def accelerate(config: Any, rank: Any) -> Any:
    """Returns the wrapper of Accelerate, in the existing process group."""
    from accelerate import Accelerator, DistributedDataParallelKwargs

    outer = Accelerator(
        cpu=True, kwargs_handlers=[DistributedDataParallelKwargs(gradient_as_bucket_view=True, broadcast_buffers=False)]
    )

    class Wrapped(Bare):
        def prepare(self, module: Any, optimizer: Any) -> Any:
            return outer.prepare(module, optimizer)

        def microbatch(self, model: Any, last: bool) -> Any:
            return nullcontext() if last else outer.no_sync(model)

        def backward(self, loss: Any) -> None:
            outer.backward(loss)

        def clip(self, model: Any, optimizer: Any, norm: float) -> None:
            outer.clip_grad_norm_(model.parameters(), norm)

    return Wrapped(rank)


def plain(data: str, config: Any, rank: Any, wrapper: Any = None) -> Callable[[int], None]:
    """Runs a hand-written loop."""
    import torch

    from vgp.data.rows import open_rows
    from vgp.train.loop.weighting import mean

    manifest, task = load_task(data)
    columns = {
        name: torch.from_numpy(values).to(rank.device) for name, values in open_rows(data, "train").columns.items()
    }
    torch.manual_seed(0)
    module = task.model(manifest).to(rank.device)
    optimizer = task.optimizer(module, config.learning_rate, config.weight_decay)
    wrapper = wrapper or Bare(rank)
    model, optimizer = wrapper.prepare(module, optimizer)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        getattr(optimizer, "optimizer", optimizer), lambda step: 0.5 * (1 + math.cos(math.pi * min(step, 600) / 600))
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
                with wrapper.microbatch(model, number == own - 1):
                    wrapper.backward(mean(task.loss(model, batch)) / own)
            wrapper.clip(model, optimizer, config.clip_norm)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()

    return steps


def ours(data: str, config: Any, rank: Any) -> Callable[[int], None]:
    """Runs the step of `vgp.train.loop.trainer`, with its data loading and the losses that ranks share."""
    from vgp.data.rows import open_rows
    from vgp.train.loop.batches import microbatches, tensors
    from vgp.train.loop.learner import Learner
    from vgp.train.loop.sample_order import Plan, assignment
    from vgp.train.loop.weighting import gather

    manifest, task = load_task(data)
    rows = open_rows(data, "train")
    plan = Plan(len(rows), 100, config.global_batch_size, config.microbatches, config.seed)
    assigned = assignment(plan.microbatches, rank.world_size, rank.rank)
    first = tensors(rows.take(plan.rows(0, 1, range(assigned.start, assigned.start + 1))), rank.device)
    learner = Learner(task, manifest, config, plan, rank, assigned, first)
    learner.warm_up(first)
    batches = microbatches(rows, plan, assigned, 0, rank.device)

    def steps(first: int) -> None:
        pending: list[Any] = []
        for step in range(first, first + STEPS):
            pending += learner.step(step, batches)
        gather([float(loss) for loss in pending], len(pending))

    return steps


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", help="a prepared dataset")
    parser.add_argument("--nproc", type=int, default=2)
    parser.add_argument("--batch", type=int, default=1024, help="global batch size; with --weak: of each process")
    parser.add_argument("--weak", action="store_true", help="weak scaling: 1 and 2 processes of as many samples each")
    given = parser.parse_args()
    if given.weak:
        weak(given.data, given.batch)
    else:
        against_others(given.data, given.nproc, given.batch)


def measure(data: str, nproc: int, batch: int, microbatches: int, **more: Any) -> dict[str, list[float]]:
    from vgp.train.processes.launch import launch

    config = {"global_batch_size": batch, "microbatches": microbatches}
    rates: dict[str, list[float]] = launch(
        "benchmarks.steps:compare", {"data": data, "config": config, **more}, nproc=nproc
    )
    return rates


def against_others(data: str, nproc: int, batch: int) -> None:
    rates = measure(data, nproc, batch, 4)
    base = rates["plain PyTorch loop"]
    table = Table("", "steps/s", "samples/s", "ratio", title=f"{nproc} processes; {machine.describe()}")
    for name, values in rates.items():
        rate, ratio = statistics.median(values), statistics.median(map(truediv, values, base))
        table.add_row(name, f"{rate:.1f}", f"{rate * batch:,.0f}", f"{ratio:.2f}")
    Console().print(table)


def weak(data: str, batch: int) -> None:
    """Compares two processes with twice the samples to one process on one core; perfect is twice the samples/s."""
    found = {nproc: measure(data, nproc, batch * nproc, 2 * nproc, weak=True) for nproc in (1, 2)}
    table = Table("", "1 process, samples/s", "2 processes", "efficiency", title=machine.describe())
    for name in found[1]:
        one, two = (statistics.median(found[n][name]) * batch * n for n in (1, 2))
        table.add_row(name, f"{one:,.0f}", f"{two:,.0f}", f"{two / (2 * one):.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
