"""The days on which data has rows: read from its date columns, and cached for objects in a bucket, by generation."""

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
from vgp.data.engines import engine_choice
from vgp.data.sources.table_files import NoRows
from vgp.data.tables import failed_rows, features
from vgp.data.tabular import TabularTask

#: First and last day of each run of consecutive days, counted from 1970-01-01.
Stretches = list[tuple[int, int]]
_REMEMBERED = TypeAdapter(dict[str, Stretches])
#: Options on which the day of a row does not depend.
_WINDOWS = ("train", "test", "validation_share")


def read_days(task: TabularTask, files: Sequence[File], folder: str, *, dry_run: bool = False) -> set[int]:
    """Returns the days of all rows, counted from 1970-01-01. `read_days_by_file` describes the arguments and errors."""
    return {
        day for days in read_days_by_file(task, files, folder, dry_run=dry_run).values() for day in expand_days(days)
    }


def read_days_by_file(
    task: TabularTask, files: Sequence[File], folder: str, *, dry_run: bool = False
) -> dict[str, Stretches]:
    """Returns the days of each file's rows, by the file's path with its generation.

    Args:
        folder: The folder of the pins, which also holds the cached days of objects, so later runs read only new ones.
        dry_run: Whether to leave the cache unchanged.

    Raises:
        UserError: A file cannot be read, lacks a column, or holds an invalid date.
    """
    cache = f"{folder}/days-{key(task)}.json" if storage.is_remote(folder) else ""
    known = read_cached_days(cache) if cache else {}
    new = [file for file in files if path_with_generation(file) not in known]
    read = dict(zip(map(path_with_generation, new), _read(task, new), strict=True)) if new else {}
    days = {
        path_with_generation(file): known.get(path_with_generation(file)) or read.get(path_with_generation(file), [])
        for file in files
    }
    objects = {name: stretches for name, stretches in days.items() if name.startswith("gs://")}
    if cache and not dry_run and objects.keys() - known.keys():
        cache_days(cache, objects)
    return days


def path_with_generation(file: File) -> str:
    """Returns the path of a file, with its generation if it is an object in a bucket."""
    return f"{storage.plain(file.path)}#{file.generation}" if file.generation else file.path


def _read(task: TabularTask, files: Sequence[File]) -> list[Stretches]:
    """Reads the days of each file, in one query over the columns that decide them."""
    pinned = [replace(file, path=path_with_generation(file)) for file in files]
    try:
        with (
            destination.scratch_folder() as folder,
            engine_choice.duckdb(task, pinned, folder, features.find_day_columns(task)) as engine,
        ):
            days = features.compute_days(task, engine.source())
            with failed_rows.name_errors(task, engine):
                table = engine.read(days.filter(days.day.notnull()).distinct())
    except NoRows:
        return [[] for _ in files]
    by_file: dict[int, list[int]] = {number: [] for number in range(len(files))}
    for number, day in zip(table["_file"].to_pylist(), table["day"].to_pylist(), strict=True):
        by_file[number].append(day)
    return [stretches(days) for days in by_file.values()]


def expand_days(stretches: Stretches) -> set[int]:
    """Returns every day of the stretches."""
    return {day for first, last in stretches for day in range(first, last + 1)}


def stretches(days: Iterable[int]) -> Stretches:
    """Merges consecutive days into stretches."""
    ordered = np.array(sorted(days), np.int64)
    parts = np.split(ordered, np.flatnonzero(np.diff(ordered) > 1) + 1)
    return [(int(part[0]), int(part[-1])) for part in parts if len(part)]


def key(task: TabularTask) -> str:
    """Returns a hash of the task's code and options, on which the day of a row depends besides the file."""
    options = {name: value for name, value in task.options.items() if name not in _WINDOWS}
    code = inspect.getsource(sys.modules[type(task).__module__])
    name = f"{type(task).__module__}:{type(task).__qualname__}"
    text = json.dumps([name, code, options], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_cached_days(path: str) -> dict[str, Stretches]:
    """Reads the cached days; returns {} if the cache cannot be read, because every file can be read again."""
    try:
        return _REMEMBERED.validate_python(json_text.parse_json(storage.read(path, most=64 << 20)))
    except (UserError, ProcessFailed, ValueError):
        return {}


def cache_days(path: str, days: dict[str, Stretches]) -> None:
    try:
        storage.overwrite(path, json.dumps(days, separators=(",", ":")).encode())
    except OSError as error:
        print(f"note: the days of the data were not cached: {error}", file=sys.stderr, flush=True)
