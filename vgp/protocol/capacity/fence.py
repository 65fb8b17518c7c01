"""A job begins only if it is the one that may run: before its first step, and before it has written anything.

Whoever starts jobs may die between asking for one and hearing of it, so two may come up; the heartbeat names one. Of
two that were made of one request, the first to come up goes on.
"""

import os
import sys
import time
from dataclasses import dataclass

from vgp.base.exits import Preempted
from vgp.base.storage import storage
from vgp.base.storage.objects import Folder
from vgp.protocol.capacity.control import Control
from vgp.protocol.capacity.document import Document

#: How long a heartbeat is waited for that is not there or cannot be read: its launcher writes it before it asks for a
#: job, so only a store that is down makes a job wait.
PATIENCE_S = 120.0
_LOOK_EVERY_S = 2.0


@dataclass(frozen=True)
class Heartbeat:
    """What the launcher says, again and again."""

    #: Which attempt may run.
    attempt: str
    #: How often it says so.
    every_s: float
    #: After how long a silence the job stops.
    orphan_s: float


def read(document: Document) -> Heartbeat:
    """What the document says. Raises ValueError if that is no heartbeat, OSError if it cannot be read."""
    values = document.read()
    attempt, every_s, orphan_s = (values.get(name) for name in ("attempt", "every_s", "orphan_s"))
    numbers = [value for value in (every_s, orphan_s) if isinstance(value, int | float) and 0 < value < 1e7]
    if not isinstance(attempt, str) or len(numbers) < 2:
        raise ValueError(f"{document.path} has no attempt, every_s and orphan_s")
    return Heartbeat(attempt, *map(float, numbers))


def require_turn(control: Control, *, patience_s: float = PATIENCE_S, look_every_s: float = _LOOK_EVERY_S) -> Heartbeat:
    """The heartbeat that lets this job run.

    Raises:
        Preempted: it names another attempt, or none could be read in time; nothing was written.
        UserError: it may not be read.
    """
    document, deadline, why = Document(control.heartbeat), time.monotonic() + patience_s, ""
    while True:
        try:
            heartbeat = read(document)
            break
        except (OSError, ValueError) as error:
            if not why:
                print(
                    f"waiting for word of the launcher for up to {patience_s:g} s: {error}", file=sys.stderr, flush=True
                )
            why = str(error)
        if time.monotonic() > deadline:
            raise Preempted(f"nobody has said for {patience_s:g} s that this job may run ({why}). Nothing was written.")
        time.sleep(look_every_s)
    if heartbeat.attempt != control.attempt:
        raise Preempted(f"{others(control, heartbeat)}. Nothing was written.")
    return heartbeat


def claim(control: Control, job: str) -> None:
    """Takes the attempt for this job: Google may make two jobs of one request, and both are told the same.

    Args:
        job: A name that no other job has, and every start of this one.

    Raises:
        Preempted: another job of the attempt came first, or nobody can tell; nothing but this was written.
    """
    folder, name, content = f"{control.folder}/jobs", f"{control.attempt}.txt", job.encode()
    try:
        if storage.is_remote(folder):
            first = Folder(folder).create(name, [memoryview(content)])
        else:
            first = _created(os.path.join(folder, name), content)
    except OSError as error:
        raise Preempted(f"whether this job may run cannot be written down: {error}. Nothing was written.") from None
    if not first:
        raise Preempted(f"another job does this work: attempt {control.attempt} has two, and the other came first.")


def _created(path: str, content: bytes) -> bool:
    """Whether the file is there with this content: made now, or before."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    scratch = f"{path}.{os.getpid()}"
    with open(scratch, "wb") as file:
        file.write(content)
    try:
        os.link(scratch, path)
        return True
    except FileExistsError:
        with open(path, "rb") as file:
            return file.read() == content
    finally:
        os.unlink(scratch)


def others(control: Control, heartbeat: Heartbeat) -> str:
    """Who may run in this job's place, in words."""
    if not heartbeat.attempt:
        return f"this job, attempt {control.attempt}, is not to run any more: {control.heartbeat} names none"
    return (
        f"another job does this work: {control.heartbeat} names attempt {heartbeat.attempt}, and this is "
        f"{control.attempt}"
    )
