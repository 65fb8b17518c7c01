"""The request of a launch, and a rank as its launcher sees it: its output, its end, and whether it caused a failure."""

import re
import signal
from collections import deque
from dataclasses import dataclass, field
from typing import Required, TypedDict

from pydantic import BaseModel, ConfigDict

from vgp.base.documents.json_text import Json
from vgp.protocol.cluster import Cluster
from vgp.train.processes.hang_diagnosis import Trace


class LaunchRequest(BaseModel):
    """A function to run in every process of this machine, and the limits for watching them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: `module:function`, called with the argument and its `Rank`.
    target: str
    #: JSON, parsed as the annotation of the target's first parameter.
    argument: str
    cluster: Cluster
    #: Processes on this machine, equal on all machines.
    nproc: int
    rendezvous_timeout_s: float
    lost_after_s: float
    hang_after_s: float
    #: The caller's process; the launcher ends with it.
    parent: int
    #: The caller's `sys.path`.
    path: tuple[str, ...]
    #: Whether stderr is a terminal.
    terminal: bool

    @property
    def world_size(self) -> int:
        return self.cluster.nodes * self.nproc

    @property
    def first_rank(self) -> int:
        """The rank of this machine's first process."""
        return self.cluster.node * self.nproc


_LAST_LINES = 15
#: From the last line of NCCL's watchdog (`ProcessGroupNCCL.cpp`).
_NCCL_LATE = b"Watchdog caught collective operation timeout"
#: The last line of faulthandler, after the stack: some eighty names of libraries.
_MODULES = re.compile(rb"Extension modules: .* \(total: \d+\)")


class Ending(TypedDict, total=False):
    """The end of a rank, or of all ranks of a launch, as sent to the launcher or its caller."""

    #: `value`, `preempted`, `user_error`, `failed`, `lost` or `store_down`.
    kind: Required[str]
    value: Json
    text: str
    #: Whether the rank failed only because it lost another rank.
    bystander: bool
    #: Whether the rank timed out waiting for another rank.
    late: bool
    #: Whether the text explains the failure without naming the rank.
    known: bool


@dataclass
class Child:
    """A rank as its launcher sees it."""

    pid: int
    rank: int
    stdout: int
    stderr: int
    events: int
    trace: Trace
    #: Exit status as from `waitstatus_to_exitcode`: negative = killed by that signal; None = running.
    status: int | None = None
    ending: Ending | None = None
    failed_at: float = float("inf")
    last: deque[str] = field(default_factory=lambda: deque(maxlen=_LAST_LINES))
    #: The unfinished line of each descriptor.
    partial: dict[int, bytes] = field(default_factory=dict)
    message: bytes = b""
    #: Whether NCCL's watchdog has logged that it ends the process after a timeout.
    aborted: bool = False

    def add_output(self, data: bytes, descriptor: int) -> list[bytes]:
        """Adds output of the rank; returns the complete lines."""
        *lines, self.partial[descriptor] = (self.partial.get(descriptor, b"") + data).split(b"\n")
        self.last.extend(_visible_text(line) for line in lines if not _MODULES.fullmatch(line))
        self.aborted = self.aborted or _NCCL_LATE in data
        return lines

    def last_output(self) -> list[str]:
        return [*self.last, *(_visible_text(line) for line in self.partial.values() if line)]

    @property
    def blame_key(self) -> tuple[int, float]:
        """A sort key, smallest for the rank that caused the failure: bystanders come last."""
        return int(self.is_bystander), self.failed_at

    @property
    def is_bystander(self) -> bool:
        return bool(self.ending and self.ending.get("bystander")) or self.is_late

    @property
    def is_late(self) -> bool:
        """Whether it timed out waiting for another rank."""
        return bool(self.ending and self.ending.get("late")) or (self.aborted and self.status == -signal.SIGABRT)

    @property
    def how(self) -> str:
        """The end in words, for example `was killed by SIGKILL`."""
        if self.status is not None and self.status < 0:
            name = signal.Signals(-self.status).name
            return f"was killed by {name}" + (" (often: out of memory)" if name == "SIGKILL" else "")
        return "failed" if self.status in (None, 1) else f"failed with exit code {self.status}"


def _visible_text(line: bytes) -> str:
    """Returns the text that a terminal shows of a line with carriage returns."""
    return line.rstrip(b"\r").rsplit(b"\r", 1)[-1].decode(errors="replace")
