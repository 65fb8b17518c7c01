"""What a launch is asked for, and one rank as its launcher sees it: its output, its end, whether it is to blame."""

import re
import signal
from collections import deque
from dataclasses import dataclass, field
from typing import Required, TypedDict

from pydantic import BaseModel, ConfigDict

from vgp.base.documents.json_text import Json
from vgp.protocol.cluster import Cluster
from vgp.train.processes.hang import Trace


class LaunchRequest(BaseModel):
    """A function to run in every process of this machine, and how they are watched."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: `module:function`; it is called with the argument and its `Rank`.
    target: str
    #: JSON, which only the target reads: as what its first parameter is annotated with.
    argument: str
    cluster: Cluster
    #: Processes on this machine, the same on all.
    nproc: int
    rendezvous_timeout_s: float
    lost_after_s: float
    hang_after_s: float
    #: The caller's process, with which the launcher ends.
    parent: int
    #: The caller's `sys.path`.
    path: tuple[str, ...]
    #: Whether stderr is a person's terminal.
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
#: With which faulthandler ends: some eighty names of libraries, after the stack that tells where it was.
_MODULES = re.compile(rb"Extension modules: .* \(total: \d+\)")


class Ending(TypedDict, total=False):
    """How a rank ended, or all ranks of a launch, as the one says it to the other."""

    #: `value`, `preempted`, `user_error`, `failed`, `lost` or `store_down`.
    kind: Required[str]
    value: Json
    text: str
    #: Whether it only lost its peer, or waited for it in vain.
    bystander: bool
    late: bool
    #: Whether the text needs no words about the rank.
    known: bool


@dataclass
class Child:
    """One rank, seen from the launcher."""

    pid: int
    rank: int
    stdout: int
    stderr: int
    events: int
    trace: Trace
    status: int | None = None
    """As from `waitstatus_to_exitcode`: negative = killed by that signal; None = running."""
    ending: Ending | None = None
    failed_at: float = float("inf")
    last: deque[str] = field(default_factory=lambda: deque(maxlen=_LAST_LINES))
    partial: dict[int, bytes] = field(default_factory=dict)
    """The unfinished line of each descriptor."""
    message: bytes = b""
    aborted: bool = False
    """Whether NCCL has said that it ends the process, since it waited in vain."""

    def hear(self, data: bytes, descriptor: int) -> list[bytes]:
        """Takes output in; returns the lines that are complete."""
        *lines, self.partial[descriptor] = (self.partial.get(descriptor, b"") + data).split(b"\n")
        self.last.extend(_shown(line) for line in lines if not _MODULES.fullmatch(line))
        self.aborted = self.aborted or _NCCL_LATE in data
        return lines

    def last_output(self) -> list[str]:
        return [*self.last, *(_shown(line) for line in self.partial.values() if line)]

    @property
    def guilt(self) -> tuple[int, float]:
        """Smallest for the rank that brought the others down: those that only lost their peer come last."""
        return int(self.is_bystander), self.failed_at

    @property
    def is_bystander(self) -> bool:
        return bool(self.ending and self.ending.get("bystander")) or self.is_late

    @property
    def is_late(self) -> bool:
        """Whether it waited in vain for another."""
        return bool(self.ending and self.ending.get("late")) or (self.aborted and self.status == -signal.SIGABRT)

    @property
    def how(self) -> str:
        """How it ended, such as `was killed by SIGKILL`."""
        if self.status is not None and self.status < 0:
            name = signal.Signals(-self.status).name
            return f"was killed by {name}" + (" (often: out of memory)" if name == "SIGKILL" else "")
        return "failed" if self.status in (None, 1) else f"failed with exit code {self.status}"


def _shown(line: bytes) -> str:
    """What a terminal shows of a line that was rewritten with carriage returns."""
    return line.rstrip(b"\r").rsplit(b"\r", 1)[-1].decode(errors="replace")
