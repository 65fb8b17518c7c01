"""The rival: gradient boosting of trees, which on tables is hard to beat and takes seconds.

scikit-learn's histogram boosting (Grinsztajn, Oyallon & Varoquaux 2022, https://arxiv.org/abs/2207.08815, compare it
with networks), which stops adding trees where its loss on held rows no longer falls: those of the validation split,
which keep to groups and time as the task splits, else a tenth of the train rows by whole groups. A network that does
not beat it is not promoted without its owner's word.

Each model is fitted by one thread, so that the result does not depend on how many there are, several models at once;
OpenMP's threads, which wait for each other busily, took ten times the CPU time where other processes were running.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from vgp.base.documents.json_text import JsonObject
from vgp.data.task import Task
from vgp.evaluation import baseline
from vgp.protocol import cluster
from vgp.protocol.manifest import Column

#: Bounds on the work, so that a fit takes seconds: numbers read (rows x inputs x models; each of several classes is a
#: model), inputs, and classes. 3,000,000 numbers took 2.5 CPU-seconds. A regression with several models gets twice as
#: many, because a rival fitted on a small sample would be too weak.
MOST_CELLS, MOST_INPUTS, MOST_CLASSES = 3_000_000, 1_000, 20
#: Maximum number of values of a category, by frequency; the rest count as one value. scikit-learn accepts 255.
MOST_VALUES = 254
SEED = 0

Columns = Mapping[str, np.ndarray]
Model: TypeAlias = "HistGradientBoostingClassifier | HistGradientBoostingRegressor"


@dataclass(frozen=True)
class Boosting:
    """Fitted gradient boosting: one classifier, or one model of the mean and one of each quantile."""

    columns: tuple[Column, ...]
    #: Number of classes of the task; 0 for a regression.
    classes: int
    models: tuple[Model, ...]
    #: Number of rows that the models were fitted on.
    rows: int
    pool: ThreadPoolExecutor

    def __call__(self, batch: Columns) -> np.ndarray:
        """Returns probabilities, float64 (B, C), or mean and quantiles, float64 (B, 1 + Q)."""
        pieces = np.array_split(_inputs(batch, self.columns), cluster.cores())
        parts = [[self.pool.submit(self._ask, model, piece) for piece in pieces if len(piece)] for model in self.models]
        answers = [np.concatenate([part.result() for part in of_model]) for of_model in parts]
        if self.classes:
            table = np.zeros((len(answers[0]), self.classes))
            table[:, self.models[0].classes_] = answers[0]
            return table
        mean, *quantiles = answers
        # Separately fitted quantiles may cross; sorting improves them: Chernozhukov, Fernandez-Val &
        # Galichon 2010, https://doi.org/10.3982/ECTA7880
        return np.column_stack([mean, np.sort(np.column_stack(quantiles), axis=1)])

    def _ask(self, model: Model, inputs: np.ndarray) -> np.ndarray:
        return np.asarray(model.predict_proba(inputs) if self.classes else model.predict(inputs))


def fit(columns: tuple[Column, ...], sample: Columns, task: Task, validation: Columns | None = None) -> Boosting:
    """Fits the models on train rows; deterministic.

    Args:
        columns: The inputs: numbers, categories and vectors.
        sample: Train rows; evenly spaced ones are used if all would take too long.
        task: Names the label and the prediction.
        validation: Rows of the validation split for early stopping; None = a part of the sample.

    Raises:
        ValueError: the fit would take too long.
    """
    width, classes = sum(column.width for column in columns), len(task.classes)
    if width > MOST_INPUTS or classes > MOST_CLASSES:
        what = f"{classes} classes" if classes > MOST_CLASSES else f"{width:,} inputs"
        most = MOST_CLASSES if classes > MOST_CLASSES else MOST_INPUTS
        raise ValueError(f"{what} are more than the {most:,} that it can take in seconds")
    models = 1 + len(task.quantiles) if task.regression else classes if classes > 2 else 1
    most = max(1, MOST_CELLS * (2 if task.regression else 1) // (width * models))
    learn, validation = _parts(sample, task, validation, most)
    inputs, label = _inputs(learn, columns), learn[task.label]
    stop = {"X_val": _inputs(validation, columns), "y_val": validation[task.label]} if validation else {}
    makers = _list_makers(task, [i for i, c in enumerate(_spread(columns)) if c.kind == "category"], bool(validation))
    pool = ThreadPoolExecutor(cluster.cores(), initializer=threadpool_limits, initargs=(1, "openmp"))
    fitted = tuple(pool.map(lambda make: make().fit(inputs, label, **stop), makers))
    return Boosting(columns, classes, fitted, len(label), pool)


def _parts(sample: Columns, task: Task, validation: Columns | None, most: int) -> tuple[Columns, Columns]:
    """Returns at most `most` rows to fit, and half as many for early stopping, or none if they are too few.

    The second part has no rows of classes that the first part lacks, because their loss is undefined.
    """
    learn, validation = baseline.split_sample(sample, task) if validation is None else (sample, validation)
    learn, validation = baseline.thin(learn, task, most), baseline.thin(validation, task, max(1, most // 2))
    if not task.regression:
        known = np.isin(validation[task.label], learn[task.label])
        validation = {name: values[known] for name, values in validation.items()}
    if len(validation[task.label]) < baseline.FEWEST_HELD or len(np.unique(learn[task.label])) < 2:
        return baseline.thin(sample, task, most), {}
    return learn, validation


def _list_makers(task: Task, categories: list[int], stops: bool) -> list[Callable[[], Model]]:
    common: JsonObject = {"categorical_features": categories, "early_stopping": stops, "random_state": SEED}
    if not task.regression:
        return [lambda: HistGradientBoostingClassifier(**common)]
    mean: list[Callable[[], Model]] = [lambda: HistGradientBoostingRegressor(**common)]
    return mean + [
        lambda share=share: HistGradientBoostingRegressor(loss="quantile", quantile=share, **common)
        for share in task.quantiles
    ]


def _spread(columns: tuple[Column, ...]) -> list[Column]:
    """Returns the column of each input."""
    return [column for column in columns for _ in range(column.width)]


def _inputs(batch: Columns, columns: tuple[Column, ...]) -> np.ndarray:
    """Returns inputs, float64 (B, inputs), NaN where missing; categories are ranked by frequency."""
    parts = [
        _by_frequency(column)[batch[column.name]]
        if column.kind == "category"
        else batch[column.name].reshape(len(batch[column.name]), -1)
        for column in columns
    ]
    return np.column_stack(parts).astype(np.float64, copy=False)


def _by_frequency(column: Column) -> np.ndarray:
    """Returns each code's rank by frequency; rare codes share a rank; NaN for missing."""
    order = np.argsort(-np.asarray(column.counts), kind="stable")
    numbers = np.empty(len(column.values))
    numbers[order] = np.minimum(np.arange(len(order)), MOST_VALUES)
    numbers[0] = np.nan
    return numbers
