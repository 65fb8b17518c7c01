"""Everything that a task.toml may say, as typed values.

target = "survived"
kind = "classes"
classes = ["0", "1"]

[columns]
survived = "category"
age = "float"
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from vgp.data.tasks.table.kinds import Kind, kind

#: Every column is an input of its own to the network, and a line that a person reads.
MOST_COLUMNS = 2_000
MOST_CLASSES = 1_000


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Split(_Strict):
    """Which rows train and which test: options of every tabular task (`vgp.data.splits`)."""

    split: str = ""
    train: str = ""
    test: str = ""
    test_share: float = Field(default=0.2, gt=0, lt=1)
    validation_share: float = Field(default=0.05, ge=0, lt=1)


class Reading(_Strict):
    """How text files are written, where the files do not show it."""

    separator: str = ""
    quote: str = ""
    encoding: str = ""
    decimal: str = ""


class Network(_Strict):
    """The network, and which values of a category share one embedding."""

    hidden: list[int] = [256, 128]
    dropout: float = Field(default=0.1, ge=0, lt=1)
    #: Values that fewer rows of the train split have share one embedding, with those that it never had.
    rare: int = Field(default=10, ge=1)
    #: Values that have an embedding of their own, the most frequent of the train split.
    most_values: int = Field(default=1_000, ge=1, le=200_000)


class Declared(_Strict):
    """A task.toml."""

    target: str = Field(min_length=1)
    kind: Literal["classes", "regression"] = "classes"
    #: In the order of their codes; of two the second is the positive one.
    classes: list[str] = Field(default=[], max_length=MOST_CLASSES)
    #: Values of the target whose rows are left out.
    left_out: list[str] = []
    #: Of a regression, and the loss that its promotion test compares.
    quantiles: list[float] = [0.1, 0.5, 0.9]
    decided_by: Literal["pinball", "squared", "absolute"] = "pinball"
    key: list[str] = []
    time: str = ""
    #: A column, or two of them; `day` of the time, which "" is, too; `row`.
    group: str | list[str] = ""
    slices: list[str] = []
    trusted: list[str] = []
    #: Texts that stand for a missing value, beside an empty field.
    missing: list[str] = []
    columns: dict[str, str] = Field(max_length=MOST_COLUMNS)
    #: Columns that are not read, each with its type, for who wants it back.
    ignored: dict[str, str] = {}
    #: What rows have in common that share a value of a column, for the report.
    repeats: dict[str, str] = {}
    split: Split = Split()
    reading: Reading = Reading()
    network: Network = Network()

    @property
    def kinds(self) -> dict[str, Kind]:
        """The type of each column that is read. Raises ValueError for a text that is none."""
        return {name: kind(text) for name, text in self.columns.items()}

    @property
    def groups(self) -> tuple[str, ...]:
        """The columns of `group`."""
        return tuple(filter(None, [self.group] if isinstance(self.group, str) else self.group))

    @property
    def features(self) -> dict[str, Kind]:
        """The columns that a model may learn from."""
        groups = {name for name in self.groups if not (self.time and name == "day")}  # of the time: no column
        spare = {self.target, *self.key, self.time, *groups, self.split.split}
        return {name: kind for name, kind in self.kinds.items() if name not in spare}


def too_many(columns: int) -> str:
    return (
        f"{columns:,} columns are too many: at most {MOST_COLUMNS:,} are declared, since each is a line of the TOML, "
        "which travels as a parameter, and an input of its own. A class with a vector column takes more "
        "(docs/tutorials/your-task.md)."
    )
