"""The last part of every preparation: checks of the rows, notes, and the manifest."""

import hashlib
import inspect
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from vgp.base.exits import UserError
from vgp.base.text.printable import join_names
from vgp.data import columns as bins
from vgp.data import task_names
from vgp.data.split_parts import NAMES
from vgp.data.task import Statistics, Task
from vgp.protocol import manifest, outcome
from vgp.protocol.manifest import Manifest, ShardFile, SourceFile

Columns = tuple[manifest.Column, ...]
#: Missing classes whose row counts a note lists.
MOST_COUNTED = 5


def require_rows(rows: Mapping[str, int], notes: Sequence[str]) -> None:
    """Raises UserError if the train or the test split has no rows."""
    for split, other in (("train", "test"), ("test", "train")):
        if not rows.get(split):
            counts = f"{rows.get(other, 0):,} in the {other} split"
            problem = f"there is no row in the {split} split, and {counts}: both need rows."
            raise UserError(" ".join([problem, *notes]))


#: The rows of each class, by split.
Counts = Mapping[str, Mapping[int, int]]


def require_classes(task: Task, counts: Counts) -> None:
    """Raises UserError if the train split lacks a class."""
    for code, title in enumerate(task.classes):
        if not counts.get("train", {}).get(code):
            raise UserError(
                f"the class {title!r} does not occur in the train split ({_format_counts(counts, code)}), so no model "
                "can learn it. Add rows of the class, or leave it out of the classes and the data."
            )


def _format_counts(counts: Counts, code: int) -> str:
    """Returns the rows of a class, such as `train 6, validation 2, test 0`."""
    return ", ".join(f"{split} {counts[split].get(code, 0):,}" for split in NAMES if split in counts)


def require_repeated_classes(task: Task, counts: Iterable[Mapping[int, int]]) -> None:
    """Raises UserError if a class has a single row. `counts` has the rows of each class, one mapping for each split."""
    rows = Counter[int]()
    for split in counts:
        rows.update(split)
    if single := [title for code, title in enumerate(task.classes) if rows[code] == 1]:
        raise UserError(
            f"the class {join_names(single[:1])} has one row in all: it can be learned or tested, not both. "
            "Add rows of "
            "the class, or leave it out of the classes and the data."
        )


def require_varied_label(label: NDArray[np.generic]) -> None:
    """Raises UserError if all labels of the train split are equal."""
    if label.min() == label.max():
        raise UserError(f"the label is {label[0]:g} in every row of the train split: there is nothing to learn.")


def with_quantiles(columns: Columns, label: str, sample: NDArray[np.generic]) -> Columns:
    """Returns the columns with quantiles of the label, a number, computed from a sample of its values."""
    quantiles = tuple(np.quantile(sample.astype(np.float64), np.linspace(0, 1, 21)).tolist())
    return tuple(c.model_copy(update={"quantiles": quantiles}) if c.name == label else c for c in columns)


def with_bins(columns: Columns, sample: Mapping[str, NDArray[np.generic]]) -> Columns:
    """Returns the columns with histograms of the numbers, computed from a sample of the train rows, by name."""
    return tuple(_with_bins(c, sample[c.name]) if c.type in ("float", "double") and c.name in sample else c
                 for c in columns)  # fmt: skip


def _with_bins(column: manifest.Column, values: NDArray[np.generic]) -> manifest.Column:
    inner = bins.bin_edges(values)
    return column.model_copy(
        update={"edges": tuple(inner.tolist()), "tally": tuple(bins.tally(values, inner).tolist())}
    )


def warn_missing_classes(task: Task, counts: Counts) -> Iterator[str]:
    """Yields a sentence for the test and the validation split if it has rows but lacks a class."""
    effects = {"test": "there will be no AUC", "validation": "the best weights and a threshold are chosen without it"}
    for split, effect in effects.items():
        codes = [code for code in range(len(task.classes)) if not counts.get(split, {}).get(code)]
        if codes and any(counts.get(split, {}).values()):
            rows = "; ".join(_format_counts(counts, code) for code in codes[:MOST_COUNTED])
            names = join_names([task.classes[code] for code in codes])
            yield f"The {split} split has no row of the class {names} ({rows}): {effect}."


def print_notes(notes: Sequence[str]) -> None:
    """Prints the notes on stderr."""
    for note in notes:
        print(f"note: {note}", file=sys.stderr, flush=True)


def build_manifest(
    name: str, task: Task, statistics: Statistics, columns: Columns, splits: dict[str, tuple[ShardFile, ...]]
) -> Manifest:
    """Builds the manifest of a prepared dataset of the task called `name`."""
    fields = {"rows_read", "rows_dropped", "notes", "doubts", "split", "sources"}
    doubts = tuple(statistics.get("doubts", ()))
    sources = statistics.get("sources", task.sources)
    return Manifest(
        task=task_names.spec(name),
        options=task.options,
        split=statistics.get("split", {}),
        columns=columns,
        splits=splits,
        statistics={
            **{key: value for key, value in statistics.items() if key not in fields and not key.startswith("_")},
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
    """Returns a checksum of the task, its code and options, and its sources (the shards if it names no sources)."""
    parts = {
        "format": Manifest.model_fields["format"].default,
        "task": task_names.spec(name),
        "code": inspect.getsource(sys.modules[type(task).__module__]),
        "options": task.options,
        "sources": [source.sha256 for source in sources],
        "shards": {} if sources else {split: [file.sha256 for file in files] for split, files in splits.items()},
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
