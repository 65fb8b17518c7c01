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
    champion: str = "",
    as_of: str = "",
    pins: str = "",
) -> NamedTuple("Pins", [("digest", str), ("uri", str), ("data", str), ("champion", str)]):  # type: ignore[valid-type]
    """Writes down what the run reads: objects with their generations, windows as dates. Never taken from the cache.

    Args:
        pipeline: Name of the pipeline; pins of another one are refused.
        run: Name of this run.
        scheduled: The time for which a schedule started the run; counts only without as_of.
        data: Raw input: file, directory, glob or gs:// URI, several separated by commas. Empty: the task's own data.
        task: A shipped task (flights, language_model) or module:Class.
        task_options: Options of the task as JSON, such as its windows: {"train": "1-6", "test": "7"}.
        champion: Model directory of the champion, local or gs://. Empty: none.
        as_of: The day or time as of which the run sees its data. Empty: the schedule's, else now.
        pins: URI of an earlier run's pins, to read what that run read. Empty: pin what is there now.

    Returns:
        record: The pins of this run, as JSON.
        digest: Digest of the pins.
        uri: Where the pins of this run are.
        data: Where the pins of its data are.
        champion: Where the pins of its champion are; empty without one.
    """
    from training import steps

    resolved = steps.resolve(
        record.path,
        pipeline=pipeline,
        run=run,
        scheduled=scheduled,
        data=data,
        task=task,
        task_options=task_options,
        champion=champion,
        as_of=as_of,
        pins=pins,
    )
    record.uri = resolved.uri
    record.metadata.update(resolved.metadata)
    return resolved.digest, resolved.uri, resolved.data, resolved.champion
