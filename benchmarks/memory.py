"""How much memory does each rank need under FSDP2 against DDP, with and without activation checkpointing?

    python -m benchmarks.memory --nproc 2 --width 1024 --rows 64

A stack of residual blocks with AdamW is built, trained for two steps and written, by the parts of `vgp.train.loop`.
The table shows the live bytes of parameters, gradients and optimizer state, and the growth of the process at the peak
of each phase. On a CPU, freed memory may stay with the process, so the peaks are upper bounds.
"""

import argparse
import os
import tempfile
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import machine
from benchmarks.loading import reset_peak_mb, status_mb

WAYS: dict[str, dict[str, Any]] = {
    "ddp": {"strategy": "ddp"},
    "ddp, activation checkpointing": {"strategy": "ddp", "activation_checkpointing": True},
    "fsdp": {"strategy": "fsdp"},
    "fsdp, activation checkpointing": {"strategy": "fsdp", "activation_checkpointing": True},
}


def measure(argument: dict[str, Any], rank: Any) -> dict[str, float]:
    """Returns megabytes of state per rank, and of growth at the peak of each phase, on the rank with the most."""
    import torch
    import torch.distributed.fsdp  # imported before the measurement
    from torch import nn

    from vgp.data import bundle
    from vgp.data.task import Task
    from vgp.train.loop.learner import Learner
    from vgp.train.loop.sample_order import Plan, assignment
    from vgp.train.train_config import TrainConfig

    class Stack(nn.Module):
        def __init__(self, width: int, depth: int):
            super().__init__()
            self.blocks = nn.ModuleList(
                nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(depth)
            )

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            for block in self.blocks:
                values = values + block(values)
            return values

    class Stacked(Task):
        def shards(self, data: str) -> Any: ...

        def rows(self, shard: Any, statistics: Any) -> Any: ...

        def model(self, data: Any) -> nn.Module:
            return Stack(argument["width"], argument["depth"])

        def loss(self, model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
            return torch.as_tensor(model(batch["values"]).square().mean())

    batch = {"values": torch.randn(argument["rows"], argument["width"])}
    plan = Plan(samples=1 << 20, epochs=1, global_batch_size=1024, microbatches=rank.world_size, seed=0)
    before = reset_peak_mb()
    config = TrainConfig(precision="fp32", **argument["config"])
    assigned = assignment(plan.microbatches, rank.world_size, rank.rank)
    learner = Learner(Stacked(), None, config, plan, rank, assigned, batch)  # type: ignore[arg-type]
    peaks = {"made": status_mb("VmHWM") - before}
    reset_peak_mb()
    learner.warm_up(batch)
    for step in range(2):
        learner.step(step, iter([batch]))
    peaks["trained"] = status_mb("VmHWM") - before
    tensors = [
        *learner.tensors().values(),
        *(p for p in learner.module.parameters()),
    ]  # gradients have the size of the parameters
    local = [t.to_local() if hasattr(t, "to_local") else t for t in tensors]
    reset_peak_mb()
    with tempfile.TemporaryDirectory() as folder:
        if learner.sharded:
            bundle.save_weights(folder, learner.module, learner.pieces, leads=rank.leads)
        elif rank.leads:
            bundle.save_weights(folder, learner.module)
        peaks["written"] = status_mb("VmHWM") - before
    state = {"state": sum(t.nbytes for t in local) / 2**20}
    everyone = rank.exchange(state | peaks, within_s=600)
    return {name: max(one[name] for one in everyone) for name in everyone[0]}


def main() -> None:
    from vgp.train.processes.launch import launch

    parser = argparse.ArgumentParser()
    parser.add_argument("--nproc", type=int, default=2)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--depth", type=int, default=12)
    parser.add_argument("--rows", type=int, default=4096)
    given = parser.parse_args()
    columns = ("state", "made", "trained", "written")
    table = Table("MB per rank", "parameters, gradients, AdamW", "peak while made", "while trained", "while written",
                  title=f"{given.nproc} processes; {machine.describe()}")  # fmt: skip
    for name, config in WAYS.items():
        argument = {"config": config, "width": given.width, "depth": given.depth, "rows": given.rows}
        found = launch("benchmarks.memory:measure", argument, nproc=given.nproc, environment=dict(os.environ))
        table.add_row(name, *(f"{found[column]:,.0f}" for column in columns))
    Console().print(table)


if __name__ == "__main__":
    main()
