"""The model that answers: one batch after another, with the version that it is."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vgp.base.exits import UserError
from vgp.data import bundle, task_names, tasks
from vgp.data.rows import dtype
from vgp.protocol.manifest import Column
from vgp.serve.endpoint import artifact
from vgp.serve.endpoint.parsing import Question
from vgp.serve.endpoint.request import Request
from vgp.serve.prediction.predictor import Predictor


@dataclass(frozen=True)
class Served:
    """A model that has answered once."""

    predictor: Predictor
    #: What each prediction says that it is by: the version's number, or the beginning of the weights' checksum.
    version: str

    def answer(self, question: Question) -> list[dict[str, Any]]:
        """A prediction for each row, in their order.

        Raises:
            UserError: a row is not as the model needs it, with the field.
        """
        predictions = self.predictor.raw(question.rows, question.history)
        return [{**prediction, "version": self.version} for prediction in predictions]


def load(asked: Request) -> Served:
    """The model, once it has answered: what cannot answer ends here, and not in the first request.

    Raises:
        UserError: it is not there, damaged, another one than is expected, or of a task that nobody vouched for.
        ProcessFailed: the bucket could not be reached.
    """
    if asked.task:
        tasks.find(asked.task)
    with artifact.local(asked.model, asked.sha256) as folder:
        if asked.task:
            task_names.trusted(bundle.load_card(folder).task, f"{asked.model}/{bundle.CARD}", asked.task)
        predictor = Predictor.load(folder)
        version = asked.version or artifact.digest(Path(folder) / bundle.WEIGHTS)[:12]
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
