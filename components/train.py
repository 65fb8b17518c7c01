"""Shards -> a trained model: one process per GPU, on one machine or many, or a script of your own."""

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
    """Trains with DistributedDataParallel, one process per GPU, and resumes from the newest good checkpoint.

    Args:
        dataset: Directory of Parquet shards and manifest.json.
        pins: URI of the data's pins: checkpoints of the same request and pins are gone on with.
        task: The task that the dataset must be of; nothing else that its manifest may name is run.
        config: The settings of the training, as resolve has checked them: epochs, learning_rate and so on.

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
    """Takes up what the command of a step left: any files as the model, metrics.json, predictions.parquet.

    Args:
        left_model: The folder that the script knew as AIP_MODEL_DIR.
        left_checkpoints: The folder with script.json, which says what ran and where its checkpoints are.
        dataset: Directory of the prepared data, whose test rows the predictions are of.
        pins: URI of the data's pins: the dataset must have been prepared from them.
        task: The task that the dataset must be of; nothing else that its manifest may name is run.

    Returns:
        model: The script's folder itself: nothing is copied.
        checkpoints: The folder that the script knew as AIP_CHECKPOINT_DIR.
        metrics: The numbers of metrics.json.
    """
    from vgp import steps

    taken = steps.collect(left_model.path, left_checkpoints.path, dataset.path, task=task, pins=pins)
    model.uri, checkpoints.uri = left_model.uri, taken.checkpoints or left_checkpoints.uri
    model.metadata.update(taken.figures)
    metrics.metadata.update(taken.metrics)
