"""Memory of each rank under FSDP2 against DDP, with and without activation checkpointing.

    python -m benchmarks.memory --nproc 2

A stack of residual blocks with AdamW takes three steps through the parts of `training.loop.learner`.
Reported: the live bytes of parameters, gradients and optimizer state, as counted, and by how much the process grew at
its peak. On a CPU memory that was freed may stay with the process, so the peak is an upper bound.
"""

import argparse
import os
import resource
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import machine

WAYS: dict[str, dict[str, Any]] = {
    "ddp": {"strategy": "ddp"},
    "ddp, activation checkpointing": {"strategy": "ddp", "activation_checkpointing": True},
    "fsdp": {"strategy": "fsdp"},
    "fsdp, activation checkpointing": {"strategy": "fsdp", "activation_checkpointing": True},
}


def consumed(argument: dict[str, Any], rank: Any) -> dict[str, float]:
    """Megabytes: state per rank, growth at the peak."""
    import torch
    from torch import nn

    from training.config import TrainConfig
    from training.loop import blocks, gradients

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

    config = TrainConfig(**argument["config"])
    before = _peak_mb()
    module = Stack(argument["width"], argument["depth"])
    found = blocks.repeated(module)
    if config.activation_checkpointing:
        blocks.recompute(found)
    loss = gradients.Loss(module, lambda model, values: model(values).square().mean())
    chosen = gradients.choose(loss, found, config, rank)
    optimizer = torch.optim.AdamW(module.parameters(), fused=True)
    for step in range(3):
        with chosen.microbatch(last=True):
            chosen.loss(torch.randn(argument["rows"], argument["width"])).backward()
        if step < 2:
            optimizer.step()
            optimizer.zero_grad()
    tensors = [*module.parameters(), *(p.grad for p in module.parameters())]
    tensors += [value for state in optimizer.state.values() for value in state.values()]
    local = [t.to_local() if hasattr(t, "to_local") else t for t in tensors]
    return {"state": sum(t.nbytes for t in local) / 2**20, "peak": _peak_mb() - before}


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    from training.processes.launch import launch

    parser = argparse.ArgumentParser()
    parser.add_argument("--nproc", type=int, default=2)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--depth", type=int, default=12)
    parser.add_argument("--rows", type=int, default=4096)
    given = parser.parse_args()
    table = Table("", "parameters, gradients, AdamW: MB per rank", "ratio", "peak growth, MB", "ratio",
                  title=f"{given.nproc} processes; {machine.line()}")  # fmt: skip
    base: dict[str, float] = {}
    for name, config in WAYS.items():
        argument = {"config": config, "width": given.width, "depth": given.depth, "rows": given.rows}
        found = launch("benchmarks.memory:consumed", argument, nproc=given.nproc, environment=dict(os.environ))
        base = base or found
        table.add_row(name, *(w for k in ("state", "peak") for w in (f"{found[k]:.0f}", f"{found[k] / base[k]:.2f}")))
    Console().print(table)


if __name__ == "__main__":
    main()
