"""Starts the training processes of this machine and waits for them, without torch in the caller.

`launch("vgp.train.loop.trainer:run", {...})` runs the function in one process per GPU. A separate launcher process
(launcher.py) imports torch once and forks the ranks (rank.py): N ranks cost one import, and the caller, with its
threads and signal handlers, is never forked.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Protocol

from pydantic import BaseModel
from pydantic_core import to_json

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import EXIT_FAILED, MachineLost, Preempted, ProcessFailed, StoreDown, UserError
from vgp.protocol.cluster import cluster, process_count, started_by_torchrun
from vgp.protocol.imports import search_path
from vgp.train.processes.launched_rank import LaunchRequest

#: Seconds for which a further signal belongs to the first: timeout(1), for example, signals the process and its group.
ONE_S = 0.3
#: Spinning threads on two busy cores were over ten times slower than sleeping ones. The thread library reads the
#: variable when it is loaded, so it must be set before the import of torch.
THREADS = {"OMP_WAIT_POLICY": "PASSIVE"}


class Condition(Protocol):
    """A condition for the processes to run, such as a lease that another run may take over."""

    #: Why the condition is lost; "" while it holds.
    loss: str

    def on_loss(self, end: Callable[[], None]) -> None:
        """Registers `end` to be called when the condition is lost; calls it at once if it is already lost."""


class Notice(Protocol):
    """A source of requests to save and stop, like a SIGTERM."""

    def on_stop(self, stop: Callable[[], None]) -> None:
        """Registers `stop` to be called when the processes must stop; calls it at once if they must already."""


def launch(
    target: str,
    argument: BaseModel | JsonObject,
    *,
    nproc: int | None = None,
    rendezvous_timeout_s: float = 900,
    lost_after_s: float = 30,
    hang_after_s: float = 600,
    environment: Mapping[str, str] | None = None,
    condition: Condition | None = None,
    notice: Notice | None = None,
) -> Any:
    """Runs `target` (`module:function`, called with the argument and its `Rank`) in every process.

    Args:
        argument: Sent to the processes as JSON and parsed as the annotation of the target's first parameter.
        rendezvous_timeout_s: Seconds for which machines wait for each other at the start.
        lost_after_s: Seconds of silence after which a machine counts as lost; all others then end within 10 s.
        hang_after_s: Seconds for which ranks wait for a missing rank; all then end within 10 s, and the error names it.
        condition: When it is lost, the processes are killed at once.
        notice: Requests that the processes save and stop.

    Returns:
        The value that global rank 0 returned (JSON values only), on its machine; None on the others.

    Raises:
        UserError: the request is wrong, or a rank raised UserError.
        Preempted: SIGTERM or SIGINT came, here or on any rank, and the ranks stopped.
        MachineLost: another machine of the job is gone or never came.
        ProcessFailed: a rank failed (the message names it, with its traceback or last output), or the condition was
            lost.
    """
    environment = os.environ if environment is None else environment
    if started_by_torchrun(environment):
        from vgp.train.processes.rank import run_as_rank

        if condition:
            condition.on_loss(partial(_end_this_process, condition))
        if notice:
            notice.on_stop(partial(os.kill, os.getpid(), signal.SIGTERM))
        return run_as_rank(
            target, to_json(argument).decode(), environment, timeout_s=rendezvous_timeout_s, hang_after_s=hang_after_s
        )
    place = cluster(environment)
    if not place.trains:
        return None
    request = LaunchRequest(
        target=target, argument=to_json(argument).decode(), cluster=place,
        nproc=process_count(nproc, environment), rendezvous_timeout_s=rendezvous_timeout_s,
        lost_after_s=lost_after_s, hang_after_s=hang_after_s, parent=os.getpid(), path=search_path(),
        terminal=sys.stderr.isatty(),
    )  # fmt: skip
    report, code, asked = _run_launcher(request.model_dump_json(), environment, condition, notice)
    if not report and condition and condition.loss:
        raise ProcessFailed(condition.loss)
    if not report and asked:
        raise Preempted("training ended before it could save; start it again to resume from the last checkpoint.")
    return _read_outcome(report, code)


def _end_this_process(condition: Condition) -> None:
    print(f"failed: {condition.loss}", file=sys.stderr, flush=True)
    os._exit(EXIT_FAILED)  # torchrun then ends the other processes


def _run_launcher(
    request: str, environment: Mapping[str, str], condition: Condition | None, notice: Notice | None
) -> tuple[str, int, bool]:
    """Runs the launcher; returns its report, its exit code, and whether a signal requested a stop.

    The launcher has its own session, so Ctrl-C reaches the ranks only through `_passing_signals`.
    """
    report, report_end = os.pipe()
    command = [sys.executable, "-m", "vgp.train.processes.launcher", str(report_end)]
    # Silences torch's C++ stacks about lost peers: the report explains the failure.
    environment = {"TORCH_CPP_LOG_LEVEL": "ERROR", **THREADS, **environment}
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, pass_fds=(report_end,), start_new_session=True, env=environment
    )
    os.close(report_end)
    if condition:
        condition.on_loss(child.kill)  # the ranks die with it
    try:
        with _passing_signals(child, notice) as asked, os.fdopen(report, "rb") as stream:
            assert child.stdin
            with suppress(BrokenPipeError):  # the launcher may have ended already
                child.stdin.write(request.encode())
                child.stdin.close()
            return stream.read().decode(), child.wait(), bool(asked)
    except BaseException:
        child.kill()  # the ranks die with it
        child.wait()
        raise


@contextmanager
def _passing_signals(child: "subprocess.Popen[bytes]", notice: Notice | None) -> Iterator[list[float]]:
    """Passes signals on: the first SIGTERM or SIGINT asks the ranks to save and stop, a second SIGINT kills them.

    A second SIGTERM does nothing, because a preempted machine may send several before it ends. Yields a list with the
    time of the request, empty so far. Outside the main thread, Python cannot catch signals.
    """
    asked: list[float] = []

    def ask() -> None:
        if not asked:
            asked.append(time.monotonic())
            child.send_signal(signal.SIGTERM)

    def handle(number: int, frame: object) -> None:
        if asked and number == signal.SIGINT and time.monotonic() > asked[0] + ONE_S:
            child.send_signal(signal.SIGKILL)
        ask()

    if notice:
        notice.on_stop(ask)
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _read_outcome(report: str, code: int) -> Any:
    if not report:
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        raise ProcessFailed(f"the launcher of the training processes ended without a report ({how}).")
    ending = json.loads(report)
    if ending["kind"] == "value":
        return ending["value"]
    kinds = {"user_error": UserError, "preempted": Preempted, "lost": MachineLost, "store_down": StoreDown}
    raise kinds.get(ending["kind"], ProcessFailed)(ending["text"])
