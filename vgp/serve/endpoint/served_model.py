"""The served model: loads and checks its files, and answers requests with predictions and its version."""

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
    """A loaded model that has made its first prediction."""

    predictor: Predictor
    #: The `version` in each prediction: the registered number, or the beginning of the weights' checksum.
    version: str

    def answer(self, question: Question) -> list[JsonObject]:
        """Returns a prediction for each row, in order.

        Raises:
            UserError: A row does not fit the model; names the field.
        """
        predictions = self.predictor.raw(question.rows, question.history)
        return [{**prediction, "version": self.version} for prediction in predictions]


def load(settings: ServingRequest) -> Served:
    """Loads the model and makes a first prediction, so that a broken model fails here and not in a request.

    Raises:
        UserError: The model is missing, damaged, has an unexpected checksum, or a task that is not trusted.
        ProcessFailed: The bucket did not answer.
    """
    if settings.task:
        tasks.find(settings.task)
    with local_files(settings.model, settings.sha256) as folder:
        if settings.task:
            task_names.require_trusted(bundle.load_card(folder).task, f"{settings.model}/{bundle.CARD}", settings.task)
        predictor = Predictor.load(folder)
        version = settings.version or files_digest(Path(folder) / bundle.WEIGHTS)[:12]
    _warm(predictor)
    return Served(predictor, version)


def _warm(predictor: Predictor) -> None:
    """Predicts a row of zeros, and imports the engine of raw rows, which takes a second."""
    taken = [column for column, _ in predictor.model.columns.values()]
    predictor.model({column.name: _build_zeros(column) for column in taken})
    with suppress(UserError):  # no task accepts this row
        predictor.raw([{"": None}])


def _build_zeros(column: Column) -> np.ndarray:
    shape: Sequence[int] = (1, column.width) if column.kind == "vector" else (1,)
    return np.zeros(shape, dtype(column))


# ---- the local files of a model: a folder itself, or checked copies from a bucket


#: The files that a model needs to make predictions.
MODEL_FILES = (bundle.CARD, bundle.WEIGHTS)


@contextmanager
def local_files(model: str, sha256: Mapping[str, str]) -> Iterator[Path]:
    """Yields the local folder of the model; removes a copy afterwards.

    Checks each object of a bucket against the server's CRC-32C, and every file against its expected checksum.

    Raises:
        UserError: A file is missing, too large, or has an unexpected checksum.
        ProcessFailed: The bucket did not answer.
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
    """Returns the SHA-256 of a file, in hexadecimal. Raises UserError if the file is missing."""
    try:
        with files.open_file(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise UserError(f"{path} does not exist: the folder holds no finished model.") from None


def _check(folder: Path, sha256: Mapping[str, str], known_as: str = "") -> None:
    for name, expected in sha256.items():
        if (actual := files_digest(folder / name)) != expected:
            raise UserError(
                f"{known_as or folder}/{name} is not the file that was registered; its SHA-256 begins with "
                f"{actual[:12]}, not with {expected[:12]}. Restore the file, or serve another version."
            )
