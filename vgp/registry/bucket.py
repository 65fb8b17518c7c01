"""A record in Cloud Storage: one object, put in place only of the generation that was read."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from vgp.base.exits import ProcessFailed, UserError
from vgp.base.storage.client import READ_DEADLINE_S
from vgp.base.storage.objects import Folder
from vgp.base.storage.slot import Slot
from vgp.registry.reading import MOST_BYTES

#: For so long a change is tried again: Cloud Storage takes about one write a second to one object, so a hundred runs
#: that end at once are through in two minutes. https://cloud.google.com/storage/quotas#objects
DEADLINE_S = 900.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 4.0


class BucketRecord:
    """The object at gs://bucket/.../registry.json."""

    def __init__(self, path: str):
        self.path = path
        self.slot = Slot(path, deadline_s=READ_DEADLINE_S, most=MOST_BYTES)

    def read(self) -> bytes | None:
        """None if there is no object, in a bucket that there is."""
        with _in_words(self.path):
            if there := self.slot.read():
                return there.data
            Folder(self.path.rpartition("/")[0]).names()  # tells a bucket that is not there
        return None

    def update(self, function: Callable[[bytes | None], bytes | None]) -> None:
        """Puts what the function makes of the object's bytes in their place; None = leaves them.

        It is called again for as long as others are faster. A write whose answer was lost looks like another's: the
        function finds in the bytes that it is done.
        """
        end, pause_s = time.monotonic() + DEADLINE_S, _FIRST_PAUSE_S
        with _in_words(self.path):
            while True:
                there = self.slot.read()
                data = function(there.data if there else None)
                if data is None or self.slot.put(data, there.generation if there else 0) is not None:
                    return
                if time.monotonic() > end:
                    raise ProcessFailed(f"{self.path} was changed by others all the time, for {DEADLINE_S:.0f} s.")
                time.sleep(random.uniform(0, pause_s))
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def require_writable(self) -> None:
        """Raises UserError if objects cannot be made and deleted beside it."""
        with _in_words(self.path):
            Folder(self.path.rpartition("/")[0]).require_writable()


@contextmanager
def _in_words(path: str) -> Iterator[None]:
    try:
        yield
    except ConnectionError as error:
        raise type(error)(f"the registry: {error}") from None
    except FileNotFoundError:
        raise UserError(f"there is no bucket for the registry {path}: make it, or name another one.") from None
