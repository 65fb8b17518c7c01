"""The contract between the product and a user's model: one file, one class.

A task says how rows are made (`shards`, `scan`, `combine`, `rows`), and how a model learns from them
(`model`, `loss`, and `predict` or `score`). Everything else - processes, GPUs, sharding,
checkpoints, evaluation, report - is the product's work. `vgp.data.tabular.TabularTask` fills in the first half
for tables, in files or in BigQuery.
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

#: Options by name, of a JSON object: the task that takes one checks its value.
Options: TypeAlias = Mapping[str, Any]
#: A piece of the input, and what a task sees in it: of types of the task's own.
Shard: TypeAlias = Any
Scan: TypeAlias = Any
#: Statistics by name, as `combine` gives them: JSON, and behind an underscore anything.
Statistics: TypeAlias = Mapping[str, Any]
#: A row by column, as a request or a report has it.
RawRow: TypeAlias = Mapping[str, Any]
#: Each column's name, and its values for B rows: (B,) or (B, width).
Batch: TypeAlias = "dict[str, Tensor]"


class WeightedLoss(NamedTuple):
    """A loss whose mean is not over rows, such as over the tokens of texts of several lengths.

    Training, validation and logs divide the sum over the whole global batch, however many microbatches and GPUs share
    it, by the sum of the weights.
    """

    #: The sum of the losses; a float32 scalar.
    total: "Tensor"
    #: What it is divided by, such as the number of tokens; at least 0.
    weight: "Tensor | float"


class Task(ABC):
    """What a user writes to train their own model.

    Shapes: B rows in a batch, C classes, Q quantiles. A batch maps the name of each column to a tensor of shape (B,) or
    (B, width).
    """

    #: Names of the classes, in the order of the label's codes; two for a binary task. () for a regression.
    classes: ClassVar[tuple[str, ...]] = ("no", "yes")
    #: Of a regression: the quantiles of the label that `predict` gives, rising, in (0, 1). () = the label is a class.
    quantiles: ClassVar[tuple[float, ...]] = ()
    #: The loss of a regression that the decision tests: `pinball` (mean over the quantiles), `squared` or `absolute`.
    decided_by: ClassVar[str] = "pinball"
    #: What the label of a regression is counted in, for people, such as `minutes`.
    unit: ClassVar[str] = ""
    #: Columns for which the metrics are also computed value by value.
    slices: ClassVar[tuple[str, ...]] = ()
    #: Column whose equal values mark rows that are not independent (a day, a user), or two of them; "" if all are. Rows
    #: of the first stay in one split, where a hash decides; the decision is robust to both (`vgp.evaluation`). Of
    #: a table with a time "" and "day" are the day of it, and "row" says that all are independent.
    group: ClassVar[str | tuple[str, str]] = ""
    #: Column that holds the class code of each row, int64 in [0, C); of a regression the number itself, float64.
    label: ClassVar[str] = "label"
    #: Columns that may tell the label by themselves; any other that does is refused as a leak.
    trusted: ClassVar[tuple[str, ...]] = ()
    #: How the threshold of two classes is chosen, on validation rows: `f1`, `cost 5`, `precision 0.8`, `recall 0.9`,
    #: `flagged 0.05`, or a threshold such as `0.5` (vgp/protocol/outcome.py).
    operating_point: ClassVar[str] = "f1"
    #: Columns whose values no report shows; ("*",): no report shows single rows at all.
    private: ClassVar[tuple[str, ...]] = ()
    #: With `score`: integer column that says how much each row counts, such as its `bytes`; "" = all alike.
    weight: ClassVar[str] = ""
    #: Statistics that give the columns their meaning, such as a vocabulary; models are compared only if they agree.
    encoding: ClassVar[tuple[str, ...]] = ()
    #: Whether `shards` finds its files by `storage.find`. A task that reads `data` in another way is given what the
    #: user gave, and no run of it is taken from the cache.
    finds_files: ClassVar[bool] = True
    #: Whether the files are handed on as they are, to a script of the user's: no rows are made of them.
    as_they_are: ClassVar[bool] = False
    #: Options that name the folder of a model, of which the task reads the card; they are pinned too.
    model_options: ClassVar[tuple[str, ...]] = ()
    #: What `validation` measures besides the loss: by the name of the metric, whether its "max" or its "min" is best.
    metrics: "ClassVar[Mapping[str, Literal['max', 'min']]]" = {}
    #: How buffers that the forward pass changes get one value from the microbatches of a step, by names or patterns of
    #: names: "sum" (counts), "mean" (running averages) or "last" (flags). Those of batch norm need none.
    buffers: "ClassVar[Mapping[str, Literal['mean', 'sum', 'last']]]" = {}
    #: Options and their defaults; any other is refused. None: the task takes what it is told.
    settings: ClassVar[Options | None] = None
    #: Rows that evaluation scores at once.
    batch_rows: int = 8_192

    #: A folder for temporary files, removed after preparation; set before `shards` is called.
    scratch: Path
    #: Whether shards are read on other machines than the one that cuts them; set before `shards` is called.
    elsewhere: bool = False
    #: Whether rows are only predicted, so that a label may be unknown: -1 of a class; set before `shards` is called.
    predicting: bool = False
    #: What `shards` found: goes into the manifest and the fingerprint.
    sources: "tuple[SourceFile, ...]" = ()

    def __init_subclass__(cls, **given: object) -> None:
        """A class that says which quantiles it predicts has no classes."""
        super().__init_subclass__(**given)
        if cls.quantiles and "classes" not in vars(cls) and cls.classes == Task.classes:
            cls.classes = ()

    def __init__(self, options: Options | None = None):
        """`options` are the task's own, such as layer sizes or how its rows are split.

        Raises:
            UserError: the task does not have one of them, or what it says that it predicts cannot be.
        """
        outcome.check(self)
        _require_rules(self)
        self.options = dict(options or {})
        defaults = self.defaults()
        if defaults is not None:
            for option in self.options:
                if option not in defaults:
                    name = type(self).__name__
                    raise UserError(f"{name} has no option {option!r}. {did_you_mean(option, defaults)}")

    def defaults(self) -> Options | None:
        """Every option and its default; None: the task takes what it is told."""
        return self.settings

    # ---- what a run works on, told before it begins (docs/explanation/how-a-run-works.md)

    def files(self, data: str) -> "Sequence[File]":
        """The files that `data` stands for, none of them opened; `shards` finds the same ones later."""
        return [file for part in storage.parts(data) for file in storage.find(part)]

    def package(self) -> tuple[str, str] | None:
        """Name and version of what brings the data if none is given: what changes them when its data changes.

        None: nothing tells, and no run without data is ever taken from the cache.
        """
        return None

    # ---- preparation: runs in a pool of processes, shard by shard

    @abstractmethod
    def shards(self, data: str) -> Sequence[Shard]:
        """Cuts the input into picklable pieces that fit in memory.

        `data` is what the user gave, or in a pipeline the URI of its pins: `vgp.base.storage.storage.find` turns
        both into files. "" = the task's own.
        """

    def scan(self, shard: Shard) -> Scan:
        """Looks at one shard before any is written: validates it, counts what `combine` needs."""
        return None

    def combine(self, scans: Iterable[Scan]) -> Statistics:
        """Merges the scans, in shard order, into statistics that every `rows` call receives.

        They go into the manifest as JSON, but for keys that start with an underscore: those may be large, or
        arrays. Five keys have a place of their own there: `rows_read`, `rows_dropped` (a count by reason), `notes`
        (sentences that a reader of the results must know), `split` (texts that say how the rows were split), and
        `sources` (of `SourceFile`, where the scans told the checksums and not `shards`).
        """
        return {}

    def merge(self, first: Scan, second: Scan) -> Scan:
        """Optional: two scans of neighbours as one, which may be the first itself.

        `combine` is then given one scan, merged in a tree whose shape depends on the number of shards alone: no process
        holds them all. Without it `combine` is given every scan, in one process.
        """
        raise NotImplementedError

    @abstractmethod
    def rows(self, shard: Shard, statistics: Statistics) -> "dict[str, pa.Table]":
        """The finished rows of one shard by split (`train`, `test`...), with the label: class codes, or numbers.

        Float columns are numbers (null = missing), strings are categories, fixed-size lists and binaries are
        vectors, and integers are ids: carried along, never learned from. `row_id` (int64, unique over the
        dataset) is added where the task does not give it.
        """

    # ---- prediction

    def inputs(self, rows: Sequence[RawRow], statistics: Statistics) -> "pa.Table":
        """Optional: the columns of raw rows, such as those of a request, as `rows` makes them, without the label.

        Without it a raw row has the columns that `rows` gives, by their names. A task over a table says it in
        `features`.

        Args:
            statistics: What `combine` returned when the model was trained, as far as the manifest keeps it.
        """
        raise NotImplementedError

    # ---- training

    @abstractmethod
    def model(self, data: "Manifest") -> "nn.Module":
        """A new model for data with these columns. Called under the run's seed."""

    @abstractmethod
    def loss(self, model: "nn.Module", batch: "Batch") -> "Tensor | WeightedLoss":
        """Mean loss over the rows of the batch, a float32 scalar; or the sum of what is not a mean over rows."""

    def predict(self, model: "nn.Module", batch: "Batch") -> "Tensor":
        """Class probabilities, float32 (B, C), each row sums to 1; of a regression floats (B, 1 + Q) in the label's
        units: the mean, then the quantiles, rising."""
        raise NotImplementedError

    def score(self, model: "nn.Module", batch: "Batch") -> "Tensor":
        """Instead of `predict`, where there are no classes: the loss of each row in nats, a float (B,)."""
        raise NotImplementedError

    @property
    def likelihood(self) -> bool:
        """Whether the task is judged by `score` instead of `predict`."""
        return type(self).score is not Task.score

    @property
    def groups(self) -> tuple[str, ...]:
        """The columns that mark rows as not independent.

        Raises:
            UserError: `group` names more than two, or one twice.
        """
        names = tuple(filter(None, (self.group,) if isinstance(self.group, str) else self.group))
        if len(names) > 2 or len(set(names)) < len(names):
            raise UserError(f"{type(self).__name__}.group = {names}: name one column, or two that differ.")
        return names

    @property
    def grouped_by(self) -> tuple[str, ...]:
        """What people call the `groups`."""
        return self.groups

    @property
    def carried(self) -> tuple[str, ...]:
        """Columns that are there to group rows, and that the model is known not to read."""
        return ()

    @property
    def regression(self) -> bool:
        """Whether the label is a number, and `predict` gives its mean and `quantiles`."""
        return bool(self.quantiles)

    def baseline(
        self, train: "Rows", data: "Manifest"
    ) -> "tuple[Callable[[Mapping[str, np.ndarray]], np.ndarray], str] | None":
        """With `score`: a simple rival fitted on the train rows, columns of B rows -> nats (B,), and what it is."""
        return None

    def optimizer(
        self, model: "nn.Module", learning_rate: float, weight_decay: float
    ) -> "Optimizer | Sequence[Optimizer]":
        """AdamW over all parameters that are trained, no decay on vectors (biases, norms); fused where the device can.

        A task may give several optimizers, each trained parameter in exactly one group of one of them. The `lr` of a
        group is its peak: the schedule multiplies it.
        """
        from torch.optim import AdamW

        trained = [p for p in model.parameters() if p.requires_grad]
        matrices, vectors = [p for p in trained if p.ndim >= 2], [p for p in trained if p.ndim < 2]
        groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
        return AdamW([group for group in groups if group["params"]], lr=learning_rate, fused=fusable(model))

    def learning_rate(self, step: int, steps: int) -> float:
        """Optional: the learning rate of the step numbered `step`, from 0, of `steps`, as a share of its peak.

        It depends on these two alone, so that a resumed run repeats it. The warm-up (`warmup_fraction`) is multiplied
        onto it; the setting `schedule`, where it is given, takes its place.
        """
        raise NotImplementedError

    def blocks(self, model: "nn.Module") -> "Sequence[nn.Module]":
        """The repeated parts of the model, for sharding, compilation and activation checkpointing."""
        from vgp.networks.blocks import repeated

        return repeated(model)

    def compiled(self, model: "nn.Module") -> "Sequence[nn.Module]":
        """The parts that `compile` compiles, each by itself; none = the whole model."""
        return self.blocks(model)

    def augment(self, batch: "Batch", generator: "Generator") -> "Batch":
        """Random changes to a training batch; draw only from `generator`, so that a resume repeats them."""
        return batch

    def architecture(self, data: "Manifest") -> Options:
        """What of the model for this data is not told by the sizes of its weights, such as its heads: a warm start
        from a model that differs is refused."""
        return {}

    def warm_name(self, name: str) -> str | None:
        """Optional: what a tensor of the model is called in the weights that `warm_start` names; None = it is new."""
        return name

    def validation(self, model: "nn.Module", batch: "Batch") -> "Mapping[str, tuple[Tensor | float, Tensor | float]]":
        """Optional: what `metrics` names, of the model in evaluation mode on a batch of held-out rows.

        Each is a sum over the rows and what it is divided by, such as their number; the metric is the one, summed over
        all batches, divided by the other. A task of classes that does not measure itself has `accuracy`.
        """
        raise NotImplementedError

    # ---- what training shows; all optional

    def describe(self, data: "Manifest") -> str:
        """One line about the model, such as its sizes, for the start of training."""
        return ""

    def workload(self, data: "Manifest") -> Workload:
        """What throughput is counted in, and the operations of a row, from which the use of the GPUs follows."""
        return Workload()

    def text(self, row: RawRow, data: "Manifest") -> str:
        """A row as text, for the report's examples: where its columns say little to people, as tokens do."""
        return ""

    def sample(self, model: "nn.Module", data: "Manifest") -> str:
        """Something that the trained model makes, for people to look at; it goes into the report.

        Called on one process, when the model is written and the others have left: it may take its time.
        """
        return ""


def _require_rules(task: Task) -> None:
    if wrong := {name: rule for name, rule in task.buffers.items() if rule not in ("mean", "sum", "last")}:
        raise UserError(f"{type(task).__name__}.buffers = {wrong}: the rule of a buffer is mean, sum or last.")


def fusable(model: "nn.Module") -> bool:
    """Whether the optimizer's step over all of the model can be one kernel; of a sharded one too."""
    return all(p.device.type in ("cpu", "cuda") and p.is_floating_point() for p in model.parameters())
