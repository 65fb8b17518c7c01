"""Steps per second of our training against a plain hand-written PyTorch loop, Lightning Fabric and Accelerate.

    python -m benchmarks.steps runs/data --nproc 2
    python -m benchmarks.steps runs/data --weak         # 1 and 2 processes, with as many samples for each

Same model, data, batch size, clipping, schedule and optimizer, one microbatch for each process, in the same processes,
in turn. Each rival runs as its authors would run it: with PyTorch's default kernels, data that is shuffled once and
sliced in memory, no seeds, no order by step, no checkpoints. Ours runs as a user gets it: with deterministic kernels,
data from the files, meetings of the ranks, checks of losses and state at the ends of epochs, curves, and a save in
each turn. Only validations are left out, of which the rivals have none. Fabric and Accelerate (extra `benchmarks`) are
skipped if they are not installed. Medians of turns; a ratio is the median of each turn's own.
"""

import argparse
import importlib.util
import itertools
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from operator import truediv
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import machine

TURNS, STEPS = 5, 100


def compare(argument: dict[str, Any], rank: Any) -> dict[str, list[float]]:
    """Returns the steps per second of each contender, turn by turn; runs in every rank."""
    import torch

    if argument.get("weak"):
        torch.set_num_threads(1)
    data, config = argument["data"], config_of(argument)
    with kernels():
        loops = {"plain PyTorch loop": plain(data, config, rank)}
        wrappers = {} if argument.get("weak") else {"lightning_fabric": fabric, "accelerate": accelerate}
        for module, wrapper in wrappers.items():
            if importlib.util.find_spec(module):
                loops[module] = plain(data, config, rank, wrapper(rank))
    loops["ours"] = ours(argument, rank)
    rates: dict[str, list[float]] = {name: [] for name in loops}
    for turn in range(TURNS + 1):
        for name, steps in loops.items():
            with nullcontext() if name == "ours" else kernels():
                began = time.perf_counter()
                steps(turn * STEPS)
                rates[name] += [STEPS / (time.perf_counter() - began)] if turn else []
    return rates


@contextmanager
def kernels() -> Iterator[None]:
    """Sets PyTorch's default kernels for the block, and restores those of our training after it."""
    import torch

    was, tuned = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark
    torch.use_deterministic_algorithms(False)
    torch.backends.cudnn.benchmark = False
    yield
    torch.use_deterministic_algorithms(was)
    torch.backends.cudnn.benchmark = tuned


def config_of(argument: dict[str, Any]) -> Any:
    from vgp.train.train_config import TrainConfig

    manifest, _ = prepared(argument["data"])
    return TrainConfig(
        task=manifest.task, epochs=1_000, global_batch_size=argument["batch"], checkpoint_every_steps=STEPS,
        validate_every_steps=10**6,
    )  # fmt: skip


def prepared(data: str) -> Any:
    from vgp.data import tasks
    from vgp.protocol import manifest as manifests

    manifest = manifests.load(data)
    return manifest, tasks.load(manifest.task, manifest.options)


class Bare:
    """How PyTorch itself wraps a model, goes backward and clips."""

    def __init__(self, rank: Any):
        self.distributed = rank.world_size > 1

    def prepare(self, module: Any, optimizer: Any) -> Any:
        from torch.nn.parallel import DistributedDataParallel

        if not self.distributed:
            return module, optimizer
        # The model's buffers are constants of the data: who knows that does not broadcast them with every step.
        return DistributedDataParallel(module, gradient_as_bucket_view=True, forward_sync_buffers=False), optimizer

    def backward(self, loss: Any) -> None:
        loss.backward()

    def clip(self, model: Any, optimizer: Any, norm: float) -> None:
        from torch.nn.utils import clip_grad_norm_

        clip_grad_norm_(model.parameters(), norm)


def fabric(rank: Any) -> Any:
    """The same through Lightning Fabric, in the process group that is there already."""
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

        def backward(self, loss: Any) -> None:
            outer.backward(loss)

        def clip(self, model: Any, optimizer: Any, norm: float) -> None:
            outer.clip_gradients(model, optimizer, max_norm=norm)

    return Wrapped(rank)


def accelerate(rank: Any) -> Any:
    """The same through Accelerate, in the process group that is there already."""
    from accelerate import Accelerator, DistributedDataParallelKwargs

    outer = Accelerator(
        cpu=True, kwargs_handlers=[DistributedDataParallelKwargs(gradient_as_bucket_view=True, broadcast_buffers=False)]
    )

    class Wrapped(Bare):
        def prepare(self, module: Any, optimizer: Any) -> Any:
            return outer.prepare(module, optimizer)

        def backward(self, loss: Any) -> None:
            outer.backward(loss)

        def clip(self, model: Any, optimizer: Any, norm: float) -> None:
            outer.clip_grad_norm_(model.parameters(), norm)

    return Wrapped(rank)


def plain(data: str, config: Any, rank: Any, wrapper: Any = None) -> Callable[[int], None]:
    """The loop that one would write by hand."""
    import torch

    from vgp.data.rows import open_rows
    from vgp.train.loop.weighting import mean

    manifest, task = prepared(data)
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
    size = config.global_batch_size // rank.world_size
    rows = len(next(iter(columns.values())))
    order = torch.randperm(rows)
    columns = {name: values[order] for name, values in columns.items()}

    def steps(first: int) -> None:
        for step in range(first, first + STEPS):
            start = step * size % (rows - size)
            batch = {name: values[start : start + size] for name, values in columns.items()}
            wrapper.backward(mean(task.loss(model, batch)))
            wrapper.clip(model, optimizer, config.clip_norm)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()

    return steps


def ours(argument: dict[str, Any], rank: Any) -> Callable[[int], None]:
    """The training that `vgp.train.fit` launches, cut into turns."""
    from vgp.data import task_names
    from vgp.protocol import manifest as manifests
    from vgp.train.checkpoint.checkpoint_store import store_at
    from vgp.train.loop.trainer import Trainer
    from vgp.train.loop.training_request import Start, TrainingRequest, plan_run

    config, data, folder = config_of(argument), argument["data"], argument["folder"]
    plan, settings, _ = plan_run(
        config, manifests.load(data), task_names.spec(config.task), rank.world_size, store_at(folder), -1
    )
    request = TrainingRequest(
        config=config, plan=plan, settings=settings, data=data, model=f"{folder}/model", checkpoints=folder, run=0,
        job="", launch_id="be", start=Start(folder=folder, run=-1),
    )  # fmt: skip
    training = Trainer(request, rank).steps()

    def steps(first: int) -> None:
        for _ in itertools.islice(training, STEPS):
            pass

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


def measured(data: str, nproc: int, batch: int, **more: Any) -> dict[str, list[float]]:
    from vgp.train.processes.launch import launch

    with tempfile.TemporaryDirectory() as folder:
        argument = {"data": data, "batch": batch, "folder": folder, **more}
        rates: dict[str, list[float]] = launch("benchmarks.steps:compare", argument, nproc=nproc)
    return rates


def against_others(data: str, nproc: int, batch: int) -> None:
    rates = measured(data, nproc, batch)
    base = rates["plain PyTorch loop"]
    table = Table("", "steps/s", "samples/s", "ratio", title=f"{nproc} processes; {machine.describe()}")
    for name, values in rates.items():
        rate, ratio = statistics.median(values), statistics.median(map(truediv, values, base))
        table.add_row(name, f"{rate:.1f}", f"{rate * batch:,.0f}", f"{ratio:.2f}")
    Console().print(table)


def weak(data: str, batch: int) -> None:
    """Twice the processes with twice the samples; perfect = twice the samples/s of one process on one core."""
    found = {nproc: measured(data, nproc, batch * nproc, weak=True) for nproc in (1, 2)}
    table = Table("", "1 process, samples/s", "2 processes", "efficiency", title=machine.describe())
    for name in found[1]:
        one, two = (statistics.median(found[n][name]) * batch * n for n in (1, 2))
        table.add_row(name, f"{one:,.0f}", f"{two:,.0f}", f"{two / (2 * one):.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
