"""What every way of preparing has in common at its end: what must be true of the rows, and the manifest."""

import hashlib
import inspect
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from vgp.base.exits import UserError
from vgp.base.text.printable import listed
from vgp.data import columns as bins
from vgp.data import task_names
from vgp.data.shares import NAMES
from vgp.data.task import Statistics, Task
from vgp.protocol import manifest, outcome
from vgp.protocol.manifest import Manifest, ShardFile, SourceFile

Columns = tuple[manifest.Column, ...]
#: Classes whose rows in each split a sentence counts.
MOST_COUNTED = 5


def require_rows(rows: Mapping[str, int], notes: Sequence[str]) -> None:
    """Raises UserError if there is nothing to learn from or to test on."""
    for split, other in (("train", "test"), ("test", "train")):
        if not rows.get(split):
            lack = (
                f"there is no row in the {split} split, and {rows.get(other, 0):,} in the {other} split: more are "
                "needed."
            )
            raise UserError(" ".join([lack, *notes]))


#: The rows of each class, by split.
Counts = Mapping[str, Mapping[int, int]]


def require_classes(task: Task, counts: Counts) -> None:
    """Raises UserError if the train split lacks a class."""
    for code, title in enumerate(task.classes):
        if not counts.get("train", {}).get(code):
            raise UserError(
                f"the class {title!r} does not occur in the train split ({_spread(counts, code)}): there is nothing to "
                "tell apart. Give more of its rows, or leave it out of the classes and the data."
            )


def _spread(counts: Counts, code: int) -> str:
    """`train 6, validation 2, test 0`."""
    return ", ".join(f"{split} {counts[split].get(code, 0):,}" for split in NAMES if split in counts)


def require_several(task: Task, counts: Iterable[Mapping[int, int]]) -> None:
    """Raises UserError if a class has one row in all splits, which are counted each."""
    rows = Counter[int]()
    for split in counts:
        rows.update(split)
    if single := [title for code, title in enumerate(task.classes) if rows[code] == 1]:
        raise UserError(
            f"the class {listed(single[:1])} has one row in all: it can be learned or tested, not both. Give more of "
            "its rows, or leave it out of the classes and the data."
        )


def require_spread(label: NDArray[np.generic]) -> None:
    """Raises UserError if all these numbers, of the train split, are the same."""
    if label.min() == label.max():
        raise UserError(f"the label is {label[0]:g} in every row of the train split: there is nothing to learn.")


def with_quantiles(columns: Columns, label: str, sample: NDArray[np.generic]) -> Columns:
    """The columns, of which the label, a number, has quantiles: those of a sample of its values."""
    quantiles = tuple(np.quantile(sample.astype(np.float64), np.linspace(0, 1, 21)).tolist())
    return tuple(c.model_copy(update={"quantiles": quantiles}) if c.name == label else c for c in columns)


def with_bins(columns: Columns, sample: Mapping[str, NDArray[np.generic]]) -> Columns:
    """The columns, of which those that are numbers have their bins: those of a sample of the train rows, by name."""
    return tuple(_binned(c, sample[c.name]) if c.type in ("float", "double") and c.name in sample else c
                 for c in columns)  # fmt: skip


def _binned(column: manifest.Column, values: NDArray[np.generic]) -> manifest.Column:
    inner = bins.bin_edges(values)
    return column.model_copy(
        update={"edges": tuple(inner.tolist()), "tally": tuple(bins.tally(values, inner).tolist())}
    )


def absent(task: Task, counts: Counts) -> Iterator[str]:
    """A sentence for each split that has rows and lacks a class; the train split may not lack one."""
    lost = {"test": "there will be no AUC", "validation": "the best weights and a threshold are chosen without it"}
    for split, why in lost.items():
        codes = [code for code in range(len(task.classes)) if not counts.get(split, {}).get(code)]
        if codes and any(counts.get(split, {}).values()):
            rows = "; ".join(_spread(counts, code) for code in codes[:MOST_COUNTED])
            names = listed([task.classes[code] for code in codes])
            yield f"The {split} split has no row of the class {names} ({rows}): {why}."


def say(notes: Sequence[str]) -> None:
    for note in notes:
        print(f"note: {note}", file=sys.stderr, flush=True)


def manifest_of(
    name: str, task: Task, statistics: Statistics, columns: Columns, splits: dict[str, tuple[ShardFile, ...]]
) -> Manifest:
    own = {"rows_read", "rows_dropped", "notes", "doubts", "split", "sources"}
    doubts = tuple(statistics.get("doubts", ()))
    sources = statistics.get("sources", task.sources)
    return Manifest(
        task=task_names.spec(name),
        options=task.options,
        split=statistics.get("split", {}),
        columns=columns,
        splits=splits,
        statistics={
            **{key: value for key, value in statistics.items() if key not in own and not key.startswith("_")},
            **outcome.statistics(task),
        },
        rows_read=statistics.get("rows_read", sum(f.rows for files in splits.values() for f in files)),
        rows_dropped=statistics.get("rows_dropped", {}),
        notes=(*statistics.get("notes", ()), *doubts),
        doubts=doubts,
        sources=sources,
        fingerprint=fingerprint(name, task, sources, splits),
    )


def fingerprint(name: str, task: Task, sources: Sequence[SourceFile], splits: Mapping[str, Sequence[ShardFile]]) -> str:
    """A checksum of what decides the dataset: the task, its code and options, and the sources.

    A task need not say what its sources are: then it is what came of them, the shards of the splits.
    """
    parts = {
        "format": Manifest.model_fields["format"].default,
        "task": task_names.spec(name),
        "code": inspect.getsource(sys.modules[type(task).__module__]),
        "options": task.options,
        "sources": [source.sha256 for source in sources],
        "shards": {} if sources else {split: [file.sha256 for file in files] for split, files in splits.items()},
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
