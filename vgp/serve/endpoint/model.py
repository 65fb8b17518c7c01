"""The model that answers: one batch after another, with the version that it is."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import UserError
from vgp.base.storage import download, files, storage
from vgp.data import bundle, task_names, tasks
from vgp.data.rows import dtype
from vgp.protocol.manifest import Column
from vgp.serve.endpoint.serving_request import Question, ServingRequest
from vgp.serve.prediction.predictor import Predictor


@dataclass(frozen=True)
class Served:
    """A model that has answered once."""

    predictor: Predictor
    #: What each prediction says that it is by: the version's number, or the beginning of the weights' checksum.
    version: str

    def answer(self, question: Question) -> list[JsonObject]:
        """A prediction for each row, in their order.

        Raises:
            UserError: a row is not as the model needs it, with the field.
        """
        predictions = self.predictor.raw(question.rows, question.history)
        return [{**prediction, "version": self.version} for prediction in predictions]


def load(asked: ServingRequest) -> Served:
    """The model, once it has answered: what cannot answer ends here, and not in the first request.

    Raises:
        UserError: it is not there, damaged, another one than is expected, or of a task that nobody vouched for.
        ProcessFailed: the bucket could not be reached.
    """
    if asked.task:
        tasks.find(asked.task)
    with local_files(asked.model, asked.sha256) as folder:
        if asked.task:
            task_names.trusted(bundle.load_card(folder).task, f"{asked.model}/{bundle.CARD}", asked.task)
        predictor = Predictor.load(folder)
        version = asked.version or files_digest(Path(folder) / bundle.WEIGHTS)[:12]
    _warm(predictor)
    return Served(predictor, version)


def _warm(predictor: Predictor) -> None:
    """One row of zeros through the network; and the engine of raw rows is imported, which takes a second."""
    taken = [column for column, _ in predictor.model.columns.values()]
    predictor.model({column.name: _zeros(column) for column in taken})
    with suppress(UserError):  # no row that a task could take
        predictor.raw([{"": None}])


def _zeros(column: Column) -> np.ndarray:
    shape: Sequence[int] = (1, column.width) if column.kind == "vector" else (1,)
    return np.zeros(shape, dtype(column))


# ---- the files of a model on this machine: those of a folder as they are, those of a bucket as checked copies


#: What a model of ours needs to answer.
MODEL_FILES = (bundle.CARD, bundle.WEIGHTS)


@contextmanager
def local_files(model: str, sha256: Mapping[str, str]) -> Iterator[Path]:
    """The folder of the model here; a copy is gone afterwards.

    Each object of a bucket is checked by the server's CRC-32C, and every file by the checksum that is expected of it.

    Raises:
        UserError: a file is not there, is larger than it may be, or is another one than is expected.
        ProcessFailed: the bucket could not be reached.
    """
    if not storage.is_remote(model):
        _check(Path(model), sha256)
        yield Path(model)
        return
    with TemporaryDirectory(prefix="serve-") as folder:
        for name in MODEL_FILES:
            most = files.MOST_JSON_BYTES if name == bundle.CARD else None
            download.copy(f"{model}/{name}", Path(folder) / name, most=most)
        _check(Path(folder), sha256, model)
        yield Path(folder)


def files_digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal. Raises UserError if there is none."""
    try:
        with files.open_file(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise UserError(f"{path} does not exist: the folder holds no finished model.") from None


def _check(folder: Path, sha256: Mapping[str, str], known_as: str = "") -> None:
    for name, expected in sha256.items():
        if (found := files_digest(folder / name)) != expected:
            raise UserError(
                f"{known_as or folder}/{name} is not the file that was registered; its SHA-256 begins with "
                f"{found[:12]}, not with {expected[:12]}. Restore the file, or take another version."
            )
