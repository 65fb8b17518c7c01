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

#: Bounds on the work, so that it never takes longer than seconds: numbers looked at (rows x inputs x models, of
#: which several classes are one each), inputs, and classes. 3,000,000 took 2.5 CPU-seconds. A regression has several
#: models for one decision, which are fitted at once, and a sample too small would be no rival: it has twice of it.
MOST_CELLS, MOST_INPUTS, MOST_CLASSES = 3_000_000, 1_000, 20
#: Values of a category, the most frequent first; the rest are one value. scikit-learn takes 255.
MOST_VALUES = 254
SEED = 0

Columns = Mapping[str, np.ndarray]
Model: TypeAlias = "HistGradientBoostingClassifier | HistGradientBoostingRegressor"


@dataclass(frozen=True)
class Boosting:
    """Fitted models: one of the classes; or one of the mean and one of each quantile."""

    columns: tuple[Column, ...]
    #: Number of classes of the task; 0 of a regression.
    classes: int
    models: tuple[Model, ...]
    #: Rows that they were fitted on.
    rows: int
    pool: ThreadPoolExecutor

    def __call__(self, batch: Columns) -> np.ndarray:
        """Probabilities, float64 (B, C), or mean and quantiles, float64 (B, 1 + Q)."""
        pieces = np.array_split(_inputs(batch, self.columns), cluster.cores())
        parts = [[self.pool.submit(self._ask, model, piece) for piece in pieces if len(piece)] for model in self.models]
        answers = [np.concatenate([part.result() for part in of_model]) for of_model in parts]
        if self.classes:
            table = np.zeros((len(answers[0]), self.classes))
            table[:, self.models[0].classes_] = answers[0]
            return table
        mean, *quantiles = answers
        # Models that were fitted apart may cross; in order they are nearer to the truth: Chernozhukov, Fernandez-Val &
        # Galichon 2010, https://doi.org/10.3982/ECTA7880
        return np.column_stack([mean, np.sort(np.column_stack(quantiles), axis=1)])

    def _ask(self, model: Model, inputs: np.ndarray) -> np.ndarray:
        return np.asarray(model.predict_proba(inputs) if self.classes else model.predict(inputs))


def fit(columns: tuple[Column, ...], sample: Columns, task: Task, held: Columns | None = None) -> Boosting:
    """Fits it on rows of the train split, the same for the same rows.

    Args:
        columns: The inputs: numbers, categories and vectors.
        sample: Some train rows; evenly spaced ones of them are taken where all would take too long.
        task: Names the label, and what is predicted.
        held: Rows of the validation split, which tell when to stop; None = a part of the sample.

    Raises:
        ValueError: it would take too long.
    """
    width, classes = sum(column.width for column in columns), len(task.classes)
    if width > MOST_INPUTS or classes > MOST_CLASSES:
        what = f"{classes} classes" if classes > MOST_CLASSES else f"{width:,} inputs"
        most = MOST_CLASSES if classes > MOST_CLASSES else MOST_INPUTS
        raise ValueError(f"{what} are more than the {most:,} that it can take in seconds")
    models = 1 + len(task.quantiles) if task.regression else classes if classes > 2 else 1
    most = max(1, MOST_CELLS * (2 if task.regression else 1) // (width * models))
    learn, held = _parts(sample, task, held, most)
    inputs, label = _inputs(learn, columns), learn[task.label]
    stop = {"X_val": _inputs(held, columns), "y_val": held[task.label]} if held else {}
    makers = _makers(task, [i for i, c in enumerate(_spread(columns)) if c.kind == "category"], bool(held))
    pool = ThreadPoolExecutor(cluster.cores(), initializer=threadpool_limits, initargs=(1, "openmp"))
    fitted = tuple(pool.map(lambda make: make().fit(inputs, label, **stop), makers))
    return Boosting(columns, classes, fitted, len(label), pool)


def _parts(sample: Columns, task: Task, held: Columns | None, most: int) -> tuple[Columns, Columns]:
    """At most so many rows to learn from, and half as many that tell when to stop; none of these if they are too few.

    Of a class that the first part lacks no loss can be told, so the second has no row of it.
    """
    learn, held = baseline.held_out(sample, task) if held is None else (sample, held)
    learn, held = baseline.thinned(learn, task, most), baseline.thinned(held, task, max(1, most // 2))
    if not task.regression:
        known = np.isin(held[task.label], learn[task.label])
        held = {name: values[known] for name, values in held.items()}
    if len(held[task.label]) < baseline.FEWEST_HELD or len(np.unique(learn[task.label])) < 2:
        return baseline.thinned(sample, task, most), {}
    return learn, held


def _makers(task: Task, categories: list[int], stops: bool) -> list[Callable[[], Model]]:
    common: JsonObject = {"categorical_features": categories, "early_stopping": stops, "random_state": SEED}
    if not task.regression:
        return [lambda: HistGradientBoostingClassifier(**common)]
    mean: list[Callable[[], Model]] = [lambda: HistGradientBoostingRegressor(**common)]
    return mean + [
        lambda share=share: HistGradientBoostingRegressor(loss="quantile", quantile=share, **common)
        for share in task.quantiles
    ]


def _spread(columns: tuple[Column, ...]) -> list[Column]:
    """The column that each input is of."""
    return [column for column in columns for _ in range(column.width)]


def _inputs(batch: Columns, columns: tuple[Column, ...]) -> np.ndarray:
    """Float64 (B, inputs), nan where missing; categories by frequency."""
    parts = [
        _by_frequency(column)[batch[column.name]]
        if column.kind == "category"
        else batch[column.name].reshape(len(batch[column.name]), -1)
        for column in columns
    ]
    return np.column_stack(parts).astype(np.float64, copy=False)


def _by_frequency(column: Column) -> np.ndarray:
    """A number for each code: the more frequent, the smaller; the rare share one; nan for missing."""
    order = np.argsort(-np.asarray(column.counts), kind="stable")
    numbers = np.empty(len(column.values))
    numbers[order] = np.minimum(np.arange(len(order)), MOST_VALUES)
    numbers[0] = np.nan
    return numbers
