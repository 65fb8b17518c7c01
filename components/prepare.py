"""The step that validates and splits the raw data, and writes it as Parquet shards."""

from kfp.dsl import Dataset, Output

from components import step


@step
def prepare(
    dataset: Output[Dataset],
    pins: str,
    task: str,
) -> None:
    """Validates and splits the raw data, and writes fixed-width Parquet shards with a manifest.

    Args:
        pins: URI of the data's pins: objects, options and windows to read.
        task: Expected task of the pins; no other task is imported.

    Returns:
        dataset: Directory of Parquet shards and manifest.json.
    """
    from vgp import steps

    manifest = steps.prepare("", dataset.path, task=task, pins=pins)
    dataset.metadata.update(rows={split: manifest.rows(split) for split in manifest.splits})
