"""Starts a user's own command on every machine of a job, as its framework expects, and ends it cleanly.

This file travels as text to images that hold nothing of ours: standard library only, Python 3.8, any user.

    python3 launching.py --launch KIND --data URI --model URI --checkpoints URI --pins URI --key TEXT
                         [--number NAME=VALUE] [--text NAME=VALUE] -- COMMAND...

KIND     processes              variables beside those of the folders
torchrun one per GPU, else one  RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR ... : those of torchrun
tensorflow  one per node        TF_CONFIG: chief, worker, ps, evaluator, as Vertex AI has them; one node is a worker
jax      one per node           JAX_COORDINATOR_ADDRESS ..., and Open MPI's, by which jax.distributed.initialize() counts
plain    one per node           MASTER_ADDR MASTER_PORT NODE_RANK: for a command that brings a launcher

Folders: AIP_MODEL_DIR, AIP_CHECKPOINT_DIR, AIP_TENSORBOARD_LOG_DIR (gs://.../ on Vertex AI, as Vertex AI sets them; local
paths here), TRAINING_DATA (as the file system has it: /gcs/...) and TRAINING_DATA_URI. The folder of checkpoints is the
same for every attempt at a request. In COMMAND the words {data} {model} {checkpoints} {logs} (as the file system has
them), {nodes} {node} {processes} (of one node) {chief} {port}, and the parameters of --number and --text, are replaced;
other braces stay.

Machines: those of CLUSTER_SPEC. Without it this is one machine; TRAINING_NODES=2 starts the processes of two nodes
here, each with a CLUSTER_SPEC, and TRAINING_PARAMETER_SERVERS=1 a parameter server (tensorflow). TRAINING_NPROC is the
number of processes of one node.

Output passes as it comes where there is one process; of several, whole lines, with `[rank 3] ` before all but the first
process's. The first process to fail is named and ends the others; its exit code (128 + n after signal n) is ours. A
first SIGTERM, SIGINT or SIGHUP is passed on, and after 25 s, or a second one, everything is killed: the exit code is
then 128 + n, also if the command ended with 0. A job ends with its chief, as on Vertex AI: what goes on 10 s later is
ended. 2 = the request is wrong. Node 0 leaves script.json in the folder of --checkpoints.
"""

import argparse
import collections
import ctypes
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

#: Seconds from a stop to the kill (Vertex AI kills after 30); from a first failure to the end of the others, which may
#: still tell that they failed first, and from there to their kill; for what a process leaves behind; for those whom the
#: chief has left; for a reader of our output that reads no more.
STOP_S, SETTLE_S, END_S, LEFT_S, CHIEF_S, FLUSH_S = 25.0, 1.0, 5.0, 2.0, 10.0, 10.0
ROLES = {"workerpool0": "chief", "workerpool1": "worker", "workerpool2": "ps", "workerpool3": "evaluator"}
LINE = 1 << 16
_OUTPUT = re.compile(r"(gs://.+)/\d+/([^/]+)/([^/]+?)_-?\d{6,}/[^/]+/?", re.DOTALL)


class Mistake(Exception):
    """Of the request: said in one sentence, before anything starts."""


def main(arguments):
    options, command = parsed(arguments)
    command = with_parameters(command, options)
    try:
        nodes, folders = cluster(os.environ), Folders(options, os.environ)
        ranks = [rank for node in nodes for rank in ranks_of(node, options.launch, len(nodes) > 1, os.environ)]
        folders.make()
        for rank in ranks:
            rank.prepare(command, folders)
    except Mistake as mistake:
        say(str(mistake))
        return 2
    begin, job = time.time(), Job(ranks)
    code = job.run()
    if any(rank.node.number == 0 for rank in ranks):
        leave(options, command, ranks, folders, time.time() - begin, code)
    return code


def parsed(arguments):
    """The options, and the command behind `--`."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--launch", choices=("torchrun", "tensorflow", "jax", "plain"), default="plain")
    for name in ("data", "model", "checkpoints"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--pins", default="")
    parser.add_argument("--key", default="")
    parser.add_argument("--number", action="append", default=[])
    parser.add_argument("--text", action="append", default=[])
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options, command = parser.parse_args(arguments[:end]), arguments[end + 1 :]
    if not command:
        parser.error("no command is given: write it behind --")
    return options, command


def with_parameters(command, options):
    """The words, with the step's parameters in place of {NAME}: texts as they are, numbers as a person writes them."""
    values = dict(pair.split("=", 1) for pair in options.text)
    values.update((name, number(text)) for name, text in (pair.split("=", 1) for pair in options.number))
    pattern = re.compile("{(%s)}" % "|".join(map(re.escape, values)))
    return [pattern.sub(lambda match: values[match.group(1)], word) for word in command] if values else command


def number(text):
    """3 for 3.0: JSON knows no whole numbers, and a script may take nothing else."""
    try:
        return str(int(float(text))) if float(text).is_integer() and abs(float(text)) < 1e15 else text
    except (ValueError, OverflowError):
        return text


def say(text):
    """One sentence of ours, in one write, so that no other process's output comes between."""
    try:
        os.write(2, ("launch: " + text + "\n").encode("utf-8", "backslashreplace"))
    except OSError:
        pass  # nobody reads


# Machines


class Node:
    """One machine of the job, as a CLUSTER_SPEC tells. `number` counts those that train; a server has None."""

    def __init__(self, text):
        try:
            spec = json.loads(text)
            self.pools = {pool: list(hosts) for pool, hosts in spec["cluster"].items() if pool in ROLES and hosts}
            self.pool, self.index = spec["task"]["type"], int(spec["task"]["index"])
            trainers = self.pools["workerpool0"] + self.pools.get("workerpool1", [])
            self.pools[self.pool][self.index]  # a task that is not of the cluster
            self.chief, self.port = host_and_port(trainers[0])
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise Mistake(
                "CLUSTER_SPEC cannot be read (%s: %s). Vertex AI sets it to %s."
                % (type(error).__name__, error, '{"cluster": {"workerpool0": ["HOST:PORT"]}, "task": {"type": ...}}')
            )
        self.text, self.nodes = text, len(trainers)
        first = {"workerpool0": 0, "workerpool1": len(self.pools["workerpool0"])}.get(self.pool)
        self.number = None if first is None else first + self.index

    @property
    def has_servers(self):
        return "workerpool2" in self.pools

    def tf_config(self):
        """As https://cloud.google.com/vertex-ai/docs/training/distributed-training has it. Alone it is a worker, as in
        TensorFlow's guides, whose scripts count the workers."""
        if self.nodes == 1 and not self.has_servers and self.number == 0:
            return {"cluster": {"worker": self.pools["workerpool0"]}, "task": {"type": "worker", "index": 0}}
        hosts = {ROLES[pool]: hosts for pool, hosts in self.pools.items() if pool != "workerpool3"}
        return {"cluster": hosts, "task": {"type": ROLES[self.pool], "index": self.index}}


def host_and_port(address):
    """HOST:PORT, [IPv6]:PORT, or a host alone, which has Vertex AI's port."""
    host, colon, port = address.rpartition(":")
    host, port = (host, int(port)) if colon and port.isdigit() else (address, 2222)
    return host.strip("[]"), port


def cluster(environment):
    """The nodes whose processes this launcher starts: this machine, or all of a cluster on loopback."""
    if environment.get("CLUSTER_SPEC"):
        return [Node(environment["CLUSTER_SPEC"])]
    counts = [
        1,
        whole(environment, "TRAINING_NODES", 1, 1) - 1,
        whole(environment, "TRAINING_PARAMETER_SERVERS", 0, 0),
    ]
    ports = iter(free_ports(sum(counts)))
    pools = {
        "workerpool%d" % number: ["127.0.0.1:%d" % next(ports) for _ in range(count)]
        for number, count in enumerate(counts)
        if count
    }
    tasks = [{"type": pool, "index": index} for pool in pools for index in range(len(pools[pool]))]
    return [Node(json.dumps({"cluster": pools, "task": task, "environment": "local"})) for task in tasks]


def whole(environment, name, default, least):
    """The whole number that a variable holds."""
    text = environment.get(name) or str(default)
    if not (text.isdigit() and int(text) >= least):
        raise Mistake("%s=%r: write a whole number of at least %d." % (name, text, least))
    return int(text)


def free_ports(count):
    """Ports that nobody listens at, outside of those that outgoing connections take by themselves."""
    held = []
    try:
        while len(held) < count:
            port, listener = 20000 + int.from_bytes(os.urandom(2), "big") % 12000, socket.socket()
            try:
                listener.bind(("127.0.0.1", port))
                held.append(listener)
            except OSError:
                listener.close()
        return [listener.getsockname()[1] for listener in held]
    finally:
        for listener in held:
            listener.close()


def gpu_count(environment):
    """GPUs that a process may use. A negative or unknown one in CUDA_VISIBLE_DEVICES hides those behind it."""
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    names = [] if visible is None else [name.strip() for name in visible.split(",")]
    shown = next((number for number, name in enumerate(names) if name in ("", "-1")), len(names))
    return gpus_present() if visible is None else min(shown, gpus_present())


def gpus_present():
    try:
        nvml, count = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_uint()
        if nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0:
            return count.value
    except (OSError, AttributeError):
        pass
    return len(glob.glob("/proc/driver/nvidia/gpus/*")) or len(glob.glob("/dev/nvidia[0-9]*"))


# Folders


class Folders:
    """URIs as the script's variables have them; `paths` as the file system does."""

    def __init__(self, options, environment):
        data, model, output = (absolute(getattr(options, name)) for name in ("data", "model", "checkpoints"))
        checkpoints = surviving(output, options, environment)
        logs = environment.get("AIP_TENSORBOARD_LOG_DIR") if "CLUSTER_SPEC" in environment else ""
        self.output = path_of(output)
        uris = {"data": data, "model": model, "checkpoints": checkpoints, "logs": logs or checkpoints + "-logs"}
        self.paths = {name: path_of(uri) for name, uri in uris.items()}
        self.variables = {
            "AIP_MODEL_DIR": uris["model"].rstrip("/") + "/",
            "AIP_CHECKPOINT_DIR": uris["checkpoints"].rstrip("/") + "/",
            "AIP_TENSORBOARD_LOG_DIR": uris["logs"].rstrip("/") + "/",
            "TRAINING_DATA": self.paths["data"],
            "TRAINING_DATA_URI": data,
        }

    def make(self):
        """Many scripts write to a folder that they do not make."""
        for name in ("model", "checkpoints", "logs"):
            try:
                os.makedirs(self.paths[name], exist_ok=True)
            except OSError as error:
                say("the folder %s cannot be made (%s); the command starts all the same." % (self.paths[name], error))


def absolute(uri):
    if uri.startswith("/gcs/"):
        return "gs://" + uri[len("/gcs/") :].rstrip("/")
    return uri.rstrip("/") if "://" in uri else os.path.abspath(uri)


def path_of(uri):
    return ("/gcs/" + uri[len("gs://") :] if uri.startswith("gs://") else uri).rstrip("/")


def surviving(output, options, environment):
    """The folder of checkpoints that every attempt at a request finds again: see training/run_folder.py.

    Attempts of one request never overlap. The next attempt's run has the same name but for its -aN.
    """
    run = _OUTPUT.fullmatch(output)
    shared = environment.get("TRAINING_CHECKPOINTS")
    if run:
        shared, name, step = shared or run.group(1) + "/checkpoints", re.sub(r"-a\d+$", "", run.group(2)), run.group(3)
    elif shared:
        name, step = "", os.path.basename(os.path.dirname(output)) or "script"
    else:
        return output + "/script"
    text = json.dumps([name, options.key, options.pins])
    return "%s/%s-%s" % (absolute(shared), step, hashlib.sha256(text.encode()).hexdigest()[:12])


def leave(options, command, ranks, folders, seconds, code):
    """What later steps want to know of the command."""
    content = {
        "command": command,
        "launch": options.launch,
        "nodes": ranks[0].node.nodes,
        "processes": sum(rank.node.number == 0 for rank in ranks),
        "checkpoint_folder": folders.variables["AIP_CHECKPOINT_DIR"].rstrip("/"),
        "seconds": round(seconds, 1),
        "exit_code": code,
    }
    try:
        os.makedirs(folders.output, exist_ok=True)
        with open(os.path.join(folders.output, "script.json"), "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
    except OSError as error:
        say("script.json cannot be written to %s (%s)." % (folders.output, error))


# Processes


def ranks_of(node, launch, is_loopback, environment):
    """The processes of one node. Servers and evaluators are TensorFlow's; elsewhere they start none."""
    gpus = gpu_count(environment)
    asked = whole(environment, "TRAINING_NPROC", gpus or 1, 1)
    if 0 < gpus < asked:
        raise Mistake("TRAINING_NPROC=%d, but this machine has %d GPUs, and each takes one process." % (asked, gpus))
    if launch == "tensorflow":
        role = ROLES[node.pool]
        name = role if role == "chief" else "%s %d" % (role, node.index)
        return [Rank(node, name, {"TF_CONFIG": json.dumps(node.tf_config())}, asked, is_loopback)]
    if node.number is None:
        say("%s %d starts nothing: launch = %r has no such role." % (ROLES[node.pool], node.index, launch))
        return []
    if launch == "torchrun":
        names = ["rank %d" % (node.number * asked + local) for local in range(asked)]
        variables = [torch_variables(node, local, asked, environment) for local in range(asked)]
    else:
        names = ["node %d" % node.number]
        variables = [jax_variables(node, gpus, environment) if launch == "jax" else plain_variables(node)]
    several = is_loopback or len(names) > 1
    return [Rank(node, name, values, asked, several) for name, values in zip(names, variables)]


def torch_variables(node, local, count, environment):
    """What torchrun gives to its workers (torch/distributed/elastic/agent/server/local_elastic_agent.py)."""
    rank, size = node.number * count + local, node.nodes * count
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    values = {
        "RANK": rank, "LOCAL_RANK": local, "GROUP_RANK": node.number, "ROLE_RANK": rank, "ROLE_NAME": "default",
        "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": count, "GROUP_WORLD_SIZE": node.nodes, "ROLE_WORLD_SIZE": size,
        "MASTER_ADDR": node.chief, "MASTER_PORT": node.port,
        "TORCHELASTIC_RUN_ID": "vgp", "TORCHELASTIC_RESTART_COUNT": 0, "TORCHELASTIC_MAX_RESTARTS": 0,
        "TORCHELASTIC_USE_AGENT_STORE": False,
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": environment.get("TORCH_NCCL_ASYNC_ERROR_HANDLING", 1),
        # torchrun gives one thread to each of several processes; a share of the cores is as safe, and faster.
        "OMP_NUM_THREADS": environment.get("OMP_NUM_THREADS") or (max(1, cores // count) if count > 1 else None),
    }  # fmt: skip
    return {name: str(value) for name, value in values.items() if value is not None}


def jax_variables(node, gpus, environment):
    """jax.distributed.initialize() takes the coordinator from its own variable, and counts processes only for the
    launchers that it knows; Open MPI is known by these variables (jax/_src/clusters/ompi_cluster.py)."""
    host = "[%s]" % node.chief if ":" in node.chief else node.chief
    address = "%s:%d" % (host, node.port)
    values = {
        "JAX_COORDINATOR_ADDRESS": address, "JAX_NUM_PROCESSES": node.nodes, "JAX_PROCESS_ID": node.number,
        "JAX_COORDINATOR_IP": node.chief, "JAX_COORDINATOR_PORT": node.port,
        "NNODES": node.nodes, "NODE_RANK": node.number,
        "KERAS_DISTRIBUTION_JOB_ADDRESSES": address, "KERAS_DISTRIBUTION_NUM_PROCESSES": node.nodes,
        "KERAS_DISTRIBUTION_PROCESS_ID": node.number,
    }  # fmt: skip
    if "TPU_WORKER_HOSTNAMES" not in environment:  # a TPU's own variables tell more
        values.update(
            OMPI_MCA_orte_hnp_uri="0.0;tcp%s://%s:%d" % ("6" if ":" in node.chief else "", host, node.port),
            OMPI_COMM_WORLD_SIZE=node.nodes, OMPI_COMM_WORLD_RANK=node.number, OMPI_COMM_WORLD_LOCAL_RANK=0,
        )  # fmt: skip
        if gpus:  # else the process takes the one GPU of its local rank
            values["JAX_LOCAL_DEVICE_IDS"] = environment.get("JAX_LOCAL_DEVICE_IDS") or ",".join(map(str, range(gpus)))
    return {name: str(value) for name, value in values.items()}


def plain_variables(node):
    if node.nodes == 1:
        return {}
    return {"MASTER_ADDR": node.chief, "MASTER_PORT": str(node.port), "NODE_RANK": str(node.number)}


class Rank:
    """One process of the command: how it starts, what it says, how it ended."""

    def __init__(self, node, name, variables, processes, is_prefixed):
        self.node, self.name, self.variables, self.processes = node, name, variables, processes
        is_first = node.number == 0 and variables.get("LOCAL_RANK", "0") == "0"
        self.is_alone, self.prefix = not is_prefixed, b"" if is_first or not is_prefixed else b"[%s] " % name.encode()
        self.last, self.spoke_at, self.raised_at = collections.deque(maxlen=20), 0.0, 0.0
        self.pid, self.streams, self.partial = 0, {}, {1: b"", 2: b""}
        #: As from `subprocess`: negative = killed by that signal, None = running. Then when its group was ended.
        self.status, self.ended_at, self.gone_at, self.is_told = None, 0.0, 0.0, False

    def prepare(self, command, folders):
        """Its words and variables. The program is looked for here, before anything starts."""
        words = {
            "nodes": self.node.nodes, "node": self.node.number or 0, "processes": self.processes,
            "chief": self.node.chief, "port": self.node.port, **folders.paths,
        }  # fmt: skip
        pattern = re.compile("{(%s)}" % "|".join(words))
        self.command = [pattern.sub(lambda match: str(words[match.group(1)]), word) for word in command]
        self.environment = {"PYTHONUNBUFFERED": "1", **os.environ, **self.variables, **folders.variables}
        if self.node.nodes > 1 or self.node.has_servers:
            self.environment["CLUSTER_SPEC"] = self.node.text
        program = shutil.which(self.command[0])
        if not program and self.command[0] in ("python", "python3"):
            program = sys.executable
        if not program:
            raise Mistake("the command %r is not there, or may not be executed." % self.command[0])
        self.command[0] = program

    def start(self):
        try:
            child = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env=self.environment, start_new_session=True, bufsize=0,
            )  # fmt: skip
        except OSError as error:
            hint = ': it begins with no "#!"; write ["sh", ...]' if error.errno == errno.ENOEXEC else ""
            raise Mistake("%s cannot be started (%s)%s." % (self.command[0], error.strerror, hint))
        self.child, self.pid, self.streams = child, child.pid, {1: child.stdout, 2: child.stderr}
        for stream in self.streams.values():
            os.set_blocking(stream.fileno(), False)

    def read(self, number):
        """What may be passed on of what it wrote to its stdout (1) or stderr (2)."""
        try:
            data = os.read(self.streams[number].fileno(), LINE)
        except BlockingIOError:
            return b""
        if not data:
            return self.close(number)
        self.spoke_at = time.monotonic()
        lines = (self.partial[number] + data).splitlines(True)
        if len(lines[-1]) < LINE and not lines[-1].endswith(b"\n"):  # a \r may be followed by its \n
            self.partial[number] = lines.pop()
        else:
            self.partial[number] = b""
        self._remember(lines)
        return data if self.is_alone else b"".join(self.prefix + line for line in lines)

    def close(self, number):
        """The line that it did not finish."""
        self.streams.pop(number).close()
        rest, self.partial[number] = self.partial[number], b""
        self._remember(rest.splitlines())
        return b"" if self.is_alone or not rest else self.prefix + rest + b"\n"

    def _remember(self, lines):
        for line in lines:
            if line.startswith(b"Traceback (most recent call last)"):
                self.raised_at = time.monotonic()
            self.last.append(line[-2000:].rstrip().decode("utf-8", "replace"))

    def signal(self, number, group=False):
        try:
            (os.killpg if group else os.kill)(self.pid, number)
            return True
        except (ProcessLookupError, PermissionError):  # macOS says the latter of the dead
            return False

    @property
    def failed_at(self):
        """A traceback is written before peers can notice; a late one is not of this end."""
        return self.raised_at if self.raised_at > self.ended_at - 60 else self.ended_at

    @property
    def how(self):
        if self.status >= 0:
            return "failed with exit code %d" % self.status
        hint = " (often: out of memory)" if self.status == -signal.SIGKILL else ""
        return "was killed by %s%s" % (signal_name(-self.status), hint)


def signal_name(number):
    try:
        return signal.Signals(number).name
    except ValueError:
        return "signal %d" % number


class Job:
    """The processes that this launcher has started, until the last of them is gone."""

    def __init__(self, ranks):
        self.ranks, self.chiefs = ranks, [rank for rank in ranks if rank.node.number == 0]
        self.guard = Guard()
        #: What is read and not yet written, by descriptor; who does not read any more; when something was written.
        self.pending, self.deaf, self.wrote_at, self.at_line_start = {1: b"", 2: b""}, set(), 0.0, True
        self.asked, self.culprit = 0, None
        self.term_at = self.kill_at = self.dismissed_at = float("inf")

    def run(self):
        """The exit code."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:  # nohup
                signal.signal(number, self._stop)
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, lambda number, frame: self._tell(number))
        code = self._start()
        self._until_end()
        code = code or self._verdict()
        while any(self.pending.values()):
            self._pass_output()
        return code

    def _start(self):
        for rank in self.ranks:
            try:
                rank.start()
            except Mistake as mistake:
                self._say(str(mistake))
                self.ranks, self.kill_at = [rank for rank in self.ranks if rank.pid], 0.0
                return 2
            self.guard.write("+%d\n" % rank.pid)
            if self.asked:
                rank.signal(self.asked)
        return 0

    def _until_end(self):
        while not all(rank.gone_at and not rank.streams for rank in self.ranks):
            self._pass_output()
            self._reap()
            self._judge()
            for rank in self.ranks:
                if rank.status is not None and not rank.gone_at:
                    self._end_group(rank)

    def _stop(self, number, frame):
        """The first signal is passed on; a process's own children, such as loaders of data, are its business."""
        if self.asked:
            self.kill_at = 0.0
            return
        self.asked, self.kill_at = number, min(self.kill_at, time.monotonic() + STOP_S)
        self._tell(number)

    def _tell(self, number):
        for rank in self.ranks:
            if rank.pid and rank.status is None:
                rank.signal(number)

    def _pass_output(self):
        """Reads what can be written on: who reads us slowly slows the processes, and nothing is lost."""
        poller, now = select.poll(), time.monotonic()
        sources = {
            stream.fileno(): (rank, number)
            for rank in self.ranks
            for number, stream in rank.streams.items()
            if not self.pending[number]
        }
        for descriptor in sources:
            poller.register(descriptor, select.POLLIN)
        for number, data in self.pending.items():
            if data:
                poller.register(number, select.POLLOUT)
        ready = [descriptor for descriptor, _ in poller.poll(100)]
        for descriptor, (rank, number) in sources.items():
            if descriptor in ready and not (rank.gone_at and now > rank.gone_at + FLUSH_S):
                self._add(number, rank.read(number))
            elif rank.gone_at:  # somebody who left its group holds the pipe
                self._add(number, rank.close(number))
        for number in self.pending:
            if number in ready:
                self._write(number)
            elif self.pending[number] and all(rank.gone_at for rank in self.ranks) and now > self.wrote_at + FLUSH_S:
                self.deaf.add(number)
                self.pending[number] = b""

    def _add(self, number, data):
        if data and number not in self.deaf:
            self.pending[number] += data
            self.at_line_start = data.endswith(b"\n")

    def _write(self, number):
        """A pipe that polls as writable takes 4096 bytes at once."""
        try:
            written = os.write(number, self.pending[number][:4096])
        except BlockingIOError:
            return
        except OSError:  # nobody reads any more: the command goes on
            self.deaf.add(number)
            written = len(self.pending[number])
        self.pending[number], self.wrote_at = self.pending[number][written:], time.monotonic()

    def _say(self, text):
        self._add(
            2, ("%slaunch: %s\n" % ("" if self.at_line_start else "\n", text)).encode("utf-8", "backslashreplace")
        )

    def _reap(self):
        """As process 1 of a container also those whom their parents have left."""
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

    def _judge(self):
        """Whether processes are to be ended: for a failure, for their chief, or since time is up."""
        now, running = time.monotonic(), [rank for rank in self.ranks if rank.status is None]
        if self.chiefs and all(rank.status == 0 for rank in self.chiefs) and self.dismissed_at == float("inf"):
            ended = max(rank.ended_at for rank in self.chiefs)
            if self.chiefs[0].node.has_servers:  # they, and workers, would go on for ever
                self.dismissed_at = self.term_at = ended
            elif running and now > ended + CHIEF_S:
                self.dismissed_at = self.term_at = now
                names = ", ".join(rank.name for rank in running)
                self._say("the chief has ended, and with it the job: %s had not, and is ended." % names)
        failed = [rank for rank in self.ranks if rank.status and rank.ended_at < self.dismissed_at]
        if failed and not self.asked and self.term_at == float("inf"):
            self.term_at = now + (SETTLE_S if running else 0)
        if now >= self.term_at:
            if failed and not self.asked and not self.culprit:
                self.culprit = min(failed, key=lambda rank: rank.failed_at)
            self.term_at = float("inf")
            self.kill_at = min(self.kill_at, now + END_S)
            self.dismissed_at = min(self.dismissed_at, now)
            self._tell(signal.SIGTERM)
        if now >= self.kill_at:
            for rank in self.ranks:
                if not rank.gone_at:
                    rank.signal(signal.SIGKILL, group=True)

    def _end_group(self, rank):
        """What an ended process has left behind gets time: to end by itself, or to stop as asked."""
        now = time.monotonic()
        if rank.signal(0, group=True) and now < self.kill_at:
            if not self.asked and now < rank.ended_at + LEFT_S:
                return
            if self.asked and not rank.is_told:  # such as the program that a shell had waited for
                rank.is_told = rank.signal(self.asked, group=True)
            if self.asked:
                return
        rank.signal(signal.SIGKILL, group=True)
        rank.gone_at = now
        self.guard.write("-%d\n" % rank.pid)

    def _verdict(self):
        """The exit code, after one sentence on what went wrong."""
        rank = self.culprit
        if rank:
            is_covered = any(other.spoke_at > rank.spoke_at for other in self.ranks)
            last = ["", "  its last lines:", *("    " + line for line in rank.last)] if is_covered and rank.last else []
            self._say("%s %s; the job ends.%s" % (rank.name, rank.how, "\n".join(last)))
            return rank.status if rank.status > 0 else 128 - rank.status
        if self.asked:
            killed = [rank.name for rank in self.ranks if rank.status == -signal.SIGKILL]
            self._say(
                "stopped by %s%s."
                % (
                    signal.Signals(self.asked).name,
                    "; killed, since it went on: " + ", ".join(killed) if killed else "",
                )
            )
            return next((rank.status for rank in self.ranks if rank.status > 0), 128 + self.asked)
        return 0


class Guard:
    """A process that outlives its launcher: if that is killed, it kills the groups of the processes left.

    The launcher tells it of each group; the end of the pipe tells it that the launcher is gone.
    """

    def __init__(self):
        reader, self.writer = os.pipe()
        if os.fork():
            os.close(reader)
            return
        try:  # of the launcher's pipes none may stay open here
            os.setsid()
            os.dup2(reader, 0)
            os.closerange(1, 1 << 12)
            self._watch()
        finally:
            os._exit(0)

    def _watch(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        text = b"".join(iter(lambda: os.read(0, LINE), b""))
        groups = [int(line) for line in text.split()]
        for pid in groups:
            if pid > 0 and -pid not in groups:
                try:
                    os.killpg(pid, signal.SIGKILL)
                except OSError:
                    pass

    def write(self, text):
        try:
            os.write(self.writer, text.encode())
        except OSError:
            pass  # it was killed: the launcher does without


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
