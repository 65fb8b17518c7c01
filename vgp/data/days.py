"""The days on which data has rows: read from its date columns, and remembered for objects, which do not change."""

import hashlib
import inspect
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from pydantic import TypeAdapter

from vgp.base.documents import json_text
from vgp.base.exits import ProcessFailed, UserError
from vgp.base.storage import storage
from vgp.base.storage.storage import File
from vgp.data import destination
from vgp.data.engines import opening
from vgp.data.sources.files import NoRows
from vgp.data.tables import blame, features
from vgp.data.tabular import TabularTask

#: First and last day of each stretch, from 1970-01-01.
Stretches = list[tuple[int, int]]
_REMEMBERED = TypeAdapter(dict[str, Stretches])
#: Options that do not say which day a row is of.
_WINDOWS = ("train", "test", "validation_share")


def present(task: TabularTask, files: Sequence[File], folder: str, *, dry_run: bool = False) -> set[int]:
    """The days of all rows, from 1970-01-01. Arguments and errors as of `by_file`."""
    return {day for known in by_file(task, files, folder, dry_run=dry_run).values() for day in spread(known)}


def by_file(task: TabularTask, files: Sequence[File], folder: str, *, dry_run: bool = False) -> dict[str, Stretches]:
    """The days of the rows of each file, by its path with its generation.

    Args:
        folder: Where the pins lie: there the days of objects are remembered, so that later runs read new ones only.
        dry_run: Whether nothing is written.

    Raises:
        UserError: a file cannot be read, lacks a column, or holds a date that is none.
    """
    memory = f"{folder}/days-{key(task)}.json" if storage.is_remote(folder) else ""
    known = remembered(memory) if memory else {}
    new = [file for file in files if name_of(file) not in known]
    read = dict(zip(map(name_of, new), _read(task, new), strict=True)) if new else {}
    days = {name_of(file): known.get(name_of(file)) or read.get(name_of(file), []) for file in files}
    kept = {name: found for name, found in days.items() if name.startswith("gs://")}
    if memory and not dry_run and kept.keys() - known.keys():
        remember(memory, kept)
    return days


def name_of(file: File) -> str:
    """The path of a file; of an object with its generation."""
    return f"{storage.plain(file.path)}#{file.generation}" if file.generation else file.path


def _read(task: TabularTask, files: Sequence[File]) -> list[Stretches]:
    """The days of each file: one query over the columns that tell them."""
    pinned = [replace(file, path=name_of(file)) for file in files]
    try:
        with (
            destination.scratch_folder() as folder,
            opening.duckdb(task, pinned, folder, features.telling_days(task)) as engine,
        ):
            days = features.days(task, engine.source())
            with blame.named(task, engine):
                known = engine.read(days.filter(days.day.notnull()).distinct())
    except NoRows:
        return [[] for _ in files]
    by_file: dict[int, list[int]] = {number: [] for number in range(len(files))}
    for number, day in zip(known["_file"].to_pylist(), known["day"].to_pylist(), strict=True):
        by_file[number].append(day)
    return [stretches(days) for days in by_file.values()]


def spread(stretches: Stretches) -> set[int]:
    """Every day of the stretches."""
    return {day for first, last in stretches for day in range(first, last + 1)}


def stretches(days: Iterable[int]) -> Stretches:
    """Days that follow each other as one stretch."""
    ordered = np.array(sorted(days), np.int64)
    parts = np.split(ordered, np.flatnonzero(np.diff(ordered) > 1) + 1)
    return [(int(part[0]), int(part[-1])) for part in parts if len(part)]


def key(task: TabularTask) -> str:
    """What decides the day of a row besides the file."""
    options = {name: value for name, value in task.options.items() if name not in _WINDOWS}
    code = inspect.getsource(sys.modules[type(task).__module__])
    name = f"{type(task).__module__}:{type(task).__qualname__}"
    text = json.dumps([name, code, options], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def remembered(path: str) -> dict[str, Stretches]:
    """What was remembered; nothing where that cannot be read: all can be read again."""
    try:
        return _REMEMBERED.validate_python(json_text.parse_json(storage.read(path, most=64 << 20)))
    except (UserError, ProcessFailed, ValueError):
        return {}


def remember(path: str, days: dict[str, Stretches]) -> None:
    try:
        storage.overwrite(path, json.dumps(days, separators=(",", ":")).encode())
    except OSError as error:
        print(f"note: the days of the data were not remembered: {error}", file=sys.stderr, flush=True)
