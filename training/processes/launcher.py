"""The launcher process: imports torch once, forks the ranks, relays what they say, and ends them together.

Started by `training.processes.launch`, which writes a request to its standard input and reads one report from the pipe
whose number is the only argument.
"""

import gc
import importlib
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from training.processes.child import Child


#: Seconds between a request to stop and SIGKILL: a preempted Spot VM has about 30.
STOP_S = 25.0


def main(report: int) -> None:
    request = json.loads(sys.stdin.buffer.read())
    sys.path[:] = request["path"]
    from training.processes.rank import die_with
    from training.processes.watch import Watch

    die_with(request["parent"])
    request["launcher"] = os.getpid()
    _preload(request["target"])
    children = _fork_all(request)
    ending = Watch(children, request, _control(request), stop_s=STOP_S).until_end()
    os.write(report, json.dumps(ending).encode())


def _control(request: Mapping[str, Any]) -> Any:
    """The line to the launchers of other machines; only after the forks, since it is a thread."""
    from training.processes.cluster import Cluster
    from training.processes.control import Control

    place = Cluster(**request["cluster"])
    if place.nodes == 1:
        return None
    control = Control(place, request["timeout_s"], request["lost_after_s"])
    control.start()
    return control


def _preload(target: str) -> None:
    """Imports before the fork what every rank needs: torch, and whatever the target's module imports."""
    for name in ("torch", target.partition(":")[0]):
        importlib.import_module(name)
    assert threading.active_count() == 1, "a module started a thread at import; forking is not safe"
    gc.collect()
    gc.freeze()  # the collector then leaves shared pages alone


def _fork_all(request: dict[str, Any]) -> "list[Child]":
    listener = _listener(request)
    return [_fork(request, local_rank, listener) for local_rank in range(request["nproc"])]


def _listener(request: dict[str, Any]) -> socket.socket | None:
    """On a single machine the rendezvous takes any free port, bound here so that no other process gets it."""
    if request["cluster"]["nodes"] > 1:
        return None
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    request["cluster"]["port"] = listener.getsockname()[1]
    return listener


def _fork(request: Mapping[str, Any], local_rank: int, listener: socket.socket | None) -> "Child":
    """One rank, with a pipe each for stdout, stderr and its ending."""
    from training.processes.child import Child
    from training.processes.hang import Trace

    pipes, trace = [os.pipe() for _ in range(3)], Trace()
    pid = os.fork()
    if pid:
        for _, write in pipes:
            os.close(write)
        number = request["cluster"]["node"] * request["nproc"] + local_rank
        stdout, stderr, events = (read for read, _ in pipes)
        return Child(pid, number, stdout, stderr, events, trace)
    code = 1
    try:
        for descriptor in (1, 2):
            os.dup2(pipes[descriptor - 1][1], descriptor)
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        from training.processes.rank import child

        code = child(request, local_rank, pipes[2][1], listener.fileno() if listener else None, trace)
    finally:
        os._exit(code)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    main(int(sys.argv[1]))
    os._exit(0)  # a thread may still wait on the network
