"""A task over a table: declare its columns, and override only the methods in which your task differs.

class Churn(TabularTask):
    schema = (
        Field("customer", pa.string()),
        Field("week", pa.date32()),
        Field("plan", pa.string()),
        Field("spend", pa.float64(), nullable=True),
        Field("churned", pa.bool_(), known="after"),
    )
    key = ("customer", "week")
    time = "week"
    target = "churned"
    slices = ("plan",)

    def features(self, rows):
        return {"plan": rows.plan, "spend": (rows.spend + 1).ln()}

The methods return Ibis expressions (https://ibis-project.org), which describe columns and compute nothing; an engine
runs them close to the data (`vgp.data.engines`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, NoReturn, cast

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from vgp.base.exits import UserError
from vgp.base.storage.storage import File
from vgp.data import splits
from vgp.data.events import Events
from vgp.data.schema import DAY, Declaration, Field
from vgp.data.sources.data_files import Reading, resolve
from vgp.data.task import Options, Shard, Statistics, Task

if TYPE_CHECKING:
    from torch import Tensor, nn

    from vgp.data.task import Batch
    from vgp.protocol.manifest import Manifest

#: The `group` of a task whose rows are all independent.
ROW = "row"
#: The engine, and the format of text files; "" = chosen automatically.
OPTIONS: Options = {"engine": "", "separator": "", "quote": "", "encoding": "", "decimal": ""}


class TabularTask(Task):
    """A task over a table. Declare the columns, and override `labels`, `events` and `features` where needed.

    `rows` is always a table of the declared columns, in these types: int64, float64, string ("" = missing), boolean,
    date, and timestamp (naive, or in UTC). In all types but string, null = missing.

    Raises:
        UserError: The declaration is inconsistent, or an option or a window is wrong.
    """

    #: The columns to read; other columns of the source are ignored.
    schema: ClassVar[tuple[Field, ...]] = ()
    #: Columns whose combined values occur once; checked over the whole source.
    key: ClassVar[tuple[str, ...]] = ()
    #: Date or timestamp column for the windows `train` and `test`; without it, rows are split by a hash of `group`, of
    #: the key, or of all columns known before the outcome.
    time: ClassVar[str] = ""
    #: Column that holds the outcome: bool, class names, or class codes; with `quantiles` a number. Not needed if
    #: `labels` is overridden.
    target: ClassVar[str] = ""
    #: Sentences for the report that a reader of the results must know.
    remarks: ClassVar[tuple[str, ...]] = ()
    #: The reason why a row may have no label, for the report.
    unlabelled: ClassVar[str] = "no label"
    #: Options and their defaults; a task may add its own, and change these (see `vgp.data.splits`).
    settings: ClassVar[Options] = {"hidden": [256, 128], "dropout": 0.1, **splits.OPTIONS, **OPTIONS}

    def __init__(self, options: Options | None = None):
        self._check_methods()
        super().__init__(options)
        self.declaration = Declaration(
            type(self).__name__, self.schema, self.key, self.time, self.groups[0] if self.group and self.groups else "",
            self.target,
            own_days=type(self).days is not TabularTask.days,
            own_labels=type(self).labels is not TabularTask.labels,
            regression=self.regression,
        )  # fmt: skip
        self.declaration.check()
        self.split = splits.choose(self.declaration, self.unlabelled, self.defaults(), self.options)

    def _check_methods(self) -> None:
        for name in ("dates", "summary", "merge", "shards", "scan", "combine", "rows"):
            if getattr(type(self), name, None) is not getattr(TabularTask, name, None):
                raise UserError(
                    f"{type(self).__name__}.{name} is not a method of a task over a table. Write `days`, `labels`, "
                    "`events` or `features`, which return expressions over all its rows (docs/tutorials/your-task.md)."
                )

    def defaults(self) -> Options:
        return {**splits.OPTIONS, **OPTIONS, **self.settings}

    # ---- methods that a task may override

    def strange_values(self, sample: Mapping[str, np.ndarray], names: Mapping[str, Sequence[str]]) -> Iterator[str]:
        """Yields a sentence for each suspicious value, such as a number that stands for a missing value.

        Args:
            sample: Train rows by feature: numbers and codes.
            names: The values of each category of all rows, by code.
        """
        yield from ()

    def default_data(self) -> str:
        """Returns the input to use when the user names none."""
        raise UserError(f"{type(self).__name__} has no default input: give files, folders or globs, or bq://...")

    def days(self, rows: ir.Table) -> ir.DateValue:
        """Returns the day of each row, for the windows; `rows` has all columns."""
        return cast(ir.DateValue, rows[self.time].cast("date"))

    def labels(self, rows: ir.Table) -> ir.NumericValue:
        """Returns the class code of each row, or the number of a regression. `rows` has all columns.

        Null or NaN = unknown outcome; the row is left out. A code without a class and an infinite number are errors,
        and the message names the row.
        """
        target = rows[self.target]
        if self.regression:
            return cast(ir.NumericValue, target.cast("float64"))
        if target.type().is_string():
            codes = [(title, code) for code, title in enumerate(self.classes)]
            # -1 is not a class, so a text that names no class is an error; "" is unknown.
            return cast(ir.IntegerValue, target.cases(*codes, ("", None), else_=-1).cast("int64"))
        if target.type().is_floating():
            # A code is a whole number; NaN is unknown.
            whole = target.between(0, len(self.classes)) & (target == target.floor())
            return cast(
                ir.IntegerValue,
                ibis.cases((target.isnull() | target.isnan(), None), (whole, target), else_=-1.0).round().cast("int64"),
            )
        return cast(ir.IntegerValue, target.cast("int64"))

    def events(self, rows: ir.Table) -> Mapping[str, Events]:
        """Returns, by name, events to sum over the hours before each row's own. `rows` has all columns."""
        return {}

    def features(self, rows: ir.Table) -> Mapping[str, ir.Value]:
        """Returns the features of the model by name: numbers, booleans or strings.

        `rows` has the columns known before the outcome, and the sums of `events`: `NAME_count_FIRST_LAST`,
        `NAME_mean_FIRST_LAST`. Default: all columns but those of the key, the time, the group and the split.
        """
        spare = {*self.key, self.time, *self.groups, self.split.column}
        return {name: rows[name] for name in rows.columns if name not in spare}

    # ---- the contract of Task

    @property
    def groups(self) -> tuple[str, ...]:
        """The columns of `Task.groups`. With a time, the default and "day" are the day of the time; "row" = none."""
        named = super().groups
        if named == (ROW,) and all(field.name != ROW for field in self.schema):
            return ()
        days = tuple(DAY if name == "day" else name for name in named) or (DAY,)
        return days if self.time else named

    @property
    def grouped_by(self) -> tuple[str, ...]:
        day = "day" if self.group else f"day of {self.time}"
        return tuple(day if name == DAY else name for name in self.groups)

    @property
    def carried(self) -> tuple[str, ...]:
        """The groups, unless the task has a network of its own."""
        return self.groups if type(self).model is TabularTask.model else ()

    @property
    def reading(self) -> Reading:
        chosen = {**self.defaults(), **self.options}
        separator, quote, encoding, decimal = (str(chosen[option]) for option in OPTIONS if option != "engine")
        return Reading(separator, quote, encoding, decimal)

    @property
    def engine(self) -> str:
        """The option `engine`; "" = chosen by the source."""
        return str({**self.defaults(), **self.options}["engine"])

    def files(self, data: str) -> Sequence[File]:
        return resolve(data.strip() or self.default_data())

    def shards(self, data: str) -> NoReturn:
        raise AssertionError("a table is prepared by its expressions")

    def rows(self, shard: Shard, statistics: Statistics) -> "dict[str, pa.Table]":
        raise AssertionError("a table is prepared by its expressions")

    # ---- the default network, for any table

    def model(self, data: "Manifest") -> "nn.Module":
        from vgp.networks.tabular import QuantileNetwork, TabularNetwork

        columns = [c for c in data.columns if c.kind in ("number", "category") and c.name not in self.groups]
        setting = {**self.settings, **self.options}
        grouping = {name: setting.get(name, 0) for name in ("rare", "most_values")}
        network = {"hidden": setting["hidden"], "dropout": setting["dropout"], **grouping}
        if self.regression:
            return QuantileNetwork(columns, data.column(self.label), len(self.quantiles), **network)
        return TabularNetwork(columns, len(self.classes), **network)

    def loss(self, model: "nn.Module", batch: "Batch") -> "Tensor":
        from torch.nn.functional import cross_entropy

        from vgp.networks.tabular import quantile_loss

        if self.regression:
            predicted, scale = model(batch)
            return quantile_loss(predicted, scale, batch[self.label], self.quantiles)
        return cross_entropy(model(batch).float(), batch[self.label])

    def predict(self, model: "nn.Module", batch: "Batch") -> "Tensor":
        if self.regression:
            return cast("Tensor", model(batch)[0])
        return cast("Tensor", model(batch).float().softmax(dim=-1))
