"""Who holds a folder of checkpoints: what its `lease.json` says, and what others are told of it.

Its fence says until when this machine's processes may write: set by the one that renews the lease, asked before every
commit. A paused machine wakes up with its processes where they were; the time that a fence was open is then over.
"""

import os
import socket
import struct
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from vgp.base.documents import json_text
from vgp.base.exits import StoreDown, UserError
from vgp.base.text.printable import printable
from vgp.protocol import file_names

FILE_NAME = file_names.LEASE


@dataclass(frozen=True)
class Owner:
    """Who asks for a lease."""

    #: The pipeline run; "" = none.
    run: str = ""
    #: The task in it, or the custom job: the same when it is started again after it was killed; "" = not known.
    task: str = ""


class Holder(BaseModel):
    """What a lease says of who holds it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    run: str = ""
    task: str = ""
    host: str = ""
    pid: int = 0
    #: By its own clock, for people.
    since: datetime
    renewed: datetime
    #: How long the lease lasts without being renewed.
    length_s: float = Field(gt=0, le=3600)
    #: Tells one start of a task from the next.
    token: str

    @classmethod
    def new(cls, owner: Owner, length_s: float) -> "Holder":
        now, token = datetime.now(UTC), os.urandom(8).hex()
        return cls(run=owner.run, task=owner.task, host=socket.gethostname(), pid=os.getpid(), since=now, renewed=now,
                   length_s=length_s, token=token)  # fmt: skip

    def encode(self) -> bytes:
        now = self.model_copy(update={"renewed": datetime.now(UTC)})
        return now.model_dump_json(indent=1).encode() + b"\n"

    @property
    def words(self) -> str:
        """Such as `run training-20261120101112 (process 7 on host-0)`."""
        process = f"process {self.pid} on {self.host or 'an unknown machine'}"
        return printable(f"run {self.run} ({process})" if self.run else process)

    @property
    def since_words(self) -> str:
        return f"since {self.since.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"

    def is_restart_of(self, other: "Holder") -> bool:
        """Whether this is the other's task, started again."""
        return bool(self.task) and (self.run, self.task) == (other.run, other.task)

    def is_beside(self, other: "Holder") -> bool:
        """Whether both are tasks of one run, such as iterations of a loop that compute the same."""
        return bool(self.run) and self.run == other.run


def holder_of(data: bytes) -> Holder | None:
    """Whom a lease names; None if it cannot be read."""
    try:
        return json_text.parse_model(Holder, data)
    except ValueError:
        return None


def held_by_another(folder: str, holder: Holder | None) -> UserError:
    """What a run is told that may not have the folder."""
    if holder is None:
        return UserError(f"{folder} is held by another process; two never write one folder. Wait until it has ended.")
    way = f"end it (vgp cancel {printable(holder.run)})" if holder.run else "end it"
    return UserError(
        f"{folder} is held by {holder.words} {holder.since_words}, and it is running: it trains the same thing, and "
        f"two runs never write one folder. Wait until it has ended, then start again; or {way}."
    )


_TIME = struct.Struct("d")
_POLL_S = 0.05


def clock() -> float:
    """Seconds on this machine, alike in all its processes; where the system tells, those of a suspended one count."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Fence:
    """A file with a time.

    Args:
        path: Of a fence that another process has made; "" = a wall without a gate: it never closes.
    """

    def __init__(self, path: str = ""):
        self.path = path

    @classmethod
    def made(cls) -> "Fence":
        descriptor, path = tempfile.mkstemp(prefix="lease-")
        os.close(descriptor)
        fence = cls(path)
        fence.open_until(-1.0)
        return fence

    def open_until(self, moment: float) -> None:
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(descriptor, _TIME.pack(moment), 0)  # eight bytes, by one call: nobody reads half of them
        finally:
            os.close(descriptor)

    def close(self) -> None:
        Path(self.path).unlink(missing_ok=True)

    def is_open(self) -> bool:
        try:
            return not self.path or clock() < _TIME.unpack(Path(self.path).read_bytes())[0]
        except (OSError, struct.error):
            return False

    def require_open(self, *, within_s: float = 10.0) -> None:
        """Waits a little for the lease to be renewed. Raises StoreDown if it is not."""
        deadline = time.monotonic() + within_s
        while not self.is_open():
            if time.monotonic() > deadline:
                raise StoreDown("the lease of the folder is not renewed; another run may hold it")
            time.sleep(_POLL_S)
