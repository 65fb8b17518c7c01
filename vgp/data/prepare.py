"""Prepares a dataset: turns raw input into fixed-width Parquet shards and a manifest.

Tables are prepared by expressions (tables/), files as they are by copies (tasks/files.py), and everything else by
shards (shards.py). The destination changes only after all checks have passed, and the manifest comes last. The output
depends on the input and the configuration, not on processes, threads or memory.
"""

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vgp.base import engine_settings as settings
from vgp.base.exits import UserError
from vgp.data import destination as scratch
from vgp.data import task_names, tasks
from vgp.data.destination import Destination
from vgp.data.shards import Processes
from vgp.data.tables import task_methods
from vgp.data.tabular import TabularTask
from vgp.data.task import Options, Task
from vgp.data.tasks.files import copy_files
from vgp.protocol import pins as store
from vgp.protocol.manifest import Manifest
from vgp.protocol.pins import DataPins

#: The exit codes of a program that SIGINT or SIGTERM stopped.
STOPPED = {128 + signal.SIGINT, 128 + signal.SIGTERM}


def prepare(
    task: str, data: str, destination: str | Path, *, options: Options | None = None, workers: int | None = None
) -> Manifest:
    """Prepares the dataset of a task in the folder `destination` and returns its manifest.

    Args:
        task: A short name such as `table`, or `module:Class`.
        data: The task's input; for tables files, folders and globs, local or gs://, separated by commas. "" = the
            task's own input.
        options: The task's options, such as layer sizes or the split of its rows.
        destination: An empty or new folder, or one that holds a prepared dataset, which is replaced.
        workers: Processes or threads; None = one per core, if there is enough work.

    Raises:
        UserError: The task, its options, the input or the destination is wrong. The destination stays unchanged.
    """
    started = time.monotonic()
    if workers is not None and workers < 1:
        raise UserError(f"workers is {workers}; it must be at least 1.")
    with scratch.disk_errors_named(), _explaining_exits():
        loaded = tasks.load(task, options)
        if loaded.as_they_are:
            return _copy(task, loaded, data, Destination.checked(destination))
        with scratch.scratch_folder() as loaded.scratch:
            dataset = _prepare_rows(task, loaded, data, destination, workers)
    rows = {split: dataset.rows(split) for split in dataset.splits}
    by_split = ", ".join(f"{split} {n:,}" for split, n in rows.items())
    seconds = time.monotonic() - started
    print(f"prepared {sum(rows.values()):,} rows ({by_split}) in {seconds:.1f} s", file=sys.stderr, flush=True)
    return dataset


def _copy(name: str, task: Task, data: str, target: Destination) -> Manifest:
    started = time.monotonic()
    dataset = copy_files(name, task, data, target)
    count, size = len(dataset.sources), sum(source.bytes for source in dataset.sources)
    seconds = time.monotonic() - started
    line = f"copied {count:,} file{'s' * (count != 1)}, {size:,} bytes, as they are" if count else "no files"
    print(f"{line} in {seconds:.1f} s", file=sys.stderr, flush=True)
    return dataset


def _prepare_rows(name: str, task: Task, data: str, destination: str | Path, workers: int | None) -> Manifest:
    if isinstance(task, TabularTask):
        from vgp.data.tables.preparation import prepare_table

        return prepare_table(name, task, data, Destination.checked(destination), workers)
    allowed = settings.engines()
    if allowed.dataflow:
        from vgp.data.beam.dataflow import prepare_on_dataflow

        return prepare_on_dataflow(name, task, data, destination, allowed.dataflow)
    target = Destination.checked(destination)
    return Processes(workers or allowed.workers or None).make(name, task, task.shards(data), target)


@contextmanager
def _explaining_exits() -> Iterator[None]:
    """Turns a `sys.exit` of the task into a UserError, because it would end the step in silence, perhaps with 0."""
    try:
        yield
    except SystemExit as error:
        if error.code in STOPPED:
            raise
        at = "".join(f" {note}" for note in getattr(error, "__notes__", ()))
        raise UserError(
            f"the task's code ended the program{at} ({task_methods.format_error(error)}). "
            "Raise an exception with the reason instead."
        ) from None


# ---- the pins of the data, for later steps


def read_pinned_input(uri: str, task: str) -> tuple[str, Options]:
    """Reads the pins and returns the argument of the task's `shards`, and the task's options.

    Raises:
        UserError: The pins are of another task, or the package of its data has another version here.
    """
    pins = store.load(uri, DataPins)
    if pins.task != task_names.spec(task):
        raise UserError(f"{uri} holds the pins of the task {pins.task}, not of {task_names.spec(task)}.")
    if pins.unpinned:
        return pins.asked, pins.options
    if not pins.package:
        return uri, pins.options
    here = tasks.load(task, pins.options).package()
    if here != (pins.package.name, pins.package.version):
        now = " ".join(here) if here else "a task without a package"
        raise UserError(
            f"the data was pinned as {pins.package.name} {pins.package.version}, but here it is {now}: start a new run "
            "that resolves its data again, or use the image of that run."
        )
    return "", pins.options


def pins_of_prepared(uri: str, prepared: Manifest, folder: str | Path) -> DataPins:
    """Returns the pins if the data in the folder was prepared from them; raises UserError if not."""
    pins = store.load(uri, DataPins)
    if (pins.task, pins.options) != (prepared.task, prepared.options):
        raise UserError(f"{folder} was not prepared from {uri}: its task or its options differ.")
    return pins
