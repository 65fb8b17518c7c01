"""What was measured: the content of `metrics.json`, which the report and the console show."""

import json
from pathlib import Path

from vgp.base.exits import UserError
from vgp.base.storage import files
from vgp.evaluation.collected import Collected
from vgp.evaluation.drift import Drift
from vgp.evaluation.examples import Examples
from vgp.evaluation.importance import Importance
from vgp.evaluation.regression import RegressionFigures
from vgp.evaluation.thresholds import PrecisionRecall, Thresholds
from vgp.protocol import file_names
from vgp.protocol.manifest import Frozen
from vgp.protocol.outcome import Slice

# ---- rows where a column has one value, as figures and the decision name them


FILE_NAME = file_names.METRICS


class Scores(Frozen):
    """One model in a few numbers; without classes in the first and the last."""

    #: Log loss in nats, per row or per unit of weight; of a regression the loss that the decision tests. Lower is
    #: better.
    loss: float
    #: Area under the ROC curve; one-vs-rest macro average for more than two classes. None: a class is absent.
    auc: float | None = None
    #: Mean precision over recall; likewise averaged over more than two classes. Of all rows only, not of slices.
    average_precision: float | None = None
    accuracy: float | None = None
    #: Expected calibration error over bins of equal mass; 0 is best.
    calibration_error: float | None = None
    #: Mean squared error of the probabilities, over the second of two classes or summed over all.
    brier: float | None = None
    #: Mean predicted minus observed rate: of the second class, or of being right. Above 0 is overconfident.
    calibration_gap: float | None = None
    #: The loss in bits per unit of weight, such as a byte: only without classes.
    bits: float | None = None

    @property
    def compression(self) -> float | None:
        """How many times smaller a coder with this model makes bytes: 8 bits over the bits that it needs."""
        return 8 / self.bits if self.bits else None


class Roc(Frozen):
    """A ROC curve of at most 200 points, from (0, 0) to (1, 1)."""

    false_positive_rate: tuple[float, ...]
    true_positive_rate: tuple[float, ...]
    #: Falling, finite, in [0, 1].
    threshold: tuple[float, ...]


class CalibrationBin(Frozen):
    """Rows of similar confidence: what was predicted and what came true, as rates."""

    rows: int
    predicted: float
    observed: float


class ModelMetrics(Frozen):
    """One model on all rows of the split. Without classes there are scores and their interval only."""

    scores: Scores
    #: 95% interval of the AUC, from resampled groups of rows; None where the AUC is undefined.
    auc_interval: tuple[float, float] | None = None
    #: Likewise of `Scores.bits`.
    bits_interval: tuple[float, float] | None = None
    roc: Roc | None = None
    #: Of two classes, if a row is of the second.
    precision_recall: PrecisionRecall | None = None
    calibration: tuple[CalibrationBin, ...] = ()
    #: Rows by confidence, in 20 bins of equal width over [0, 1].
    confidence_counts: tuple[int, ...] = ()


class SliceMetrics(Slice):
    """All models on a slice."""

    #: Rate of the second of two classes; above two, of the slice's most frequent class. Of a regression the mean
    #: label; else without classes the slice's part of the whole weight.
    base_rate: float
    models: dict[str, Scores]
    #: 95% interval of the challenger's `Evaluation.slice_metric`; None where it is undefined.
    interval: tuple[float, float] | None


class Evaluation(Frozen):
    """What `metrics.json` holds."""

    task: str
    #: What the label is called; "" where a script labelled its rows itself.
    target: str = ""
    #: Of the prepared data; "" for rows that a script labelled itself.
    split: str
    #: Empty for a task that is judged by a loss for each row, which counts by `weight`, such as `bytes`.
    classes: tuple[str, ...]
    weight: str = ""
    rows: int
    #: Rows of each class.
    label_counts: tuple[int, ...]
    #: Column whose equal values mark rows that are not independent, and how many values; "" and 0 if none.
    group: str
    groups: int
    #: By `challenger`, `champion`, `baseline`, `boosting`, as far as scored.
    models: dict[str, ModelMetrics]
    #: The challenger's counts, actual class by predicted class.
    confusion_matrix: list[list[int]]
    slices: tuple[SliceMetrics, ...]
    notes: tuple[str, ...]
    #: The model to beat where there is no champion, if it is no logistic regression.
    baseline: str = ""
    #: Where the model is what a script left.
    script: Collected | None = None
    #: Where the label is a number. The loss in `models` and `slices` is then the one that the decision tests.
    regression: RegressionFigures | None = None
    #: Of two classes: the new model's thresholds, and the one to work at.
    thresholds: Thresholds | None = None
    #: Where the new model is ours: what each column is worth to it.
    importance: Importance | None = None
    #: Single rows of prepared data.
    examples: Examples | None = None
    #: Of prepared data: train rows beside the scored ones.
    drift: Drift | None = None

    @property
    def scored(self) -> bool:
        """Whether there was anything to score: a script may leave no predictions."""
        return bool(self.models)

    @property
    def of_which(self) -> str:
        """Whose rows they are, in words."""
        return f"of the {self.split} split" if self.split else "that the script labelled itself"

    @property
    def slice_metric(self) -> str:
        """What is plotted by slice: the AUC of two classes; the accuracy of more, which small slices have too."""
        if self.regression:
            return "loss"
        if not self.classes:
            return "bits"
        return "auc" if len(self.classes) == 2 else "accuracy"

    @property
    def unit(self) -> str:
        """What losses are counted per without classes: one of the weight, such as `byte`."""
        return self.weight.removesuffix("s") or "row"

    @property
    def scalars(self) -> dict[str, float]:
        """Flat figures for a metrics table: the challenger's by name, the others' as `champion_auc`..."""
        result = {"rows": float(self.rows)} if self.scored else {}
        if self.thresholds and self.thresholds.operating:
            result["threshold"] = self.thresholds.operating.threshold
        for model, measured in self.models.items():
            prefix = "" if model == "challenger" else f"{model}_"
            values = measured.scores.model_dump().items()
            result.update({prefix + self._spoken(name): value for name, value in values if value is not None})
            if self.regression:
                result.update({prefix + name: value for name, value in self.regression.scalars(model).items()})
        return result

    def _spoken(self, name: str) -> str:
        return f"bits_per_{self.unit}" if name == "bits" else name

    @property
    def roc_curve(self) -> tuple[list[float], list[float], list[float]] | None:
        """The challenger's false positive rates, true positive rates and thresholds; None if undefined."""
        curve = self.models["challenger"].roc if self.scored else None
        if curve is None:
            return None
        return list(curve.false_positive_rate), list(curve.true_positive_rate), list(curve.threshold)


def load(directory: str | Path) -> Evaluation:
    """Reads `metrics.json`.

    Raises:
        UserError: it is missing or of another format.
    """
    path = Path(directory) / FILE_NAME
    try:
        return Evaluation.model_validate_json(files.read(path))
    except FileNotFoundError:
        raise UserError(f"{directory} holds no {FILE_NAME}: it is not a finished evaluation.") from None
    except ValueError as error:
        raise UserError(f"{path} cannot be read as an evaluation: {error}") from None


def discard(directory: str | Path) -> None:
    """Removes the record of an earlier evaluation, of which nothing is to be kept."""
    (Path(directory) / FILE_NAME).unlink(missing_ok=True)


def save(result: Evaluation, directory: str | Path) -> None:
    """Writes `metrics.json` atomically."""
    files.write(Path(directory) / FILE_NAME, json.dumps(result.model_dump(), indent=1, allow_nan=False) + "\n")
