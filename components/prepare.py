"""Raw data -> checked, split and encoded Parquet shards."""

from kfp.dsl import Dataset, Output

from components import step


@step
def prepare(
    dataset: Output[Dataset],
    pins: str,
    task: str,
) -> None:
    """Validates the raw data, splits it as the task says and writes fixed-width Parquet shards with a manifest.

    Args:
        pins: URI of the data's pins: exactly these objects are read, with these options and windows.
        task: The task that the pins must be of; nothing else that they may name is run.

    Returns:
        dataset: Directory of Parquet shards and manifest.json.
    """
    from vgp import steps

    manifest = steps.prepare("", dataset.path, task=task, pins=pins)
    dataset.metadata.update(rows={split: manifest.rows(split) for split in manifest.splits})
