"""The lease of a folder on a disk: a lock that the kernel gives back when its process ends, however that happens."""

import contextlib
import errno
import fcntl
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from vgp.train.checkpoint.holder import FILE_NAME, Holder, held_by_another, holder_of

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
