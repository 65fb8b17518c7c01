"""A registry of one model's versions: its record is read, and changed by whoever has seen what it replaces."""

from collections.abc import Callable
from dataclasses import dataclass

from training.registry.documents import FILE_NAME, Record, Version


@dataclass(frozen=True)
class Registry:
    """The registry of one model below a root, on this machine or gs://."""

    root: str
    model: str

    @property
    def folder(self) -> str:
        """Of the record and of the versions."""
        return f"{self.root}/{self.model}"

    @property
    def record_path(self) -> str:
        return f"{self.folder}/{FILE_NAME}"

    def read(self) -> Record:
        """The record as it is now; an empty one if there is none yet.

        Raises:
            UserError: it is damaged, of a newer format, of another model, too large, or may not be read.
            ProcessFailed: the store could not be reached.
        """
        raise NotImplementedError

    def change(self, function: Callable[[Record], Record]) -> Record:
        """Puts what the function makes of the record in its place, and returns it.

        The function is called again, with the newer record, where somebody else was faster: it has no effects, and does
        nothing for a key that is in the record already. Where it returns what it was given, nothing is written.

        Raises: as `read`, UserError if it may not be written, and whatever the function raises.
        """
        raise NotImplementedError

    def champion(self) -> Version | None:
        """The version that reigns now. Raises as `read`."""
        return self.read().champion()

    def version_folder(self, key: str) -> str:
        """Where the files of the version with that key lie."""
        return f"{self.folder}/versions/{key}"

    def require_writable(self) -> None:
        """Raises UserError if the record cannot be written here."""
        raise NotImplementedError


def open(root: str, model: str) -> Registry:
    """The registry of a model.

    Raises:
        UserError: the name of the model or the root cannot be.
    """
    return Registry(root, model)
