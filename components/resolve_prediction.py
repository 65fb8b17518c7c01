"""What moves -> pins, as resolve.py, of a prediction: data and a version of the model."""

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
    model: str = "champion",
    registry: str = "",
    model_name: str = "",
    destination: str = "",
    window: str = "",
    shard_rows: int = 0,
    stop_on_drift: bool = False,
    as_of: str = "",
    pins: str = "",
) -> NamedTuple(  # type: ignore[valid-type]
    "Pins",
    [("digest", str), ("uri", str), ("data", str), ("model", str), ("model_name", str), ("destination", str)],
):
    """Writes down what is predicted by which version of the model. Never taken from the cache.

    Args:
        pipeline: Name of the pipeline; pins of another one are refused.
        run: Name of this run.
        scheduled: The time for which a schedule started the run; counts only without as_of.
        data: New rows, several parts separated by commas: file, folder or glob, here or gs://, a table
            bq://PROJECT.DATASET.TABLE, or a .sql file with a query of BigQuery. Empty: the task's own data.
        task: A shipped task (flights, language_model) or module:Class; the model must be of it.
        task_options: Options of the task as JSON; they name the model of a table. All else the model's card has.
        model: champion, the number of a version, an alias, or a folder.
        registry: Root of the registry, a folder or gs://. Empty: registry/ beside the folder of the runs.
        model_name: Name of the model in the registry. Empty: by the task.
        destination: Where predictions go, with {date}, {run} and {version} to be put in.
        window: Checked only; see predict.
        shard_rows: Checked only; see predict.
        stop_on_drift: Checked only; see predict.
        as_of: The day or time as of which the run sees its data. Empty: the schedule's, else now.
        pins: URI of an earlier run's pins, to read what that run read. Empty: pin what is there now.

    Returns:
        record: The pins of this run, as JSON.
        digest: Digest of the pins.
        uri: Where the pins of this run are.
        data: Where the pins of its data are.
        model: Where the pins of its model are.
        model_name: Name of the model in the registry.
        destination: Where predictions go.
    """
    from vgp.steps import prediction as steps

    resolved = steps.resolve(
        record.path,
        pipeline=pipeline,
        run=run,
        scheduled=scheduled,
        data=data,
        task=task,
        task_options=task_options,
        model=model,
        registry=registry,
        model_name=model_name,
        destination=destination,
        window=window,
        shard_rows=shard_rows,
        stop_on_drift=stop_on_drift,
        as_of=as_of,
        pins=pins,
    )
    record.uri = resolved.uri
    record.metadata.update(resolved.metadata)
    return resolved.outputs
