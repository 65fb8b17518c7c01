"""The functions of a preparation, as a worker of Beam calls them: on a shard by its number, with its failure kept.

A worker's exception reaches its caller as the text of a traceback, if at all. So each failure is left as a small file
in the folder of the job, in the words that a person reads.
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
from vgp.data import place, shards, tasks
from vgp.data import shards as tree
from vgp.data.pool import ProcessDied, WorkerPool
from vgp.data.shard import Order, Prepared, ShardIds, id_parts, prepare_shard, require_unique_ids, write_shard
from vgp.data.shards import Figures, Plan
from vgp.data.task import Scan, Shard, Statistics, Task
from vgp.protocol.manifest import FILE_NAME, ShardFile

Result = TypeVar("Result")
#: A shard and its number.
Numbered = tuple[int, Shard]
#: What a task saw in a shard, and the number of the shard.
NumberedScan = tuple[int, Scan]

#: What a reader of the log is told.
NOTES_FILE = "notes.json"
#: Where failures lie, in the folder of the job: it is looked at again and again, and holds nothing else.
FAILURES = "failures"
#: A frame of a traceback, as Python prints it.
FRAME = re.compile(r'^ *File "(.+)", line (\d+), in (.+)$', re.MULTILINE)
#: Parts in which ids are compared: as many elements go from each shard.
MOST_PARTS = 256


@dataclass(frozen=True)
class Failure:
    """What went wrong on a worker."""

    words: str
    #: Whether it would go wrong again: a fault of the input or of the task.
    final: bool


@dataclass(frozen=True)
class Work:
    """What workers know of a preparation; it travels to them with the task's class by its name."""

    name: str
    task: Task
    #: How many there are.
    shards: int
    #: For what waits between two functions, for failures and for the manifest; here or in a bucket.
    folder: str
    #: Where the dataset's shards go.
    output: str
    #: Whether a shard is worked on in a process of its own, whose death the worker survives and explains.
    apart: bool = field(default=False, compare=False)

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (self.name, vars(self.task), self.shards, self.folder, self.output, self.apart)

    @property
    def id_parts(self) -> int:
        return min(MOST_PARTS, self.shards)

    def scan(self, item: Numbered) -> NumberedScan:
        return item[0], self._on_shard("scanning", partial(_scan, self.task), item)

    def statistics(self, scans: Iterable[NumberedScan]) -> Statistics:
        """Of all scans, or of the one that they were merged to."""
        with self._failures("combining", "all"):
            return self.task.combine(scan for _, scan in sorted(scans, key=_number))

    def prepare(self, item: Numbered, statistics: Statistics) -> tuple[int, Prepared]:
        sample = shards.sample_rows(self.shards)
        make = partial(_prepare, self.task, statistics, sample, self.folder)
        return item[0], self._on_shard("making rows", make, item)

    def ids(self, item: Numbered, prepared: Prepared) -> Iterable[tuple[int, ShardIds]]:
        """The ids that the task gave to the rows of a shard, by part."""
        if prepared.ids is not None:
            for part, ids in enumerate(id_parts(prepared.ids, self.id_parts)):
                yield part, (item[0], shards.named(item[1]), ids)

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
        """Leaves the manifest in the folder of the job: all shards are written."""
        with self._failures("finishing", "all"):
            in_order = [shard for _, shard in sorted(files, key=_number)]
            made = shards.manifest_of(self.name, self.task, statistics, plan, in_order)
            leave(f"{self.folder}/{NOTES_FILE}", json.dumps(plan.notes).encode())
            leave(f"{self.folder}/{FILE_NAME}", made.model_dump_json().encode())

    def merge_figures(self, group: Iterable[tuple[int, Figures]]) -> Figures:
        with self._failures("merging figures", "all"):
            whole = tree.merged_in_tree((figures for _, figures in sorted(group, key=_number)), Figures.merge)
            assert whole is not None
            return whole

    def merge_scans(self, group: Iterable[NumberedScan]) -> Scan:
        with self._failures("merging scans", "all"):
            return tree.merged_in_tree((scan for _, scan in sorted(group, key=_number)), self.task.merge)

    def _on_shard(self, title: str, function: Callable[[Numbered], Result], item: Numbered) -> Result:
        number, shard = item
        with self._failures(title, str(number), f"shard {number}, {shards.named(shard)}"):
            place.forget()
            if not self.apart:
                return function(item)
            with _one_at_a_time:
                return _child().call(title, function, item)

    def _failures(self, title: str, number: str, shard: str = "") -> "_Kept":
        return _Kept(f"{self.folder}/{FAILURES}/{title.replace(' ', '-')}-{number}.json", title, shard)


@dataclass(frozen=True)
class _Kept:
    """Inside, an exception is also left as a file."""

    path: str
    title: str
    shard: str

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (Exception, SystemExit)):
            final = isinstance(error, UserError) and not isinstance(error, ProcessDied)
            with suppress(OSError):  # a disk that is full takes no word of it either
                leave(self.path, json.dumps({"words": self._words(error), "final": final}).encode())

    def _words(self, error: BaseException) -> str:
        if isinstance(error, UserError):
            at = f" It was {self.title} {self.shard}." if isinstance(error, ProcessDied) and self.shard else ""
            return f"{error}{at}"
        notes = [note.removeprefix(f"while {self.title}: ") for note in getattr(error, "__notes__", ())]
        where = ", ".join(part for part in (notes[-1] if notes else place.current(), self.shard) if part)
        text = f"{self.title}{f' of {where}' if where else ''}: {type(error).__name__}: {error}"
        return f"{text} ({_raised_at(error)})"


def _raised_at(error: BaseException) -> str:
    """The line that raised it; of one from a pool's process its cause is the text of the traceback there."""
    told = FRAME.findall(str(error.__cause__ or ""))
    last = traceback.extract_tb(error.__traceback__)[-1]
    file, line, name = told[-1] if told else (last.filename, last.lineno, last.name)
    return f"{Path(file).name}, line {line}, in {name}"


def leave(path: str, data: bytes) -> None:
    if storage.is_remote(path):
        objects.replace(path, data)
    else:
        Path(path).parent.mkdir(exist_ok=True)
        storage.overwrite(path, data)


def failures(folder: str) -> list[Failure]:
    """What workers have left, what is final first."""
    read = [Failure(**json.loads(storage.read(f.path, most=1 << 20))) for f in storage.below(f"{folder}/{FAILURES}")]
    return sorted(read, key=lambda failure: not failure.final)


def _scan(task: Task, item: Numbered) -> Scan:
    return task.scan(item[1])


def _prepare(task: Task, statistics: Statistics, sample: int, folder: str, item: Numbered) -> Prepared:
    return prepare_shard(task, item[0], item[1], statistics, sample, folder)


def _number(item: tuple[int, object]) -> int:
    return item[0]


def _restored(name: str, state: dict[str, object], shards: int, folder: str, output: str, apart: bool) -> Work:
    kind = tasks.find(name)
    task = kind.__new__(kind)
    vars(task).update(state)
    if not task.scratch.is_dir():  # of the machine that sent it
        task.scratch = _scratch()
    return Work(name, task, shards, folder, output, apart)


@cache
def _scratch() -> Path:
    return Path(_folder().name)


@cache
def _folder() -> "tempfile.TemporaryDirectory[str]":
    """Of this process; it goes with it."""
    return tempfile.TemporaryDirectory(prefix="worker-")


_one_at_a_time = threading.Lock()


@cache
def _child() -> WorkerPool:
    return WorkerPool(1, _scratch())


def without_ids(prepared: Prepared) -> Prepared:
    return replace(prepared, ids=None)
