"""Digits whose training breaks in a chosen way, and a function that trains several of them in one set of processes."""

import os
from typing import Any

import torch
import torch.distributed as dist
from digits import Digits, Net
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from vgp.base.exits import UserError
from vgp.train import fit
from vgp.train.checkpoint import recovery, training_state
from vgp.train.checkpoint.checkpoint_reader import CheckpointReader
from vgp.train.checkpoint.checkpoint_store import DiskStore
from vgp.train.checkpoint.writer import Writer
from vgp.train.loop import trainer
from vgp.train.loop.training_request import TrainingRequest
from vgp.train.processes.rank import Rank
from vgp.train.train_config import parse_config


class Masked(Net):
    """With a mask of -inf, as attention has, which is no fault."""

    def __init__(self) -> None:
        super().__init__(hidden=8, dropout=0.0)
        self.register_buffer("mask", torch.full((10,), -torch.inf))


class NanGradient(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, values: Tensor) -> Tensor:
        return torch.zeros_like(values)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        return torch.full_like(gradient, torch.nan)


class Faulty(Digits):
    """FAULT=kind:rank:step; kinds are `gradient`, `loss`, `weight`, `buffer`, and `validation` at any step."""

    def __init__(self, options=None):
        super().__init__(options)
        kind, rank, step = os.environ["FAULT"].split(":")
        self.kind = kind if int(rank) in (-1, int(os.environ["RANK"])) else ""
        self.step, self.steps = int(step), 0  # of the optimizer: it takes none while training warms up

    def model(self, data):
        self.net = Masked()
        return self.net

    def optimizer(self, model, learning_rate, weight_decay):
        optimizer = super().optimizer(model, learning_rate, weight_decay)
        optimizer.register_step_post_hook(self.overflow)
        return optimizer

    def overflow(self, optimizer, arguments, keywords):
        if self.kind == "weight" and self.steps == self.step:
            weight = self.net.layers[0].weight.data
            (weight.to_local() if isinstance(weight, DTensor) else weight)[0] = torch.inf
        self.steps += 1

    def loss(self, model, batch):
        logits = model(batch["pixels"])
        loss = nn.functional.cross_entropy(logits, batch["label"])
        if not self.net.training:
            return loss * (torch.nan if self.kind == "validation" else 1)
        if self.steps != self.step:
            return loss
        if self.kind == "buffer":
            self.net.layers[1].running_var.data[3] = torch.nan
        added = {"gradient": NanGradient.apply(logits).mean(), "loss": torch.tensor(torch.nan)}
        return loss + added.get(self.kind, 0.0)


def trials(argument: dict[str, Any], rank: Rank) -> list[list[str]]:
    """How each run ended on each rank: "" or its error."""
    return [rank.exchange(attempt(trial, rank), within_s=60) for trial in argument["trials"]]


def attempt(trial: dict[str, Any], rank: Rank) -> str:
    os.environ["FAULT"] = trial["fault"]
    if rank.leads and trial.get("poison"):
        poison(trial["folder"], trial["poison"])
    try:
        trainer.run(prepared(trial), rank)
    except UserError as error:
        return str(error)
    return ""


def prepared(trial: dict[str, Any]) -> TrainingRequest:
    """What `fit.train` would launch."""
    launched = []
    fit.launch = lambda target, argument, **how: launched.append(argument)
    config = parse_config({"task": "faulty:Faulty", "epochs": 0.4, "global_batch_size": 96, "microbatches": 2,
                    "checkpoint_every_steps": 1, "keep": 9, **trial.get("config", {})})  # fmt: skip
    fit.train(config, data=trial["data"], model=f"{trial['folder']}/model", checkpoints=trial["folder"])
    return launched[0]


def poison(folder: str, steps: list[int]) -> None:
    """Writes the checkpoints of these steps again, with a nan: what an older version of this program left."""
    store = DiskStore(folder)
    for name in recovery.list_manifests(store, 0):
        manifest = recovery.read_manifest(store, name)
        if manifest.step in steps:
            tensors = CheckpointReader(store, manifest).tensors()
            tensors["model/layers.0.weight"][0] = torch.nan
            store.delete(name)
            writer = Writer(store, dist.HashStore(), rank=0, world_size=1, run=0, launch_id=os.urandom(4).hex(),
                            settings=manifest.settings, keep=9, patience_s=9)  # fmt: skip
            layout = training_state.layout_of(tensors, 1)
            writer.save(manifest.step, tensors, layout, manifest.scalars, manifest.history, trainer=manifest.trainer)
            writer.wait()
