"""Digits trained by every recipe at once: two optimizers, frozen layers, a schedule of their own, float16."""

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # before the ranks are forked: digits looks for it
from digits import Digits
from safetensors.torch import save_file
from torch import Tensor, nn

from vgp.data import tasks
from vgp.protocol import manifest as manifests
from vgp.train import fit
from vgp.train.checkpoint import recovery
from vgp.train.checkpoint.checkpoint_reader import CheckpointReader
from vgp.train.checkpoint.checkpoint_store import DiskStore
from vgp.train.loop import finite_checks, trainer
from vgp.train.loop.training_request import TrainingRequest
from vgp.train.processes.rank import Rank
from vgp.train.train_config import parse_config

RECIPE = {
    "task": "recipes:Recipes", "epochs": 1, "global_batch_size": 120, "microbatches": 4, "precision": "fp16",
    "freeze": ["blocks.0.*"], "warm_start_names": {"": "net."}, "learning_rate": 0.01, "checkpoint_every_steps": 2,
    "keep": 9,
}  # fmt: skip
STEPS = 10


class Recipes(Digits):
    def optimizer(self, model, learning_rate, weight_decay):
        """Muon for the matrices of blocks, AdamW and SGD for what is left."""
        trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        matrices = [p for name, p in trained if p.ndim == 2 and name.startswith("blocks")]
        vectors = [p for _, p in trained if p.ndim == 1]
        heads = [p for name, p in trained if p.ndim == 2 and not name.startswith("blocks")]
        return [
            torch.optim.Muon(matrices, lr=2 * learning_rate, weight_decay=weight_decay),
            torch.optim.AdamW([{"params": heads, "betas": (0.8, 0.9)}], lr=learning_rate, fused=True),
            torch.optim.SGD(vectors, lr=learning_rate, momentum=0.9),
        ]

    def learning_rate(self, step, steps):
        return 1.0 if step < 6 else 0.3

    def loss(self, model, batch):
        """Ten times as much, so that gradients overflow at scales that come soon."""
        self.interrupt()
        return 10 * nn.functional.cross_entropy(model(batch["pixels"]), batch["label"])


def begin(argument: dict[str, Any], rank: Rank) -> None:
    """Each recipe from start to end; then the first once more, in which rank 1 is killed in the tenth step."""
    finite_checks._GROWTH_INTERVAL = 3
    for name, changes in argument["recipes"].items():
        trainer.run(request(argument, f"{name}/whole", changes), rank)
    os.environ["DIGITS_SIGNAL"] = f"1:{2 * STEPS}:{signal.SIGKILL.value}"
    trainer.run(request(argument, "killed", {}), rank)


def go_on(argument: dict[str, Any], rank: Rank) -> list[dict[str, Any]]:
    """Each recipe from the checkpoint of a step on, and the one that was killed: their figures."""
    finite_checks._GROWTH_INTERVAL = 3
    found = []
    for name, changes in argument["recipes"].items():
        if rank.leads:
            folder = Path(argument["folder"]) / name
            shutil.copytree(folder / "whole", folder / "resumed", ignore=later(argument["step"]))
        rank.exchange(None, within_s=60)
        found.append(trainer.run(request(argument, f"{name}/resumed", changes), rank))
    return [*found, trainer.run(request(argument, "killed", {}), rank)]


def later(step: int) -> Any:
    """Whatever is of a later step, or of the end."""

    def ignored(folder: str, names: list[str]) -> list[str]:
        return [n for n in names if "-step" not in n or int(n.split("-step")[1][:9]) > step]

    return ignored


def request(argument: dict[str, Any], folder: str, changes: dict[str, Any]) -> TrainingRequest:
    """What `fit.train` would launch."""
    launched: list[Any] = []
    fit.launch = lambda target, argument, **how: launched.append(argument)
    place = f"{argument['folder']}/{folder}"
    config = parse_config({**RECIPE, "warm_start": argument["weights"], **changes})
    fit.train(config, data=argument["data"], model=f"{place}/model", checkpoints=place)
    return launched[0]


def state(folder: Path, step: int = STEPS) -> tuple[Any, ...]:
    """All that the checkpoint of a step holds."""
    store = DiskStore(folder)
    name = next(n for n in recovery.list_manifests(store, 0) if f"step{step:09d}" in n)
    manifest = recovery.read_manifest(store, name)
    tensors = {name: t.numpy().tobytes() for name, t in CheckpointReader(store, manifest).tensors().items()}
    return tensors, manifest.scalars, manifest.trainer, manifest.history


def pretrained(data: Path, folder: Path) -> dict[str, Tensor]:
    """Writes weights as Hugging Face does, in two files; the tensors by the model's names."""
    torch.manual_seed(7)
    tensors = tasks.load("recipes:Recipes", manifests.load(data).options).model(None).state_dict()
    files = {name: f"model-0000{1 + name.startswith('blocks')}-of-00002.safetensors" for name in tensors}
    folder.mkdir()
    for file in set(files.values()):
        save_file({f"net.{name}": t for name, t in tensors.items() if files[name] == file}, folder / file)
    index = {"weight_map": {f"net.{name}": file for name, file in files.items()}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return tensors


def prepared(digits: Path, folder: Path) -> Path:
    """The digits, for this task, whose model has two blocks."""
    shutil.copytree(digits, folder)
    text = (folder / "manifest.json").read_text()
    manifest = json.loads(text) | {"task": "recipes:Recipes", "options": {"blocks": 2, "hidden": 8}}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder
