"""The folder of a prediction: its request, shards, drift page, metrics, and the manifest, which is written last.

    request.json                  the data, model and options; written first; a folder holds one request
    predictions-00000.parquet     the predictions of a shard; the name holds its number
    drift.html   metrics.json     the drift since training; the distribution of predictions
    manifest.json                 all files with sizes and checksums; commits the prediction

Each file appears atomically (`vgp.train.checkpoint.checkpoint_store`), so a kill leaves only whole files, which a
retry skips.
All files are deterministic functions of the request.
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
from vgp.base.text.printable import join_names
from vgp.protocol.manifest import Frozen
from vgp.train.checkpoint.checkpoint_store import Store, store_at

REQUEST, MANIFEST, PAGE, METRICS = "request.json", "manifest.json", "drift.html", "metrics.json"
#: The key of a shard's schema metadata that names its request.
KEY = b"prediction"


class PredictionRequest(Frozen):
    """The request of a prediction: everything that determines its result."""

    format: Literal[1] = 1
    #: The model's name and version in the registry; "" and None for a folder.
    model: str = ""
    version: int | None = None
    #: sha256 of the model's files, by their names.
    weights: dict[str, str]
    task: str
    #: sha256 of the prepared rows, which depends on the data and on the code that prepared them.
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


class PredictionManifest(Frozen):
    """The manifest of a finished prediction."""

    format: Literal[1] = 1
    request: PredictionRequest
    #: Arrow types of the shards' columns, by their names.
    columns: dict[str, str]
    shards: tuple[WrittenFile, ...]
    files: tuple[WrittenFile, ...]


@dataclass(frozen=True)
class PredictionFolder:
    """The destination folder of a prediction, local or gs://."""

    path: str

    @classmethod
    def checked(cls, path: str) -> "PredictionFolder":
        """Returns the folder of this path. Raises UserError if it is not writable or holds other files."""
        folder = cls(storage.uri(path))
        folder._require_writable()
        if (names := folder.names()) and REQUEST not in names:
            raise UserError(
                f"{folder.path} holds other files than predictions ({join_names(names[:3])}). Choose an empty or new "
                "folder."
            )
        return folder

    @property
    def store(self) -> Store:
        return store_at(self.path)

    def names(self) -> list[str]:
        """Returns the names of finished files; names of unfinished ones begin with a dot."""
        try:
            return [name for name in self.store.names() if not name.startswith(".")]
        except FileNotFoundError:
            raise UserError(f"there is no bucket for {self.path}. Create it, or choose another folder.") from None
        except NotADirectoryError:
            raise UserError(f"{self.path} is a file. Choose a folder for the predictions.") from None

    def begin(self, request: PredictionRequest) -> None:
        """Writes the request to the folder. Raises UserError if the folder holds another request."""
        text = request.text().encode()
        if self.commit(REQUEST, text):
            return
        try:
            present = json_text.parse_model(PredictionRequest, self.store.read(REQUEST))
        except (ValueError, ValidationError) as error:
            raise UserError(
                f"{self.path}/{REQUEST} is not the request of a prediction ({error}). Choose an empty or new folder."
            ) from None
        if present != request:
            new, old = request.model_dump(), present.model_dump()
            names = [name for name in new if new[name] != old[name]]
            labels = {"weights": "model", "version": f"version ({present.version} there, {request.version} now)"}
            raise UserError(
                f"{self.path} holds the predictions of another request, which differs in "
                f"{join_names([labels.get(name, name) for name in names])}. Choose a new folder; in a "
                "schedule, use a name "
                "with {date}, such as gs://BUCKET/predictions/{date}."
            )

    def commit(self, name: str, data: bytes) -> bool:
        """Writes a file atomically; returns False if it already exists."""
        try:
            return self.store.commit(name, data)
        except ConnectionError:
            raise
        except OSError as error:
            raise UserError(f"{self.path} is not writable: {error.strerror or error}.") from None

    def holds(self, number: int, rows: int, key: str) -> bool:
        """Whether a valid shard exists; removes a damaged one."""
        name = shard_name(number)
        try:
            data = self.store.read(name)
        except FileNotFoundError:
            return False
        try:
            shard = pq.ParquetFile(pa.BufferReader(data))
            if shard.metadata.num_rows == rows and (shard.schema_arrow.metadata or {}).get(KEY) == key.encode():
                return True
        except (pa.ArrowException, OSError):
            pass
        self.store.delete(name)
        return False

    def describe(self, name: str, rows: int = 0) -> WrittenFile:
        return WrittenFile(name=name, rows=rows, bytes=self.store.size(name), crc32c=self.store.checksum(name))

    def read_manifest(self) -> PredictionManifest | None:
        """Returns the manifest, or None if there is none yet. Raises UserError if it cannot be read."""
        if MANIFEST not in self.names():
            return None
        try:
            return json_text.parse_model(PredictionManifest, self.store.read(MANIFEST))
        except ValueError as error:
            raise UserError(f"{self.path}/{MANIFEST} cannot be read: {error}. Choose an empty or new folder.") from None

    def tidy(self) -> None:
        """Removes unfinished files of killed processes."""
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
                raise UserError(f"there is no bucket for {self.path}. Create it, or choose another folder.") from None
        try:
            Path(self.path).mkdir(parents=True, exist_ok=True)
            files.require_writable(Path(self.path))
        except OSError as error:
            raise UserError(f"{self.path} is not writable: {error.strerror}.") from None


def shard_name(number: int) -> str:
    return f"predictions-{number:05}.parquet"


def as_json(values: object) -> bytes:
    return (json.dumps(values, indent=1, sort_keys=True) + "\n").encode()
