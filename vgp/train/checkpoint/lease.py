"""The lease of a checkpoint folder, `lease.json`, so that only one run writes the folder.

On a disk the lease is a kernel lock (`DiskLease`), which the kernel releases when the process ends in any way. In Cloud
Storage it is an object that its holder renews and that others may replace once it has expired (`BucketLease`). A write
must name the generation that it replaces, so two runs cannot both succeed. Its age comes from the server's clock. The
run's first machine holds the lease for all its machines.
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
from vgp.train.checkpoint.lease_holder import FILE_NAME, Fence, Holder, Owner, clock, lease_error, parse_holder


class Lease(Protocol):
    """The lease of a folder."""

    #: Why the lease is lost; "" while it is held.
    loss: str
    #: The file of the `holder.Fence` that ranks check before they write; "" = they may always write.
    fence: str

    def acquire(self) -> None:
        """Takes the lease. Raises UserError if another run holds it, ConnectionError if the store is down."""

    def release(self) -> None: ...

    def on_loss(self, end: Callable[[], None]) -> None:
        """Registers `end` to be called when the lease is lost; calls it at once if the lease is already lost."""


@contextmanager
def hold_lease(folder: str | Path, owner: Owner, *, length_s: float, patience_s: float) -> Iterator[Lease]:
    """Holds the folder's lease during the block; first waits for the expiry of a lease whose holder may be gone.

    Args:
        folder: gs://bucket/folder, or a local folder.
        length_s: How long the lease lasts if this process dies or pauses.
        patience_s: How long to wait for an unreachable store at the start.

    Raises:
        UserError: another live run holds it.
        ConnectionError: the store was unreachable for `patience_s`.
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
#: Errors of file systems without locks.
_UNKNOWN = (errno.ENOTSUP, errno.ENOSYS, errno.ENOLCK, errno.EINVAL)


class DiskLease:
    """A lock on `lease.json` in a local folder; without the lock, a file left by a killed process has no effect."""

    loss = ""
    fence = ""

    def __init__(self, folder: str, holder: Holder):
        self.folder, self.holder = Path(folder), holder
        self.descriptor = -1
        self._is_logged = False

    def acquire(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        while not self._try_acquire():
            time.sleep(_POLL_S)

    def _try_acquire(self) -> bool:
        """Returns whether this process has the lease now; False while another task of the run holds it."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self.descriptor = os.open(self.folder / FILE_NAME, flags, 0o666)
        is_ours = False
        try:
            is_ours = self._try_lock() and self._is_current()
            if is_ours:
                os.ftruncate(self.descriptor, 0)
                os.pwrite(self.descriptor, self.holder.encode(), 0)
        finally:
            if not is_ours:
                os.close(self.descriptor)
        return is_ours

    def _is_current(self) -> bool:
        """Whether the locked file is still the one in the folder: a holder deletes its file at the end."""
        try:
            return os.path.samestat(os.fstat(self.descriptor), os.stat(self.folder / FILE_NAME))
        except FileNotFoundError:
            return False

    def _try_lock(self) -> bool:
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._require_task_of_this_run(parse_holder(os.pread(self.descriptor, _MOST_BYTES, 0)))
            return False
        except OSError as error:
            if error.errno not in _UNKNOWN:
                raise
            _log(f"warning: {self.folder}: its file system has no locks ({error.strerror}); make sure that no other "
                 "run writes into it")  # fmt: skip
        return True

    def _require_task_of_this_run(self, other: Holder | None) -> None:
        if other is None or not self.holder.is_beside(other):
            raise lease_error(str(self.folder), other)
        if not self._is_logged:
            _log(f"{self.folder} is held by {other.words}, another task of this run; waiting for its end")
            self._is_logged = True

    def release(self) -> None:
        with contextlib.suppress(OSError):
            (self.folder / FILE_NAME).unlink()  # while locked, so that it cannot be another process's file
        os.close(self.descriptor)

    def on_loss(self, end: Callable[[], None]) -> None:
        """Does nothing: the kernel never takes a lock away."""


class BucketLease:
    """An object `lease.json` in a folder of Cloud Storage, renewed by a thread.

    Args:
        patience_s: How long to wait for an unreachable store at the start. During a later outage the fence closes when
            the lease expires, and opens at its next renewal; the lease is lost only if another run takes it.
    """

    def __init__(self, folder: str, holder: Holder, patience_s: float):
        self.folder, self.holder, self.length_s = folder, holder, holder.length_s
        self.slot = Slot(f"{folder}/{FILE_NAME}", deadline_s=patience_s)
        self.generation = 0
        self.loss = ""
        self._fence = Fence.create()
        self.fence = self._fence.path
        self._ended = threading.Event()
        #: The generation of the last read, and since when every read has returned it promptly.
        self._watched, self._watched_from = 0, 0.0
        self._is_logged = False
        self._end: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._renew_until_the_end, name="lease", daemon=True)

    def acquire(self) -> None:
        try:
            while not self._try_acquire():
                pass
        except BaseException:
            self._fence.close()
            raise
        self.slot = Slot(self.slot.path, deadline_s=self.length_s / 16, stall_s=self.length_s / 2)
        self._thread.start()

    def release(self) -> None:
        """Deletes the object; if the store is unreachable, the lease expires."""
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

    def _try_acquire(self) -> bool:
        """Waits until the lease is free or expired, then returns whether this process won it."""
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
        """Waits until the lease may be replaced; returns its generation (0 = none) and a message.

        Raises:
            UserError: another live run renews the lease.
        """
        seen = first = self._read()
        is_logged = False
        while seen is not None:
            other = parse_holder(seen.data)
            left_s = (other.length_s if other else self.length_s) - seen.age_s
            if other and self.holder.is_restart_of(other):
                return seen.generation, ""
            if left_s <= 0 and clock() - self._watched_from >= self._grace_s:
                silence = f"{_describe_holder(other)} has not renewed its lease of {self.folder} for {seen.age_s:.0f} s"
                return seen.generation, f"{silence}; this run takes the folder over"
            if first and seen.generation != first.generation:
                if not other or not self.holder.is_beside(other):
                    raise lease_error(self.folder, other)
                first = seen
            if not is_logged and left_s > 0:
                is_logged = True
                _log(self._wait_message(other, seen, left_s))
            time.sleep(min(left_s if left_s > 0 else self._grace_s, self.length_s / 20) + 0.01)
            seen = self._read()
        return 0, ""

    @property
    def _grace_s(self) -> float:
        """Seconds to watch an expired lease, since its holder may be alive and renew it after an outage."""
        return self.length_s / 8

    def _read(self) -> Version | None:
        began = clock()
        seen = self.slot.read()
        generation = seen.generation if seen else 0
        if generation != self._watched or clock() - began > self._grace_s:
            self._watched, self._watched_from = generation, clock()
        return seen

    def _wait_message(self, other: Holder | None, seen: Version, left_s: float) -> str:
        held = f"{self.folder} is held by {_describe_holder(other)}"
        if other and self.holder.is_beside(other):
            return f"{held}, another task of this run, {other.since_words}; waiting for its end"
        since = f" {other.since_words}" if other else ""
        renewed = f"last renewed {seen.age_s:.0f} s ago"
        return f"{held}{since}, {renewed}; waiting up to {math.ceil(left_s)} s to see whether it is gone"

    def _own(self, seen: Version | None) -> int | None:
        """Returns the generation if this process wrote it, in an attempt whose answer was lost; else None."""
        other = parse_holder(seen.data) if seen else None
        return seen.generation if seen and other and other.token == self.holder.token else None

    def _renew_until_the_end(self) -> None:
        pause_s = self.length_s / 4
        while not self._ended.wait(pause_s):
            try:
                self._renew()
                pause_s = self.length_s / 4
            except OSError as error:
                pause_s = self.length_s / 16
                self._warn_once(error)

    def _renew(self) -> None:
        began = clock()
        generation = self.slot.put(self.holder.encode(), self.generation)
        if generation is None:
            seen = self.slot.read()
            generation = self._own(seen)
            if generation is None:
                self._lose(parse_holder(seen.data) if seen else None)
                return
        self.generation = generation
        self._fence.open_until(began + self.length_s)
        self._is_logged = False

    def _lose(self, other: Holder | None) -> None:
        self._fence.close()
        reason = f"{other.words} has taken it" if other else "it was deleted or taken"
        self.loss = (
            f"the lease of {self.folder} is lost: {reason}, after this run was paused or could not reach the store for "
            f"longer than {self.length_s:g} s. Its processes were ended before their next write; its saved checkpoints "
            "are kept."
        )
        self._ended.set()
        self._end()

    def _warn_once(self, error: OSError) -> None:
        if not self._is_logged and not self._fence.is_open():
            self._is_logged = True
            _log(f"warning: the lease of {self.folder} could not be renewed for {self.length_s:g} s; until it is, "
                 f"no checkpoint is saved ({error})")  # fmt: skip


def _describe_holder(other: Holder | None) -> str:
    return other.words if other else "an unknown process"


def _log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
