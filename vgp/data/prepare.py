"""Prepares a dataset: raw input in, fixed-width Parquet shards and a manifest out.

Three ways: files as they are (raw.py), tables by expressions (tables/), everything else by shards (shards.py). None
touches the destination before everything is known to be good, and the manifest comes last. What is written depends on
the input and the configuration, not on processes, threads or memory.
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
from vgp.data.tables import rebased
from vgp.data.tabular import TabularTask
from vgp.data.task import Options, Task
from vgp.data.tasks.files import copy_files
from vgp.protocol import pins as store
from vgp.protocol.manifest import Manifest
from vgp.protocol.pins import DataPins

#: The exit codes of a program that was told to stop, from without.
STOPPED = {128 + signal.SIGINT, 128 + signal.SIGTERM}


def prepare(
    task: str, data: str, destination: str | Path, *, options: Options | None = None, workers: int | None = None
) -> Manifest:
    """Prepares the dataset of a task in the folder `destination` and returns its manifest.

    Args:
        task: a shipped task or `module:Class`.
        data: what the task takes as input; for tables files, folders and globs, local or gs://, separated by
            commas. "" = the task's own.
        options: what the task can be told, such as layer sizes or how its rows are split.
        destination: an empty or new folder, or one that holds a prepared dataset, which is replaced.
        workers: processes or threads; None = one per core, if there is enough to do.

    Raises:
        UserError: the task, its options, the input or the destination is wrong. Nothing is left behind.
    """
    started = time.monotonic()
    if workers is not None and workers < 1:
        raise UserError(f"workers is {workers}; it must be at least 1.")
    with scratch.disk_errors_named(), _exits_named():
        work = tasks.load(task, options)
        if work.as_they_are:
            return _handed_on(task, work, data, Destination.checked(destination))
        with scratch.scratch_folder() as work.scratch:
            made = _prepared(task, work, data, destination, workers)
    rows = {split: made.rows(split) for split in made.splits}
    spoken = ", ".join(f"{split} {n:,}" for split, n in rows.items())
    seconds = time.monotonic() - started
    print(f"prepared {sum(rows.values()):,} rows ({spoken}) in {seconds:.1f} s", file=sys.stderr, flush=True)
    return made


def _handed_on(name: str, task: Task, data: str, target: Destination) -> Manifest:
    started = time.monotonic()
    made = copy_files(name, task, data, target)
    size, seconds = sum(source.bytes for source in made.sources), time.monotonic() - started
    plural = "s" * (len(made.sources) != 1)
    copied = f"copied {len(made.sources):,} file{plural}, {size:,} bytes, as they are" if made.sources else "no files"
    print(f"{copied} in {seconds:.1f} s", file=sys.stderr, flush=True)
    return made


def _prepared(name: str, task: Task, data: str, destination: str | Path, workers: int | None) -> Manifest:
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
def _exits_named() -> Iterator[None]:
    """A task that calls `sys.exit` would end the step in silence, and with 0 as if it had gone well."""
    try:
        yield
    except SystemExit as error:
        if error.code in STOPPED:
            raise
        at = "".join(f" {note}" for note in getattr(error, "__notes__", ()))
        raise UserError(
            f"the task's code ended the program{at} ({rebased.spoken_error(error)}). "
            "Have it raise an error that says why."
        ) from None


# ---- what later steps take from the pins of the data


def pinned_input(uri: str, task: str) -> tuple[str, Options]:
    """What the task's `shards` is given, and its options.

    Raises:
        UserError: the pins are of another task, or the package of its data has another version here.
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
        now = " ".join(here) if here else "nothing that tells its version"
        raise UserError(
            f"the data was pinned as {pins.package.name} {pins.package.version}, and here it is {now}: start a run "
            "that resolves its data anew, or use the image of that run."
        )
    return "", pins.options


def pins_of_prepared(uri: str, prepared: Manifest, folder: str | Path) -> DataPins:
    """The pins that the data in the folder was prepared from. Raises UserError if it was not."""
    pins = store.load(uri, DataPins)
    if (pins.task, pins.options) != (prepared.task, prepared.options):
        raise UserError(f"{folder} was not prepared from {uri}: its task or its options are others.")
    return pins
