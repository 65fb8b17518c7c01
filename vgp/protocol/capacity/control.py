"""The control folder of a step: where a launcher and the job that it has started leave each other word."""

from collections.abc import Mapping
from dataclasses import dataclass

from vgp.base.exits import UserError
from vgp.base.storage import storage

#: The URI of the folder, and the name of this attempt in it; set on every container of the job by its launcher.
FOLDER_VARIABLE, ATTEMPT_VARIABLE = "TRAINING_CAPACITY", "TRAINING_ATTEMPT"
#: What Vertex AI names a custom job by, the same whenever a machine of it is started again.
JOB_VARIABLE = "CLOUD_ML_JOB_ID"
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
