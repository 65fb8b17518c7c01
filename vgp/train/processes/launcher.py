"""The launcher process: imports torch once, forks the ranks, relays their output, and ends them together.

`vgp.train.processes.launch` starts it, writes a request to its standard input and reads one report from the pipe whose
number is the only argument.
"""

import gc
import importlib
import json
import os
import signal
import socket
import sys
import threading
from typing import TYPE_CHECKING

from pydantic import ValidationError

from vgp.train.processes.launched_rank import LaunchRequest

if TYPE_CHECKING:
    from vgp.train.processes.launched_rank import Child

#: Seconds between a request to stop and SIGKILL: a preempted Spot VM has about 30.
STOP_S = 25.0


def main(report: int) -> None:
    try:
        request = LaunchRequest.model_validate_json(sys.stdin.buffer.read())
    except ValidationError:
        raise SystemExit("stopped: the process that started the training ended before it sent its request.") from None
    sys.path[:] = request.path
    from vgp.train.processes.hang_diagnosis import Recorder
    from vgp.train.processes.launcher_control import Control
    from vgp.train.processes.rank import die_with
    from vgp.train.processes.rank_watch import Watch

    die_with(request.parent)
    _preload(request.target)
    recorder = Recorder()
    recorder.switch_on()
    children = _fork_all(request)
    control = None
    if request.cluster.nodes > 1:  # starts a thread, so only after the forks
        control = Control(request.cluster, request.rendezvous_timeout_s, request.lost_after_s)
        control.start()
    ending = Watch(children, request, control, recorder, stop_s=STOP_S).until_end()
    os.write(report, json.dumps(ending).encode())


def _preload(target: str) -> None:
    """Imports torch and the target's module before the fork, so that the ranks share them."""
    for name in ("torch", target.partition(":")[0]):
        importlib.import_module(name)
    assert threading.active_count() == 1, "a module started a thread at import; forking is not safe"
    gc.collect()
    gc.freeze()  # the collector then leaves shared pages alone


def _fork_all(request: LaunchRequest) -> "list[Child]":
    """Forks the ranks. On a single machine, first binds a free port for the rendezvous."""
    listener = None
    if request.cluster.nodes == 1:
        listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        here = request.cluster.model_copy(update={"port": listener.getsockname()[1]})
        request = request.model_copy(update={"cluster": here})
    launcher = os.getpid()
    return [_fork(request, launcher, local_rank, listener) for local_rank in range(request.nproc)]


def _fork(request: LaunchRequest, launcher: int, local_rank: int, listener: socket.socket | None) -> "Child":
    """Forks a rank with pipes for stdout, stderr and its ending."""
    from vgp.train.processes.hang_diagnosis import Trace
    from vgp.train.processes.launched_rank import Child

    pipes, trace = [os.pipe() for _ in range(3)], Trace()
    pid = os.fork()
    if pid:
        for _, write in pipes:
            os.close(write)
        stdout, stderr, events = (read for read, _ in pipes)
        return Child(pid, request.first_rank + local_rank, stdout, stderr, events, trace)
    code = 1
    try:
        for descriptor in (1, 2):
            os.dup2(pipes[descriptor - 1][1], descriptor)
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        from vgp.train.processes.rank import run_child

        code = run_child(request, launcher, local_rank, pipes[2][1], listener.fileno() if listener else None, trace)
    finally:
        os._exit(code)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    main(int(sys.argv[1]))
    os._exit(0)  # a thread may still wait on the network
