"""Pinned new data -> the predictions of a version of the model, shard by shard."""

from kfp.dsl import HTML, Dataset, Metrics, Output

from components.image import step


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
    from vgp.steps import prediction as steps

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
