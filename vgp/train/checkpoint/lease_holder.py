"""The document `lease.json`, which names the holder of a checkpoint folder, and the fence of its processes.

The fence holds the time until which this machine's processes may write. The process that renews the lease extends it,
and the ranks check it before every commit. After a machine was paused its processes go on, but the fence is closed.
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
    """The run and task that ask for a lease."""

    #: The pipeline run; "" = none.
    run: str = ""
    #: The task of the run, or the custom job: the same for its retries; "" = unknown.
    task: str = ""


class Holder(BaseModel):
    """The holder of a lease: the fields of `lease.json`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    run: str = ""
    task: str = ""
    host: str = ""
    pid: int = 0
    #: Time by the holder's clock, for display only.
    since: datetime
    renewed: datetime
    #: How long the lease lasts without renewal.
    length_s: float = Field(gt=0, le=3600)
    #: Random for every start of a task.
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
        """The holder in words, for example `run training-20261120101112 (process 7 on host-0)`."""
        process = f"process {self.pid} on {self.host or 'an unknown machine'}"
        return printable(f"run {self.run} ({process})" if self.run else process)

    @property
    def since_words(self) -> str:
        return f"since {self.since.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"

    def is_restart_of(self, other: "Holder") -> bool:
        """Whether both are attempts of one task."""
        return bool(self.task) and (self.run, self.task) == (other.run, other.task)

    def is_beside(self, other: "Holder") -> bool:
        """Whether both belong to one run, such as iterations of a loop with equal inputs."""
        return bool(self.run) and self.run == other.run


def parse_holder(data: bytes) -> Holder | None:
    """Parses `lease.json`; returns None if it is malformed."""
    try:
        return json_text.parse_model(Holder, data)
    except ValueError:
        return None


def lease_error(folder: str, holder: Holder | None) -> UserError:
    """Returns the error for a folder that another live run holds."""
    if holder is None:
        return UserError(f"{folder} is held by another process; a folder has one writer. Wait until it has ended.")
    remedy = f"end it (vgp cancel {printable(holder.run)})" if holder.run else "end it"
    return UserError(
        f"{folder} is held by {holder.words} {holder.since_words}, which is running and trains the same model; a "
        f"folder has one writer. Wait until it has ended, then start again; or {remedy}."
    )


_TIME = struct.Struct("d")
_POLL_S = 0.05


def clock() -> float:
    """Returns this machine's monotonic time in seconds, shared by its processes; includes suspension on Linux."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Fence:
    """A file with the time until which processes may write.

    Args:
        path: The file of a fence that another process created; "" = a fence that is always open.
    """

    def __init__(self, path: str = ""):
        self.path = path

    @classmethod
    def create(cls) -> "Fence":
        descriptor, path = tempfile.mkstemp(prefix="lease-")
        os.close(descriptor)
        fence = cls(path)
        fence.open_until(-1.0)
        return fence

    def open_until(self, moment: float) -> None:
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(descriptor, _TIME.pack(moment), 0)  # one call, so that a reader sees all eight bytes or none
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
        """Waits up to `within_s` for a renewal of the lease. Raises StoreDown if there is none."""
        deadline = time.monotonic() + within_s
        while not self.is_open():
            if time.monotonic() > deadline:
                raise StoreDown("the lease of the folder was not renewed in time, and another run may hold it")
            time.sleep(_POLL_S)
