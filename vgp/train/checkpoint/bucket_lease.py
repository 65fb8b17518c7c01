"""The lease of a folder in Cloud Storage: an object that its holder renews, and that others may replace once it is old.

Who may write is decided by the object's generation alone: it is made where there is none, and replaced only by
whoever has seen the one that it replaces. How old a lease is, is told by the server's clock, never by ours.
"""

import contextlib
import math
import sys
import threading
import time
from collections.abc import Callable

from vgp.base.storage.slot import Slot, Version
from vgp.train.checkpoint.holder import FILE_NAME, Fence, Holder, clock, held_by_another, holder_of


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
            self._say(words)
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
                self._say(self._waiting(other, seen, left_s))
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
            self._say(f"warning: the lease of {self.folder} could not be renewed for {self.length_s:g} s; until it is, "
                      f"no checkpoint is saved ({error})")  # fmt: skip

    def _say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


def _words(other: Holder | None) -> str:
    return other.words if other else "somebody"
