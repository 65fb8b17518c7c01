"""The folders of a run, from the path of one of its outputs.

Vertex AI Pipelines writes to <root>/<project number>/<run>/<step>_<task id>/<output>, with a new task id for every
attempt. A local run sets its folders in the environment.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vgp.base.storage import storage
from vgp.protocol import environment as variables

#: Set by a local run: the folder of pins, the folder of checkpoints, and the registry that local runs share.
PINS_VARIABLE = variables.PINS
CHECKPOINTS_VARIABLE = variables.CHECKPOINTS
REGISTRY_VARIABLE = variables.REGISTRY
#: Last folder of a root of runs. The registry is beside it, because old runs are deleted below it.
RUNS = "runs"

_OUTPUT = re.compile(
    r"(?P<root>.+)/(?P<project>\d+)/(?P<run>[^/]+)/(?P<step>[^/]+?)_-?\d{6,}/(?P<name>[^/]+)/?", re.DOTALL
)


@dataclass(frozen=True)
class Output:
    """One output of a step of a run; `root` is gs://... if it lies in a bucket, also below /gcs."""

    root: str
    #: The number of the project.
    project: str
    run: str
    step: str
    name: str


def parse(path: str | Path) -> Output | None:
    """Parses the path of an output; None if it is not in a run."""
    match = _OUTPUT.fullmatch(storage.uri(path))
    return Output(**match.groupdict()) if match else None


def pins(output: str | Path, environment: Mapping[str, str] = os.environ) -> str:
    """Returns the folder of pins: a local run's, the root's, or one beside the path."""
    if configured := environment.get(PINS_VARIABLE):
        return pins_at(configured)
    run = parse(output)
    return pins_at(run.root if run else storage.uri(output).rpartition("/")[0] or ".")


def pins_at(folder: str) -> str:
    """Returns the folder of pins at or in `folder`, whose name must be `pins`."""
    folder = storage.uri(folder)
    folder = folder if storage.is_remote(folder) else os.path.abspath(folder)
    return folder if folder.endswith("/pins") else f"{folder}/pins"


def checkpoints(output: str | Path, environment: Mapping[str, str] = os.environ) -> str:
    """Returns the parent of a step's checkpoint folders; "" for a path outside of a run."""
    if configured := environment.get(CHECKPOINTS_VARIABLE):
        return configured
    run = parse(output)
    return f"{run.root}/checkpoints" if run else ""


def registry(output: str | Path, environment: Mapping[str, str] = os.environ) -> str:
    """Returns the root of the registry: that of local runs, or the folder `registry` beside the root's folder `runs`.

    In a root with another name it is a subfolder; for a path outside of a run, a folder beside the path. The folder of
    pins, which is in the root, also works as `output`.
    """
    if configured := environment.get(REGISTRY_VARIABLE):
        return registry_at(configured)
    run, path = parse(output), storage.uri(output) if str(output) else "."
    root = run.root if run else path.removesuffix("/pins") if path.endswith("/pins") else path.rpartition("/")[0] or "."
    above, _, name = root.rpartition("/")
    return registry_at(f"{above if above and name == RUNS else root}/registry")


def registry_at(root: str) -> str:
    """Returns the absolute path or URI of a configured registry."""
    root = storage.uri(root)
    return root if storage.is_remote(root) else os.path.abspath(os.path.expanduser(root))
