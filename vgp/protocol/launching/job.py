"""All processes of a job until they have ended: their guard, their end, and the exit code."""

from __future__ import annotations

import contextlib
import os
import signal
import time

from vgp.protocol.launching.following import Following
from vgp.protocol.launching.meeting import Meeting
from vgp.protocol.launching.output import Output
from vgp.protocol.launching.rank import NEVER, Rank
from vgp.protocol.launching.request import Mistake

# ---- the end of the job: its exit code, and a sentence on the error


def conclude(ranks: list[Rank], failed: list[Rank], stop_by: int) -> tuple[int, str]:
    """Returns exit code and sentence for ended ranks; `stop_by` is the signal that stopped them, or 0."""
    if stop_by:
        killed = ", ".join(rank.name for rank in ranks if rank.status == -signal.SIGKILL)
        rest = f"; killed because they did not stop: {killed}" if killed else ""
        code = next((rank.status for rank in failed if rank.status and rank.status > 0), 128 + stop_by)
        return code, f"stopped by {name_of(stop_by)}{rest}."
    if not failed:
        return 0, ""
    rank = min(failed, key=failed_at)
    status, pipes = rank.status or 0, rank.pipes
    is_hidden = any(other.pipes.wrote_at > pipes.wrote_at for other in ranks)
    lines = ["; its last lines:", *pipes.last] if is_hidden else ["."]
    return status if status > 0 else 128 - status, f"{rank.name} {describe_end(status)}" + "\n    ".join(lines)


def failed_at(rank: Rank) -> float:
    """Returns the time of its traceback, which precedes the errors of others, unless that is old."""
    return rank.pipes.raised_at if rank.pipes.raised_at > rank.ended_at - 60 else rank.ended_at


def describe_end(status: int) -> str:
    if status >= 0:
        return f"failed with exit code {status}"
    return f"was killed by {name_of(-status)}" + (" (often: out of memory)" if status == -signal.SIGKILL else "")


def name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


# ---- the guard, which kills the processes of a killed launcher


class Guard:
    """A process that outlives a killed launcher and kills the remaining process groups.

    It reads each group, `+PID` and `-PID`, from a pipe, whose end means that the launcher is gone.
    """

    def __init__(self) -> None:
        reader, self.pipe = os.pipe()
        if os.fork():
            os.close(reader)
            return
        try:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            os.setsid()
            os.dup2(reader, 0)
            os.closerange(1, 1 << 16)  # a reader of the launcher's output waits until all writers close it
            self._watch()
        finally:
            os._exit(0)

    def _watch(self) -> None:
        words = b"".join(iter(lambda: os.read(0, 1 << 16), b"")).decode().split()
        for pid in [word[1:] for word in words if word[0] == "+" and f"-{word[1:]}" not in words]:
            with contextlib.suppress(OSError):
                os.killpg(int(pid), signal.SIGKILL)

    def send(self, word: str) -> None:
        with contextlib.suppress(OSError):  # the guard was killed: the launcher continues without it
            os.write(self.pipe, f"{word}\n".encode())


#: Seconds from a stop to the kill; Vertex AI kills after 30.
STOP_S = 25.0
#: Seconds after a first failure in which earlier failures may show; then from SIGTERM to SIGKILL.
SETTLE_S, END_S = 1.0, 5.0
#: Seconds for the children of an ended process; for other ranks after the chief's end.
LEFT_S, CHIEF_S = 2.0, 10.0
#: Seconds in which a second signal belongs to the first stop: timeout(1) signals both process and group.
ONE_S = 0.3


class Job:
    def __init__(self, ranks: list[Rank], following: Following, meeting: Meeting):
        self.following, self.meeting = following, meeting
        #: Warnings about a successful job that may not be what you intended.
        self.warnings: list[str] = []
        self.ranks, self.chiefs = ranks, [rank for rank in ranks if rank.node.number == 0]
        self.guard, self.output = Guard(), Output()
        self.stop_by, self.stop_at = 0, NEVER
        #: Times at which all get SIGTERM after a failure, get SIGKILL, and from which their exits do not count.
        self.end_at = self.kill_at = self.over_at = NEVER

    def run(self) -> int:
        """Runs the job and returns its exit code."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:  # nohup ignores SIGHUP
                signal.signal(number, self._stop)
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, lambda number, frame: self._send(number))
        code = self._start()
        self.following.watch()  # after all forks, because it starts a thread
        while any(rank.gone_at == NEVER or rank.pipes.open for rank in self.ranks):
            self.output.pass_on(self.ranks)
            self._reap()
            self._end_ranks()
            self.meeting.look()
        code = code or self._conclude()
        while any(self.output.pending.values()):
            self.output.pass_on(self.ranks)
        return code

    def _start(self) -> int:
        for number, rank in enumerate(self.ranks):
            try:
                rank.start()
            except Mistake as mistake:
                self.output.log(str(mistake))
                del self.ranks[number:]
                self.kill_at = 0.0
                return 2
            self.guard.send(f"+{rank.pid}")
            if self.stop_by:
                rank.signal(self.stop_by)
        return 0

    def _stop(self, number: int, frame: object) -> None:
        """Forwards the signal to the processes only; they end their own children, such as data loaders."""
        now = time.monotonic()
        if not self.stop_by:
            self.stop_by, self.stop_at, self.kill_at = number, now, min(self.kill_at, now + STOP_S)
            self._send(number)
        elif number == signal.SIGINT and now > self.stop_at + ONE_S:  # a person; a preemption may signal twice
            self.kill_at = 0.0

    def _send(self, number: int) -> None:
        for rank in self.ranks:
            if rank.pid and rank.status is None:
                rank.signal(number)

    def _reap(self) -> None:
        """Collects the ended processes, and as process 1 of a container also orphaned ones."""
        now, ranks = time.monotonic(), {rank.pid: rank for rank in self.ranks}
        with contextlib.suppress(ChildProcessError):
            pid, status = os.waitpid(-1, os.WNOHANG)
            while pid:
                if pid in ranks:
                    ranks[pid].end(status, now)
                pid, status = os.waitpid(-1, os.WNOHANG)

    def _end_ranks(self) -> None:
        """Ends ranks after a failure, after the chief's end, or at the deadline."""
        now, running = time.monotonic(), [rank for rank in self.ranks if rank.status is None]
        if self.over_at == NEVER and self.chiefs and all(rank.status == 0 for rank in self.chiefs):
            self._end_job(running, max(rank.ended_at for rank in self.chiefs), now)
        if self._failures() and running and not self.stop_by and self.over_at == NEVER:
            self.end_at = min(self.end_at, now + SETTLE_S)
        if now >= self.end_at:
            self.end_at, self.kill_at = NEVER, min(self.kill_at, now + END_S)
            self.over_at = min(self.over_at, now)
            self._send(signal.SIGTERM)
        for rank in self.ranks:
            if rank.gone_at == NEVER and now >= self.kill_at:
                rank.signal(signal.SIGKILL, group=True)
            if rank.gone_at == NEVER and rank.status is not None:
                self._end_group(rank, now)

    def _end_job(self, running: list[Rank], ended_at: float, now: float) -> None:
        """Ends the job after its chief, because parameter servers and their workers run forever."""
        if self.chiefs[0].node.has_servers:
            self.over_at, self.end_at = ended_at, now
        elif running and now > ended_at + CHIEF_S:
            self.over_at = self.end_at = now
            names = ", ".join(rank.name for rank in running)
            self.output.log(f"the job ends with its chief, as on Vertex AI. Stopped: {names}.")

    def _failures(self) -> list[Rank]:
        return [rank for rank in self.ranks if rank.status and rank.ended_at < self.over_at]

    def _end_group(self, rank: Rank, now: float) -> None:
        """Gives the children of an ended process time to end, then kills them."""
        if rank.signal(0, group=True) and now < self.kill_at:
            if self.stop_by:  # such as the program that a shell waited for
                rank.signalled = rank.signalled or rank.signal(self.stop_by, group=True)
                return
            if now < rank.ended_at + LEFT_S:
                return
        rank.signal(signal.SIGKILL, group=True)
        rank.gone_at = now
        self.guard.send(f"-{rank.pid}")

    def _conclude(self) -> int:
        code, words = conclude(self.ranks, self._failures(), self.stop_by)
        self.warnings = [warning for warning in (self.meeting.warning() if code == 0 else "",) if warning]
        for text in filter(None, [words, *self.warnings]):
            self.output.log(text)
        return code
