"""The folder of a prediction: shards that appear whole, one after the other, and the manifest that is written last.

    request.json                  what is predicted by what: written first, and nothing of another request beside it
    predictions-00000.parquet     the rows of a shard, under the name that follows from its number
    drift.html   metrics.json     how far the rows are from those that the model learned from; how scores are spread
    manifest.json                 all of it with sizes and checksums: the commit

Files are renamed into place (`vgp.train.checkpoint.checkpoint_store`), so a kill leaves
whole files, and what is there need not be computed again. All are functions of the request: whoever writes one, and how
often, its bytes are the same.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from vgp.base.documents import json_text
from vgp.base.exits import UserError
from vgp.base.storage import files, storage
from vgp.base.storage.objects import Folder
from vgp.base.text.printable import listed
from vgp.protocol.manifest import Frozen
from vgp.train.checkpoint.checkpoint_store import Store, store_at

REQUEST, MANIFEST, PAGE, METRICS = "request.json", "manifest.json", "drift.html", "metrics.json"
#: The key of a shard's schema metadata that names its request.
KEY = b"prediction"


class Asked(Frozen):
    """What a prediction follows from, and nothing else."""

    format: Literal[1] = 1
    #: The model's name and version in the registry; "" and None for a folder.
    model: str = ""
    version: int | None = None
    #: sha256 of the model's files, by their names.
    weights: dict[str, str]
    task: str
    #: sha256 of the rows that the model takes: of the data, and of the code that made them of it.
    data: str = ""
    window: str = ""
    run: str = ""
    rows: int
    #: Rows of each shard.
    shards: tuple[int, ...]

    def text(self) -> str:
        return json.dumps(self.model_dump(), indent=1, sort_keys=True) + "\n"


class WrittenFile(Frozen):
    name: str
    rows: int = 0
    bytes: int
    crc32c: int


class Written(Frozen):
    """The manifest of a finished prediction."""

    format: Literal[1] = 1
    request: Asked
    #: Arrow types of the shards' columns, by their names.
    columns: dict[str, str]
    shards: tuple[WrittenFile, ...]
    files: tuple[WrittenFile, ...]


@dataclass(frozen=True)
class Predicted:
    """The folder that a prediction is written to, on this machine or gs://."""

    path: str

    @classmethod
    def checked(cls, path: str) -> "Predicted":
        """Raises UserError, before any work, for a folder that cannot be written, or holds files that are not ours."""
        folder = cls(storage.uri(path))
        folder._require_writable()
        if (names := folder.names()) and REQUEST not in names:
            raise UserError(
                f"{folder.path} holds other files ({listed(names[:3])}), and no predictions: choose an empty or new "
                "folder."
            )
        return folder

    @property
    def store(self) -> Store:
        return store_at(self.path)

    def names(self) -> list[str]:
        """Those of finished files; what a kill left on the way begins with a dot."""
        try:
            return [name for name in self.store.names() if not name.startswith(".")]
        except FileNotFoundError:
            raise UserError(f"there is no bucket for {self.path}: make it, or choose another folder.") from None
        except NotADirectoryError:
            raise UserError(f"{self.path} is a file; predictions go to a folder.") from None

    def begin(self, asked: Asked) -> None:
        """Takes the folder for this request. Raises UserError if it is another's."""
        text = asked.text().encode()
        if self.commit(REQUEST, text):
            return
        try:
            there = json_text.parse_model(Asked, self.store.read(REQUEST))
        except (ValueError, ValidationError) as error:
            raise UserError(f"{self.path}/{REQUEST} is not ours ({error}): choose an empty or new folder.") from None
        if there != asked:
            ours, theirs = asked.model_dump(), there.model_dump()
            names = [name for name in ours if ours[name] != theirs[name]]
            shown = {"weights": "model", "version": f"version ({there.version} there, {asked.version} now)"}
            raise UserError(
                f"{self.path} holds the predictions of another request: it differs in "
                f"{listed([shown.get(name, name) for name in names])}. Choose a new folder; in a schedule a name with "
                "{date}, such as gs://BUCKET/predictions/{date}."
            )

    def commit(self, name: str, data: bytes) -> bool:
        """Makes the file appear whole; False if it was there already."""
        try:
            return self.store.commit(name, data)
        except ConnectionError:
            raise
        except OSError as error:
            raise UserError(f"{self.path} cannot be written: {error.strerror or error}.") from None

    def holds(self, number: int, rows: int, key: str) -> bool:
        """Whether a shard is there; one that is damaged is removed."""
        name = shard_name(number)
        try:
            data = self.store.read(name)
        except FileNotFoundError:
            return False
        try:
            found = pq.ParquetFile(pa.BufferReader(data))
            if found.metadata.num_rows == rows and (found.schema_arrow.metadata or {}).get(KEY) == key.encode():
                return True
        except (pa.ArrowException, OSError):
            pass
        self.store.delete(name)
        return False

    def described(self, name: str, rows: int = 0) -> WrittenFile:
        return WrittenFile(name=name, rows=rows, bytes=self.store.size(name), crc32c=self.store.checksum(name))

    def finished(self) -> Written | None:
        """The manifest; None if there is none yet. Raises UserError if it cannot be read."""
        if MANIFEST not in self.names():
            return None
        try:
            return json_text.parse_model(Written, self.store.read(MANIFEST))
        except ValueError as error:
            raise UserError(f"{self.path}/{MANIFEST} cannot be read: {error}. Choose an empty or new folder.") from None

    def tidy(self) -> None:
        """Removes what kills left on the way."""
        for name in self.store.names():
            if name.startswith(".predictions-") or name.startswith(
                (f".{REQUEST}", f".{MANIFEST}", f".{PAGE}", f".{METRICS}")
            ):
                self.store.delete(name)

    def _require_writable(self) -> None:
        if storage.is_remote(self.path):
            try:
                return Folder(self.path).require_writable()
            except FileNotFoundError:
                raise UserError(f"there is no bucket for {self.path}: make it, or choose another folder.") from None
        try:
            Path(self.path).mkdir(parents=True, exist_ok=True)
            files.require_writable(Path(self.path))
        except OSError as error:
            raise UserError(f"{self.path} cannot be written: {error.strerror}.") from None


def shard_name(number: int) -> str:
    return f"predictions-{number:05}.parquet"


def as_json(values: object) -> bytes:
    return (json.dumps(values, indent=1, sort_keys=True) + "\n").encode()
