"""Shards -> a trained model; one process per GPU, on one machine or many."""

from kfp.dsl import Artifact, Dataset, Input, Model, Output

from components.image import step


@step
def train(
    dataset: Input[Dataset],
    model: Output[Model],
    checkpoints: Output[Artifact],
    pins: str,
    task: str,
    epochs: float,
    global_batch_size: int,
    learning_rate: float,
    weight_decay: float,
    warmup_fraction: float,
    clip_norm: float,
    precision: str,
    seed: int,
    training_options: dict = {},
) -> None:
    """Trains with DistributedDataParallel, one process per GPU, and resumes from the newest good checkpoint.

    Args:
        dataset: Directory of Parquet shards and manifest.json.
        pins: URI of the data's pins: checkpoints of the same request and pins are gone on with.
        task: The task that the dataset must be of; nothing else that its manifest may name is run.
        epochs: Passes over the training rows; fractions are allowed.
        global_batch_size: Rows per optimizer step, over all GPUs.
        learning_rate: Peak learning rate.
        weight_decay: AdamW's decay of the weight matrices.
        warmup_fraction: Part of the steps in which the learning rate rises from 0 to its peak.
        clip_norm: Largest norm of the gradient; 0 does not clip.
        precision: auto, fp32, bf16 or fp16.
        seed: Same seed and same data: same model, bit for bit.
        training_options: Any other setting of the training, as a JSON object: {"strategy": "fsdp"}.

    Returns:
        model: Directory with model.safetensors and model.json.
        checkpoints: Directory of checkpoints and training logs.
    """
    from vgp.steps import calls as steps

    figures = steps.train(
        dataset.path,
        model.path,
        checkpoints.path,
        pins=pins,
        task=task,
        epochs=epochs,
        global_batch_size=global_batch_size,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        warmup_fraction=warmup_fraction,
        clip_norm=clip_norm,
        precision=precision,
        seed=seed,
        training_options=training_options,
    )
    checkpoints.path = figures.pop("checkpoints")
    model.metadata.update(figures)
