"""The manifest of a prepared dataset: what the shards hold, where they came from, and what was counted.

Layout of a prepared dataset:

    manifest.json
    train-00000.parquet ...     fixed-width columns only
    test-00000.parquet ...

Every table has `row_id` (int64, unique over the dataset) and whatever columns the task wrote.
The manifest is written last: a directory without it is an unfinished preparation.
A dataset of files as they are (`vgp.data.tasks.files`) holds these, and its manifest as .manifest.json.
"""

import json
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from vgp.base.documents import json_text
from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import UserError
from vgp.base.storage import files

FILE_NAME = "manifest.json"
HIDDEN_NAME = ".manifest.json"
#: Of a shard's file, and of its rows when decoded: it is held in memory.
MOST_SHARD_BYTES = 4 << 30


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Column(Frozen):
    """One column of the shards. All figures describe the train split only, so that nothing leaks."""

    name: str
    #: A category is stored as int32 codes; an id is carried along, never learned from.
    kind: Literal["number", "category", "vector", "id", "label"]
    #: Arrow type as text: `int32`, `float`, `fixed_size_list<item: float>[64]`...
    type: str
    #: Elements per row: 1, or the length of the vector.
    width: int = Field(1, ge=0)
    count: int = 0
    missing: int = 0
    #: number, vector (over all elements), and a label that is a number
    mean: float = 0.0
    std: float = 1.0
    minimum: float = 0.0
    maximum: float = 0.0
    #: category: `values[code]` names a code; code 0 is "" = missing or unseen. `counts[code]` in the train split.
    #: label: the classes, from code 0; none of a number.
    values: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()
    #: label that is a number: its quantiles at 0, 0.05, 0.1 ... 1, of up to 200,000 rows taken at random.
    quantiles: tuple[float, ...] = ()
    #: number of a table, and its label if that is one: inner edges of tenths, and how many of up to 100,000 rows taken
    #: at random lie between them; the last count is of missing values (`vgp.data.columns`).
    edges: tuple[float, ...] = ()
    tally: tuple[int, ...] = ()

    @model_validator(mode="after")
    def _counted(self) -> "Column":
        if self.counts and len(self.counts) != len(self.values):
            raise ValueError(f"{len(self.values)} values have {len(self.counts)} counts")
        if self.tally and (len(self.tally) != len(self.edges) + 2 or sorted(self.edges) != list(self.edges)):
            raise ValueError(
                f"{len(self.edges)} edges, rising, bound {len(self.edges) + 2} bins, not {len(self.tally)}"
            )
        return self


class ShardFile(Frozen):
    #: A name in the dataset's folder: a manifest may not lead out of it.
    path: str = Field(pattern=r"^[\w-][\w.-]*\.parquet$", max_length=200)
    rows: int = Field(ge=0)
    bytes: int = Field(ge=0, le=MOST_SHARD_BYTES)
    sha256: str


class SourceFile(Frozen):
    path: str
    bytes: int
    sha256: str


class Manifest(Frozen):
    """A prepared dataset. `Raises` on load: UserError if missing, unreadable or of another format."""

    format: Literal[3] = 3
    #: `module:Class` of the task that wrote it, and the options it was given.
    task: str
    options: JsonObject = {}
    #: How the rows were split, for people: what decided (`by`), and the windows or shares that were taken.
    split: dict[str, str] = {}
    columns: tuple[Column, ...]
    #: `train`, `test` and whatever other split the task makes.
    splits: dict[str, tuple[ShardFile, ...]]
    #: What the task's `combine` returned: JSON values only.
    statistics: JsonObject = {}
    #: Rows read, rows dropped and why: shown in the report.
    rows_read: int = 0
    rows_dropped: dict[str, int] = {}
    #: What a reader of the results must know about the rows: shown in the report.
    notes: tuple[str, ...] = ()
    #: Those of the notes that may make every figure better than the truth: the decision has them too.
    doubts: tuple[str, ...] = ()
    sources: tuple[SourceFile, ...] = ()
    #: sha256 over the configuration and the sources' checksums, else the shards': same fingerprint, same shards.
    fingerprint: str = ""

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    @property
    def window(self) -> str:
        """How the rows were split, in one line."""
        return "; ".join(f"{split} {words}" for split, words in self.split.items())

    def rows(self, split: str) -> int:
        return sum(shard.rows for shard in self.splits.get(split, ()))


def load(directory: str | Path) -> Manifest:
    """Reads the manifest of a prepared dataset."""
    path = path_in(directory)
    try:
        return json_text.parse_model(Manifest, files.read(path, links=False))
    except FileNotFoundError:
        raise UserError(f"{directory} holds no {FILE_NAME}: it is not a finished, prepared dataset.") from None
    except ValueError as error:
        raise UserError(f"{path} cannot be read as a dataset manifest: {error}. Prepare the data again.") from None


def path_in(directory: str | Path) -> Path:
    """Where the manifest of a dataset is: the hidden one counts, for among files as they are the other may lie too."""
    hidden = Path(directory) / HIDDEN_NAME
    return hidden if hidden.is_file() else Path(directory) / FILE_NAME


def save(manifest: Manifest, directory: str | Path, name: str = FILE_NAME) -> None:
    """Writes the manifest atomically; call it last."""
    path = Path(directory) / name
    text = json.dumps(manifest.model_dump(), indent=1, sort_keys=True) + "\n"
    if len(text) > files.MOST_JSON_BYTES:
        if not manifest.columns:
            raise UserError(f"{len(manifest.sources):,} files are too many to list: pack them into fewer archives.")
        largest = max(manifest.columns, key=lambda column: sum(map(len, column.values)))
        raise UserError(
            f"the manifest would have {len(text) >> 20} MiB, and may have {files.MOST_JSON_BYTES >> 20}: categories of "
            f"fewer or shorter values are needed, above all {largest.name}."
        )
    files.write(path, text)
