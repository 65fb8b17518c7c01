"""The step that scores the model, the champion and the baseline on the test rows."""

from kfp.dsl import Artifact, ClassificationMetrics, Dataset, Input, Metrics, Model, Output

from components import step


@step
def evaluate(
    dataset: Input[Dataset],
    model: Input[Model],
    evaluation: Output[Artifact],
    metrics: Output[Metrics],
    classification: Output[ClassificationMetrics],
    task: str,
    champion: str = "",
) -> None:
    """Scores the model, the champion and simple models on the test rows.

    Args:
        dataset: Directory of Parquet shards and manifest.json.
        model: The challenger: directory with model.safetensors and model.json.
        task: Expected task of the dataset; no other task is imported.
        champion: URI of the champion's pins. Empty: compare with the baseline.

    Returns:
        evaluation: Directory with predictions.parquet and metrics.json.
        metrics: Loss, AUC, accuracy and calibration; RMSE, R2 and coverage for a regression; bits per byte for a
            language model.
        classification: ROC curve and confusion matrix; empty for a task without classes.
    """
    from vgp import steps

    result = steps.evaluate(dataset.path, model.path, evaluation.path, champion=champion, task=task)
    metrics.metadata.update(result.scalars)
    if result.confusion_matrix:
        classification.log_confusion_matrix(result.classes, result.confusion_matrix)
    if result.roc_curve:
        classification.log_roc_curve(*result.roc_curve)
