"""The compiled step `train` with a ladder, in exact mode: a tiny task, with a process for each GPU of a rung."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vgp.protocol.capacity.plan import Plan

REPOSITORY = Path(__file__).parents[3]
DATASET = "test-bucket/runs/dataset"
CONFIG = {
    "epochs": 3.0, "global_batch_size": 16, "learning_rate": 1e-2, "weight_decay": 0.0, "warmup_fraction": 0.1,
    "precision": "fp32", "seed": 1,
}  # fmt: skip
#: Time that machines wait for each other: long, because waits in C take real time and many processes start at once.
WAITS = {"rendezvous_timeout_s": 150, "lost_after_s": 60}
UNINTERRUPTED = """
import sys, json
from vgp.steps import calls as steps
if __name__ == "__main__":
    given = json.loads(sys.argv[4])
    steps.train(sys.argv[1], sys.argv[2], sys.argv[3], **given.pop("config"), **given)
"""


@dataclass(frozen=True)
class Training:
    """A training of three epochs of ten steps; `folder` has the prepared data and an uninterrupted run's model."""

    folder: Path
    steps: int = 30
    every: int = 5
    #: Seconds of a step.
    seconds: float = 10.0

    def prepare(self) -> None:
        """Writes the folder: data, the compiled step, and the model of an uninterrupted run."""
        from tools.drills.capacity import compiled, tiny

        shutil.rmtree(self.folder, ignore_errors=True)
        tiny.prepare(self.folder / "data", self.seconds)
        tiny.prepare(self.folder / "quick", 0)
        (self.folder / "container.json").write_text(json.dumps(compiled.container(self.folder)))
        words = [str(self.folder / name) for name in ("quick", "model", "saved")]
        path = {**os.environ, "PYTHONPATH": str(REPOSITORY), "TRAINING_NPROC": "1"}
        command = [sys.executable, "-c", UNINTERRUPTED, *words, json.dumps(self.settings)]
        done = subprocess.run(command, env=path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    @property
    def settings(self) -> dict[str, Any]:
        options = {"exact": True, "microbatches": 4, "checkpoint_every_steps": self.every, **WAITS}
        return {"pins": "", "task": "tools.drills.capacity.tiny:Tiny", "config": {**CONFIG, **options}}

    @property
    def container(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = json.loads((self.folder / "container.json").read_text())
        return found

    def plan(self, deadline_s: float | None) -> Plan:
        return replace(Plan.from_json(self.container["args"][1]), deadline_s=deadline_s)

    @property
    def launcher(self) -> list[str]:
        return self.container["command"]

    def inputs(self) -> Mapping[str, Any]:
        kind = {"schemaTitle": "system.Dataset", "schemaVersion": "0.0.1"}
        dataset = {"name": "dataset", "uri": f"gs://{DATASET}", "type": kind, "metadata": {}}
        return {"parameterValues": self.settings, "artifacts": {"dataset": {"artifacts": [dataset]}}}

    def lay(self, mount: Path) -> None:
        shutil.copytree(self.folder / "data", mount / DATASET)

    def expected_model(self) -> bytes:
        return (self.folder / "model/model.safetensors").read_bytes()

    def find_model(self, read: Any, mount: Path, uri: str) -> bytes | None:
        path = mount / uri.removeprefix("gs://") / "model.safetensors"
        return path.read_bytes() if path.exists() else None
