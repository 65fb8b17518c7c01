"""Prepares a dataset: raw input in, fixed-width Parquet shards and a manifest out.

Scan all shards, combine what they tell, make the rows, check them, and only then write: the destination is
not touched before everything is known to be good, and the manifest comes last. What is written depends on the
input and the configuration, not on the number of workers.
"""

import errno
import hashlib
import inspect
import json
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import accumulate, count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from training import tasks
from training.data import leaks, manifest, raw
from training.data.columns import Sketch, category_values
from training.data.destination import Destination
from training.data.manifest import Manifest, ShardFile
from training.data.pool import Shared, WorkerPool
from training.data.shard import ROW_ID, Order, Prepared, prepare_shard, write_shard
from training.errors import UserError
from training.printable import listed
from training.task import Task

#: The errors of a file system that are the user's to mend.
DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EFBIG}


def prepare(
    task: str,
    data: str,
    destination: str | Path,
    *,
    options: Mapping[str, Any] | None = None,
    workers: int | None = None,
) -> Manifest:
    """Prepares the dataset of a task in the folder `destination` and returns its manifest.

    Args:
        task: a shipped task or `module:Class`.
        data: what the task takes as input; for CSV tasks files, folders and globs, local or gs://,
            separated by commas. "" = the task's own.
        options: what the task can be told, such as layer sizes or how its rows are split.
        destination: an empty or new folder, or one that holds a prepared dataset, which is replaced.
        workers: processes; None = one per core, if there is enough to do.

    Raises:
        UserError: the task, its options, the input or the destination is wrong. Nothing is left behind.
    """
    started = time.monotonic()
    with _disk_errors_named():
        work = tasks.load(task, options)
        target = Destination.checked(destination)
        if work.as_they_are:
            return _handed_on(task, work, data, target)
        with tempfile.TemporaryDirectory(prefix="prepare-") as scratch, WorkerPool(workers) as pool:
            work.scratch = Path(scratch)
            made = _prepare(task, work, data, target, pool)
    rows = {split: made.rows(split) for split in made.splits}
    spoken = ", ".join(f"{split} {n:,}" for split, n in rows.items())
    seconds = time.monotonic() - started
    print(f"prepared {sum(rows.values()):,} rows ({spoken}) in {seconds:.1f} s", file=sys.stderr, flush=True)
    return made


def _handed_on(name: str, task: Task, data: str, target: Destination) -> Manifest:
    started = time.monotonic()
    made = raw.copy(name, task, data, target)
    size, seconds = sum(source.bytes for source in made.sources), time.monotonic() - started
    plural = "s" * (len(made.sources) != 1)
    copied = f"copied {len(made.sources):,} file{plural}, {size:,} bytes, as they are" if made.sources else "no files"
    print(f"{copied} in {seconds:.1f} s", file=sys.stderr, flush=True)
    return made


def _prepare(name: str, task: Task, data: str, target: Destination, pool: WorkerPool) -> Manifest:
    shards = task.shards(data)
    statistics = task.combine(pool.map("scanning", task.scan, shards))
    shared = Shared(statistics, task.scratch / "statistics")
    make = partial(_make, task, shared, max(64, leaks.SAMPLE_ROWS // max(1, len(shards))))
    prepared, columns = _merged(pool.map("making rows", make, list(enumerate(shards))))
    notes = tuple(statistics.get("notes", ()))
    _check(task, prepared, columns, notes)
    for note in (*notes, *_absent(task, prepared)):
        print(f"note: {note}", file=sys.stderr, flush=True)
    values = {name: category_values(s.counts) for name, s in columns.items() if s.kind == "category"}
    described = tuple(sketch.column(name, task.classes) for name, sketch in columns.items())
    with target.writing() as folder:
        orders = _orders(prepared, folder)
        files = pool.map("writing", partial(write_shard, values=values), orders)
        made = _manifest(name, task, statistics, described, _by_split(files))
        manifest.save(made, folder)
    return made


def _make(task: Task, statistics: Shared, sample_rows: int, numbered: tuple[int, Any]) -> Prepared:
    return prepare_shard(task, *numbered, statistics.value, sample_rows)


def _merged(shards: Iterable[Prepared]) -> tuple[list[Prepared], dict[str, Sketch]]:
    """The shards, and the figures of all; merged as they come, so that the values of each are not held."""
    prepared, merged = [], {ROW_ID: Sketch("id", pa.int64())}
    for shard in shards:
        for name, sketch in shard.columns.items():
            if name in merged:
                merged[name].merge(sketch)
            else:
                merged[name] = sketch
            merged[name].require_few_values(name)
        prepared.append(replace(shard, columns={}))
    return prepared, merged


def _absent(task: Task, prepared: Sequence[Prepared]) -> Iterator[str]:
    """What is wrong with a test split that lacks a class; the train split may not lack one."""
    known = set[int]().union(*(shard.classes.get("test", ()) for shard in prepared))
    if known and (absent := [title for code, title in enumerate(task.classes) if code not in known]):
        yield f"The test split has no row of the class {listed(absent)}: there will be no AUC."


def _check(task: Task, prepared: Sequence[Prepared], columns: Mapping[str, Sketch], notes: Sequence[str]) -> None:
    """Raises UserError if there is nothing to learn from or to test on, or a column tells the label."""
    rows = {split: sum(shard.rows.get(split, 0) for shard in prepared) for split in ("train", "test")}
    for split, other in (("train", "test"), ("test", "train")):
        if not rows[split]:
            lack = f"there is no row in the {split} split, and {rows[other]:,} in the {other} split: more are needed."
            raise UserError(" ".join([lack, *notes]))
    label = columns.get(task.label)
    if label is None or label.kind != "label":
        return
    for code, title in enumerate(task.classes):
        if not label.counts[str(code)]:
            raise UserError(f"the class {title!r} does not occur in the train split: there is nothing to tell apart.")
    samples = [shard.sample for shard in prepared if shard.rows.get("train")]
    joined = {name: np.concatenate([sample[name] for sample in samples]) for name in samples[0]}
    leaks.check(joined, task.label, task.classes, (*task.trusted, task.group))


def _orders(prepared: Sequence[Prepared], folder: Path) -> list[Order]:
    """Numbers the files of each split in the order of the shards; a shard without rows of a split has none."""
    splits = sorted({split for shard in prepared for split, rows in shard.rows.items() if rows})
    numbers = {split: count() for split in splits}
    sizes = (shard.rows.get(split, 0) for split in splits for shard in prepared)
    starts = list(accumulate(sizes, initial=0))
    return [
        Order(
            shard.path,
            {s: folder / f"{s}-{next(numbers[s]):05}.parquet" for s in splits if shard.rows.get(s)},
            {s: starts[k * len(prepared) + i] for k, s in enumerate(splits)},
        )
        for i, shard in enumerate(prepared)
    ]


def _by_split(files: Iterator[dict[str, ShardFile]]) -> dict[str, tuple[ShardFile, ...]]:
    splits: dict[str, tuple[ShardFile, ...]] = {}
    for written in files:
        for split, file in written.items():
            splits[split] = (*splits.get(split, ()), file)
    return splits


def _manifest(
    name: str,
    task: Task,
    statistics: Mapping[str, Any],
    columns: tuple[manifest.Column, ...],
    splits: dict[str, tuple[ShardFile, ...]],
) -> Manifest:
    own = {"rows_read", "rows_dropped", "notes", "split"}
    return Manifest(
        task=tasks.spec(name),
        options=task.options,
        split=statistics.get("split", {}),
        columns=columns,
        splits=splits,
        statistics={key: value for key, value in statistics.items() if key not in own and not key.startswith("_")},
        rows_read=statistics.get("rows_read", sum(f.rows for files in splits.values() for f in files)),
        rows_dropped=statistics.get("rows_dropped", {}),
        notes=tuple(statistics.get("notes", ())),
        sources=task.sources,
        fingerprint=_fingerprint(name, task),
    )


def _fingerprint(name: str, task: Task) -> str:
    parts = {
        "format": Manifest.model_fields["format"].default,
        "task": tasks.spec(name),
        "code": inspect.getsource(sys.modules[type(task).__module__]),
        "options": task.options,
        "sources": [source.sha256 for source in task.sources],
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@contextmanager
def _disk_errors_named() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in DISK_ERRORS:
            raise
        fix = ""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            fix = f" Free some, or set TMPDIR (now {tempfile.gettempdir()}) and the output to other disks."
        raise UserError(f"{error.filename or 'the output'}: {error.strerror}.{fix}") from None
