"""A job of Dataflow, followed to its end: its progress, its cancellation, and why it failed."""

import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from vgp.base.exits import Preempted, ProcessFailed, UserError
from vgp.base.storage.dataflow import Job, Jobs, Message
from vgp.base.text.printable import printable
from vgp.data.beam.work import failures

#: Seconds between two looks at the job, and between two lines of progress.
LOOK_EVERY_S, LINE_EVERY_S = 10.0, 60.0
#: Dataflow tells the reason up to half a minute after the end.
REASON_WITHIN_S = 60.0
#: Letters of a worker's last words that are shown.
LAST_LETTERS = 2_000
#: What the service says where a job cannot start, and what to do.
CAUSES = {
    r"quota|QUOTA_EXCEEDED": "Ask for more quota, or set max_workers or machine to what there is.",
    r"ZONE_RESOURCE_POOL_EXHAUSTED|does not have enough resources|stockout": "Take another machine or region.",
    r"ErrImagePull|ImagePullBackOff|pull.*image|Error syncing pod": (
        "The workers' account must be able to read the image (roles/artifactregistry.reader), and the image needs "
        "Beam's boot program: docs/dataflow.md."
    ),
    r"[Pp]ermission|PERMISSION_DENIED|403|does not have .* access": (
        "The workers' account needs roles/dataflow.worker, and roles/storage.objectAdmin on the bucket."
    ),
    r"subnet|network|Private Google Access": (
        "The subnetwork must be in the job's region and have Private Google Access."
    ),
}


@contextmanager
def cancelling_on_signals() -> Iterator[threading.Event]:
    """What SIGTERM and SIGINT set, inside; outside they are as they were."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def uncancelled(jobs: Jobs, name: str, stop: threading.Event) -> Job | None:
    """The job of that name that runs, if one does; one that is being cancelled, as by an earlier try, is waited for.

    The service starts no other of its name before it has ended, which takes minutes where workers must stop.

    Raises:
        Preempted: `stop` was set meanwhile.
    """
    said = False
    while job := next((job for job in jobs.named(name) if job.active), None):
        if job.state != "CANCELLING":
            return job
        if stop.is_set():
            raise Preempted(f"no Dataflow job was started: {name} was still being cancelled.")
        if not said:
            said = True
            print(f"Dataflow job {name} is still being cancelled: waiting for its end", file=sys.stderr, flush=True)
        stop.wait(LOOK_EVERY_S)
    return None


def follow(jobs: Jobs, job: Job, folder: str, shards: int, max_hours: float, stop: threading.Event) -> None:
    """Waits until the job is done.

    Raises:
        Preempted: `stop` was set; the job is cancelled, and so with all that follow.
        UserError: the input is wrong, or the job took too long.
        ProcessFailed: the job failed.
    """
    ends, said, told = job.created + timedelta(hours=max_hours), -LINE_EVERY_S, ""
    while job.active:
        if stop.is_set():
            jobs.cancel(job)
            raise Preempted(f"the Dataflow job {job.name} was cancelled, as this step was.")
        if datetime.now(UTC) > ends:
            jobs.cancel(job)
            raise UserError(
                f"the Dataflow job {job.name} was cancelled after {max_hours:g} hours, the most that max_hours under "
                "[steps.prepare.dataflow] allows: set it or max_workers higher."
            )
        if final := [failure for failure in failures(folder) if failure.final]:
            jobs.cancel(job)
            raise UserError(final[0].words)
        if time.monotonic() - said >= LINE_EVERY_S and (line := _progress(jobs, job, shards)) != told:
            said, told = time.monotonic(), line
            print(line, file=sys.stderr, flush=True)
        stop.wait(LOOK_EVERY_S)
        job = jobs.get(job.id)
    if job.state != "DONE":
        raise _explained(jobs, job, folder)


def _progress(jobs: Jobs, job: Job, shards: int) -> str:
    _, workers = jobs.messages(job)
    counted = jobs.counters(job)
    done = ", ".join(f"{title} {counted[title]:,}" for title in ("scanned", "made", "written") if title in counted)
    machines = f", {workers} worker{'s' * (workers != 1)}" if workers else ""
    return f"dataflow: {job.state.lower()}{machines}{f'; of {shards:,} shards {done}' if done else ''}"


def _explained(jobs: Jobs, job: Job, folder: str) -> Exception:
    """Why a job has ended that is not done."""
    known = failures(folder)
    if known and known[0].final:
        return UserError(known[0].words)
    if job.state == "CANCELLED":  # what else is known, Dataflow was still trying again
        tried = f" A worker had failed before, which may be why: {known[0].words}" if known else ""
        return ProcessFailed(f"the Dataflow job {job.name} was cancelled, not by this step: {jobs.link(job)}.{tried}")
    words = known[0].words if known else _last_words(_errors(jobs, job))
    fix = next((fix for pattern, fix in CAUSES.items() if not known and re.search(pattern, words)), "")
    return ProcessFailed(f"the Dataflow job {job.name} failed: {words} {fix}".rstrip() + f" Its log: {jobs.link(job)}")


def _errors(jobs: Jobs, job: Job) -> list[Message]:
    deadline = time.monotonic() + REASON_WITHIN_S
    while True:
        errors = [message for message in jobs.messages(job)[0] if message.error]
        if errors or time.monotonic() > deadline:
            return errors
        time.sleep(min(LOOK_EVERY_S, 2))


def _last_words(errors: list[Message]) -> str:
    """The end of a worker's traceback, or else the first that the service says; the last only counts attempts."""
    if not errors:
        return "the service gave no reason."
    traces = [message.text for message in errors if "Traceback" in message.text]
    text = printable(traces[-1] if traces else errors[0].text).strip()
    ends = re.findall(r"^[\w.]+(?:Error|Exception|Exit|Interrupt|Failed|Died)\b.*", text, re.MULTILINE)
    text = ends[-1] if traces and ends else text
    return text if len(text) <= LAST_LETTERS else "..." + text[-LAST_LETTERS:]
