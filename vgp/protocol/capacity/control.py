"""The control folder of a step, in which a launcher and its job exchange documents.

Each small JSON document is replaced atomically: by a rename on a disk, as an object in a bucket. Methods raise OSError,
ConnectionError if a store is down, and UserError if only the user can fix it, such as a missing permission.
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
#: Id of the custom job, which stays when a machine restarts.
JOB_VARIABLE = variables.JOB
#: Format of all documents.
FORMAT = 1


@dataclass(frozen=True)
class Control:
    """The control folder of a job."""

    #: gs://bucket/folder, or a local folder.
    folder: str
    #: Token of this job's attempt.
    attempt: str

    @property
    def heartbeat(self) -> str:
        """Returns the path of the launcher's heartbeat, which names the attempt that may run."""
        return f"{self.folder}/heartbeat.json"

    @property
    def progress(self) -> str:
        """Returns the path of the progress that the job writes."""
        return f"{self.folder}/progress.json"


def read_control(environment: Mapping[str, str]) -> Control | None:
    """Reads the control folder from the environment; None for a job without a launcher.

    Raises:
        UserError: only one of the two variables is set.
    """
    folder, attempt = environment.get(FOLDER_VARIABLE, ""), environment.get(ATTEMPT_VARIABLE, "")
    if not folder and not attempt:
        return None
    if not folder or not attempt:
        missing = ATTEMPT_VARIABLE if folder else FOLDER_VARIABLE
        raise UserError(f"{missing} is not set: set both {FOLDER_VARIABLE} and {ATTEMPT_VARIABLE}, or neither.")
    return Control(storage.uri(folder), attempt)


#: Deadline in seconds of one access to a store that does not answer.
_LOOK_S = 10.0
_MOST_BYTES = 1 << 20


class Document:
    """A document at gs://bucket/name or at a local path."""

    def __init__(self, path: str):
        self.path = path
        self.slot = None
        if storage.is_remote(path):
            self.slot = Slot(path, deadline_s=_LOOK_S, stall_s=_LOOK_S, most=_MOST_BYTES)

    def version(self) -> tuple[int, ...]:
        """Returns a version that changes with every write, without reading the document; () without a document."""
        if self.slot:
            generation = self.slot.generation()
            return (generation,) if generation else ()
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            return ()
        return status.st_mtime_ns, status.st_ino, status.st_size

    def read(self) -> dict[str, Any]:
        """Reads the values. Raises ValueError if the document does not exist or has another format."""
        data = self._bytes()
        if data is None:
            raise ValueError(f"{self.path} does not exist")
        try:
            values = json.loads(data)
        except ValueError as error:
            raise ValueError(f"{self.path} is not JSON ({error})") from None
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise ValueError(f"{self.path} is not a document of format {FORMAT}")
        return values

    def write(self, values: dict[str, Any]) -> None:
        """Replaces the document."""
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
