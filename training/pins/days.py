"""The days on which data has rows: read from its date columns, and remembered for objects, which do not change."""

import hashlib
import inspect
import json
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from training.data import cutting, schema
from training.data.tabular import TabularTask
from training.errors import ProcessFailed, UserError
from training.storage import storage, strict
from training.storage.storage import File

#: Objects that are fetched and read at the same time.
THREADS = 8
#: First and last day of each stretch, from 1970-01-01.
Stretches = list[tuple[int, int]]
_REMEMBERED = TypeAdapter(dict[str, Stretches])
#: Options that do not say which day a row is of.
_WINDOWS = ("train", "test", "validation_share")


def present(task: TabularTask, files: Sequence[File], folder: str, *, dry_run: bool = False) -> set[int]:
    """The days of all rows, from 1970-01-01.

    Args:
        folder: Where the pins lie: there the days of objects are remembered, so that later runs read new ones only.
        dry_run: Whether nothing is written.

    Raises:
        UserError: a file cannot be read, lacks a column, or holds a date that is none.
    """
    memory = f"{folder}/days-{key(task)}.json" if storage.is_remote(folder) else ""
    known = remembered(memory) if memory else {}
    new = [file for file in files if _name(file) not in known]
    with ThreadPoolExecutor(THREADS) as pool:
        scanned = dict(zip(map(_name, new), pool.map(lambda file: _scanned(task, file), new), strict=True))
    days = {_name(file): known.get(_name(file)) or scanned.get(_name(file), []) for file in files}
    kept = {name: found for name, found in days.items() if name.startswith("gs://")}
    if memory and not dry_run and kept.keys() - known.keys():
        remember(memory, kept)
    return {day for known in days.values() for day in spread(known)}


def _name(file: File) -> str:
    return f"{storage.plain(file.path)}#{file.generation}" if file.generation else file.path


def _scanned(task: TabularTask, file: File) -> Stretches:
    if file.generation and file.path == storage.plain(file.path):
        file = File(_name(file), file.bytes, file.generation)
    with tempfile.TemporaryDirectory(prefix="days-") as scratch:
        _, chunks = cutting.cut_file(file, Path(scratch) / "source")
        for source, columns in dict.fromkeys((chunk.source, chunk.columns) for chunk in chunks):
            schema.check_header(source, columns, task.schema)
        return stretches(set().union(*(task.days(chunk).tolist() for chunk in chunks)))


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
        return _REMEMBERED.validate_python(strict.loads(storage.read(path, most=64 << 20)))
    except (UserError, ProcessFailed, ValueError):
        return {}


def remember(path: str, days: dict[str, Stretches]) -> None:
    try:
        storage.overwrite(path, json.dumps(days, separators=(",", ":")).encode())
    except OSError as error:
        print(f"note: the days of the data were not remembered: {error}", file=sys.stderr, flush=True)
