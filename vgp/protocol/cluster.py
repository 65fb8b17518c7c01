"""The machines of a job and this process among them, from the environment, without torch.

Vertex AI sets `CLUSTER_SPEC` on every replica of a custom job
(https://cloud.google.com/vertex-ai/docs/training/distributed-training#cluster-variables).
torchrun sets `LOCAL_RANK` and others. A laptop has neither.
"""

import ctypes
import json
import os
import socket
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import UserError
from vgp.protocol import environment as variables

NPROC_VARIABLE = variables.NPROC
#: Pools whose replicas train; pool 2 is for parameter or reduction servers, pool 3 for evaluators.
_TRAINING_POOLS = ("workerpool0", "workerpool1")


class Cluster(BaseModel):
    """The machines of one job. Node 0, the chief, is the only replica of pool 0."""

    model_config = ConfigDict(frozen=True)

    nodes: int = 1
    node: int = 0
    chief: str = "127.0.0.1"
    #: Port of the rendezvous on the chief; 0 = any free one (one node only).
    port: int = 0
    host: str = ""
    #: False on a reduction server or evaluator, which must not become a rank.
    trains: bool = True


def cluster(environment: Mapping[str, str]) -> Cluster:
    """Returns the cluster of `CLUSTER_SPEC`; one node without it.

    Raises:
        UserError: the variable is not a cluster specification.
    """
    text = environment.get(variables.CLUSTER_SPEC, "")
    if not text:
        return Cluster(host=socket.gethostname())
    try:
        return _parse_spec(json.loads(text))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise UserError(
            f"CLUSTER_SPEC cannot be read ({type(error).__name__}: {error}); Vertex AI sets it to "
            '{"cluster": {"workerpool0": ["HOST:PORT"], ...}, "task": {"type": "workerpool0", "index": 0}}.'
        ) from None


def _parse_spec(spec: JsonObject) -> Cluster:
    pools, task = spec["cluster"], spec["task"]
    chief, _, port = str(pools[_TRAINING_POOLS[0]][0]).rpartition(":")
    before = {name: sum(len(pools.get(p, ())) for p in _TRAINING_POOLS[:i]) for i, name in enumerate(_TRAINING_POOLS)}
    kind, index = str(task["type"]), int(task["index"])
    trains = kind in _TRAINING_POOLS
    nodes = sum(len(pools.get(pool, ())) for pool in _TRAINING_POOLS)
    own = str(pools[kind][index]).rpartition(":")[0]
    return Cluster(
        nodes=nodes, node=before.get(kind, 0) + index if trains else 0,
        chief=chief, port=int(port), host=own or socket.gethostname(), trains=trains,
    )  # fmt: skip


def started_by_torchrun(environment: Mapping[str, str]) -> bool:
    """Whether another launcher has already made this process a rank.

    `RANK` alone does not mean so: some Vertex AI containers set it per machine, not per process.
    """
    return variables.CLUSTER_SPEC not in environment and all(
        name in environment for name in ("LOCAL_RANK", "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    )


def process_count(nproc: int | None, environment: Mapping[str, str]) -> int:
    """Returns the number of processes on this machine: the argument, TRAINING_NPROC, one per GPU, or 1.

    Raises:
        UserError: the number is below 1, not a number, or above the number of GPUs, if there are any.
    """
    source, value = "nproc", nproc
    if value is None and environment.get(NPROC_VARIABLE):
        source = NPROC_VARIABLE
        try:
            value = int(environment[NPROC_VARIABLE])
        except ValueError:
            raise UserError(f"{source}={environment[source]!r} is not a whole number.") from None
    gpus = gpu_count(environment)
    if value is None:
        return max(1, gpus)
    if value < 1:
        raise UserError(f"{source}={value}: training needs at least 1 process; leave it out for one per GPU.")
    if 0 < gpus < value:
        raise UserError(f"{source}={value}, but this machine has {gpus} GPUs, and each takes one process.")
    return value


def gpu_count(environment: Mapping[str, str]) -> int:
    """Counts the GPUs that this process may use, without importing torch or starting CUDA."""
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        present = _count_with_nvml()
        return min(present, len([name for name in visible.split(",") if name.strip() not in ("", "-1")]))
    return _count_with_nvml()


def _count_with_nvml() -> int:
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return 0
    count = ctypes.c_uint()
    if nvml.nvmlInit_v2() != 0 or nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0:
        return len(list(Path("/proc/driver/nvidia/gpus").glob("*")))
    return count.value


def cores() -> int:
    """Counts the CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
