"""One small JSON document that somebody else replaces as a whole: on a disk by a rename, in a bucket as an object.

Methods raise OSError, of it ConnectionError if a store is down, and UserError where only a person can mend it, such as
the lack of a permission.
"""

import json
import os
from typing import Any

from vgp.base.storage import files, storage
from vgp.base.storage.slot import Slot
from vgp.protocol.capacity.control import FORMAT

#: For how long one look may try a store that does not answer.
_LOOK_S = 10.0
_MOST_BYTES = 1 << 20


class Document:
    """The document at gs://bucket/name or at a path."""

    def __init__(self, path: str):
        self.path = path
        self.slot = None
        if storage.is_remote(path):
            self.slot = Slot(path, deadline_s=_LOOK_S, stall_s=_LOOK_S, most=_MOST_BYTES)

    def version(self) -> tuple[int, ...]:
        """Another one after every change, without its bytes; () = there is no document."""
        if self.slot:
            generation = self.slot.generation()
            return (generation,) if generation else ()
        try:
            facts = os.stat(self.path)
        except FileNotFoundError:
            return ()
        return facts.st_mtime_ns, facts.st_ino, facts.st_size

    def read(self) -> dict[str, Any]:
        """Its values. Raises ValueError if there is none yet, or it is none of ours."""
        data = self._bytes()
        if data is None:
            raise ValueError(f"{self.path} does not exist")
        try:
            values = json.loads(data)
        except ValueError as error:
            raise ValueError(f"{self.path} is no JSON ({error})") from None
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise ValueError(f"{self.path} is no document of format {FORMAT}")
        return values

    def write(self, values: dict[str, Any]) -> None:
        """Replaces it by these values."""
        if not self.slot:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
        storage.overwrite(self.path, json.dumps({"format": FORMAT, **values}, indent=1).encode() + b"\n")

    def _bytes(self) -> bytes | None:
        if self.slot:
            version = self.slot.read()
            return version.data if version else None
        try:
            return files.read(self.path, most=_MOST_BYTES)
        except FileNotFoundError:
            return None
