"""A task with a metric of its own, and runs of it that are killed where a trainer's state changes."""

import os
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch._dynamo  # before the fork, as `digits` wants it
from digits import Digits

from vgp.base.exits import UserError
from vgp.train import fit
from vgp.train.loop import trainer
from vgp.train.loop.checkpoint_saving import Saving
from vgp.train.loop.trainer import Trainer
from vgp.train.loop.training_request import TrainingRequest
from vgp.train.processes.rank import Rank
from vgp.train.train_config import parse_config


class Judged(Digits):
    """`wave` goes up and down with the last bits of the weights, so that the best is anywhere; `right` is accuracy, and
    `noise` is random."""

    metrics = {"wave": "min", "right": "max", "noise": "min"}

    def validation(self, model, batch):
        fault, noise = os.environ.get("FAULT", ""), torch.rand(())
        right = model(batch["pixels"]).argmax(dim=1) == batch["label"]
        if fault == "names":
            return {"right": (right.sum(), 1)}
        if fault == "values":
            return {"wave": 3, "right": (right.sum(), len(right)), "noise": (noise, 1)}
        wave = torch.sin(1e4 * model.layers[0].weight.double().sum()) if fault != "nan" else float("nan")
        return {"wave": (wave * len(right), len(right)), "right": (right.sum(), len(right)), "noise": (noise, 1)}


class Killed(Exception):
    """What ends a life, on every rank at the same place."""


def trials(argument: dict[str, Any], rank: Rank) -> list[str]:
    """Runs each trial to its end, through its kills; how it ended on rank 0: "" or its error."""
    return [rank.exchange(attempt(trial, rank), within_s=60)[0] for trial in argument["trials"]]


def attempt(trial: dict[str, Any], rank: Rank) -> str:
    os.environ["FAULT"] = trial.get("fault", "")
    for kill in trial.get("kills", []):
        with killing(*kill):
            try:
                trainer.run(request(trial), rank)
            except Killed:
                continue
        return f"no kill at {kill}"
    if trial.get("unfinished"):
        return ""
    try:
        trainer.run(request(trial | {"config": trial.get("config after", trial["config"])}), rank)
    except UserError as error:
        return str(error)
    return ""


def killing(where: str, at: int) -> Any:
    """Has a run die once a step is "validated", or "saved"."""
    validate, save = Trainer._validate, Saving.save

    def validating(self: Trainer) -> None:
        validate(self)
        if (where, at) == ("validated", self.step):
            _die(self.saving)

    def saving(self: Saving, step: int, history: dict[str, Any], **given: Any) -> None:
        save(self, step, history, **given)
        if (where, at) == ("saved", step):
            _die(self)

    return patch.object(*((Saving, "save", saving) if where == "saved" else (Trainer, "_validate", validating)))


def _die(saving: Saving) -> None:
    """What is being written is written first; kills amid that have tests of their own."""
    saving.wait(0)
    raise Killed


def request(trial: dict[str, Any]) -> TrainingRequest:
    """What `fit.train` would launch."""
    launched = []
    fit.launch = lambda target, argument, **how: launched.append(argument)
    config = parse_config({"task": "judged:Judged", "epochs": 1.6, "global_batch_size": 96, "microbatches": 2,
                    "learning_rate": 0.01, **trial["config"]})  # fmt: skip
    folder = Path(trial["folder"])
    fit.train(config, data=trial["data"], model=folder / "model", checkpoints=folder / "checkpoints")
    return launched[0]
