"""Until when this machine's processes may write: told by the one that renews the lease, asked before every commit.

A paused machine wakes up with its processes where they were; the time that a fence was open is then over.
"""

import os
import struct
import tempfile
import time
from pathlib import Path

from vgp.base.exits import StoreDown

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
