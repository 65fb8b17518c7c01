"""The manifest of a prepared dataset: its shards, columns, statistics and sources.

Layout of a prepared dataset:

    manifest.json
    train-00000.parquet ...     fixed-width columns only
    test-00000.parquet ...

Every shard has the column `row_id` (int64, unique over the dataset) and the columns of the task.
The manifest is written last, so a directory without one is an unfinished preparation.
A dataset of unchanged files (`vgp.data.tasks.files`) holds those files and `.manifest.json`.
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
#: Maximum bytes of a shard's file, and of its decoded rows, because a shard is held in memory.
MOST_SHARD_BYTES = 4 << 30


class Frozen(BaseModel):
    """An immutable model that refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Column(Frozen):
    """One column of the shards. All statistics are of the train split only, so that no test data leaks."""

    name: str
    #: A category is stored as int32 codes; an id is kept in the shards and is not a feature.
    kind: Literal["number", "category", "vector", "id", "label"]
    #: Arrow type as text: `int32`, `float`, `fixed_size_list<item: float>[64]`...
    type: str
    #: Elements per row: 1, or the length of the vector.
    width: int = Field(1, ge=0)
    count: int = 0
    missing: int = 0
    #: For a number, a vector (over all its elements), and a numeric label.
    mean: float = 0.0
    std: float = 1.0
    minimum: float = 0.0
    maximum: float = 0.0
    #: Category: `values[code]` is the value of a code; code 0 is "" (missing or unseen). `counts[code]` is its number
    #: of rows in the train split. Label: the classes, from code 0; empty for a numeric label.
    values: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()
    #: Numeric label: its quantiles at 0, 0.05, 0.1 ... 1, from a random sample of up to 200,000 rows.
    quantiles: tuple[float, ...] = ()
    #: Number or numeric label of a table: the inner edges of its deciles, and the number of rows in each bin, from a
    #: random sample of up to 100,000 rows; the last bin counts missing values (`vgp.data.columns`).
    edges: tuple[float, ...] = ()
    tally: tuple[int, ...] = ()

    @model_validator(mode="after")
    def _check_counts(self) -> "Column":
        if self.counts and len(self.counts) != len(self.values):
            raise ValueError(f"{len(self.values)} values have {len(self.counts)} counts")
        if self.tally and (len(self.tally) != len(self.edges) + 2 or sorted(self.edges) != list(self.edges)):
            raise ValueError(
                f"{len(self.edges)} edges, rising, bound {len(self.edges) + 2} bins, not {len(self.tally)}"
            )
        return self


class ShardFile(Frozen):
    """One shard of a dataset."""

    #: A file name and not a path, so that a manifest cannot point outside of the dataset's folder.
    path: str = Field(pattern=r"^[\w-][\w.-]*\.parquet$", max_length=200)
    rows: int = Field(ge=0)
    bytes: int = Field(ge=0, le=MOST_SHARD_BYTES)
    sha256: str


class SourceFile(Frozen):
    """A file that the dataset was prepared from."""

    path: str
    bytes: int
    sha256: str


class Manifest(Frozen):
    """The content and the sources of a prepared dataset."""

    format: Literal[3] = 3
    #: `module:Class` of the task that prepared the dataset, and the task's options.
    task: str
    options: JsonObject = {}
    #: How the rows were split, for people: the kind of split (`by`), and the window or share of each split.
    split: dict[str, str] = {}
    columns: tuple[Column, ...]
    #: The shards of `train`, `test` and the task's other splits.
    splits: dict[str, tuple[ShardFile, ...]]
    #: The result of the task's `combine`; JSON values only.
    statistics: JsonObject = {}
    #: Rows read, and rows dropped by reason, for the report.
    rows_read: int = 0
    rows_dropped: dict[str, int] = {}
    #: Notes on the rows for readers of the report.
    notes: tuple[str, ...] = ()
    #: The notes on faults that may make every metric too good, such as leaks; the decision shows them too.
    doubts: tuple[str, ...] = ()
    sources: tuple[SourceFile, ...] = ()
    #: SHA-256 of the configuration and the checksums of the sources, or of the shards if there are no sources. Equal
    #: fingerprints mean equal shards.
    fingerprint: str = ""

    def column(self, name: str) -> Column:
        """Returns the column with the name."""
        return next(column for column in self.columns if column.name == name)

    @property
    def window(self) -> str:
        """Returns how the rows were split, in one line."""
        return "; ".join(f"{split} {words}" for split, words in self.split.items())

    def rows(self, split: str) -> int:
        """Returns the number of rows of a split; 0 if the dataset does not have the split."""
        return sum(shard.rows for shard in self.splits.get(split, ()))


def load(directory: str | Path) -> Manifest:
    """Reads the manifest of a prepared dataset.

    Raises:
        UserError: it is missing, unreadable or of another format.
    """
    path = path_in(directory)
    try:
        return json_text.parse_model(Manifest, files.read(path, links=False))
    except FileNotFoundError:
        raise UserError(f"{directory} has no {FILE_NAME}: it is not a prepared dataset. Prepare the data.") from None
    except ValueError as error:
        raise UserError(f"{path} cannot be read as a dataset manifest: {error}. Prepare the data again.") from None


def path_in(directory: str | Path) -> Path:
    """Returns the path of a dataset's manifest: the hidden one if it exists, because the user's own files may include
    a `manifest.json`."""
    hidden = Path(directory) / HIDDEN_NAME
    return hidden if hidden.is_file() else Path(directory) / FILE_NAME


def save(manifest: Manifest, directory: str | Path, name: str = FILE_NAME) -> None:
    """Writes the manifest atomically. Call it after all shards are written.

    Raises:
        UserError: the manifest would be too large.
    """
    path = Path(directory) / name
    text = json.dumps(manifest.model_dump(), indent=1, sort_keys=True) + "\n"
    if len(text) > files.MOST_JSON_BYTES:
        if not manifest.columns:
            raise UserError(
                f"the dataset has {len(manifest.sources):,} files, too many for a manifest: pack them into archives."
            )
        largest = max(manifest.columns, key=lambda column: sum(map(len, column.values)))
        raise UserError(
            f"the manifest would have {len(text) >> 20} MiB, and the limit is {files.MOST_JSON_BYTES >> 20}, because "
            f"categories have many or long values. Drop or shorten the largest, {largest.name}."
        )
    files.write(path, text)
