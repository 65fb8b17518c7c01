"""The functions of a preparation for a Beam worker, on numbered shards, with a file for each failure.

The caller gets a worker's exception as the text of a traceback, if at all. So each failure is also written as a file
with a readable message, in the folder of the job.
"""

import json
import re
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TypeVar

from vgp.base.exits import UserError
from vgp.base.storage import objects, storage
from vgp.data import current_place, shards, tasks
from vgp.data import shards as tree
from vgp.data.pool import ProcessDied, WorkerPool
from vgp.data.shard import Order, Prepared, ShardIds, id_parts, prepare_shard, require_unique_ids, write_shard
from vgp.data.shards import Figures, Plan
from vgp.data.task import Scan, Shard, Statistics, Task
from vgp.protocol.manifest import FILE_NAME, ShardFile

Result = TypeVar("Result")
#: A shard and its number.
Numbered = tuple[int, Shard]
#: The number of a shard, and its scan.
NumberedScan = tuple[int, Scan]

#: The file of notes for the log.
NOTES_FILE = "notes.json"
#: The folder of failures in the folder of the job, which is polled and holds no other files.
FAILURES = "failures"
#: A frame of a traceback, as Python prints it.
FRAME = re.compile(r'^ *File "(.+)", line (\d+), in (.+)$', re.MULTILINE)
#: The most parts in which ids are compared; each shard sends an element for each part.
MOST_PARTS = 256


@dataclass(frozen=True)
class Failure:
    """A failure on a worker."""

    words: str
    #: Whether a retry would fail too, because the input or the task is wrong.
    final: bool


@dataclass(frozen=True)
class Work:
    """The parameters of a preparation on the workers; pickled with the name of the task's class."""

    name: str
    task: Task
    #: The number of shards.
    shards: int
    #: The folder for scratch rows, failures and the manifest, local or in a bucket.
    folder: str
    #: The folder for the dataset's shards.
    output: str
    #: Whether each shard has a process of its own, whose death the worker survives and explains.
    apart: bool = field(default=False, compare=False)

    def __reduce__(self) -> tuple[object, ...]:
        return _restore, (self.name, vars(self.task), self.shards, self.folder, self.output, self.apart)

    @property
    def id_parts(self) -> int:
        return min(MOST_PARTS, self.shards)

    def scan(self, item: Numbered) -> NumberedScan:
        return item[0], self._run_on_shard("scanning", partial(_scan, self.task), item)

    def statistics(self, scans: Iterable[NumberedScan]) -> Statistics:
        """Combines all scans, or the single merged scan."""
        with self._failures("combining", "all"):
            return self.task.combine(scan for _, scan in sorted(scans, key=_get_number))

    def prepare(self, item: Numbered, statistics: Statistics) -> tuple[int, Prepared]:
        sample = shards.sample_rows(self.shards)
        make = partial(_prepare, self.task, statistics, sample, self.folder)
        return item[0], self._run_on_shard("making rows", make, item)

    def ids(self, item: Numbered, prepared: Prepared) -> Iterable[tuple[int, ShardIds]]:
        """Yields the ids that the task set in the rows of a shard, by part."""
        if prepared.ids is not None:
            for part, ids in enumerate(id_parts(prepared.ids, self.id_parts)):
                yield part, (item[0], shards.format_shard(item[1]), ids)

    def compare_ids(self, part: int, ids: Iterable[ShardIds]) -> None:
        with self._failures("comparing ids", str(part)):
            require_unique_ids(ids)

    def plan(self, figures: Figures, statistics: Statistics) -> tuple[Plan, list[Order]]:
        with self._failures("planning", "all"):
            return shards.plan(self.task, figures, statistics)

    def write(self, item: tuple[int, Order], values: Mapping[str, tuple[str, ...]]) -> tuple[int, dict[str, ShardFile]]:
        number, order = item
        with self._failures("writing", str(number)):
            return number, write_shard(order, values, self.output)

    def finish(self, statistics: Statistics, plan: Plan, files: Iterable[tuple[int, dict[str, ShardFile]]]) -> None:
        """Writes notes and manifest to the folder of the job, after all shards are written."""
        with self._failures("finishing", "all"):
            in_order = [shard for _, shard in sorted(files, key=_get_number)]
            dataset = shards.manifest_of(self.name, self.task, statistics, plan, in_order)
            write_file(f"{self.folder}/{NOTES_FILE}", json.dumps(plan.notes).encode())
            write_file(f"{self.folder}/{FILE_NAME}", dataset.model_dump_json().encode())

    def merge_figures(self, group: Iterable[tuple[int, Figures]]) -> Figures:
        with self._failures("merging figures", "all"):
            whole = tree.merge_in_tree((figures for _, figures in sorted(group, key=_get_number)), Figures.merge)
            assert whole is not None
            return whole

    def merge_scans(self, group: Iterable[NumberedScan]) -> Scan:
        with self._failures("merging scans", "all"):
            return tree.merge_in_tree((scan for _, scan in sorted(group, key=_get_number)), self.task.merge)

    def _run_on_shard(self, title: str, function: Callable[[Numbered], Result], item: Numbered) -> Result:
        number, shard = item
        with self._failures(title, str(number), f"shard {number}, {shards.format_shard(shard)}"):
            current_place.forget_place()
            if not self.apart:
                return function(item)
            with _one_at_a_time:
                return _get_child_pool().call(title, function, item)

    def _failures(self, title: str, number: str, shard: str = "") -> "_FailureWriter":
        return _FailureWriter(f"{self.folder}/{FAILURES}/{title.replace(' ', '-')}-{number}.json", title, shard)


@dataclass(frozen=True)
class _FailureWriter:
    """A context that also writes an exception of its block to a file."""

    path: str
    title: str
    shard: str

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (Exception, SystemExit)):
            final = isinstance(error, UserError) and not isinstance(error, ProcessDied)
            with suppress(OSError):  # a full disk cannot hold the file either
                write_file(self.path, json.dumps({"words": self._describe(error), "final": final}).encode())

    def _describe(self, error: BaseException) -> str:
        if isinstance(error, UserError):
            at = f" It was {self.title} {self.shard}." if isinstance(error, ProcessDied) and self.shard else ""
            return f"{error}{at}"
        notes = [note.removeprefix(f"while {self.title}: ") for note in getattr(error, "__notes__", ())]
        where = ", ".join(part for part in (notes[-1] if notes else current_place.current_place(), self.shard) if part)
        text = f"{self.title}{f' of {where}' if where else ''}: {type(error).__name__}: {error}"
        return f"{text} ({_find_line(error)})"


def _find_line(error: BaseException) -> str:
    """Returns the line that raised the error. An error of a pool's process has the text of its traceback as cause."""
    frames = FRAME.findall(str(error.__cause__ or ""))
    last = traceback.extract_tb(error.__traceback__)[-1]
    file, line, name = frames[-1] if frames else (last.filename, last.lineno, last.name)
    return f"{Path(file).name}, line {line}, in {name}"


def write_file(path: str, data: bytes) -> None:
    if storage.is_remote(path):
        objects.replace(path, data)
    else:
        Path(path).parent.mkdir(exist_ok=True)
        storage.overwrite(path, data)


def failures(folder: str) -> list[Failure]:
    """Reads the failures of the workers, final ones first."""
    read = [Failure(**json.loads(storage.read(f.path, most=1 << 20))) for f in storage.below(f"{folder}/{FAILURES}")]
    return sorted(read, key=lambda failure: not failure.final)


def _scan(task: Task, item: Numbered) -> Scan:
    return task.scan(item[1])


def _prepare(task: Task, statistics: Statistics, sample: int, folder: str, item: Numbered) -> Prepared:
    return prepare_shard(task, item[0], item[1], statistics, sample, folder)


def _get_number(item: tuple[int, object]) -> int:
    return item[0]


def _restore(name: str, state: dict[str, object], shards: int, folder: str, output: str, apart: bool) -> Work:
    kind = tasks.find(name)
    task = kind.__new__(kind)
    vars(task).update(state)
    if not task.scratch.is_dir():  # a folder of the sending machine
        task.scratch = _scratch()
    return Work(name, task, shards, folder, output, apart)


@cache
def _scratch() -> Path:
    return Path(_folder().name)


@cache
def _folder() -> "tempfile.TemporaryDirectory[str]":
    """Returns the temporary folder of this process, which is removed at its end."""
    return tempfile.TemporaryDirectory(prefix="worker-")


_one_at_a_time = threading.Lock()


@cache
def _get_child_pool() -> WorkerPool:
    return WorkerPool(1, _scratch())


def without_ids(prepared: Prepared) -> Prepared:
    return replace(prepared, ids=None)
