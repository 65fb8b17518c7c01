"""A small model in training in this process, and a writer of its checkpoints."""

import os
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from training.checkpoint import recovery, state
from training.checkpoint.disk import DiskStore
from training.checkpoint.saved import Saved
from training.checkpoint.writer import Writer


class Subject:
    """Three ranks' worth of writers over one model; `train` changes every tensor."""

    def __init__(self, directory: Any, *, seed: int = 0, world_size: int = 3, token: str = "", keep: int = 3,
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
                token=token or os.urandom(4).hex(),
                keep=keep,
                patience_s=patience_s,
            )  # fmt: skip
            for rank in range(world_size)
        ]
        for writer in self.writers:
            writer.token = self.writers[0].token

    def train(self) -> None:
        self.model(torch.randn(4, 5).double()).square().mean().backward()
        self.optimizer.step()

    def tensors(self) -> dict[str, torch.Tensor]:
        return {name: tensor.clone() for name, tensor in state.tensors_of(self.model, self.optimizer).items()}

    def save(self, step: int) -> None:
        self.begin(step)
        self.finish()

    def begin(self, step: int) -> None:
        whole = state.tensors_of(self.model, self.optimizer)
        layout = state.stored(whole, self.world_size)
        for writer in self.writers:
            share = state.share(whole, layout, writer.rank)
            scalars, steady = (f(self.model, self.optimizer) for f in (state.scalars_of, state.steady))
            writer.save(step, share, layout, scalars, {"step": step}, steady)

    def finish(self) -> None:
        self.settle()  # all of them first, as ranks of their own would
        for writer in self.writers:
            writer.wait()

    def settle(self) -> None:
        for writer in self.writers:
            writer.settle()

    def load(self, said: list[str] | None = None) -> Any:
        """(step, tensors) of the newest good checkpoint."""
        found = recovery.newest(self.store, 0, (said if said is not None else []).append)
        if found is None:
            return None
        return found.step, Saved(self.store, found).tensors()


@pytest.fixture
def make() -> type[Subject]:
    return Subject


@pytest.fixture
def subject(tmp_path: Any) -> Subject:
    return Subject(tmp_path)
