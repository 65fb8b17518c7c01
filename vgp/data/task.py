"""The class that a user writes for their own model.

A task makes rows (`shards`, `scan`, `combine`, `rows`) and trains a model on them (`model`, `loss`, and `predict` or
`score`). The library does everything else: processes, GPUs, sharding, checkpoints, evaluation and report.
`vgp.data.tabular.TabularTask` makes the rows of tables, in files or in BigQuery.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias

from vgp.base.exits import UserError
from vgp.base.storage import storage
from vgp.base.text.nearest import did_you_mean
from vgp.networks.shape import Workload
from vgp.protocol import outcome

if TYPE_CHECKING:  # a task that only prepares data must not pay for torch
    import numpy as np
    import pyarrow as pa
    from torch import Generator, Tensor, nn
    from torch.optim import Optimizer

    from vgp.base.storage.storage import File
    from vgp.data.rows import Rows
    from vgp.protocol.manifest import Manifest, SourceFile

#: Options by name, from a JSON object; the task checks their values.
Options: TypeAlias = Mapping[str, Any]
#: A piece of the input, and the result of its scan, in types that the task chooses.
Shard: TypeAlias = Any
Scan: TypeAlias = Any
#: Statistics by name, from `combine`: JSON, or any value if the name starts with an underscore.
Statistics: TypeAlias = Mapping[str, Any]
#: A row of a request or a report, by column.
RawRow: TypeAlias = Mapping[str, Any]
#: The values of B rows, by column: (B,) or (B, width).
Batch: TypeAlias = "dict[str, Tensor]"


class WeightedLoss(NamedTuple):
    """A loss with a mean over something other than rows, such as over the tokens of texts of different lengths.

    Training, validation and logs divide the sum of the totals over the whole global batch by the sum of the weights,
    for any number of microbatches and GPUs.
    """

    #: The sum of the losses; a float32 scalar.
    total: "Tensor"
    #: The divisor, such as the number of tokens; at least 0.
    weight: "Tensor | float"


class Task(ABC):
    """The base class of a user's task: how to make rows, and how to train a model on them.

    Shapes: B rows in a batch, C classes, Q quantiles. A batch maps the name of each column to a tensor of shape (B,) or
    (B, width).
    """

    #: Names of the classes, in the order of the label's codes; two for a binary task. () for a regression.
    classes: ClassVar[tuple[str, ...]] = ("no", "yes")
    #: For a regression, the quantiles of the label that `predict` returns, rising, in (0, 1). () = a task with classes.
    quantiles: ClassVar[tuple[float, ...]] = ()
    #: The loss of a regression that the decision tests: `pinball` (mean over the quantiles), `squared` or `absolute`.
    decided_by: ClassVar[str] = "pinball"
    #: The unit of the label of a regression, for the report, such as `minutes`.
    unit: ClassVar[str] = ""
    #: Columns for which the metrics are also computed value by value.
    slices: ClassVar[tuple[str, ...]] = ()
    #: Column whose equal values mark rows that are not independent (a day, a user), or two such columns; "" = all rows
    #: are independent. A split by a hash keeps rows of the first column together; the decision is robust to both
    #: (`vgp.evaluation`). For a table with a time, "" and "day" are its day, and "row" = all rows are independent.
    group: ClassVar[str | tuple[str, str]] = ""
    #: Column that holds the class code of each row, int64 in [0, C), or the number of a regression, float64.
    label: ClassVar[str] = "label"
    #: Columns that may predict the label alone; any other column that does is refused as a leak.
    trusted: ClassVar[tuple[str, ...]] = ()
    #: How to choose the threshold of two classes, on validation rows: `f1`, `cost 5`, `precision 0.8`, `recall 0.9`,
    #: `flagged 0.05`, or a threshold such as `0.5` (vgp/protocol/outcome.py).
    operating_point: ClassVar[str] = "f1"
    #: Columns whose values no report shows; ("*",) = no report shows single rows.
    private: ClassVar[tuple[str, ...]] = ()
    #: With `score`, the integer column that holds the weight of each row, such as its `bytes`; "" = equal weights.
    weight: ClassVar[str] = ""
    #: Statistics that give the columns their meaning, such as a vocabulary; models are compared only if they agree.
    encoding: ClassVar[tuple[str, ...]] = ()
    #: Whether `shards` finds its files with `storage.find`. Otherwise `shards` gets the data as the user wrote it, and
    #: no run of the task is a cache hit.
    finds_files: ClassVar[bool] = True
    #: Whether the files are copied unchanged for a user's script, and no rows are made.
    as_they_are: ClassVar[bool] = False
    #: Options that name the folder of a model whose card the task reads; they are pinned too.
    model_options: ClassVar[tuple[str, ...]] = ()
    #: The metrics of `validation`, by name, and whether their "max" or their "min" is best.
    metrics: "ClassVar[Mapping[str, Literal['max', 'min']]]" = {}
    #: How to merge buffers that the forward pass changes over the microbatches of a step, by names or patterns of
    #: names: "sum" (counts), "mean" (running averages), "max" and "min" (ranges) or "last" (flags). Buffers of batch
    #: norm need no rule.
    buffers: "ClassVar[Mapping[str, Literal['mean', 'sum', 'max', 'min', 'last']]]" = {}
    #: Options and their defaults; any other option is refused. None = any option is allowed.
    settings: ClassVar[Options | None] = None
    #: Rows that evaluation scores at once.
    batch_rows: int = 8_192

    #: A folder for temporary files, removed after preparation; set before `shards` is called.
    scratch: Path
    #: Whether other machines than the one that cuts the shards read them; set before `shards` is called.
    elsewhere: bool = False
    #: Whether rows are only predicted, so a class label may be unknown (-1); set before `shards` is called.
    predicting: bool = False
    #: The files that `shards` read; part of the manifest and the fingerprint.
    sources: "tuple[SourceFile, ...]" = ()

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Removes the default classes from a class that declares `quantiles`."""
        super().__init_subclass__(**kwargs)
        if cls.quantiles and "classes" not in vars(cls) and cls.classes == Task.classes:
            cls.classes = ()

    def __init__(self, options: Options | None = None):
        """`options` are the task's own, such as layer sizes or the split of its rows.

        Raises:
            UserError: The task has no such option, or its declared outcome is not valid.
        """
        outcome.check(self)
        _check_buffer_rules(self)
        self.options = dict(options or {})
        defaults = self.defaults()
        if defaults is not None:
            for option in self.options:
                if option not in defaults:
                    name = type(self).__name__
                    raise UserError(f"{name} has no option {option!r}. {did_you_mean(option, defaults)}")

    def defaults(self) -> Options | None:
        """Returns every option and its default; None = any option is allowed."""
        return self.settings

    # ---- the input of a run, pinned before the run begins (docs/explanation/how-a-run-works.md)

    def files(self, data: str) -> "Sequence[File]":
        """Returns the files that `data` names, without opening them; `shards` reads these files later."""
        return [file for part in storage.parts(data) for file in storage.find(part)]

    def package(self) -> tuple[str, str] | None:
        """Returns name and version of the package that holds the default data; they must change when its data does.

        None = no such package; a run without data is never a cache hit.
        """
        return None

    # ---- preparation: runs in a pool of processes, shard by shard

    @abstractmethod
    def shards(self, data: str) -> Sequence[Shard]:
        """Cuts the input into picklable pieces that fit in memory.

        `data` is the user's input, or in a pipeline the URI of its pins: `vgp.base.storage.storage.find` turns
        both into files. "" = the task's default input.
        """

    def scan(self, shard: Shard) -> Scan:
        """Reads one shard before any is written: validates it, and counts the values that `combine` needs."""
        return None

    def combine(self, scans: Iterable[Scan]) -> Statistics:
        """Merges the scans, in shard order, into statistics that every `rows` call receives.

        The manifest stores them as JSON, without keys that start with an underscore, whose values may be large, or
        arrays. Five keys have fields of their own in the manifest: `rows_read`, `rows_dropped` (a count by reason),
        `notes` (sentences that a reader of the results must know), `split` (texts that describe the split), and
        `sources` (of `SourceFile`, if the scans and not `shards` compute the checksums).
        """
        return {}

    def merge(self, first: Scan, second: Scan) -> Scan:
        """Optional: merges the scans of two consecutive shards; may change and return the first.

        `combine` then gets one scan, merged in a tree whose shape depends on the number of shards alone, so no process
        holds all scans. Without `merge`, `combine` gets every scan, in one process.
        """
        raise NotImplementedError

    @abstractmethod
    def rows(self, shard: Shard, statistics: Statistics) -> "dict[str, pa.Table]":
        """Returns the finished rows of one shard by split (`train`, `test`...), with the label: class codes or numbers.

        Float columns are numbers (null = missing), strings are categories, fixed-size lists and binaries are vectors,
        and integers are ids, which are kept but are not features. `row_id` (int64, unique over the dataset) is added if
        it is missing.
        """

    # ---- prediction

    def inputs(self, rows: Sequence[RawRow], statistics: Statistics) -> "pa.Table":
        """Optional: converts raw rows, such as those of a request, to the columns of `rows`, without the label.

        Without it, a raw row must have the columns of `rows`. A task over a table uses `features` instead.

        Args:
            statistics: The statistics in the manifest of the train data, from `combine`.
        """
        raise NotImplementedError

    # ---- training

    @abstractmethod
    def model(self, data: "Manifest") -> "nn.Module":
        """Builds a new model for data with these columns. Called under the run's seed."""

    @abstractmethod
    def loss(self, model: "nn.Module", batch: "Batch") -> "Tensor | WeightedLoss":
        """Returns the mean loss over the rows of the batch, a float32 scalar; or a sum and its weight, if the mean is
        not over rows."""

    def predict(self, model: "nn.Module", batch: "Batch") -> "Tensor":
        """Returns class probabilities, float32 (B, C), where each row sums to 1. A regression returns floats (B, 1 + Q)
        in the label's units: the mean, then the quantiles, rising."""
        raise NotImplementedError

    def score(self, model: "nn.Module", batch: "Batch") -> "Tensor":
        """Returns the loss of each row in nats, a float (B,). Write it instead of `predict` if there are no classes."""
        raise NotImplementedError

    @property
    def likelihood(self) -> bool:
        """Whether `score` instead of `predict` decides the task's metrics."""
        return type(self).score is not Task.score

    @property
    def groups(self) -> tuple[str, ...]:
        """The columns that mark rows as not independent.

        Raises:
            UserError: `group` names more than two columns, or one column twice.
        """
        names = tuple(filter(None, (self.group,) if isinstance(self.group, str) else self.group))
        if len(names) > 2 or len(set(names)) < len(names):
            raise UserError(f"{type(self).__name__}.group = {names}: name one column, or two that differ.")
        return names

    @property
    def grouped_by(self) -> tuple[str, ...]:
        """The names of the `groups` for the report."""
        return self.groups

    @property
    def carried(self) -> tuple[str, ...]:
        """Columns that only group rows, and that the model does not read."""
        return ()

    @property
    def regression(self) -> bool:
        """Whether the label is a number, and `predict` returns its mean and `quantiles`."""
        return bool(self.quantiles)

    def baseline(
        self, train: "Rows", data: "Manifest"
    ) -> "tuple[Callable[[Mapping[str, np.ndarray]], np.ndarray], str] | None":
        """With `score`: fits a simple baseline on the train rows. Returns a function from columns of B rows to nats
        (B,), and its description."""
        return None

    def optimizer(
        self, model: "nn.Module", learning_rate: float, weight_decay: float
    ) -> "Optimizer | Sequence[Optimizer]":
        """Returns AdamW over all trainable parameters, without decay of vectors (biases, norms), fused if possible.

        A task may return several optimizers, with each trainable parameter in exactly one group of one of them. The
        `lr` of a group is its peak; the schedule multiplies it.
        """
        from torch.optim import AdamW

        trained = [p for p in model.parameters() if p.requires_grad]
        matrices, vectors = [p for p in trained if p.ndim >= 2], [p for p in trained if p.ndim < 2]
        groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
        return AdamW([group for group in groups if group["params"]], lr=learning_rate, fused=fusable(model))

    def learning_rate(self, step: int, steps: int) -> float:
        """Optional: returns the learning rate of the step numbered `step`, from 0, of `steps`, as a share of its peak.

        It may depend on these two only, so that a resumed run repeats it. The warm-up (`warmup_fraction`) multiplies
        it, and the setting `schedule` overrides it.
        """
        raise NotImplementedError

    def blocks(self, model: "nn.Module") -> "Sequence[nn.Module]":
        """Returns the repeated parts of the model, for sharding, compilation and activation checkpointing."""
        from vgp.networks.repeated_blocks import find_blocks

        return find_blocks(model)

    def compiled(self, model: "nn.Module") -> "Sequence[nn.Module]":
        """Returns the parts that `compile` compiles separately; none = the whole model."""
        return self.blocks(model)

    def augment(self, batch: "Batch", generator: "Generator") -> "Batch":
        """Applies random changes to a training batch. Draw only from `generator`, so that a resume repeats them."""
        return batch

    def architecture(self, data: "Manifest") -> Options:
        """Returns properties of the model that the sizes of its weights do not show, such as its number of heads. A
        warm start from a model with other values is refused."""
        return {}

    def warm_name(self, name: str) -> str | None:
        """Optional: returns the name of a model's tensor in the weights of `warm_start`; None = a new tensor."""
        return name

    def validation(self, model: "nn.Module", batch: "Batch") -> "Mapping[str, tuple[Tensor | float, Tensor | float]]":
        """Optional: computes the `metrics` of the model in evaluation mode on a batch of held-out rows.

        Returns, by metric, a sum over the rows and its divisor, such as the number of rows; the metric is the sum of
        the sums over all batches divided by the sum of the divisors. A task with classes has `accuracy` by default.
        """
        raise NotImplementedError

    # ---- output for the log and the report; all optional

    def describe(self, data: "Manifest") -> str:
        """Returns one line about the model, such as its sizes, for the log at the start of training."""
        return ""

    def workload(self, data: "Manifest") -> Workload:
        """Returns the unit of throughput, and the operations of a row, from which GPU utilization follows."""
        return Workload()

    def text(self, row: RawRow, data: "Manifest") -> str:
        """Returns a row as text for the report's examples, if its columns are hard to read, such as tokens."""
        return ""

    def sample(self, model: "nn.Module", data: "Manifest") -> str:
        """Returns a sample of the trained model's output, for the report.

        Called in one process after the model is written and the other processes have ended, so it may take long.
        """
        return ""


def _check_buffer_rules(task: Task) -> None:
    rules = ("mean", "sum", "max", "min", "last")
    if wrong := {name: rule for name, rule in task.buffers.items() if rule not in rules}:
        raise UserError(f"{type(task).__name__}.buffers = {wrong}: the rule of a buffer must be {', '.join(rules)}.")


def fusable(model: "nn.Module") -> bool:
    """Returns whether the optimizer can use one fused kernel for the whole model, sharded or not."""
    return all(p.device.type in ("cpu", "cuda") and p.is_floating_point() for p in model.parameters())
