"""The work of the drill's jobs: the step, its ladder, and the expected model."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from tools.drills.capacity.standin import next_state
from vgp.protocol.capacity.plan import EXECUTOR_INPUT, Plan, PlannedRung

STANDIN = Path(__file__).parent / "standin.py"
ROOT, RUN, STEP = "gs://test-bucket/runs", "nightly-20260101", "train"
MACHINE = {"machineType": "a3-highgpu-8g", "acceleratorType": "NVIDIA_H100_80GB", "acceleratorCount": 8}
STRATEGIES = {"standard": "STANDARD", "spot": "SPOT", "flex_start": "FLEX_START"}


class Work(Protocol):
    """The work of a job."""

    #: Steps in all, and between two checkpoints.
    steps: int
    every: int
    #: Seconds of a step.
    seconds: float

    def prepare(self) -> None:
        """Writes the files that all climbs read."""

    def plan(self, deadline_s: float | None) -> Plan:
        """Returns the ladder."""

    @property
    def launcher(self) -> list[str]:
        """Returns the launcher's command."""

    def inputs(self) -> Mapping[str, Any]:
        """Returns the inputs of the executor input."""

    def lay(self, mount: Path) -> None:
        """Copies the input files into the folder that replaces /gcs."""

    def expected_model(self) -> bytes:
        """Returns the model of an uninterrupted run."""

    def find_model(self, read: Any, mount: Path, uri: str) -> bytes | None:
        """Returns the model below `uri`, or None if there is none."""


@dataclass(frozen=True)
class StandIn:
    """The stand-in for training: standin.py."""

    steps: int = 40
    every: int = 5
    seconds: float = 20.0
    fails_at: int = 0

    def prepare(self) -> None:
        pass

    def plan(self, deadline_s: float | None) -> Plan:
        return plan(self, deadline_s=deadline_s)

    @property
    def launcher(self) -> list[str]:
        return [sys.executable, "-m", "vgp.launch.capacity"]

    def container(self) -> Mapping[str, Any]:
        words = [f"--{name}={getattr(self, name)}" for name in ("steps", "every", "seconds", "fails_at")]
        arguments = [*words, "--executor_input", EXECUTOR_INPUT]
        return {"imageUri": "standin", "command": [sys.executable, str(STANDIN)], "args": arguments}

    def inputs(self) -> Mapping[str, Any]:
        return {"parameterValues": {"steps": self.steps}}

    def lay(self, mount: Path) -> None:
        pass

    def expected_model(self) -> bytes:
        state = "begin"
        for step in range(1, self.steps + 1):
            state = next_state(state, step)
        return state.encode()

    def find_model(self, read: Any, mount: Path, uri: str) -> bytes | None:
        return read(f"{uri}/model.txt")


@dataclass(frozen=True)
class Handover(StandIn):
    """The stand-in on a ladder of Spot and on demand, with more steps, so that there is time to wait for Spot."""

    steps: int = 90

    def plan(self, deadline_s: float | None) -> Plan:
        whole = super().plan(deadline_s)
        return replace(whole, rungs=(whole.rungs[0], whole.rungs[3]))


def output_folder(task: int) -> str:
    """Returns the output folder of a task, which differs for every try of the step."""
    return f"{ROOT}/123456789012/{RUN}/{STEP}_{task}"


def executor_input(work: Work, task: int) -> str:
    """Returns the executor input of the step's container."""
    folder = output_folder(task)
    mounted = folder.replace("gs://", "/gcs/")

    def artifact(name: str, kind: str) -> dict[str, Any]:
        return {
            "artifacts": [
                {
                    "name": f"{name}-{task}",
                    "uri": f"{folder}/{name}",
                    "type": {"schemaTitle": kind, "schemaVersion": "0.0.1"},
                    "metadata": {},
                }
            ]
        }

    outputs = {
        "artifacts": {
            "model": artifact("model", "system.Model"),
            "checkpoints": artifact("checkpoints", "system.Artifact"),
        },
        "parameters": {"gcp_resources": {"outputFile": f"{mounted}/gcp_resources"}},
        "outputFile": f"{mounted}/executor_output.json",
    }
    return json.dumps({"inputs": work.inputs(), "outputs": outputs})


def rung(
    work: StandIn,
    name: str,
    region: str,
    strategy: str,
    usd: float,
    *,
    max_wait_s: float | None = None,
    nodes: int = 1,
) -> PlannedRung:
    scheduling: dict[str, Any] = {"strategy": STRATEGIES[strategy], "disableRetries": True}
    if max_wait_s is not None:
        scheduling["maxWaitDuration"] = f"{int(max_wait_s)}s"
    pools = [{"machineSpec": MACHINE, "replicaCount": "1", "containerSpec": dict(work.container())}]
    if nodes > 1:
        pools.append({**pools[0], "replicaCount": str(nodes - 1)})
    return PlannedRung(
        name=name, region=region, strategy=strategy, timeout_s=2 * 3600, usd_per_hour=usd, max_wait_s=max_wait_s,
        job={"displayName": STEP, "jobSpec": {"workerPoolSpecs": pools, "scheduling": scheduling}},
    )  # fmt: skip


def plan(
    work: StandIn, *, deadline_s: float | None = None, orphan_s: float = 600, nodes: int = 1, wait_s: float = 600
) -> Plan:
    """Returns a ladder: Spot, Flex-start, Spot in another region, on demand."""
    rungs = (
        rung(work, "1 spot", "us-central1", "spot", 30, nodes=nodes),
        rung(work, "2 flex", "us-central1", "flex_start", 60, max_wait_s=wait_s, nodes=nodes),
        rung(work, "3 spot", "europe-west4", "spot", 32, nodes=nodes),
        rung(work, "4 standard", "us-east4", "standard", 90, nodes=nodes),
    )
    return Plan(step=STEP, rungs=rungs, deadline_s=deadline_s, orphan_s=orphan_s, project="test-project")


def make_work(kind: str, folder: Path) -> Work:
    """Returns the work of that name, whose files are in the folder."""
    if kind != "training":
        return {"standin": StandIn, "handover": Handover}[kind]()
    from tools.drills.capacity.training import Training

    return Training(folder / "prepared")
