"""What moves -> what it is now: data, windows and champion as pins, which all later steps read."""

from typing import NamedTuple

from kfp.dsl import Artifact, Output

from components.image import step


@step
def resolve(
    pipeline: str,
    run: str,
    record: Output[Artifact],
    scheduled: str = "",
    data: str = "",
    task: str = "flights",
    task_options: dict = {},
    champion: str = "auto",
    registry: str = "",
    model_name: str = "",
    approve: str = "auto",
    as_of: str = "",
    pins: str = "",
    margin: float = 0.0,
    confidence: float = 0.95,
    nights: int = 365,
    epochs: float = 3.0,
    global_batch_size: int = 1024,
    learning_rate: float = 1e-3,
    weight_decay: float = 1e-2,
    warmup_fraction: float = 0.05,
    clip_norm: float = 1.0,
    precision: str = "auto",
    seed: int = 0,
    training_options: dict = {},
) -> NamedTuple(  # type: ignore[valid-type]
    "Pins", [("digest", str), ("uri", str), ("data", str), ("champion", str), ("registry", str), ("model_name", str)]
):
    """Writes down what the run reads: objects with their generations, windows as dates. Never taken from the cache.

    The settings of later steps are here to be checked before any of them costs money; pins do not hold them.

    Args:
        pipeline: Name of the pipeline; pins of another one are refused.
        run: Name of this run.
        scheduled: The time for which a schedule started the run; counts only without as_of.
        data: Raw input, several parts separated by commas: file, folder or glob, here or gs://, a table
            bq://PROJECT.DATASET.TABLE, or a .sql file with a query of BigQuery. Empty: the task's own data.
        task: A shipped task (flights, language_model) or module:Class.
        task_options: Options of the task as JSON, such as its windows: {"train": "1-6", "test": "7"}.
        champion: auto, the number of a version, an alias, a folder, or nothing; see the pipeline.
        registry: Root of the registry, a folder or gs://. Empty: registry/ beside the folder of the runs.
        model_name: Name of the model in the registry. Empty: by the task.
        approve: Checked only; see register.
        as_of: The day or time as of which the run sees its data. Empty: the schedule's, else now.
        pins: URI of an earlier run's pins, to read what that run read. Empty: pin what is there now.
        margin: Checked only; see decide.
        confidence: Checked only; see decide.
        nights: Checked only; see decide.
        epochs: Checked only, as all that follow; see train.
        global_batch_size: See train.
        learning_rate: See train.
        weight_decay: See train.
        warmup_fraction: See train.
        clip_norm: See train.
        precision: See train.
        seed: See train.
        training_options: See train.

    Returns:
        record: The pins of this run, as JSON.
        digest: Digest of the pins.
        uri: Where the pins of this run are.
        data: Where the pins of its data are.
        champion: Where the pins of its champion are; empty without one.
        registry: Root of the registry.
        model_name: Name of the model in it.
    """
    from vgp.steps import calls as steps

    resolved = steps.resolve(
        record.path,
        pipeline=pipeline,
        run=run,
        scheduled=scheduled,
        data=data,
        task=task,
        task_options=task_options,
        champion=champion,
        registry=registry,
        model_name=model_name,
        approve=approve,
        as_of=as_of,
        pins=pins,
        margin=margin,
        confidence=confidence,
        nights=nights,
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
    record.uri = resolved.uri
    record.metadata.update(resolved.metadata)
    return resolved.outputs
