"""A small model in training in this process, and a writer of its checkpoints."""

import os
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from vgp.train.checkpoint import recovery, training_state
from vgp.train.checkpoint.checkpoint_reader import CheckpointReader
from vgp.train.checkpoint.checkpoint_store import DiskStore
from vgp.train.checkpoint.writer import Writer


class Subject:
    """Three ranks' worth of writers over one model; `train` changes every tensor."""

    def __init__(self, directory: Any, *, seed: int = 0, world_size: int = 3, launch_id: str = "", keep: int = 3,
                 patience_s: float = 600, store: Any = None):  # fmt: skip
        torch.manual_seed(seed)
        self.model = nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Linear(7, 2)).double()
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.store = store or DiskStore(directory)
        self.rendezvous = dist.HashStore()
        self.rendezvous.set_timeout(timedelta(seconds=10))
        self.world_size = world_size
        self.writers = [
            Writer(
                self.store,
                self.rendezvous,
                rank=rank,
                world_size=world_size,
                run=0,
                settings={"seed": seed},
                launch_id=launch_id or os.urandom(4).hex(),
                keep=keep,
                patience_s=patience_s,
            )  # fmt: skip
            for rank in range(world_size)
        ]
        for writer in self.writers:
            writer.launch_id = self.writers[0].launch_id

    def train(self) -> None:
        self.model(torch.randn(4, 5).double()).square().mean().backward()
        self.optimizer.step()

    def tensors(self) -> dict[str, torch.Tensor]:
        return {name: tensor.clone() for name, tensor in training_state.tensors_of(self.model, self.optimizer).items()}

    def save(self, step: int) -> None:
        self.begin(step)
        self.finish()

    def begin(self, step: int, *, hurried: bool = False) -> None:
        whole = training_state.tensors_of(self.model, self.optimizer)
        layout = training_state.layout_of(whole, self.world_size)
        for writer in self.writers:
            share = training_state.share_of(whole, layout, writer.rank)
            scalars, stable = (
                f(self.model, self.optimizer) for f in (training_state.scalars_of, training_state.stable_names)
            )
            writer.save(step, share, layout, scalars, {"step": step}, stable, hurried=hurried)

    def finish(self) -> None:
        self.wait_copied()  # all of them first, as ranks of their own would
        for writer in self.writers:
            writer.wait()

    def wait_copied(self) -> None:
        for writer in self.writers:
            writer.wait_copied()

    def load(self, said: list[str] | None = None) -> Any:
        """(step, tensors) of the newest good checkpoint."""
        found = recovery.find_newest(self.store, 0, (said if said is not None else []).append)
        if found is None:
            return None
        return found.step, CheckpointReader(self.store, found).tensors()


@pytest.fixture
def make() -> type[Subject]:
    return Subject


@pytest.fixture
def subject(tmp_path: Any) -> Subject:
    return Subject(tmp_path)
