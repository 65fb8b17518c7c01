"""Starts a user's own command on every machine of a job, as its framework expects, and ends it cleanly.

This file travels as text to images that hold nothing of ours: standard library only, Python 3.8, any user.

    python3 launching.py --launch KIND --data URI --model URI --checkpoints URI --pins URI --key TEXT
                         [--number NAME=VALUE] [--text NAME=VALUE] -- COMMAND...

KIND        processes            variables, beside those of the folders
torchrun    one per GPU, else 1  what torchrun gives: RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT ...
tensorflow  one per node         TF_CONFIG with chief, worker, ps, as Vertex AI sets it; a single node is a worker
jax         one per node         JAX_COORDINATOR_ADDRESS ..., and what jax.distributed.initialize() finds by itself
plain       one per node         MASTER_ADDR, MASTER_PORT, NODE_RANK, NNODES; DMLC_... (XGBoost), TRAINING_MACHINES

Folders: AIP_MODEL_DIR, AIP_CHECKPOINT_DIR, AIP_TENSORBOARD_LOG_DIR (gs://.../ on Vertex AI, as it sets them; paths
here), TRAINING_DATA (as the file system has it, /gcs/...) and TRAINING_DATA_URI. Every attempt at a request has the
same folder of checkpoints. In COMMAND {data} {model} {checkpoints} {logs} (as the file system has them), {nodes}
{node} {processes} (of one node) {chief} {port}, and the NAMEs of --number and --text, are replaced; other braces stay.

Machines: those of CLUSTER_SPEC. Without it this is one machine; TRAINING_NODES=2 starts the processes of two nodes
here, each with a CLUSTER_SPEC, TRAINING_PARAMETER_SERVERS=1 a parameter server. TRAINING_NPROC: processes of a node.

Output passes as it comes where there is one process; of several, as whole lines, with `[rank 3] ` before those of all
but the first. The first process to fail ends the others and is named; its exit code (128 + n after signal n) is ours.
A first SIGTERM, SIGINT or SIGHUP is passed on; after 25 s, or a second one, everything is killed. The exit code is then
128 + n, also if the command ended with 0: what was stopped is not done. A job ends with its chief, as on Vertex AI:
what goes on 10 s later is ended. 2: the request is wrong. Node 0 leaves script.json in the folder of --checkpoints.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import glob
import hashlib
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

#: Seconds from a stop to the kill: Vertex AI kills after 30.
STOP_S = 25.0
#: From a first failure on, in which others may tell that they failed before; then from their SIGTERM to their kill.
SETTLE_S, END_S = 1.0, 5.0
#: For what an ended process leaves behind; for whom the chief leaves behind; for a reader who reads no more.
LEFT_S, CHIEF_S, DEAF_S = 2.0, 10.0, 10.0
#: In which another signal is part of the same stop: timeout(1), for one, sends each to the process and to its group.
ONE_S = 0.3
#: Bytes that are read at once, and up to which a line stays whole.
CHUNK = 1 << 16
ROLES = {"workerpool0": "chief", "workerpool1": "worker", "workerpool2": "ps", "workerpool3": "evaluator"}
#: <root>/<project number>/<run>/<step>_<task id>/<output>, as Vertex AI names what a step writes.
OUTPUT = re.compile(r"(gs://.+)/\d+/([^/]+)/([^/]+?)_-?\d{6,}/[^/]+", re.DOTALL)
NEVER = float("inf")


class Mistake(Exception):
    """Of the request: said in one sentence, before anything starts."""


def main(arguments: list[str]) -> int:
    for number in range(3):  # one that is closed would become a pipe of ours
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    options, command = parsed(arguments)
    try:
        nodes, folders = cluster(os.environ), Folders(options, os.environ)
        ranks = [rank for node in nodes for rank in ranks_of(node, options.launch, nodes, os.environ)]
        for rank in ranks:
            rank.prepare(command, folders, parameters(options))
    except Mistake as mistake:
        say(str(mistake))
        return 2
    folders.make()
    warn_of_port(nodes[0])
    begin, code = time.time(), Job(ranks).run()
    if any(rank.node.number == 0 for rank in ranks):
        leave(folders, options.launch, command, ranks, time.time() - begin, code)
    return code


def parsed(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """The options, and the command behind `--`."""
    parser = argparse.ArgumentParser(prog="launch", allow_abbrev=False)
    parser.add_argument("--launch", choices=("torchrun", "tensorflow", "jax", "plain"), default="plain")
    for name in ("data", "model", "checkpoints"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--pins", default="")
    parser.add_argument("--key", default="")
    parser.add_argument("--number", action="append", default=[])
    parser.add_argument("--text", action="append", default=[])
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options, command = parser.parse_args(arguments[:end]), arguments[end + 1 :]
    if not command or not command[0]:
        parser.error("no command is given: write it behind --")
    return options, command


def parameters(options: argparse.Namespace) -> dict[str, str]:
    """The step's, by name: texts as they are, numbers as a person writes them."""
    numbers = {name: number(text) for name, _, text in (pair.partition("=") for pair in options.number)}
    return {**dict(pair.split("=", 1) for pair in options.text), **numbers}


def number(text: str) -> str:
    """3 for 3.0: JSON knows no whole numbers, and a script may take nothing else."""
    try:
        return str(int(float(text))) if float(text).is_integer() and abs(float(text)) < 1e15 else text
    except (ValueError, OverflowError):
        return text


def say(text: str) -> None:
    with contextlib.suppress(OSError):  # nobody reads
        os.write(2, f"launch: {text}\n".encode("utf-8", "backslashreplace"))


# Machines


class Node:
    """One machine of the job, as a CLUSTER_SPEC tells. `number` counts those that train; a server has None."""

    def __init__(self, text: str):
        try:
            spec = json.loads(text)
            self.pools = {pool: list(map(str, hosts)) for pool, hosts in spec["cluster"].items() if hosts}
            self.role, self.index = ROLES[spec["task"]["type"]], int(spec["task"]["index"])
            self.trainers = self.pools["workerpool0"] + self.pools.get("workerpool1", [])
            self.chief, self.port = host_and_port(self.trainers[0])
            self.number = {"chief": 0, "worker": len(self.pools["workerpool0"]) + self.index}.get(self.role)
            if not 0 <= self.index < len(self.pools.get(spec["task"]["type"], [])):
                raise ValueError(f"there is no task {self.index} of {spec['task']['type']}")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            form = '{"cluster": {"workerpool0": ["HOST:PORT"], ...}, "task": {"type": "workerpool0", "index": 0}}'
            reason = f"{type(error).__name__}: {error}"
            raise Mistake(f"CLUSTER_SPEC cannot be read ({reason}); Vertex AI sets it to {form}.") from None
        self.text, self.nodes = text, len(self.trainers)
        self.has_servers = "workerpool2" in self.pools

    def tf_config(self) -> str:
        """As https://cloud.google.com/vertex-ai/docs/training/distributed-training has it.

        A single node is a worker, as in TensorFlow's guides: their scripts count the workers.
        """
        hosts = {ROLES[pool]: hosts for pool, hosts in self.pools.items() if pool in ROLES and pool != "workerpool3"}
        task = {"type": self.role, "index": self.index}
        if list(hosts) == ["chief"] and self.role == "chief":
            hosts, task = {"worker": hosts["chief"]}, {"type": "worker", "index": 0}
        return json.dumps({"cluster": hosts, "task": task})


def host_and_port(address: str) -> tuple[str, int]:
    """Of HOST:PORT or [IPv6]:PORT; a host alone has Vertex AI's port."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        host, port = address, "2222"
    return host.strip("[]"), int(port)


def cluster(environment: Mapping[str, str]) -> list[Node]:
    """The nodes whose processes this launcher starts: this machine, or all of a cluster on loopback."""
    if environment.get("CLUSTER_SPEC"):
        return [Node(environment["CLUSTER_SPEC"])]
    workers = whole(environment, "TRAINING_NODES", 1, least=1) - 1
    counts = (1, workers, whole(environment, "TRAINING_PARAMETER_SERVERS", 0, least=0))
    ports = free_ports(sum(counts))
    pools = {pool: [f"127.0.0.1:{ports.pop()}" for _ in range(count)] for pool, count in zip(ROLES, counts) if count}
    tasks = [{"type": pool, "index": index} for pool in pools for index in range(len(pools[pool]))]
    return [Node(json.dumps({"cluster": pools, "task": task, "environment": "local"})) for task in tasks]


def whole(environment: Mapping[str, str], name: str, default: int, least: int) -> int:
    """The whole number that a variable holds."""
    text = environment.get(name) or str(default)
    if not re.fullmatch("[0-9]{1,4}", text) or int(text) < least:
        raise Mistake(f"{name}={text!r}: write a whole number from {least} on.")
    return int(text)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens at, below those that outgoing connections take for themselves."""
    held: list[socket.socket] = []
    while len(held) < count:
        listener = socket.socket()
        try:
            listener.bind(("127.0.0.1", 20000 + int.from_bytes(os.urandom(2), "big") % 12000))
            held.append(listener)
        except OSError:
            listener.close()
    ports = [listener.getsockname()[1] for listener in held]
    for listener in held:
        listener.close()
    return ports


def warn_of_port(node: Node) -> None:
    """The others know no other port: the command may still do without."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("", node.port if node.number == 0 else 0))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                say(
                    f"port {node.port} of this machine, at which the processes would meet, is taken by another program."
                )


def gpus(environment: Mapping[str, str]) -> list[str]:
    """The GPUs that a process may use. In CUDA_VISIBLE_DEVICES a -1 hides those behind it."""
    names = [str(number) for number in range(gpus_present())]
    if "CUDA_VISIBLE_DEVICES" not in environment:
        return names
    visible = [name.strip() for name in environment["CUDA_VISIBLE_DEVICES"].split(",")]
    end = next((number for number, name in enumerate(visible) if name in ("", "-1")), len(visible))
    return visible[: min(end, len(names))]


def gpus_present() -> int:
    try:
        import ctypes  # some Pythons are built without

        nvml, count = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_uint()
        if nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0:
            return count.value
    except (ImportError, OSError, AttributeError):
        pass
    return len(glob.glob("/proc/driver/nvidia/gpus/*")) or len(glob.glob("/dev/nvidia[0-9]*"))


# Folders


class Folders:
    """`paths`: as the file system has them; `variables`: as the script's environment does."""

    def __init__(self, options: argparse.Namespace, environment: Mapping[str, str]):
        data, model, output = map(absolute, (options.data, options.model, options.checkpoints))
        checkpoints = surviving(output, options, environment)
        logs = environment.get("AIP_TENSORBOARD_LOG_DIR") if "CLUSTER_SPEC" in environment else None
        uris = {"data": data, "model": model, "checkpoints": checkpoints, "logs": logs or checkpoints + "-logs"}
        self.output = path_of(output)
        self.paths = {name: path_of(uri) for name, uri in uris.items()}
        self.variables = {
            "AIP_MODEL_DIR": model + "/",
            "AIP_CHECKPOINT_DIR": checkpoints + "/",
            "AIP_TENSORBOARD_LOG_DIR": uris["logs"].rstrip("/") + "/",
            "TRAINING_DATA": self.paths["data"],
            "TRAINING_DATA_URI": data,
        }

    def make(self) -> None:
        """Many scripts write to a folder that they do not make."""
        for name in ("model", "checkpoints", "logs"):
            try:
                os.makedirs(self.paths[name], exist_ok=True)
            except OSError as error:
                say(
                    f"the folder {self.paths[name]} cannot be made ({error.strerror}); the command starts all the same."
                )


def absolute(uri: str) -> str:
    """As it is written everywhere; "" for a step without data."""
    if not uri:
        return ""
    if uri.startswith("/gcs/"):
        uri = "gs://" + uri[len("/gcs/") :]
    return uri.rstrip("/") if "://" in uri else os.path.abspath(uri)


def path_of(uri: str) -> str:
    return ("/gcs/" + uri[len("gs://") :] if uri.startswith("gs://") else uri).rstrip("/")


def surviving(output: str, options: argparse.Namespace, environment: Mapping[str, str]) -> str:
    """The folder of checkpoints that every attempt at a request finds again.

    The run of a later attempt has the name of the first with -a2, -a3 ... Attempts of one request never overlap. A
    local run has its own folder in TRAINING_CHECKPOINTS.
    """
    run, shared = OUTPUT.fullmatch(output), environment.get("TRAINING_CHECKPOINTS")
    if not run and not shared:
        return output + "/script"
    name = re.sub(r"-a\d+$", "", run.group(2)) if run else ""
    step = run.group(3) if run else os.path.basename(os.path.dirname(output)) or "script"
    text = json.dumps([name, options.key, options.pins])
    root = absolute(shared) if shared else f"{run.group(1)}/checkpoints" if run else ""
    return f"{root}/{step}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def leave(folders: Folders, launch: str, command: list[str], ranks: list[Rank], seconds: float, code: int) -> None:
    """What later steps want to know."""
    content = {
        "command": command, "launch": launch, "nodes": ranks[0].node.nodes,
        "processes": sum(rank.node.number == 0 for rank in ranks),
        "checkpoint_folder": folders.variables["AIP_CHECKPOINT_DIR"].rstrip("/"),
        "seconds": round(seconds, 1), "exit_code": code,
    }  # fmt: skip
    try:
        os.makedirs(folders.output, exist_ok=True)
        with open(os.path.join(folders.output, "script.json"), "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
    except OSError as error:
        say(f"script.json cannot be written to {folders.output} ({error.strerror}).")


# What frameworks expect


def ranks_of(node: Node, launch: str, nodes: list[Node], environment: Mapping[str, str]) -> list[Rank]:
    """The processes of one node. Servers and evaluators are TensorFlow's; elsewhere they start none."""
    devices, shown = gpus(environment), {}
    if devices and len(nodes) > 1:  # nodes on one machine share its GPUs
        share = len(devices) // len(nodes)
        devices = devices[nodes.index(node) * share :][:share]
        shown = {"CUDA_VISIBLE_DEVICES": ",".join(devices)}
        if not share and node is nodes[0]:
            say(f"{len(nodes)} nodes on this machine cannot share its {len(gpus(environment))} GPUs: they do without.")
    count = whole(environment, "TRAINING_NPROC", len(devices) or 1, least=1)
    if 0 < len(devices) < count:
        raise Mistake(f"TRAINING_NPROC={count}, but a node has {len(devices)} GPUs, and each takes one process.")
    if launch != "tensorflow" and node.number is None:
        say(f"{node.role} {node.index} starts nothing: launch = {launch!r} has no such role.")
        return []
    if launch == "torchrun":
        own = [torch_variables(node, local, count, environment) for local in range(count)]
        names = ["rank " + variables["RANK"] for variables in own]
    elif launch == "tensorflow":
        own = [{"TF_CONFIG": node.tf_config()}]
        names = ["chief" if node.role == "chief" else f"{node.role} {node.index}"]
    else:
        own = [jax_variables(node, len(devices), environment) if launch == "jax" else plain_variables(node)]
        names = [f"node {node.number}"]
    several = len(nodes) > 1 or len(own) > 1
    return [Rank(node, name, {**shown, **values}, count, several) for name, values in zip(names, own)]


def torch_variables(node: Node, local: int, count: int, environment: Mapping[str, str]) -> dict[str, str]:
    """What torchrun gives to its workers: torch/distributed/elastic/agent/server/local_elastic_agent.py."""
    rank, size = (node.number or 0) * count + local, node.nodes * count
    values = {
        "RANK": rank, "LOCAL_RANK": local, "GROUP_RANK": node.number, "ROLE_RANK": rank, "ROLE_NAME": "default",
        "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": count, "GROUP_WORLD_SIZE": node.nodes, "ROLE_WORLD_SIZE": size,
        "MASTER_ADDR": node.chief, "MASTER_PORT": node.port, "TORCHELASTIC_USE_AGENT_STORE": False,
        "TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": 0, "TORCHELASTIC_MAX_RESTARTS": 0,
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": environment.get("TORCH_NCCL_ASYNC_ERROR_HANDLING", 1),
    }  # fmt: skip
    if count > 1 and "OMP_NUM_THREADS" not in environment:  # torchrun says 1: a share of the cores is as safe
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        values["OMP_NUM_THREADS"] = max(1, cores // count)
    return {name: str(value) for name, value in values.items()}


def jax_variables(node: Node, devices: int, environment: Mapping[str, str]) -> dict[str, str]:
    """jax.distributed.initialize() takes the coordinator from a variable of its own, but the numbers only from the
    launchers that it knows: here Open MPI's (jax/_src/clusters/ompi_cluster.py). The other names are those of MaxText,
    of Kubeflow's JAXJob, and of Keras."""
    host = f"[{node.chief}]" if ":" in node.chief else node.chief
    address = f"{host}:{node.port}"
    values = {
        "JAX_COORDINATOR_ADDRESS": address, "JAX_NUM_PROCESSES": node.nodes, "JAX_PROCESS_ID": node.number,
        "JAX_COORDINATOR_IP": node.chief, "JAX_COORDINATOR_PORT": node.port,
        "NNODES": node.nodes, "NODE_RANK": node.number,
        "COORDINATOR_ADDRESS": node.chief, "COORDINATOR_PORT": node.port,
        "NUM_PROCESSES": node.nodes, "PROCESS_ID": node.number,
        "KERAS_DISTRIBUTION_JOB_ADDRESSES": address, "KERAS_DISTRIBUTION_NUM_PROCESSES": node.nodes,
        "KERAS_DISTRIBUTION_PROCESS_ID": node.number,
    }  # fmt: skip
    if "TPU_WORKER_HOSTNAMES" not in environment:  # a TPU's own variables tell more
        values.update(
            OMPI_MCA_orte_hnp_uri=f"0.0;tcp{'6' if ':' in node.chief else ''}://{address}",
            OMPI_COMM_WORLD_SIZE=node.nodes, OMPI_COMM_WORLD_RANK=node.number, OMPI_COMM_WORLD_LOCAL_RANK=0,
        )  # fmt: skip
        if devices:  # else the process takes one GPU only, that of its local rank
            values["JAX_LOCAL_DEVICE_IDS"] = ",".join(map(str, range(devices)))
    return {
        name: environment.get(name, str(value)) if "DEVICE" in name else str(value) for name, value in values.items()
    }


def plain_variables(node: Node) -> dict[str, str]:
    """For a launcher that the command brings, such as torchrun or accelerate; XGBoost's names; and LightGBM's list of
    machines, in the form of its parameter `machines`, with the port that is this node's."""
    values = {
        "MASTER_ADDR": node.chief, "MASTER_PORT": node.port, "NODE_RANK": node.number, "NNODES": node.nodes,
        "DMLC_TRACKER_URI": node.chief, "DMLC_TRACKER_PORT": node.port, "DMLC_TASK_ID": node.number,
        "DMLC_NUM_WORKER": node.nodes,
        "TRAINING_MACHINES": ",".join(node.trainers),
        "TRAINING_PORT": host_and_port(node.trainers[node.number or 0])[1],
    }  # fmt: skip
    return {name: str(value) for name, value in values.items()}


# Processes


class Rank:
    """One process of the command: how it starts, what it says, how it ended."""

    def __init__(self, node: Node, name: str, variables: Mapping[str, str], processes: int, has_others: bool):
        self.node, self.name, self.variables, self.processes = node, name, variables, processes
        is_first = node.number == 0 and variables.get("LOCAL_RANK", "0") == "0"
        self.has_others, self.prefix = has_others, b"" if is_first or not has_others else f"[{name}] ".encode()
        self.pid = 0
        self.streams: dict[int, Any] = {}
        self.partial = {1: b"", 2: b""}
        self.last: deque[str] = deque(maxlen=20)
        self.spoke_at = self.raised_at = 0.0
        #: As from `subprocess`: None = running, negative = killed by that signal. Then when, and when its group was.
        self.status: int | None = None
        self.ended_at = self.gone_at = NEVER
        self.is_told = False

    def prepare(self, command: list[str], folders: Folders, parameters: Mapping[str, str]) -> None:
        """Its words and variables. The program is looked for here, before anything starts."""
        node = self.node
        number = node.nodes + node.index if node.number is None else node.number
        words: dict[str, Any] = {"nodes": node.nodes, "node": number, "processes": self.processes}
        words.update(folders.paths, chief=node.chief, port=node.port)
        words.update(parameters)
        pattern = re.compile("{(" + "|".join(map(re.escape, words)) + ")}")
        self.command = [pattern.sub(lambda match: str(words[match.group(1)]), word) for word in command]
        self.environment = {"PYTHONUNBUFFERED": "1", **os.environ, **self.variables, **folders.variables}
        if node.nodes > 1 or node.has_servers:
            self.environment["CLUSTER_SPEC"] = node.text
        program = shutil.which(self.command[0])
        if not program and self.command[0] in ("python", "python3"):
            program = sys.executable
        if not program:
            raise Mistake(f"the command {self.command[0]!r} is not there, or may not be executed.")
        self.command[0] = program

    def start(self) -> None:
        try:
            self.child = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env=self.environment, start_new_session=True, bufsize=0,
            )  # fmt: skip
        except OSError as error:
            hint = ': it has no first line "#!..."; write ["sh", ...]' if error.errno == errno.ENOEXEC else ""
            raise Mistake(f"{self.command[0]} cannot be started ({error.strerror}){hint}.") from None
        self.pid, self.streams = self.child.pid, {1: self.child.stdout, 2: self.child.stderr}
        for stream in self.streams.values():
            os.set_blocking(stream.fileno(), False)

    def read(self, number: int) -> bytes:
        """What may be passed on of what it wrote to stdout (1) or stderr (2)."""
        try:
            data = os.read(self.streams[number].fileno(), CHUNK)
        except BlockingIOError:
            return b""
        if not data:
            return self.close(number)
        self.spoke_at = time.monotonic()
        lines = (self.partial[number] + data).splitlines(True)
        is_whole = lines[-1].endswith(b"\n") or len(lines[-1]) >= CHUNK  # a \r may be followed by its \n
        self.partial[number] = b"" if is_whole else lines.pop()
        self._remember(lines)
        return b"".join(self.prefix + line for line in lines) if self.has_others else data

    def close(self, number: int) -> bytes:
        """The line that it did not finish."""
        self.streams.pop(number).close()
        line, self.partial[number] = self.partial[number], b""
        self._remember([line] if line else [])
        return self.prefix + line + b"\n" if line and self.has_others else b""

    def _remember(self, lines: list[bytes]) -> None:
        for line in lines:
            if b"Traceback (most recent call last)" in line[:60]:  # torch writes [rank1]: before it
                self.raised_at = time.monotonic()
            self.last.append(line[-2000:].rstrip().decode("utf-8", "replace"))

    def signal(self, number: int, group: bool = False) -> bool:
        """Whether there was somebody to take it."""
        try:
            (os.killpg if group else os.kill)(self.pid, number)
        except (ProcessLookupError, PermissionError):  # the latter: macOS, of the dead
            return False
        return True

    @property
    def failed_at(self) -> float:
        """Its traceback comes before what others notice; an old one is not of this end."""
        return self.raised_at if self.raised_at > self.ended_at - 60 else self.ended_at

    @property
    def code(self) -> int:
        status = self.status or 0
        return status if status >= 0 else 128 - status

    @property
    def how(self) -> str:
        if (self.status or 0) >= 0:
            return f"failed with exit code {self.status}"
        return f"was killed by {name_of(self.code - 128)}" + (" (often: out of memory)" if self.code == 137 else "")


def name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class Job:
    """The processes that this launcher has started, until nothing of them is left."""

    def __init__(self, ranks: list[Rank]):
        self.ranks, self.chiefs = ranks, [rank for rank in ranks if rank.node.number == 0]
        self.guard = Guard()
        #: What is read and not yet written, by descriptor; when the last of it was written; who reads no more.
        self.pending, self.wrote_at = {1: b"", 2: b""}, time.monotonic()
        self.deaf: set[int] = set()
        self.is_at_line_start = True
        self.asked, self.asked_at = 0, NEVER
        #: When all are told to end, because of one of them; are killed; and from when on their ends tell nothing.
        self.end_at = self.kill_at = self.over_at = NEVER

    def run(self) -> int:
        """The exit code."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:  # as nohup wants it
                signal.signal(number, self._stop)
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, lambda number, frame: self._tell(number))
        code = self._start()
        while any(rank.gone_at == NEVER or rank.streams for rank in self.ranks):
            self._pass_output()
            self._reap()
            self._judge()
        code = code or self._verdict()
        while any(self.pending.values()):
            self._pass_output()
        return code

    def _start(self) -> int:
        for number, rank in enumerate(self.ranks):
            try:
                rank.start()
            except Mistake as mistake:
                self._say(str(mistake))
                del self.ranks[number:]
                self.kill_at = 0.0
                return 2
            self.guard.tell(f"+{rank.pid}")
            if self.asked:
                rank.signal(self.asked)
        return 0

    def _stop(self, number: int, frame: Any) -> None:
        """Told are the processes alone: what they have started, such as loaders of data, is theirs to end."""
        now = time.monotonic()
        if not self.asked:
            self.asked, self.asked_at, self.kill_at = number, now, min(self.kill_at, now + STOP_S)
            self._tell(number)
        elif now > self.asked_at + ONE_S:
            self.kill_at = 0.0

    def _tell(self, number: int) -> None:
        for rank in self.ranks:
            if rank.pid and rank.status is None:
                rank.signal(number)

    # Output

    def _pass_output(self) -> None:
        """Reads only what can be written on: who reads us slowly slows the processes, and nothing is lost."""
        poller, now, sources = select.poll(), time.monotonic(), {}
        for rank in self.ranks:
            for number, stream in rank.streams.items():
                if not self.pending[number]:
                    sources[stream.fileno()] = rank, number
                    poller.register(stream.fileno(), select.POLLIN)
        waiting = [number for number, data in self.pending.items() if data]
        for number in waiting:
            poller.register(number, select.POLLOUT)
        ready = {descriptor for descriptor, _ in poller.poll(100)}
        for descriptor, (rank, number) in sources.items():
            if descriptor in ready and now < rank.gone_at + DEAF_S:
                self._add(number, rank.read(number))
            elif now > rank.gone_at:  # all is read; somebody who left the group may still hold the pipe
                self._add(number, rank.close(number))
        is_over = all(rank.gone_at < NEVER for rank in self.ranks)
        for number in waiting:
            if number in ready:
                self._write(number)
            elif is_over and now > self.wrote_at + DEAF_S:
                self._give_up(number)

    def _add(self, number: int, data: bytes) -> None:
        if data and number not in self.deaf:
            self.pending[number] += data
            self.is_at_line_start = data.endswith(b"\n")

    def _write(self, number: int) -> None:
        """A pipe that can be written to takes 4096 bytes at once."""
        try:
            written = os.write(number, self.pending[number][:4096])
            self.pending[number], self.wrote_at = self.pending[number][written:], time.monotonic()
        except BlockingIOError:
            pass
        except OSError:  # nobody reads any more: the command goes on
            self._give_up(number)

    def _give_up(self, number: int) -> None:
        self.deaf.add(number)
        self.pending[number] = b""

    def _say(self, text: str) -> None:
        start = "" if self.is_at_line_start else "\n"
        self._add(2, f"{start}launch: {text}\n".encode("utf-8", "backslashreplace"))

    # Ends

    def _reap(self) -> None:
        """Takes note of who has ended; as process 1 of a container also of those whom their parents have left."""
        now, ranks = time.monotonic(), {rank.pid: rank for rank in self.ranks}
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid in ranks:
                rank = ranks[pid]
                rank.status = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
                rank.child.returncode, rank.ended_at = rank.status, now

    def _judge(self) -> None:
        """Ends what is to end: for a failure, with the chief, or since time is up."""
        now, running = time.monotonic(), [rank for rank in self.ranks if rank.status is None]
        if self.over_at == NEVER and self.chiefs and all(rank.status == 0 for rank in self.chiefs):
            self._dismiss(running, max(rank.ended_at for rank in self.chiefs), now)
        if self._failed() and running and not self.asked and self.over_at == NEVER:
            self.end_at = min(self.end_at, now + SETTLE_S)
        if now >= self.end_at:
            self.end_at, self.kill_at = NEVER, min(self.kill_at, now + END_S)
            self.over_at = min(self.over_at, now)
            self._tell(signal.SIGTERM)
        for rank in self.ranks:
            if rank.gone_at == NEVER and now >= self.kill_at:
                rank.signal(signal.SIGKILL, group=True)
            if rank.gone_at == NEVER and rank.status is not None:
                self._end_group(rank, now)

    def _dismiss(self, running: list[Rank], ended_at: float, now: float) -> None:
        """With the chief ends the job. Parameter servers, and workers that have them, would go on for ever."""
        if self.chiefs[0].node.has_servers:
            self.over_at, self.end_at = ended_at, now
        elif running and now > ended_at + CHIEF_S:
            self.over_at = self.end_at = now
            names = ", ".join(rank.name for rank in running)
            self._say(f"the chief has ended, and with it the job, as on Vertex AI: ended with it: {names}.")

    def _failed(self) -> list[Rank]:
        return [rank for rank in self.ranks if rank.status and rank.ended_at < self.over_at]

    def _end_group(self, rank: Rank, now: float) -> None:
        """What an ended process leaves behind gets time to end by itself; or to stop as it was asked to."""
        if rank.signal(0, group=True) and now < self.kill_at:
            if self.asked:  # such as the program that a shell waited for
                rank.is_told = rank.is_told or rank.signal(self.asked, group=True)
                return
            if now < rank.ended_at + LEFT_S:
                return
        rank.signal(signal.SIGKILL, group=True)
        rank.gone_at = now
        self.guard.tell(f"-{rank.pid}")

    def _verdict(self) -> int:
        """The exit code, after a sentence on what went wrong."""
        failed = self._failed()
        if self.asked:
            killed = ", ".join(rank.name for rank in self.ranks if rank.status == -signal.SIGKILL)
            self._say(f"stopped by {name_of(self.asked)}{f'; killed, since it went on: {killed}' if killed else ''}.")
            return next((rank.code for rank in failed if (rank.status or 0) > 0), 128 + self.asked)
        if not failed:
            return 0
        rank = min(failed, key=lambda rank: rank.failed_at)
        lines = (
            ["; its last lines:", *rank.last] if any(other.spoke_at > rank.spoke_at for other in self.ranks) else ["."]
        )
        self._say(f"{rank.name} {rank.how}" + "\n    ".join(lines))
        return rank.code


class Guard:
    """A process that outlives its launcher: when that is killed, it kills the groups that are left.

    It is told of each group, `+PID` and `-PID`, through a pipe, whose end tells that the launcher is gone.
    """

    def __init__(self) -> None:
        reader, self.pipe = os.pipe()
        if os.fork():
            os.close(reader)
            return
        try:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            os.setsid()
            os.dup2(reader, 0)
            os.closerange(1, 1 << 16)  # whoever reads the launcher's output waits for its end
            self._watch()
        finally:
            os._exit(0)

    def _watch(self) -> None:
        words = b"".join(iter(lambda: os.read(0, CHUNK), b"")).decode().split()
        for pid in [word[1:] for word in words if word[0] == "+" and f"-{word[1:]}" not in words]:
            with contextlib.suppress(OSError):
                os.killpg(int(pid), signal.SIGKILL)

    def tell(self, word: str) -> None:
        with contextlib.suppress(OSError):  # somebody killed it: the launcher does without
            os.write(self.pipe, f"{word}\n".encode())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
