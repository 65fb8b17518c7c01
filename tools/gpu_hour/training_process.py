"""A training in processes of its own, as a user starts one: `python -m tools.gpu_hour.training_process`.

`python -m vgp.steps train` trains too, but needs the packages of every other step.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.gpu_hour.tasks import KILL_VARIABLE
from vgp.base.exits import exits
from vgp.protocol import manifest
from vgp.train import fit
from vgp.train.train_config import TrainConfig


def make_command(data: Path, folder: Path, settings: Mapping[str, Any]) -> list[str]:
    """Returns the command of a training on one GPU, with `model` and `checkpoints` in the folder."""
    return [sys.executable, "-m", "tools.gpu_hour.training_process", str(data), str(folder), json.dumps(settings)]


def train(words: list[str], *, kill: str = "", environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Runs the command; returns the figures, {} for a training that kills itself (`KILL_VARIABLE`).

    Raises:
        RuntimeError: the training failed, or did not kill itself.
    """
    variables = {**os.environ, **(environment or {}), **({KILL_VARIABLE: kill} if kill else {})}
    done = subprocess.run(words, env=variables, capture_output=True, text=True)
    if done.returncode and not (kill and "SIGKILL" in done.stderr) or kill and not done.returncode:
        raise RuntimeError(f"the training ended with {done.returncode}: {done.stderr[-400:]}")
    return {} if kill else json.loads(done.stdout)


@exits
def main(data: str, folder: str, settings: str) -> None:
    """Trains on the prepared `data` with `settings`, a JSON object, and prints the figures."""
    dataset = manifest.load(data)
    config = TrainConfig(task=dataset.task, options=dataset.options, **json.loads(settings))
    figures = fit.train(config, data=data, model=f"{folder}/model", checkpoints=f"{folder}/checkpoints", nproc=1)
    print(json.dumps(figures))


if __name__ == "__main__":
    main(*sys.argv[1:])
