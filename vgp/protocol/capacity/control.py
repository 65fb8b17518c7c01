"""The control folder of a step: where a launcher and the job that it has started leave each other word.

One small JSON document that somebody else replaces as a whole: on a disk by a rename, in a bucket as an object.

Methods raise OSError, of it ConnectionError if a store is down, and UserError where only a person can mend it, such as
the lack of a permission.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vgp.base.exits import UserError
from vgp.base.storage import files, storage
from vgp.base.storage.slot import Slot
from vgp.protocol import environment as variables

#: The URI of the folder, and the name of this attempt in it; set on every container of the job by its launcher.
FOLDER_VARIABLE, ATTEMPT_VARIABLE = variables.CONTROL_FOLDER, variables.ATTEMPT
#: What Vertex AI names a custom job by, the same whenever a machine of it is started again.
JOB_VARIABLE = variables.JOB
#: Of all documents in it.
FORMAT = 1


@dataclass(frozen=True)
class Control:
    """The folder, as a job knows it."""

    #: gs://bucket/folder, or a folder of this machine.
    folder: str
    #: Which of the launcher's attempts this job is.
    attempt: str

    @property
    def heartbeat(self) -> str:
        """Written by the launcher, again and again: which attempt may run."""
        return f"{self.folder}/heartbeat.json"

    @property
    def progress(self) -> str:
        """Written by the job: how far it is."""
        return f"{self.folder}/progress.json"


def told(environment: Mapping[str, str]) -> Control | None:
    """What the environment says; None for a job that nobody follows.

    Raises:
        UserError: one of the two variables is set, and the other is not.
    """
    folder, attempt = environment.get(FOLDER_VARIABLE, ""), environment.get(ATTEMPT_VARIABLE, "")
    if not folder and not attempt:
        return None
    if not folder or not attempt:
        missing = ATTEMPT_VARIABLE if folder else FOLDER_VARIABLE
        raise UserError(f"{missing} is not set: {FOLDER_VARIABLE} and {ATTEMPT_VARIABLE} are set together, or neither.")
    return Control(storage.uri(folder), attempt)


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
