"""The processes of a node, with their GPUs and environment variables."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Mapping

from vgp.protocol.launching.machines import ROLES, Node, host_and_port
from vgp.protocol.launching.rank import Rank
from vgp.protocol.launching.request import Mistake, integer, log

# ---- the environment variables of each framework


def torch_variables(node: Node, local: int, count: int, environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables of torchrun's workers: torch/distributed/elastic/agent/server/local_elastic_agent.py."""
    rank, size = (node.number or 0) * count + local, node.nodes * count
    values = {
        "RANK": rank, "LOCAL_RANK": local, "GROUP_RANK": node.number, "ROLE_RANK": rank, "ROLE_NAME": "default",
        "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": count, "GROUP_WORLD_SIZE": node.nodes, "ROLE_WORLD_SIZE": size,
        "MASTER_ADDR": node.chief, "MASTER_PORT": node.port, "TORCHELASTIC_USE_AGENT_STORE": False,
        "TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": 0, "TORCHELASTIC_MAX_RESTARTS": 0,
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": environment.get("TORCH_NCCL_ASYNC_ERROR_HANDLING", 1),
    }  # fmt: skip
    if count > 1 and "OMP_NUM_THREADS" not in environment:  # torchrun sets 1; a share of the cores is as safe
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        values["OMP_NUM_THREADS"] = max(1, cores // count)
    return as_texts(values)


def tensorflow_variables(node: Node) -> dict[str, str]:
    """Returns TF_CONFIG, as https://cloud.google.com/vertex-ai/docs/training/distributed-training has it.

    A single node is a worker, as in TensorFlow's guides, whose scripts count the workers.
    """
    hosts = {ROLES[pool]: hosts for pool, hosts in node.pools.items() if pool in ROLES and pool != "workerpool3"}
    task = {"type": node.role, "index": node.index}
    if list(hosts) == ["chief"] and node.role == "chief":
        hosts, task = {"worker": hosts["chief"]}, {"type": "worker", "index": 0}
    return {"TF_CONFIG": json.dumps({"cluster": hosts, "task": task})}


def jax_variables(node: Node, devices: int, environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables of JAX, MaxText, Kubeflow's JAXJob and Keras.

    jax.distributed.initialize() reads the coordinator from a variable of JAX, but the number of processes only from
    known launchers, here Open MPI (jax/_src/clusters/ompi_cluster.py).
    """
    address = f"[{node.chief}]:{node.port}" if ":" in node.chief else f"{node.chief}:{node.port}"
    values = {
        "JAX_COORDINATOR_ADDRESS": address, "JAX_NUM_PROCESSES": node.nodes, "JAX_PROCESS_ID": node.number,
        "JAX_COORDINATOR_IP": node.chief, "JAX_COORDINATOR_PORT": node.port,
        "NNODES": node.nodes, "NODE_RANK": node.number,
        "COORDINATOR_ADDRESS": node.chief, "COORDINATOR_PORT": node.port,
        "NUM_PROCESSES": node.nodes, "PROCESS_ID": node.number,
        "KERAS_DISTRIBUTION_JOB_ADDRESSES": address, "KERAS_DISTRIBUTION_NUM_PROCESSES": node.nodes,
        "KERAS_DISTRIBUTION_PROCESS_ID": node.number,
    }  # fmt: skip
    if "TPU_WORKER_HOSTNAMES" not in environment:  # a TPU's own variables have more information
        values.update(
            OMPI_MCA_orte_hnp_uri=f"0.0;tcp{'6' if ':' in node.chief else ''}://{address}",
            OMPI_COMM_WORLD_SIZE=node.nodes, OMPI_COMM_WORLD_RANK=node.number, OMPI_COMM_WORLD_LOCAL_RANK=0,
        )  # fmt: skip
        if devices:  # otherwise the process uses only the GPU of its local rank
            local = ",".join(map(str, range(devices)))
            values["JAX_LOCAL_DEVICE_IDS"] = environment.get("JAX_LOCAL_DEVICE_IDS", local)
    return as_texts(values)


def plain_variables(node: Node) -> dict[str, str]:
    """Returns variables for the command's own launcher, such as torchrun or accelerate, for XGBoost, and for LightGBM:
    the value of its parameter `machines`, and this node's port."""
    values = {
        "MASTER_ADDR": node.chief, "MASTER_PORT": node.port, "NODE_RANK": node.number, "NNODES": node.nodes,
        "DMLC_TRACKER_URI": node.chief, "DMLC_TRACKER_PORT": node.port, "DMLC_TASK_ID": node.number,
        "DMLC_NUM_WORKER": node.nodes,
        "TRAINING_MACHINES": ",".join(node.trainers),
        "TRAINING_PORT": host_and_port(node.trainers[node.number or 0])[1],
    }  # fmt: skip
    return as_texts(values)


def as_texts(values: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items()}


# ---- the GPUs of a machine, counted without a framework, and a node's share of them


def gpus(environment: Mapping[str, str]) -> list[str]:
    """Returns the GPUs that a process may use; a -1 in CUDA_VISIBLE_DEVICES hides the following ones."""
    names = [str(number) for number in range(count_gpus())]
    if "CUDA_VISIBLE_DEVICES" not in environment:
        return names
    visible = [name.strip() for name in environment["CUDA_VISIBLE_DEVICES"].split(",")]
    end = next((number for number, name in enumerate(visible) if name in ("", "-1")), len(visible))
    return visible[: min(end, len(names))]


def count_gpus() -> int:
    try:
        import ctypes  # some Pythons are built without

        nvml, count = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_uint()
        if nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0:
            return count.value
    except (ImportError, OSError, AttributeError):
        pass
    return len(glob.glob("/proc/driver/nvidia/gpus/*")) or len(glob.glob("/dev/nvidia[0-9]*"))


def share(devices: list[str], place: int, nodes: int) -> list[str]:
    """Returns the GPUs of the node at `place` among nodes that share one machine."""
    size = len(devices) // nodes
    if devices and not size and not place:
        log(f"{nodes} nodes on this machine cannot share its {len(devices)} GPUs: they run without GPUs.")
    return devices[place * size :][:size]


def ranks_of(node: Node, launch: str, nodes: list[Node], environment: Mapping[str, str]) -> list[Rank]:
    """Returns the processes of one local node; none for a role that only TensorFlow has."""
    devices, visible = gpus(environment), {}
    if devices and len(nodes) > 1:
        devices = share(devices, nodes.index(node), len(nodes))
        visible = {"CUDA_VISIBLE_DEVICES": ",".join(devices)}
    count = integer(environment, "TRAINING_NPROC", len(devices) or 1, least=1)
    if 0 < len(devices) < count:
        raise Mistake(f"TRAINING_NPROC={count}, but a node has {len(devices)} GPUs, and each takes one process.")
    if launch != "tensorflow" and node.number is None:
        log(f"{node.role} {node.index} starts nothing: launch = {launch!r} has no such role.")
        return []
    by_name = variables_by_name(node, launch, count, len(devices), environment)
    has_others = len(nodes) > 1 or len(by_name) > 1
    return [Rank(node, name, {**visible, **variables}, count, has_others) for name, variables in by_name.items()]


def variables_by_name(
    node: Node, launch: str, count: int, devices: int, environment: Mapping[str, str]
) -> dict[str, dict[str, str]]:
    """Returns the variables of each process by its name in messages."""
    if launch == "torchrun":
        several = [torch_variables(node, local, count, environment) for local in range(count)]
        return {f"rank {variables['RANK']}": variables for variables in several}
    if launch == "tensorflow":
        return {"chief" if node.role == "chief" else f"{node.role} {node.index}": tensorflow_variables(node)}
    own = jax_variables(node, devices, environment) if launch == "jax" else plain_variables(node)
    return {f"node {node.number}": own}
