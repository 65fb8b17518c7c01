"""Two runs never write one folder of checkpoints: a folder belongs to the run that holds its lease, `lease.json`.

On a disk the lease is a lock of the kernel's (`disk_lease.py`), in Cloud Storage an object that is renewed
(`bucket_lease.py`). The run's first machine holds it, for all of them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from vgp.base.storage import storage
from vgp.train.checkpoint.bucket_lease import BucketLease
from vgp.train.checkpoint.disk_lease import DiskLease
from vgp.train.checkpoint.holder import Holder, Owner


class Lease(Protocol):
    """A folder's lease, once it is held."""

    #: Why it is lost, in words; "" while it is held.
    loss: str
    #: The file through which ranks know whether they may write (`fence.py`); "" = they always may.
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
