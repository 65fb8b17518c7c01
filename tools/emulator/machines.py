"""The machines of a custom job: a process on this machine for each replica, started like Vertex AI's containers.

Every replica gets its container's command, arguments and variables, and CLUSTER_SPEC, TF_CONFIG of several machines,
CLOUD_ML_JOB_ID, CLOUD_ML_PROJECT_ID and AIP_*
(https://cloud.google.com/vertex-ai/docs/training/distributed-training#cluster-variables, .../code-requirements). Hosts
are ports of 127.0.0.1; a restarted replica keeps its port. There are no images, so a container needs a command. Its
output goes to Cloud Logging when it ends. container/sitecustomize.py replaces /gcs/ and the time.
"""

import json
import os
import secrets
import shlex
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from google.protobuf import json_format

if TYPE_CHECKING:
    from .cloud import Cloud

REPOSITORY = Path(__file__).parents[2]
CONTAINER = Path(__file__).parent / "container"
#: The variable that identifies the processes of one machine, whatever their sessions and parents.
MARK = "LOOPBACK_MACHINE"
#: Variables of this process that a container gets too.
KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV", "OMP_NUM_THREADS", "ONEDNN_MAX_CPU_ISA")
TF_NAMES = {"workerpool0": "chief", "workerpool1": "worker", "workerpool2": "ps"}


@dataclass(eq=False)
class Machine:
    """One replica. `code` is the exit code of a container runtime: 128 and the signal of a killed process."""

    name: str
    pool: int
    index: int
    folder: Path
    mark: str
    command: list[str]
    environment: dict[str, str]
    process: "subprocess.Popen[bytes] | None" = None
    starts: int = 0
    #: Whether it is lost and Vertex AI has not noticed it.
    vanished: bool = False

    def start(self) -> None:
        self.starts, self.vanished = self.starts + 1, False
        self.folder.mkdir(parents=True, exist_ok=True)
        with (
            open(self.folder / f"out-{self.starts}", "wb") as out,
            open(self.folder / f"err-{self.starts}", "wb") as err,
        ):
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=self.environment,
                cwd=self.folder, start_new_session=True,
            )  # fmt: skip

    @property
    def code(self) -> int | None:
        assert self.process
        code = self.process.poll()
        if self.vanished:
            return None
        return code if code is None or code >= 0 else 128 - code

    def terminate(self) -> None:
        """Sends SIGTERM to the container's first process only."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def end(self) -> None:
        """Removes the machine: sends SIGKILL to all its processes."""
        if not self.process:
            return
        self.process.poll() is None and self.process.kill()
        self.process.wait()
        for one in psutil.process_iter():
            try:
                if one.pid != os.getpid() and one.environ().get(MARK) == self.mark:
                    one.kill()
            except (psutil.Error, OSError):
                continue  # it has ended, or is another user's

    def read_output(self) -> list[tuple[str, str]]:
        """Returns (severity, line) of the output since its last start."""
        kinds = (("out", "INFO"), ("err", "ERROR"))
        return [
            (severity, line)
            for kind, severity in kinds
            for line in (self.folder / f"{kind}-{self.starts}").read_text(errors="replace").splitlines()
        ]


@dataclass
class Machines:
    """A factory for the machines of jobs. `environment` is added to every container."""

    cloud: "Cloud"
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    #: Whether the training runs one process for each requested GPU, although this machine has none.
    gpus_as_processes: bool = False

    @property
    def mount(self) -> Path:
        """The folder that replaces /gcs."""
        return self.folder / "gcs"

    @property
    def variables(self) -> dict[str, str]:
        """The variables of every container, also of plain steps."""
        return {
            **{key: os.environ[key] for key in KEPT if key in os.environ},
            **self.cloud.environment,
            "PYTHONPATH": os.pathsep.join((str(CONTAINER), str(REPOSITORY), str(REPOSITORY / "tests"))),
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath))),
            "LOOPBACK_GCS": str(self.mount),
            "CLOUD_ML_PROJECT_ID": self.cloud.project_number,
            **self.cloud.clock.variables,
            **self.environment,
        }

    def of(self, message: Any) -> list[Machine]:
        """Returns the machines of a job, not yet started."""
        self.mount.mkdir(parents=True, exist_ok=True)
        pools = list(message.job_spec.worker_pool_specs)
        names = [f"workerpool{number}" for number in range(len(pools))]
        ports = free_ports(sum(max(1, pool.replica_count) for pool in pools))
        hosts = {
            name: [f"127.0.0.1:{ports.pop()}" for _ in range(max(1, pool.replica_count))]
            for name, pool in zip(names, pools, strict=True)
        }
        return [
            self._machine(message, name, number, index, pools[number], hosts)
            for number, name in enumerate(names)
            for index in range(len(hosts[name]))
        ]

    def _machine(
        self, message: Any, name: str, number: int, index: int, pool: Any, hosts: dict[str, list[str]]
    ) -> Machine:
        job_id = message.name.rpartition("/")[2]
        folder, mark = self.folder / "jobs" / job_id / f"{name}-{index}", secrets.token_hex(8)
        container = pool.container_spec
        words = [self.local(word) for word in (*container.command, *container.args)]
        environment = {
            **self.variables,
            "CLOUD_ML_JOB_ID": job_id,
            MARK: mark,
            **({"TRAINING_NPROC": str(pool.machine_spec.accelerator_count or 1)} if self.gpus_as_processes else {}),
            **cluster(message, name, index, hosts),
            **outputs(message.job_spec.base_output_directory.output_uri_prefix),
            **{each.name: each.value for each in container.env},
        }
        return Machine(f"{name}-{index}", number, index, folder, mark, words, environment)

    def local(self, word: str) -> str:
        """Replaces /gcs/ by the mount's folder in a word of a command."""
        return (
            word.replace('"/gcs/', f'"{self.mount}/')
            if '"/gcs/' in word
            else (f"{self.mount}/{word.removeprefix('/gcs/')}" if word.startswith("/gcs/") else word)
        )

    def format_command(self, machine: Machine) -> str:
        """Returns the machine's command as a shell line, to start it by hand."""
        return shlex.join(machine.command)


def cluster(message: Any, name: str, index: int, hosts: dict[str, list[str]]) -> dict[str, str]:
    spec = {
        "cluster": hosts, "environment": "cloud", "task": {"type": name, "index": index},
        "job": json_format.MessageToDict(message.job_spec, preserving_proto_field_name=True),
    }  # fmt: skip
    # A long job is left out, because Linux allows 128 KiB in one variable.
    text = json.dumps(spec)
    variables = {"CLUSTER_SPEC": text if len(text) < 100_000 else json.dumps({**spec, "job": {}})}
    if sum(map(len, hosts.values())) > 1:
        named = {TF_NAMES[pool]: found for pool, found in hosts.items() if pool in TF_NAMES}
        task = {"type": TF_NAMES.get(name, "evaluator"), "index": index}
        variables["TF_CONFIG"] = json.dumps({"cluster": named, "task": task, "environment": "cloud"})
    return variables


def outputs(prefix: str) -> dict[str, str]:
    """https://cloud.google.com/vertex-ai/docs/reference/rest/v1/CustomJobSpec: baseOutputDirectory."""
    folders = {"AIP_MODEL_DIR": "model", "AIP_CHECKPOINT_DIR": "checkpoints", "AIP_TENSORBOARD_LOG_DIR": "logs"}
    return {name: f"{prefix.rstrip('/')}/{folder}/" for name, folder in folders.items()} if prefix else {}


def free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()
