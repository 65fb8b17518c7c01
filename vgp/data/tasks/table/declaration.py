"""The keys of a task.toml, as typed models. For example:

target = "survived"
kind = "classes"
classes = ["0", "1"]

[columns]
survived = "category"
age = "float"
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from vgp.data.tasks.table.column_types import Kind, parse_kind

#: Each column is an input of the network and a line of the TOML.
MOST_COLUMNS = 2_000
MOST_CLASSES = 1_000


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Split(_Strict):
    """The [split] table: which rows train and which test, as options of every tabular task (`vgp.data.splits`)."""

    split: str = ""
    train: str = ""
    test: str = ""
    test_share: float = Field(default=0.2, gt=0, lt=1)
    validation_share: float = Field(default=0.05, ge=0, lt=1)


class Reading(_Strict):
    """The [reading] table: the format of text files, where the files do not show it."""

    separator: str = ""
    quote: str = ""
    encoding: str = ""
    decimal: str = ""


class Network(_Strict):
    """The [network] table: the layers, and which values of a category share one embedding."""

    hidden: list[int] = [256, 128]
    dropout: float = Field(default=0.1, ge=0, lt=1)
    #: Values with fewer rows in the train split share one embedding with the values that it lacks.
    rare: int = Field(default=10, ge=1)
    #: The most values with an embedding of their own; the most frequent ones of the train split have it.
    most_values: int = Field(default=1_000, ge=1, le=200_000)


class Declared(_Strict):
    """The content of a task.toml."""

    target: str = Field(min_length=1)
    kind: Literal["classes", "regression"] = "classes"
    #: In the order of their codes. The second of two classes is the positive one.
    classes: list[str] = Field(default=[], max_length=MOST_CLASSES)
    #: Values of the target whose rows are dropped.
    left_out: list[str] = []
    #: Quantiles that a regression predicts, and the loss that the promotion test compares.
    quantiles: list[float] = [0.1, 0.5, 0.9]
    decided_by: Literal["pinball", "squared", "absolute"] = "pinball"
    key: list[str] = []
    time: str = ""
    #: One or two columns; "row"; or "day", the day of the time, which is also the default if there is a time.
    group: str | list[str] = ""
    slices: list[str] = []
    trusted: list[str] = []
    #: Texts that mean a missing value, besides an empty field.
    missing: list[str] = []
    columns: dict[str, str] = Field(max_length=MOST_COLUMNS)
    #: Columns that are not read. Their types are kept, so that you can move a line to [columns].
    ignored: dict[str, str] = {}
    #: Remarks of the report on columns with repeated values, by column.
    repeats: dict[str, str] = {}
    split: Split = Split()
    reading: Reading = Reading()
    network: Network = Network()

    @property
    def kinds(self) -> dict[str, Kind]:
        """The type of each column in [columns]. Raises ValueError for a text that is not a type."""
        return {name: parse_kind(text) for name, text in self.columns.items()}

    @property
    def groups(self) -> tuple[str, ...]:
        """The columns of `group`."""
        return tuple(filter(None, [self.group] if isinstance(self.group, str) else self.group))

    @property
    def features(self) -> dict[str, Kind]:
        """The columns that a model may learn from."""
        groups = {name for name in self.groups if not (self.time and name == "day")}  # "day" of a time is no column
        others = {self.target, *self.key, self.time, *groups, self.split.split}
        return {name: kind for name, kind in self.kinds.items() if name not in others}


def too_many_columns(columns: int) -> str:
    """Returns the message for a table with more columns than a task.toml may declare."""
    return (
        f"{columns:,} columns are too many: a task.toml declares at most {MOST_COLUMNS:,}, because it is passed as a "
        "parameter and each column is an input of the network. For more, write a task class with a vector column "
        "(docs/tutorials/your-task.md)."
    )
