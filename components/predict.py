"""The steps of the batch prediction: one pins new data and a model version, one predicts the rows shard by shard."""

from typing import NamedTuple

from kfp.dsl import HTML, Artifact, Dataset, Metrics, Output

from components import step


@step
def resolve(
    record: Output[Artifact],
    pipeline: str,
    run: str,
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
    """Checks the parameters and pins the data and the model version. Never cached.

    The inputs from `data` on are the workflow's parameters.

    Args:
        pipeline: Name of the pipeline; pins of another one are refused.
        run: Name of this run.
        scheduled: Time of the schedule's tick; used without as_of.

    Returns:
        record: The pins of this run, as JSON.
        digest: Digest of the pins.
        uri: URI of the pins.
        data: URI of the data's pins.
        model: URI of the model's pins.
        model_name: Name of the model in the registry.
        destination: Destination of the predictions.
    """
    given = dict(locals())
    from vgp import steps

    resolved = steps.resolve_prediction(**{**given, "record": record.path})
    record.uri = resolved.uri
    record.metadata.update(resolved.metadata)
    return resolved.outputs


@step
def predict(
    predictions: Output[Dataset],
    page: Output[HTML],
    metrics: Output[Metrics],
    data: str,
    model: str,
    model_name: str,
    task: str,
    run: str,
    destination: str = "",
    staging: str = "",
    window: str = "",
    shard_rows: int = 0,
    stop_on_drift: bool = False,
) -> None:
    """Predicts new rows with one process per GPU or core; resumes with the missing shards after a kill.

    Args:
        data: URI of the pins of the data.
        model: URI of the pins of the model.
        model_name: Name of the model in the registry, written into every row with the version.
        task: Expected task of the model; no other task is imported.
        run: Name of this run, written into every row.
        destination: A folder or gs://, or bq://PROJECT.DATASET.TABLE, which is replaced. Empty: below the root of runs.
        staging: For a table, the gs:// folder of its temporary files. Empty: below the root of runs.
        window: Days to predict, such as 2013-08 or 1 days; features may use earlier rows. Empty: all rows.
        shard_rows: Rows of a shard, the most work that a kill can lose. 0: about 8 MiB.
        stop_on_drift: Whether large drift since training stops the run before scoring.

    Returns:
        predictions: Folder of Parquet shards and manifest.json.
        page: Summary of the predictions, and drift from the training data.
        metrics: Row counts, predictions, and metrics of labelled rows.
    """
    from vgp import steps

    made = steps.predict(
        predictions.path,
        page.path,
        data=data,
        model=model,
        model_name=model_name,
        task=task,
        run=run,
        destination=destination,
        staging=staging,
        window=window,
        shard_rows=shard_rows,
        stop_on_drift=stop_on_drift,
    )
    predictions.uri = made.folder.path
    predictions.metadata.update(made.metadata)
    metrics.metadata.update(made.metrics)
