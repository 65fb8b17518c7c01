"""New data and a version of the model -> pins -> predictions, shard by shard."""

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
    """Checks the form, and writes down what is predicted by which version of the model. Never taken from the cache.

    All inputs from data on are the form: the workflow describes them.

    Args:
        pipeline: Name of the pipeline; pins of another one are refused.
        run: Name of this run.
        scheduled: The time for which a schedule started the run; counts only without as_of.

    Returns:
        record: The pins of this run, as JSON.
        digest: Digest of the pins.
        uri: Where the pins of this run are.
        data: Where the pins of its data are.
        model: Where the pins of its model are.
        model_name: Name of the model in the registry.
        destination: Where predictions go.
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
    """Predicts new rows with one process per GPU, or per core; after a kill it goes on with what is not there yet.

    Args:
        data: URI of the pins of the data.
        model: URI of the pins of the model.
        model_name: Name of the model in the registry, which stands in every row with the version.
        task: The task that the model must be of; nothing else that its card may name is run.
        run: Name of this run, which stands in every row.
        destination: A folder or gs://, or bq://PROJECT.DATASET.TABLE, which is replaced. Empty: below the root of runs.
        staging: Of a table: the folder gs:// that the rows are loaded from. Empty: below the root of runs.
        window: Days that are predicted, such as 2013-08 or 1 days; the others are looked back on. Empty: all rows.
        shard_rows: Rows of a shard, which is what a kill may lose. 0: as many as take about 8 MiB.
        stop_on_drift: Whether columns that have shifted much end the run before anything is scored.

    Returns:
        predictions: Folder of Parquet shards and manifest.json.
        page: What was predicted, and how far the rows are from the training data.
        metrics: Rows, what was predicted, and figures of the rows whose label is known.
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
