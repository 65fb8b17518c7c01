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

# ---- slices: rows where a column has one value


FILE_NAME = file_names.METRICS


class Scores(Frozen):
    """The scores of one model; without classes only `loss` and `bits`."""

    #: Log loss in nats per row or unit of weight; for a regression the decision's loss. Lower is better.
    loss: float
    #: Area under the ROC curve; one-vs-rest macro average above two classes. None if a class is absent.
    auc: float | None = None
    #: Average precision, macro-averaged above two classes; for all rows, not for slices.
    average_precision: float | None = None
    accuracy: float | None = None
    #: Expected calibration error over bins of equal mass; 0 is best.
    calibration_error: float | None = None
    #: Mean squared error of the probabilities, of the second of two classes or summed over all.
    brier: float | None = None
    #: Mean predicted minus observed rate, of the second class or of being right; positive means overconfident.
    calibration_gap: float | None = None
    #: Loss in bits per unit of weight, such as a byte; only without classes.
    bits: float | None = None

    @property
    def compression(self) -> float | None:
        """Returns the compression ratio of a coder with this model: 8 bits over the bits per byte."""
        return 8 / self.bits if self.bits else None


class Roc(Frozen):
    """A ROC curve of at most 200 points, from (0, 0) to (1, 1)."""

    false_positive_rate: tuple[float, ...]
    true_positive_rate: tuple[float, ...]
    #: Thresholds of the curve: descending, finite, in [0, 1].
    threshold: tuple[float, ...]


class CalibrationBin(Frozen):
    """The predicted and observed rates of rows with similar confidence."""

    rows: int
    predicted: float
    observed: float


class ModelMetrics(Frozen):
    """The figures of one model on all rows of the split; without classes only scores and interval."""

    scores: Scores
    #: 95% interval of the AUC from resampled groups of rows; None if undefined.
    auc_interval: tuple[float, float] | None = None
    #: 95% interval of `Scores.bits`.
    bits_interval: tuple[float, float] | None = None
    roc: Roc | None = None
    #: For two classes, if there is a row of the second.
    precision_recall: PrecisionRecall | None = None
    calibration: tuple[CalibrationBin, ...] = ()
    #: Row counts by confidence, in 20 bins of equal width over [0, 1].
    confidence_counts: tuple[int, ...] = ()


class SliceMetrics(Slice):
    """The scores of all models on a slice."""

    #: Rate of the second of two classes, or of the slice's most frequent class; mean label of a regression; otherwise
    #: the slice's share of the weight.
    base_rate: float
    models: dict[str, Scores]
    #: 95% interval of the challenger's `Evaluation.slice_metric`; None if undefined.
    interval: tuple[float, float] | None


class Evaluation(Frozen):
    """The content of `metrics.json`."""

    task: str
    #: Name of the label; "" for a script's own labels.
    target: str = ""
    #: Fingerprint of the prepared data; "" for a script's own rows.
    split: str
    #: Class names; empty for a task with a loss per row, weighted by `weight`, such as `bytes`.
    classes: tuple[str, ...]
    weight: str = ""
    rows: int
    #: Number of rows of each class.
    label_counts: tuple[int, ...]
    #: Column whose equal values mark dependent rows, and its number of values; "" and 0 without one.
    group: str
    groups: int
    #: Figures by model: `challenger`, `champion`, `baseline` and `boosting`, if scored.
    models: dict[str, ModelMetrics]
    #: The challenger's confusion matrix, actual class by predicted class.
    confusion_matrix: list[list[int]]
    slices: tuple[SliceMetrics, ...]
    notes: tuple[str, ...]
    #: Name of the baseline; "" for a logistic or linear regression.
    baseline: str = ""
    #: Set for a script's model.
    script: Collected | None = None
    #: Set for a regression; `models` and `slices` then hold the decision's loss.
    regression: RegressionFigures | None = None
    #: For two classes: the new model's thresholds and operating point.
    thresholds: Thresholds | None = None
    #: Importance of the new model's columns; None for a script's model.
    importance: Importance | None = None
    #: Example rows of prepared data.
    examples: Examples | None = None
    #: Drift from train rows to scored rows of prepared data.
    drift: Drift | None = None

    @property
    def scored(self) -> bool:
        """Whether rows were scored; a script may write no predictions."""
        return bool(self.models)

    @property
    def of_which(self) -> str:
        """Returns a description of the rows, for sentences."""
        return f"of the {self.split} split" if self.split else "that the script labelled itself"

    @property
    def slice_metric(self) -> str:
        """Returns the metric by slice: AUC for two classes; accuracy for more, which small slices have too."""
        if self.regression:
            return "loss"
        if not self.classes:
            return "bits"
        return "auc" if len(self.classes) == 2 else "accuracy"

    @property
    def unit(self) -> str:
        """Returns the unit of losses without classes, such as `byte`."""
        return self.weight.removesuffix("s") or "row"

    @property
    def scalars(self) -> dict[str, float]:
        """Returns figures by name: the challenger's as `auc`, other models' as `champion_auc`."""
        result = {"rows": float(self.rows)} if self.scored else {}
        if self.thresholds and self.thresholds.operating:
            result["threshold"] = self.thresholds.operating.threshold
        for model, measured in self.models.items():
            prefix = "" if model == "challenger" else f"{model}_"
            values = measured.scores.model_dump().items()
            result.update({prefix + self._display_name(name): value for name, value in values if value is not None})
            if self.regression:
                result.update({prefix + name: value for name, value in self.regression.scalars(model).items()})
        return result

    def _display_name(self, name: str) -> str:
        return f"bits_per_{self.unit}" if name == "bits" else name

    @property
    def roc_curve(self) -> tuple[list[float], list[float], list[float]] | None:
        """Returns the challenger's false positive rates, true positive rates and thresholds; None if undefined."""
        curve = self.models["challenger"].roc if self.scored else None
        if curve is None:
            return None
        return list(curve.false_positive_rate), list(curve.true_positive_rate), list(curve.threshold)


def load(directory: str | Path) -> Evaluation:
    """Reads `metrics.json`.

    Raises:
        UserError: it is missing or has another format.
    """
    path = Path(directory) / FILE_NAME
    try:
        return Evaluation.model_validate_json(files.read(path))
    except FileNotFoundError:
        raise UserError(f"{directory} has no {FILE_NAME}: it is not a finished evaluation.") from None
    except ValueError as error:
        raise UserError(f"{path} cannot be read as an evaluation: {error}") from None


def discard(directory: str | Path) -> None:
    """Removes the record of an earlier evaluation."""
    (Path(directory) / FILE_NAME).unlink(missing_ok=True)


def save(result: Evaluation, directory: str | Path) -> None:
    """Writes `metrics.json` atomically."""
    files.write(Path(directory) / FILE_NAME, json.dumps(result.model_dump(), indent=1, allow_nan=False) + "\n")
