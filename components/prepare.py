"""Raw data -> checked, split and encoded Parquet shards."""

from kfp.dsl import Dataset, Output

from components.image import step


@step
def prepare(
    dataset: Output[Dataset],
    data: str = "",
    task: str = "flights",
    task_options: dict = {},
) -> None:
    """Validates the raw data, splits it as the task says and writes fixed-width Parquet shards with a manifest.

    Args:
        data: Raw input: file, directory, glob or gs:// URI, several separated by commas. Empty: the task's own data.
        task: A shipped task (flights, language_model) or module:Class.
        task_options: Options of the task as JSON, such as its windows: {"train": "1-6", "test": "7"}.

    Returns:
        dataset: Directory of Parquet shards and manifest.json.
    """
    from training.steps import prepare as run

    manifest = run(data, dataset.path, task=task, options=task_options)
    dataset.metadata.update(rows={split: manifest.rows(split) for split in manifest.splits})
