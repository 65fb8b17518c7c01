"""Where a run of a pipeline keeps things, told from the path of one of its outputs.

Vertex AI Pipelines writes to <root>/<project number>/<run>/<step>_<task id>/<output>, the task's id being another for
every attempt. A local run names its folders in the environment.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vgp.base.storage import storage
from vgp.protocol import environment as variables

#: Set by a local run: the folder of pins, the folder of checkpoints, and the registry that it shares with others.
PINS_VARIABLE = variables.PINS
CHECKPOINTS_VARIABLE = variables.CHECKPOINTS
REGISTRY_VARIABLE = variables.REGISTRY
#: The last folder of a root of runs, beside which the registry lies: what keeps runs for a while deletes below it.
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
    """The parts of an output's path; None for a path that is not of a run."""
    match = _OUTPUT.fullmatch(storage.uri(path))
    return Output(**match.groupdict()) if match else None


def pins(output: str | Path, environment: Mapping[str, str] = os.environ) -> str:
    """The folder of the pins: that of a local run, else the root's, else one beside the path."""
    if chosen := environment.get(PINS_VARIABLE):
        return pins_at(chosen)
    run = parse(output)
    return pins_at(run.root if run else storage.uri(output).rpartition("/")[0] or ".")


def pins_at(folder: str) -> str:
    """The folder of pins at or in a folder that somebody chose: pins are known by that name."""
    folder = storage.uri(folder)
    folder = folder if storage.is_remote(folder) else os.path.abspath(folder)
    return folder if folder.endswith("/pins") else f"{folder}/pins"


def checkpoints(output: str | Path, environment: Mapping[str, str] = os.environ) -> str:
    """The folder above the checkpoint folders of a step: the root's; "" for a path that somebody chose."""
    if chosen := environment.get(CHECKPOINTS_VARIABLE):
        return chosen
    run = parse(output)
    return f"{run.root}/checkpoints" if run else ""


def registry(output: str | Path, environment: Mapping[str, str] = os.environ) -> str:
    """The root of the registry: that of local runs, else the folder `registry` beside the root's folder `runs`.

    Below a root of another name it is a folder of that root; of a path that somebody chose, one beside the path. The
    folder of the pins, which lies in the root, tells it too.
    """
    if chosen := environment.get(REGISTRY_VARIABLE):
        return registry_at(chosen)
    run, path = parse(output), storage.uri(output) if str(output) else "."
    root = run.root if run else path.removesuffix("/pins") if path.endswith("/pins") else path.rpartition("/")[0] or "."
    above, _, name = root.rpartition("/")
    return registry_at(f"{above if above and name == RUNS else root}/registry")


def registry_at(root: str) -> str:
    """The root of a registry that somebody chose, in full."""
    root = storage.uri(root)
    return root if storage.is_remote(root) else os.path.abspath(os.path.expanduser(root))
