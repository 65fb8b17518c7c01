"""Raw data -> checked, split and encoded Parquet shards."""

from kfp.dsl import Dataset, Output

from components.image import step


@step
def prepare(
    dataset: Output[Dataset],
    data: str = "",
    task: str = "flights",
    task_options: dict = {},
    train_months: str = "",
    test_month: str = "",
) -> None:
    """Validates the raw data, splits it by time and writes fixed-width Parquet shards with a manifest.

    Args:
        data: Raw input: file, directory, glob or gs:// URI, several separated by commas. Empty: the task's own data.
        task: A shipped task (flights, language_model) or module:Class.
        task_options: Options of the task, as JSON.
        train_months: Months to train on, such as 1-6 or 2013-01:2013-06. Empty: the task's own.
        test_month: Month to test on, after the training months. Empty: the one that follows them.

    Returns:
        dataset: Directory of Parquet shards and manifest.json.
    """
    from training.steps import prepare as run

    manifest = run(
        data, dataset.path, task=task, options=task_options, train_months=train_months, test_month=test_month
    )
    dataset.metadata.update(rows={split: manifest.rows(split) for split in manifest.splits})
