"""Where a step's checkpoints go: told from the path of its output, and from what decides its result."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vgp.protocol import run_folder
from vgp.protocol.manifest import Manifest
from vgp.train.checkpoint.holder import Owner
from vgp.train.config import OPERATIONAL, TrainConfig

#: The image that the step runs in, as the tool tells it; and that of the step, where this rung of its ladder has
#: another: a run finds the same folder wherever it lands.
IMAGE_VARIABLE, STEP_IMAGE_VARIABLE = "TRAINING_IMAGE", "TRAINING_STEP_IMAGE"


@dataclass(frozen=True)
class CheckpointPlace:
    """Where a step's checkpoints go."""

    folder: str
    #: What they belong to, the same for all attempts of a run; "" for a folder that somebody chose.
    job: str = ""
    #: Who holds the folder while it writes there; None for a folder that somebody chose.
    owner: Owner | None = None


def place(
    output: str, settings: TrainConfig, prepared: Manifest, environment: Mapping[str, str], pins: str = ""
) -> CheckpointPlace:
    """Where a step's checkpoints go.

    Its name is a checksum of what decides the result: what computes the same finds the same folder, such as the next
    attempt at a request that failed; what computes something else never does, such as the iterations of a loop. What
    is not pinned is shared by the attempts of one run only.

    Args:
        pins: What the data's pins say, but for when; "" = none.
    """
    run = run_folder.parse(output)
    shared = run_folder.checkpoints(output, environment)
    if run and not pins and not environment.get(run_folder.CHECKPOINTS_VARIABLE):
        shared = stable(output)
    if not shared:
        return CheckpointPlace(output)
    decisive = settings.model_dump(exclude=set(OPERATIONAL), exclude_defaults=True)
    image = environment.get(STEP_IMAGE_VARIABLE) or environment.get(IMAGE_VARIABLE, "")
    text = json.dumps([decisive, prepared.fingerprint, pins, image], sort_keys=True)
    task = Path(output).parent.name
    folder = f"{shared.rstrip('/')}/{run.step if run else task}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    if run:
        return CheckpointPlace(folder, f"{run.run}/{run.step}", Owner(run.run, task))
    return CheckpointPlace(folder, folder, Owner(Path(shared).parent.name, output))


def stable(path: str) -> str:
    """The folder of a step's output without the number of its attempt; another path as it is.

    Vertex Pipelines writes to <root>/<project number>/<run>/<step>_<task id>/<output>.
    """
    return re.sub(r"_-?\d{6,}(?=/[^/]+/?$)", "", path)
