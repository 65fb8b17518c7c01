"""Runs a command in a process group of its own, and reads kfp.local's output as events."""

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

#: Signals that stop a run: Ctrl-C, kill, a closed terminal, Ctrl-\\.
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
#: Seconds between SIGTERM and SIGKILL, as on Vertex AI. Steps save checkpoints in this time, and the launching text of
#: a command ends the processes that it started in other sessions.
GRACE_S = 30.0
#: A second signal within this time is a duplicate: a terminal and a wrapper such as `uv run` may both send it.
_DUPLICATE_S = 1.0


class Interrupted(Exception):
    """One of the signals `STOPS` arrived: `signal_number`."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal.Signals(signal_number).name)
        self.signal_number = signal_number


@contextmanager
def start_group(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Starts `command` in a process group, and ends all processes of the group at the end of the block.

    The child's stdin is an empty pipe, which closes when this process dies, so the child notices even a SIGKILL.

    Raises:
        Interrupted: one of `STOPS` arrived inside the block; the group was ended.
    """
    with _raise_on_signals() as stops:
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
            _end_group(process, stops)


@contextmanager
def _raise_on_signals() -> Iterator[list[float]]:
    """Raises Interrupted at the first signal of `STOPS`; yields the list of arrival times (monotonic clock)."""
    stops: list[float] = []

    def stop(number: int, frame: FrameType | None) -> None:
        stops.append(time.monotonic())
        if len(stops) == 1:  # a second Ctrl-C must not interrupt the cleanup
            raise Interrupted(number)

    if threading.current_thread() is not threading.main_thread():  # Python delivers signals to the main thread only
        yield stops
        return
    caught = [number for number in STOPS if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN]
    handlers = {number: signal.signal(number, stop) for number in caught}  # under nohup, SIGHUP stays ignored
    try:
        yield stops
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _end_group(process: subprocess.Popen[str], stops: Sequence[float]) -> None:
    """Sends SIGTERM to the group, and SIGKILL after the grace period or at a second signal."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    # Two signals can arrive at one instant: the first handler raises, and the second waits until Python checks for
    # signals again, up to a second later. This call makes Python check now.
    signal.pthread_sigmask(signal.SIG_BLOCK, ())
    began, has_printed = time.monotonic(), False
    while _is_alive(process) and time.monotonic() - began < GRACE_S:
        if stops and stops[-1] - stops[0] > _DUPLICATE_S:
            break
        if stops and not has_printed and time.monotonic() - began > _DUPLICATE_S:
            has_printed = True
            with suppress(OSError):  # the terminal may be closed
                text = f"stopping: steps have {GRACE_S:.0f} s to save their work; press Ctrl-C again to stop at once"
                print(text, file=sys.stderr)
        time.sleep(0.05)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream:
            stream.close()


def _is_alive(process: subprocess.Popen[str]) -> bool:
    process.poll()  # reaps the leader, which as a zombie would count as alive
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


#: Lines of kfp.local itself; it indents the output of steps.
_STARTED = re.compile(r"\d\d:\d\d:\d\d\.\d+ - INFO - Executing task '(?P<step>[^']+)'$")
_ENDED = re.compile(
    r"\d\d:\d\d:\d\d\.\d+ - (?:INFO|ERROR) - Task '(?P<step>[^']+)' finished with status (?P<status>\w+)$"
)
#: Lines of kfp.local without information for the user.
_NOISE = re.compile(r"^\d\d:\d\d:\d\d\.\d+ - INFO - |\[KFP Executor |^-{20,}$|^Task .* outputs:$")


@dataclass(frozen=True)
class Event:
    """An event in a run's output: a step `started`, `succeeded`, `failed`, or printed a `line`.

    A line without a step comes from kfp.local itself.
    """

    kind: str
    step: str
    text: str = ""


def read_events(lines: Iterator[str], keep: Callable[[str], Any]) -> Iterator[Event]:
    """Yields the events in kfp.local's output; passes each unchanged line to `keep`. Other lines belong to the step."""
    step, dump_end = "", ""
    for raw in lines:
        keep(raw)
        text = printable(raw).rstrip()
        if started := _STARTED.match(text):
            step = started["step"]
            yield Event("started", step)
        elif ended := _ENDED.match(text):
            yield Event("succeeded" if ended["status"] == "SUCCESS" else "failed", ended["step"])
            step = ""  # the lines until the next step are kfp's list of outputs
        elif text.endswith("Got executor_input:"):
            dump_end = " " * (len(text) - len(text.lstrip())) + "}"
        elif dump_end:
            dump_end = "" if text == dump_end else dump_end
        elif text.strip() and not _NOISE.search(text.strip()):
            yield Event("line", step, text.removeprefix("    "))
