"""The steps that train a model on all GPUs, or collect the model of your own script."""

from kfp.dsl import Artifact, Dataset, Input, Metrics, Model, Output

from components import step


@step
def train(
    dataset: Input[Dataset],
    model: Output[Model],
    checkpoints: Output[Artifact],
    pins: str,
    task: str,
    config: dict,
) -> None:
    """Trains with one process per GPU and resumes from the newest valid checkpoint.

    Args:
        dataset: Directory of Parquet shards and manifest.json.
        pins: URI of the data's pins; training resumes from checkpoints of the same request and pins.
        task: Expected task of the dataset; no other task is imported.
        config: Training settings from resolve: epochs, learning_rate and so on.

    Returns:
        model: Directory with model.safetensors and model.json.
        checkpoints: Directory of checkpoints and training logs.
    """
    from vgp import steps

    figures = steps.train(
        dataset.path,
        model.path,
        checkpoints.path,
        pins=pins,
        task=task,
        **config,
    )
    checkpoints.path = figures.pop("checkpoints")
    model.metadata.update(figures)


@step
def collect(
    left_model: Input[Model],
    left_checkpoints: Input[Artifact],
    dataset: Input[Dataset],
    model: Output[Model],
    checkpoints: Output[Artifact],
    metrics: Output[Metrics],
    pins: str,
    task: str,
) -> None:
    """Collects the output of your own command: model files, metrics.json, predictions.parquet.

    Args:
        left_model: The script's AIP_MODEL_DIR.
        left_checkpoints: Folder with script.json, which describes how the script ran.
        dataset: Directory of the prepared data with the predicted test rows.
        pins: URI of the data's pins that the dataset was prepared from.
        task: Expected task of the dataset; no other task is imported.

    Returns:
        model: The script's folder; nothing is copied.
        checkpoints: The script's AIP_CHECKPOINT_DIR.
        metrics: Metrics of metrics.json.
    """
    from vgp import steps

    taken = steps.collect(left_model.path, left_checkpoints.path, dataset.path, task=task, pins=pins)
    model.uri, checkpoints.uri = left_model.uri, taken.checkpoints or left_checkpoints.uri
    model.metadata.update(taken.figures)
    metrics.metadata.update(taken.metrics)
