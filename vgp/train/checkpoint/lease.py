"""Two runs never write one folder of checkpoints: a folder belongs to the run that holds its lease, `lease.json`.

On a disk the lease is a lock of the kernel's (`DiskLease`), in Cloud Storage an object that is renewed
(`bucket_lease.py`). The run's first machine holds it, for all of them.
"""

import contextlib
import errno
import fcntl
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from vgp.base.storage import storage
from vgp.train.checkpoint.bucket_lease import BucketLease
from vgp.train.checkpoint.holder import FILE_NAME, Holder, Owner, held_by_another, holder_of


class Lease(Protocol):
    """A folder's lease, once it is held."""

    #: Why it is lost, in words; "" while it is held.
    loss: str
    #: The file through which ranks know whether they may write (`holder.Fence`); "" = they always may.
    fence: str

    def acquire(self) -> None:
        """Raises UserError if another run has the folder, ConnectionError if the store is down."""

    def release(self) -> None: ...

    def on_loss(self, end: Callable[[], None]) -> None:
        """Has this called once the lease is lost; at once if it is already."""


@contextmanager
def held(folder: str | Path, owner: Owner, *, length_s: float, patience_s: float) -> Iterator[Lease]:
    """Holds the folder's lease for as long as the block runs; waits for one whose holder may be gone.

    Args:
        folder: gs://bucket/folder, or a local folder.
        length_s: How long the lease lasts when this process is gone or paused.
        patience_s: How long a store that is down is waited for at the start.

    Raises:
        UserError: a living run holds it.
        ConnectionError: the store could not be reached.
    """
    lease = _lease(str(folder), Holder.new(owner, length_s), patience_s)
    lease.acquire()
    try:
        yield lease
    finally:
        lease.release()


def _lease(folder: str, holder: Holder, patience_s: float) -> Lease:
    return BucketLease(folder, holder, patience_s) if storage.is_remote(folder) else DiskLease(folder, holder)


# ---- the lease of a folder on a disk: a lock that the kernel gives back when its process ends, however that happens


_MOST_BYTES = 1 << 16
_POLL_S = 0.5
#: What a file system says that knows no locks.
_UNKNOWN = (errno.ENOTSUP, errno.ENOSYS, errno.ENOLCK, errno.EINVAL)


class DiskLease:
    """`lease.json` in the folder, locked; what a kill leaves of it means nothing."""

    loss = ""
    fence = ""

    def __init__(self, folder: str, holder: Holder):
        self.folder, self.holder = Path(folder), holder
        self.descriptor = -1
        self._told = False

    def acquire(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        while not self._taken():
            time.sleep(_POLL_S)

    def _taken(self) -> bool:
        """Whether the lease is ours now; not so while another task of the run has it."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self.descriptor = os.open(self.folder / FILE_NAME, flags, 0o666)
        taken = False
        try:
            taken = self._is_locked() and self._is_there()
            if taken:
                os.ftruncate(self.descriptor, 0)
                os.pwrite(self.descriptor, self.holder.encode(), 0)
        finally:
            if not taken:
                os.close(self.descriptor)
        return taken

    def _is_there(self) -> bool:
        """Whether the file that is locked is still the folder's: its last holder deletes it."""
        try:
            return os.path.samestat(os.fstat(self.descriptor), os.stat(self.folder / FILE_NAME))
        except FileNotFoundError:
            return False

    def _is_locked(self) -> bool:
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._require_task_of_this_run(holder_of(os.pread(self.descriptor, _MOST_BYTES, 0)))
            return False
        except OSError as error:
            if error.errno not in _UNKNOWN:
                raise
            print(f"warning: {self.folder}: no lock is to be had there ({error.strerror}); see that no other run "
                  "writes into it", file=sys.stderr, flush=True)  # fmt: skip
        return True

    def _require_task_of_this_run(self, other: Holder | None) -> None:
        if other is None or not self.holder.is_beside(other):
            raise held_by_another(str(self.folder), other)
        if not self._told:
            words = f"{self.folder} is held by {other.words}, another task of this run; waiting for its end"
            print(words, file=sys.stderr, flush=True)
            self._told = True

    def release(self) -> None:
        with contextlib.suppress(OSError):
            (self.folder / FILE_NAME).unlink()  # while it is locked: nobody else can have made another
        os.close(self.descriptor)

    def on_loss(self, end: Callable[[], None]) -> None:
        """Never: the kernel takes no lock away."""
