"""Waits for the ranks of this machine: relays their output, finds the first to fail, ends all together."""

import contextlib
import json
import os
import selectors
import signal
import time

from vgp.base.exits import EXIT_PREEMPTED
from vgp.train.processes.hang_diagnosis import Recorder, explain_flight
from vgp.train.processes.launched_rank import Child, Ending, LaunchRequest
from vgp.train.processes.launcher_control import AFTER_ALL, Control

#: Seconds after a first failure for other ranks to report theirs, before the cause is chosen among them.
_GRACE_S = 0.5
#: `_GRACE_S` if the cause may be on another machine.
_GRACE_FAR_S = 4.0
#: `_GRACE_S` after a timeout, so that all ranks can write their stacks; and if the missing rank may be on another
#: machine.
_GRACE_LATE_S = 3.0
_GRACE_LATE_FAR_S = 7.0


class Watch:
    """A watch over the ranks of this machine; `until_end` returns the report for `vgp.train.processes.launch`."""

    def __init__(
        self, children: list[Child], request: LaunchRequest, control: Control | None = None,
        recorder: Recorder | None = None, *, stop_s: float,
    ):  # fmt: skip
        self.children = children
        self.recorder = recorder or Recorder()
        self.control = control
        self.host, self.world_size = request.cluster.host, request.world_size
        self.stop_s = stop_s
        self.stop_by = float("inf")
        self.deadline = float("inf")
        self.hang_after_s = request.hang_after_s
        self.muted = False
        #: When a rank on any machine was first known to have timed out waiting for another.
        self.late_at = float("inf")
        #: Whether the cause of the end lies on this machine.
        self._own = False
        if control:
            control.position = lambda: min((child.trace.position for child in self._list_running()), default=AFTER_ALL)
        self.selector = selectors.DefaultSelector()
        for child in children:
            for descriptor in (child.stdout, child.stderr, child.events):
                self.selector.register(descriptor, selectors.EVENT_READ, child)

    def until_end(self) -> Ending:
        """Watches until all ranks have ended or must end; kills the rest and returns the report."""
        signal.signal(signal.SIGTERM, self._stop)
        while self._goes_on():
            self._poll()
        self._drain()
        report = self._report()
        if self.control and report["kind"] in ("failed", "lost", "store_down", "user_error"):
            self.control.publish({"kind": report["kind"], "text": _summary(report["text"])} if self._own else None)
        self._kill()
        dumps = self.recorder.take(child.rank for child in self.children)
        if self._own and self.late_at < float("inf") and (explanation := explain_flight(dumps)):
            report = report | {"text": f"{report['text'].rstrip()}\n{explanation}"}
        return report

    def _goes_on(self) -> bool:
        """Whether ranks still run, or another machine may still explain why they have ended."""
        unexplained = self.control and not self.control.failure and any(child.is_bystander for child in self.children)
        return time.monotonic() < self.deadline and bool(self._list_running() or unexplained or self._waits_for_chief())

    def _list_running(self) -> list[Child]:
        return [child for child in self.children if child.status is None]

    def _waits_for_chief(self) -> bool:
        """Whether all ranks here have succeeded while the chief may still write the model.

        If the chief fails, the retry of the job needs this machine.
        """
        if not self.control or self.control.place.node == 0 or any(child.status != 0 for child in self.children):
            return False
        self.control.left = True
        return not self.control.finished and self.stop_by == float("inf")

    def _poll(self) -> None:
        for key, _ in self.selector.select(timeout=0.05):
            self._read(key.data, key.fd)
        self._reap()
        if time.monotonic() > self.stop_by:
            self.deadline = 0
        if self.control and self.control.late:
            self._request_stacks()
        if time.monotonic() > self.late_at + _GRACE_LATE_S and self._hanging():
            self.deadline = 0
        if self.control and (self.control.failure or self.control.lost):
            self.muted = True
            self.deadline = min(self.deadline, time.monotonic() + _GRACE_S)

    def _request_stacks(self) -> None:
        """Makes the running ranks write their stacks, because the others may wait for one of them."""
        if self.late_at < float("inf"):
            return
        self.late_at, self.muted = time.monotonic(), True
        self._signal(signal.SIGUSR1)
        self.deadline = min(self.deadline, self.late_at + self._late_grace_s())
        if self.control:
            self.control.late = True

    def _late_grace_s(self) -> float:
        return _GRACE_LATE_FAR_S if self.control else _GRACE_LATE_S

    def _stop(self, number: int, frame: object) -> None:
        self.stop_by = min(self.stop_by, time.monotonic() + self.stop_s)
        self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        for child in self._list_running():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, number)

    def _read(self, child: Child, descriptor: int) -> None:
        data = os.read(descriptor, 1 << 16)
        if not data:
            self.selector.unregister(descriptor)
        elif descriptor == child.events:
            child.message += data
            if child.message.endswith(b"\n"):
                child.ending = json.loads(child.message)
                if child.ending["kind"] not in ("value", "preempted"):
                    self._handle_failure(child)
        else:
            self._relay(child, data, 1 if descriptor == child.stdout else 2)

    def _relay(self, child: Child, data: bytes, descriptor: int) -> None:
        lines = child.add_output(data, descriptor)
        if self.muted:
            return
        if child.rank:
            data = b"".join(b"[rank %d] %s\n" % (child.rank, line) for line in lines)
        with contextlib.suppress(BrokenPipeError):
            while data:
                data = data[os.write(descriptor, data) :]

    def _reap(self) -> None:
        for child in self.children:
            if child.status is None:
                pid, status = os.waitpid(child.pid, os.WNOHANG)
                if pid:
                    child.status = os.waitstatus_to_exitcode(status)
                    self._drain()  # reads its ending before its failure is judged
                    if child.status not in (0, EXIT_PREEMPTED):
                        self._handle_failure(child)

    def _handle_failure(self, child: Child) -> None:
        child.failed_at = min(child.failed_at, time.monotonic())
        self.muted = True
        if child.is_late:
            self._request_stacks()
        self.deadline = min(self.deadline, time.monotonic() + self._grace_s(child))

    def _grace_s(self, child: Child) -> float:
        if not child.is_bystander:
            return _GRACE_S
        if self.late_at < float("inf"):
            return self._late_grace_s()
        return _GRACE_FAR_S if self.control else _GRACE_S

    def _kill(self) -> None:
        self._signal(signal.SIGKILL)
        for child in self.children:
            if child.status is None:
                os.waitpid(child.pid, 0)

    def _drain(self) -> None:
        """Reads the remaining output of ranks that have ended."""
        while ready := self.selector.select(timeout=0):
            for key, _ in ready:
                self._read(key.data, key.fd)

    def _report(self) -> Ending:
        failed = [child for child in self.children if child.failed_at < float("inf")]
        culprit = min(failed, key=lambda child: child.blame_key) if failed else None
        if culprit and not culprit.is_bystander:
            self._own = True
            return self._describe_failure(culprit)
        if hanging := self._hanging():
            self._own = True
            return {"kind": "failed", "text": "\n".join(map(self._describe_hang, hanging))}
        if self.control and self.control.failure:
            return self.control.failure | {"text": f"{self.host} stops: {self.control.failure['text']}"}
        if self.control and self._has_lost_machine(self.control, culprit):
            self._own = bool(self.control.quiet())
            kind, words = self._loss(self.control)
            return {"kind": kind, "text": f"{self.host} stops: {words}"}
        if culprit:
            return self._describe_failure(culprit)
        if all(child.status == 0 for child in self.children):
            return self.children[0].ending or {"kind": "value", "value": None}
        endings = [child.ending for child in self.children if child.ending and child.ending["kind"] == "preempted"]
        text = f"training did not stop within {self.stop_s:.0f} s and was ended; start it again to resume"
        return endings[0] if endings else {"kind": "preempted", "text": text}

    def _has_lost_machine(self, control: Control, culprit: Child | None) -> bool:
        """Whether another machine is gone that this one still needs."""
        unfinished = any(child.status != 0 for child in self.children) or self._waits_for_chief()
        return unfinished and (control.lost or bool(culprit and control.quiet()))

    def _loss(self, control: Control) -> tuple[str, str]:
        """Returns the kind of the end and its description; on the chief, a silent store means a silent rank 0."""
        lead = self.children[0]
        if lead.rank == 0 and lead.status is None and control.lost and not control.gone:
            words = f"rank 0 has been silent for {control.lost_after_s:g} s. {lead.trace.describe(lead.pid)}"
            return "failed", words
        return "lost", control.loss

    def _hanging(self) -> list[Child]:
        """Returns the ranks that the others have timed out on; none if those are on another machine."""
        if self.late_at == float("inf"):
            return []
        silent = [child for child in self._list_running() if not child.ending and not child.trace.waits]
        behind = min((child.trace.position for child in silent), default=AFTER_ALL)
        if self.control and self.control.last_position < behind:
            return []
        return [child for child in silent if child.trace.position == behind]

    def _describe_hang(self, child: Child) -> str:
        head = f"rank {child.rank} of {self.world_size} on {self.host} hangs"
        waited = f"others have waited for it for {self.hang_after_s:g} s (hang_after_s)"
        return f"{head}: {waited}. {child.trace.describe(child.pid)}"

    def _describe_failure(self, child: Child) -> Ending:
        if child.ending and (child.ending["kind"] == "user_error" or child.ending.get("known")):
            return child.ending
        output = child.ending["text"].rstrip() if child.ending else "\n".join(child.last_output())
        head = f"rank {child.rank} of {self.world_size} on {self.host} {child.how}"
        if not child.ending:
            head += "; its last output:" if output else "; it had no output"
        return {"kind": "failed", "text": head + "\n" + output if output else head + "."}


def _summary(text: str) -> str:
    """Returns the first and last line of a failure for the other machines; only one log has the traceback."""
    lines = text.splitlines()
    return f"{lines[0].rstrip(':')}: {lines[-1].strip()}" if len(lines) > 1 else lines[0]
