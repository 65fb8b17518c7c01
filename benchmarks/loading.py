"""How much memory does each rank need to load a checkpoint, beyond the model that it fills, under DDP and FSDP2?

    python -m benchmarks.loading --nproc 2 --megabytes 256

All ranks save a model and AdamW's state, and load it into a new model without optimizer state. The table shows the
bytes of a rank's optimizer state, which the load must allocate, and the growth of the process at its peak (VmHWM).
"""

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import machine

WIDTH, LAYERS = 1024, 8


def measure(argument: dict[str, Any], rank: Any) -> dict[str, float]:
    """Returns megabytes of optimizer state and of growth at the peak, and seconds."""
    import torch

    from vgp.train.checkpoint import recovery, training_state
    from vgp.train.checkpoint.checkpoint_reader import CheckpointReader
    from vgp.train.checkpoint.checkpoint_store import DiskStore
    from vgp.train.checkpoint.writer import Writer

    store = DiskStore(Path(argument["folder"]) / argument["strategy"])
    module, optimizer = build_model(argument, rank)
    for parameter in module.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    optimizer.zero_grad()
    writer = Writer(store, rank.another_rendezvous(), rank=rank.rank, world_size=rank.world_size, run=0,
                    launch_id="0" * 8, settings={}, keep=3, patience_s=60)  # fmt: skip
    tensors = training_state.tensors_of(module, optimizer)
    layout = training_state.layout_of(tensors, rank.world_size)
    writer.save(
        1, training_state.share_of(tensors, layout, rank.rank), layout, training_state.scalars_of(module, optimizer), {}
    )
    writer.wait()
    del writer, tensors, module, optimizer
    rank.agree(None)
    module, optimizer = build_model(argument, rank)
    before, began = reset_peak_mb(), time.perf_counter()
    training_state.restore(
        module, optimizer, CheckpointReader(store, recovery.read_manifest(store, recovery.list_manifests(store, 0)[0]))
    )
    seconds, grown = time.perf_counter() - began, status_mb("VmHWM") - before
    made = [value for state in optimizer.state.values() for value in state.values()]
    own = sum(t.to_local().nbytes if hasattr(t, "to_local") else t.nbytes for t in made) / 2**20
    return {"state": own, "peak": grown, "seconds": seconds}


def build_model(argument: dict[str, Any], rank: Any) -> tuple[Any, Any]:
    import torch
    from torch import nn

    from vgp.train.loop import gradients, sharding
    from vgp.train.train_config import TrainConfig

    rows = int(argument["megabytes"] * 2**20 / 4 / WIDTH / 3 / LAYERS)
    module = nn.Sequential(*(nn.Linear(WIDTH, rows, bias=False) for _ in range(LAYERS)))
    loss = gradients.Loss(module, lambda model, values: model(values).sum())
    config = TrainConfig(strategy=argument["strategy"], precision="fp32")
    if config.strategy == "fsdp":
        sharding.Sharded(loss, list(module), config, rank)
    else:
        gradients.choose_exchange(loss, config, rank)
    return module, torch.optim.AdamW(module.parameters(), fused=True)


def reset_peak_mb() -> float:
    """Resets the process's peak to its present memory and returns it (proc(5), clear_refs)."""
    Path("/proc/self/clear_refs").write_text("5")
    return status_mb("VmRSS")


def status_mb(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024


def main() -> None:
    from vgp.train.processes.launch import launch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nproc", type=int, default=2)
    parser.add_argument("--megabytes", type=int, default=256, help="of model and optimizer state in all")
    given = parser.parse_args()
    columns = ("", "optimizer state of a rank, MB", "growth at the peak, MB", "load, s")
    table = Table(*columns, title=f"{given.megabytes} MB, {given.nproc} processes; {machine.describe()}")
    with tempfile.TemporaryDirectory() as folder:
        for strategy in ("ddp", "fsdp"):
            argument = {"strategy": strategy, "megabytes": given.megabytes, "folder": folder}
            found = launch("benchmarks.loading:measure", argument, nproc=given.nproc, environment=dict(os.environ))
            table.add_row(strategy, *(f"{found[k]:.0f}" for k in ("state", "peak")), f"{found['seconds']:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
