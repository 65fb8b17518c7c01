"""Launchers of training processes that are forked from a process which has imported torch, in place of new ones.

Each import of torch and of the trainer takes 2 to 4 s of a core, and some 40 tests launch processes. The launcher
itself, its ranks, signals, environment and exit code are as ever; what starts in a shell (the pipeline, some scripts)
starts a launcher of its own. So does what sets variables that libraries read when they are loaded.
"""

import array
import atexit
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

REPOSITORY = Path(__file__).parents[2]
PRELOADED = (
    "torch", "vgp.train.loop.trainer", "vgp.train.processes.launcher", "vgp.train.processes.rank_watch",
    "vgp.train.processes.launcher_control", "vgp.train.processes.launched_rank", "vgp.train.processes.hang_diagnosis",
)  # fmt: skip
#: Beginnings of variables that are read while libraries are loaded, or before.
AT_LOADING = (
    "OMP_", "KMP_", "MKL_", "ONEDNN_", "DNNL_", "ATEN_", "TORCH", "PYTORCH", "PYTHON", "LD_", "CUDA_", "GLOO_",
)  # fmt: skip
OWN = {"TORCH_CPP_LOG_LEVEL": "ERROR", "OMP_WAIT_POLICY": "PASSIVE"}


#: In a script that a test starts: the process of the test, whose launchers the script's are forked from as well.
SHARED = "WARM_LAUNCHERS"


def install(launch: Any) -> None:
    """Has the module `vgp.train.processes.launch` start its launchers here."""
    launch.subprocess = SimpleNamespace(Popen=started, PIPE=subprocess.PIPE)


def shared() -> dict[str, str]:
    """The environment of a script that calls `install`, so that it starts no process of its own that imports all."""
    return {SHARED: str(os.getpid())} if _server()[1] == _loading(dict(os.environ)) else {}


def started(
    command: list[str], *, stdin: int, pass_fds: tuple[int], start_new_session: bool, env: dict[str, str]
) -> Any:
    assert command[1:3] == ["-m", "vgp.train.processes.launcher"] and stdin == subprocess.PIPE and start_new_session
    if _loading(env) != _loading({**os.environ, **OWN}) or _loading(dict(os.environ)) != _server()[1]:
        return subprocess.Popen(
            command, stdin=stdin, pass_fds=pass_fds, start_new_session=start_new_session, env=env
        )  # fmt: skip
    return Launcher(*pass_fds, env)


def _loading(environment: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(AT_LOADING)}


class Launcher:
    """As much of Popen as `launch` uses."""

    def __init__(self, report: int, environment: dict[str, str]) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asked:
            asked.settimeout(None)  # Beam sets a default for every socket of the process (internal/gcp/auth.py)
            asked.connect(_server()[0])
            self._line = asked.dup()
        read, write = os.pipe()
        self._line.sendmsg([b"0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [read, 1, 2, report]))])
        os.close(read)
        self.stdin = os.fdopen(write, "wb")
        self._said = self._line.makefile("rw")
        self._said.write(json.dumps({"environment": environment, "folder": os.getcwd(), "report": report}) + "\n")
        self._said.flush()
        self.pid = int(self._said.readline())
        self._code: int | None = None

    def send_signal(self, number: int) -> None:
        if self._code is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self) -> int:
        if self._code is None:
            self._code = int(self._said.readline())
            self._said.close()
            self._line.close()
        return self._code


@cache
def _server() -> tuple[str, dict[str, str]]:
    """The address of the process that has imported all, and the variables that it was loaded with."""
    if SHARED in os.environ:
        return f"\0launchers-{os.environ[SHARED]}", _loading(dict(os.environ))
    address = f"\0launchers-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.setblocking(True)  # whatever the process's default: the flag goes with the descriptor
        listener.bind(address)
        listener.listen()
        command = [sys.executable, __file__, str(listener.fileno()), str(os.getpid())]
        path = os.pathsep.join([str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, **OWN, "PYTHONPATH": path}
        process = subprocess.Popen(command, pass_fds=[listener.fileno()], env=environment)
    atexit.register(lambda: (process.kill(), process.wait()))
    return address, _loading(dict(os.environ))


# ---- the process that has imported all


def serve(listener: socket.socket) -> None:
    """Forks for everyone who asks a process that forks the launcher and waits for it."""
    signal.signal(signal.SIGCHLD, _bury)
    while True:
        line, _ = listener.accept()
        if not os.fork():
            listener.close()
            _attend(line)
        line.close()


def _bury(number: int, frame: Any) -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _attend(line: socket.socket) -> None:
    from vgp.train.processes.rank import die_with

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, passed, _, _ = line.recvmsg(1, socket.CMSG_SPACE(4 * array.array("i").itemsize))
    descriptors = array.array("i")
    descriptors.frombytes(passed[0][2])
    stream = line.makefile("rw")
    asked = json.loads(stream.readline())
    parent = os.getpid()
    child = os.fork()
    if not child:
        _become_launcher(asked, list(descriptors), parent, line)
    die_with(os.getppid())
    for descriptor in descriptors:
        os.close(descriptor)
    stream.write(f"{child}\n")
    stream.flush()
    threading.Thread(target=_end_with_caller, args=(line, child), daemon=True).start()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    stream.write(f"{code}\n")
    stream.flush()
    os._exit(0)


def _end_with_caller(line: socket.socket, child: int) -> None:
    """Kills the launcher when its caller is gone, as the kernel does with one that is the caller's child."""
    with suppress(OSError):
        if not line.recv(1):
            os.kill(child, signal.SIGKILL)


def _become_launcher(asked: dict[str, Any], descriptors: list[int], parent: int, line: socket.socket) -> None:
    """What `python -m vgp.train.processes.launcher` is when it begins, but for what is imported."""
    from vgp.train.processes import launcher

    code = 1
    try:
        os.setsid()
        for target, descriptor in enumerate(descriptors[:3]):
            os.dup2(descriptor, target)
        for descriptor in (*descriptors[:3], line.fileno()):
            os.close(descriptor)
        os.environ.clear()
        os.environ.update(asked["environment"])
        os.chdir(asked["folder"])
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        valid = launcher.LaunchRequest.model_validate_json
        launcher.LaunchRequest = SimpleNamespace(  # type: ignore[misc]
            model_validate_json=lambda text: valid(text).model_copy(update={"parent": parent})
        )
        launcher.main(descriptors[3])
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


if __name__ == "__main__":
    from vgp.train.processes.rank import die_with

    die_with(int(sys.argv[2]))
    for name in PRELOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # else every launcher looks through all of it before it forks
    serve(socket.socket(fileno=int(sys.argv[1])))
