"""Runs a command in a process group of its own, line by line, and reads what kfp.local prints as events."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any

from vgp.base.text.printable import printable

#: What ends a run: Ctrl-C, kill, a terminal that is closed, Ctrl-\\.
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
#: How long processes may take to save their work after SIGTERM before SIGKILL: as long as on Vertex AI. The launching
#: text of a command needs it, to end by itself what it started in sessions of their own.
GRACE_S = 30.0
#: What arrives sooner after the first stop is the same one: a terminal and a wrapper such as `uv run` may both send it.
_SAME_STOP_S = 1.0


class Interrupted(Exception):
    """One of `STOPS` arrived; `signal_number` says which."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal.Signals(signal_number).name)
        self.signal_number = signal_number


@contextmanager
def group(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Starts `command`; whatever ends the block, no process of the group is left behind.

    The child's stdin is a pipe that nothing is written to: it closes when this process dies, however it dies.

    Raises:
        Interrupted: one of `STOPS` arrived inside the block; the group was ended.
    """
    with _signals_raise() as stops:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            encoding="utf-8",
            errors="backslashreplace",
            bufsize=1,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            _end(process, stops)


@contextmanager
def _signals_raise() -> Iterator[list[float]]:
    """Yields when each stop arrived, by the monotonic clock; the first alone is raised."""
    stops: list[float] = []

    def stop(number: int, frame: FrameType | None) -> None:
        stops.append(time.monotonic())
        if len(stops) == 1:  # a second Ctrl-C must not interrupt the cleaning up
            raise Interrupted(number)

    if threading.current_thread() is not threading.main_thread():  # Python gives signals to the main thread alone
        yield stops
        return
    caught = [number for number in STOPS if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in caught}  # nohup has SIGHUP ignored
    try:
        yield stops
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(process: subprocess.Popen[str], stops: Sequence[float]) -> None:
    """SIGTERM to the group, SIGKILL to what is left after the grace period or at a second stop."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    # A second signal of the same instant waits until Python looks for signals again, which may be a second later
    # (its handlers run in turn, and the first one raised): this call looks.
    signal.pthread_sigmask(signal.SIG_BLOCK, ())
    began, told = time.monotonic(), False
    while _alive(process) and time.monotonic() - began < GRACE_S:
        if stops and stops[-1] - stops[0] > _SAME_STOP_S:
            break
        if stops and not told and time.monotonic() - began > _SAME_STOP_S:
            told = True
            with suppress(OSError):  # a terminal that was closed
                print(f"stopping: it may save for {GRACE_S:.0f} s; Ctrl-C again ends it at once", file=sys.stderr)
        time.sleep(0.05)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream:
            stream.close()


def _alive(process: subprocess.Popen[str]) -> bool:
    process.poll()  # reaps the leader, which would otherwise count as a living member
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


#: kfp's own lines; what a step prints it indents.
_STARTED = re.compile(r"\d\d:\d\d:\d\d\.\d+ - INFO - Executing task '(?P<step>[^']+)'$")
_ENDED = re.compile(
    r"\d\d:\d\d:\d\d\.\d+ - (?:INFO|ERROR) - Task '(?P<step>[^']+)' finished with status (?P<status>\w+)$"
)
#: Lines of kfp itself, which tell a user nothing about their run.
_NOISE = re.compile(r"^\d\d:\d\d:\d\d\.\d+ - INFO - |\[KFP Executor |^-{20,}$|^Task .* outputs:$")


@dataclass(frozen=True)
class Event:
    """Something a run's output says: a step `started`, `succeeded`, `failed`, or printed a `line`.

    A line without a step comes from kfp.local itself.
    """

    kind: str
    step: str
    text: str = ""


def events(lines: Iterator[str], keep: Callable[[str], Any]) -> Iterator[Event]:
    """Reads the output, each line given to `keep` as it is; what cannot be placed is a line of the running step."""
    step, dump_end = "", ""
    for raw in lines:
        keep(raw)
        text = printable(raw).rstrip()
        if started := _STARTED.match(text):
            step = started["step"]
            yield Event("started", step)
        elif ended := _ENDED.match(text):
            yield Event("succeeded" if ended["status"] == "SUCCESS" else "failed", ended["step"])
            step = ""  # what follows until the next step is kfp's listing of the outputs
        elif text.endswith("Got executor_input:"):
            dump_end = " " * (len(text) - len(text.lstrip())) + "}"
        elif dump_end:
            dump_end = "" if text == dump_end else dump_end
        elif text.strip() and not _NOISE.search(text.strip()):
            yield Event("line", step, text.removeprefix("    "))
