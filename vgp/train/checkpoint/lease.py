"""Two runs never write one folder of checkpoints: a folder belongs to the run that holds its lease, `lease.json`.

On a disk the lease is a lock of the kernel's (`DiskLease`), which gives it back when its process ends, however that
happens. In Cloud Storage it is an object that its holder renews, and that others may replace once it is old
(`BucketLease`): who may write is decided by the object's generation alone. It is made where there is none, and replaced
only by a run that has seen the one that it replaces. The server's clock tells how old it is, never ours. The run's
first machine holds the lease, for all of them.
"""

import contextlib
import errno
import fcntl
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from vgp.base.storage import storage
from vgp.base.storage.slot import Slot, Version
from vgp.train.checkpoint.holder import FILE_NAME, Fence, Holder, Owner, clock, held_by_another, holder_of


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
    lease: Lease
    holder = Holder.new(owner, length_s)
    if storage.is_remote(str(folder)):
        lease = BucketLease(str(folder), holder, patience_s)
    else:
        lease = DiskLease(str(folder), holder)
    lease.acquire()
    try:
        yield lease
    finally:
        lease.release()


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
            _log(f"warning: {self.folder}: no lock is to be had there ({error.strerror}); see that no other run writes "
                 "into it")  # fmt: skip
        return True

    def _require_task_of_this_run(self, other: Holder | None) -> None:
        if other is None or not self.holder.is_beside(other):
            raise held_by_another(str(self.folder), other)
        if not self._told:
            _log(f"{self.folder} is held by {other.words}, another task of this run; waiting for its end")
            self._told = True

    def release(self) -> None:
        with contextlib.suppress(OSError):
            (self.folder / FILE_NAME).unlink()  # while it is locked: nobody else can have made another
        os.close(self.descriptor)

    def on_loss(self, end: Callable[[], None]) -> None:
        """Never: the kernel takes no lock away."""


class BucketLease:
    """`lease.json` in the folder.

    Args:
        patience_s: How long a store that is down is waited for at the start. Later the lease outlasts it, or closes
            the fence; it is lost only to somebody else.
    """

    def __init__(self, folder: str, holder: Holder, patience_s: float):
        self.folder, self.holder, self.length_s = folder, holder, holder.length_s
        self.slot = Slot(f"{folder}/{FILE_NAME}", deadline_s=patience_s)
        self.generation = 0
        self.loss = ""
        self._fence = Fence.made()
        self.fence = self._fence.path
        self._ended = threading.Event()
        #: The generation that was read last, and since when every read had it and was answered at once.
        self._watched, self._watched_from = 0, 0.0
        self._told = False
        self._end: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._renew_until_the_end, name="lease", daemon=True)

    def acquire(self) -> None:
        try:
            while not self._taken():
                pass
        except BaseException:
            self._fence.close()
            raise
        self.slot = Slot(self.slot.path, deadline_s=self.length_s / 16, stall_s=self.length_s / 2)
        self._thread.start()

    def release(self) -> None:
        """Deletes the object, if the store can be reached; else it ages."""
        self._ended.set()
        self._thread.join()
        if not self.loss:
            with contextlib.suppress(OSError):
                self.slot.delete(self.generation)
        self._fence.close()

    def on_loss(self, end: Callable[[], None]) -> None:
        self._end = end
        if self.loss:
            end()

    def _taken(self) -> bool:
        """Whether the lease is ours now; the first look waits for a holder that may be gone."""
        before, words = self._wait()
        began = clock()
        generation = self.slot.put(self.holder.encode(), before)
        if generation is None:
            generation = self._own(self.slot.read())
        if generation is None:
            return False
        self.generation = generation
        self._fence.open_until(began + self.length_s)
        if words:
            _log(words)
        return True

    def _wait(self) -> tuple[int, str]:
        """The generation that may be replaced, and why. Raises UserError if a living run renews it."""
        seen = first = self._read()
        told = False
        while seen is not None:
            other = holder_of(seen.data)
            left_s = (other.length_s if other else self.length_s) - seen.age_s
            if other and self.holder.is_restart_of(other):
                return seen.generation, ""
            if left_s <= 0 and clock() - self._watched_from >= self._grace_s:
                silent = f"{_words(other)} has not renewed its lease of {self.folder} for {seen.age_s:.0f} s"
                return seen.generation, f"{silent}; it is gone, and this run goes on with the folder"
            if first and seen.generation != first.generation:
                if not other or not self.holder.is_beside(other):
                    raise held_by_another(self.folder, other)
                first = seen
            if not told and left_s > 0:
                told = True
                _log(self._waiting(other, seen, left_s))
            time.sleep(min(left_s if left_s > 0 else self._grace_s, self.length_s / 20) + 0.01)
            seen = self._read()
        return 0, ""

    @property
    def _grace_s(self) -> float:
        """For so long a lease that has run out is watched: its holder may live, and renew it after an outage."""
        return self.length_s / 8

    def _read(self) -> Version | None:
        began = clock()
        seen = self.slot.read()
        generation = seen.generation if seen else 0
        if generation != self._watched or clock() - began > self._grace_s:
            self._watched, self._watched_from = generation, clock()
        return seen

    def _waiting(self, other: Holder | None, seen: Version, left_s: float) -> str:
        held = f"{self.folder} is held by {_words(other)}"
        if other and self.holder.is_beside(other):
            return f"{held}, another task of this run, {other.since_words}; waiting for its end"
        since = f" {other.since_words}" if other else ""
        renewed = f"last renewed {seen.age_s:.0f} s ago"
        return f"{held}{since}, {renewed}; waiting up to {math.ceil(left_s)} s to see whether it is gone"

    def _own(self, seen: Version | None) -> int | None:
        """The generation, if it is ours: written by a try whose answer was lost."""
        other = holder_of(seen.data) if seen else None
        return seen.generation if seen and other and other.token == self.holder.token else None

    def _renew_until_the_end(self) -> None:
        pause_s = self.length_s / 4
        while not self._ended.wait(pause_s):
            try:
                self._renew()
                pause_s = self.length_s / 4
            except OSError as error:
                pause_s = self.length_s / 16
                self._tell_once(error)

    def _renew(self) -> None:
        began = clock()
        generation = self.slot.put(self.holder.encode(), self.generation)
        if generation is None:
            seen = self.slot.read()
            generation = self._own(seen)
            if generation is None:
                self._lose(holder_of(seen.data) if seen else None)
                return
        self.generation = generation
        self._fence.open_until(began + self.length_s)
        self._told = False

    def _lose(self, other: Holder | None) -> None:
        self._fence.close()
        taken = f"{other.words} has taken it" if other else "it was deleted or taken"
        self.loss = (
            f"the lease of {self.folder} is lost: {taken}, after this run was paused or could not reach the store for "
            f"longer than {self.length_s:g} s. Its processes were ended before they could write on; what it had saved "
            "is kept."
        )
        self._ended.set()
        self._end()

    def _tell_once(self, error: OSError) -> None:
        if not self._told and not self._fence.is_open():
            self._told = True
            _log(f"warning: the lease of {self.folder} could not be renewed for {self.length_s:g} s; until it is, "
                 f"no checkpoint is saved ({error})")  # fmt: skip


def _words(other: Holder | None) -> str:
    return other.words if other else "somebody"


def _log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
