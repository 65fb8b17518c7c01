"""Everything a training run can be told, checked once, before anything heavy is imported."""

from collections.abc import Collection
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import UserError
from vgp.base.text.nearest import did_you_mean
from vgp.train import profile

#: Fields that change how a run goes but not what it computes: they may differ between a run and its resume.
OPERATIONAL = (
    "validate_every_s",
    "checkpoint_every_s",
    "checkpoint_every_steps",
    "checkpoint_patience_s",
    "lease_s",
    "keep",
    "resume",
    "strategy",
    "unused_parameters",
    "cpu_offload",
    "activation_checkpointing",
    "rendezvous_timeout_s",
    "lost_after_s",
    "hang_after_s",
    "profile_steps",
    "profile_ranks",
    "memory_snapshot",
)

#: Fields that may be left open (`auto`): chosen when a run begins, by its model and its device.
OPEN = ("precision", "compile", "deterministic")


class TrainConfig(BaseModel):
    """How to train. The defaults suit a small table; docs/training-settings.md says how each field is set."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    task: str = "flights"
    """A shipped task by its short name, or any `module:Class` derived from `vgp.data.task.Task`."""
    options: JsonObject = {}
    """What the task itself can be told, such as layer sizes; see the task."""
    epochs: float = Field(3, gt=0)
    """Passes over the training split; a fraction is allowed."""
    global_batch_size: int = Field(1024, ge=1, le=2**31)
    """Samples per optimizer step over all processes; never changes with their number."""
    microbatches: int = Field(0, ge=0)
    """Parts of a global batch that are assigned to the processes, each computed by itself and in turn: more need less
    memory. 0 = one for each process; a resume keeps the number that there was, unless it has more processes; exact=true
    takes at least 4."""
    learning_rate: float = Field(1e-3, gt=0)
    """Peak learning rate, reached after the warm-up."""
    weight_decay: float = Field(0.01, ge=0)
    """Decoupled weight decay (AdamW) on matrices; vectors (biases, norms) have none."""
    warmup_fraction: float = Field(0.05, ge=0, lt=1)
    """Share of the steps during which the learning rate rises linearly, whatever the `schedule`."""
    schedule: Literal["auto", "cosine", "linear", "constant", "warmup_stable_decay", "inverse_sqrt"] = "auto"
    """The learning rate after the warm-up: down a `cosine` or a line (`linear`) to `final_lr_fraction` of its peak;
    `constant`; constant until it falls in a line over the last `decay_fraction` of all steps; or by 1/sqrt(step).
    `auto` = the task's own, if it has one (`Task.learning_rate`), else `cosine`."""
    final_lr_fraction: float = Field(0.0, ge=0, le=1)
    """What of the peak learning rate `cosine`, `linear` and `warmup_stable_decay` end at."""
    decay_fraction: float = Field(0.2, gt=0, le=1)
    """Share of all steps over which `warmup_stable_decay` falls."""
    clip_norm: float = Field(1.0, ge=0)
    """Largest 2-norm of the whole gradient; 0 = no clipping."""
    ema_decay: float = Field(0, ge=0, lt=1)
    """Decay per step of an exponential moving average of the weights (EMA), such as 0.999, which is then what is
    validated and shipped; lower in the first steps. 0 = no average."""
    loss_limit: float = Field(1e6, gt=0)
    """Training stops when a step's loss is above this, or not a number."""
    seed: int = Field(0, ge=0, lt=2**63)
    """Fixes the initial weights, the sample order, augmentation and dropout."""
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """Arithmetic of the model: bfloat16 autocast, float16 autocast with a scaled loss, or float32. `auto` = bfloat16
    where the GPU has it, float16 on one with tensor cores that has none (V100, T4), else float32."""
    tf32: bool = False
    """Whether a GPU may round what goes into float32 products and convolutions to 10 bits (TF32), which is faster.
    Refused where the model multiplies raw values that this would spoil."""
    compile: Literal["auto", True, False] = "auto"
    """Whether the model goes through `torch.compile`: a slower start, then faster steps. `auto` = on a GPU, from 50
    million parameters on."""
    deterministic: Literal["auto", True, False] = "auto"
    """Whether two runs give the same bits; `false` lets GPU kernels add in any order and takes the fastest. `auto` =
    `true`, but for a model of 50 million parameters or more on a GPU."""
    exact: bool = False
    """Whether the result is bit-identical for every number of processes (powers of two only)."""
    strategy: Literal["ddp", "fsdp"] = "ddp"
    """`ddp` = every GPU holds the whole model; `fsdp` = each holds a share of it (FSDP2)."""
    unused_parameters: bool = False
    """Whether steps may leave parameters of the model without a gradient on some process, as branches at random do;
    every step then looks for them. Switched on by itself where the first backward pass leaves some."""
    cpu_offload: bool = False
    """Whether `fsdp` keeps weights and optimizer state in host memory, and gathers them from there: slower, for
    models that do not fit otherwise."""
    activation_checkpointing: bool = False
    """Whether the repeated blocks of the model are computed again in the backward pass instead of kept in memory:
    same gradients, about a third more work (`Task.blocks` says which)."""
    validate_every_steps: int = Field(0, ge=0)
    """Steps between validations; 0 = at the end of every epoch, unless `validate_every_s` says otherwise. The last step
    is always validated."""
    validate_every_s: float = Field(0, ge=0)
    """Seconds between validations, by the clock of rank 0, in place of the ends of epochs; 0 = not by the clock. What
    was validated is kept over a resume, but two runs are not validated at the same steps: what follows from that, such
    as `keep_best` and `patience`, is then not repeated."""
    best_metric: str = "validation_loss"
    """What says which validation is the best: `validation_loss`, `accuracy` for a task of classes, or a metric that
    the task measures itself (`Task.metrics`)."""
    keep_best: Literal["auto", True, False] = "auto"
    """Whether the weights of the best validation are shipped instead of the last ones. `auto` = where the data has a
    validation split."""
    patience: int = Field(0, ge=0)
    """Validations without a better one after which training stops early; 0 = it goes on to the end. The learning rate
    stays that of all steps."""
    min_delta: float = Field(0, ge=0)
    """By how much `best_metric` must be better to count as better."""
    checkpoint_every_s: Literal["auto"] | float = "auto"
    """Seconds between checkpoints, by the clock of rank 0. `auto` = what loses least, by what a save turns out to cost
    and how often the machines are expected to go (docs/capacity.md): 10 s to 30 min, and at most 5 % of the time."""
    checkpoint_every_steps: int = Field(0, ge=0)
    """Steps between checkpoints; 0 = by the clock only."""
    checkpoint_patience_s: float = Field(600, gt=0)
    """Seconds for which failing checkpoints are only warned about; then training fails."""
    lease_s: float = Field(120, ge=10, le=3600)
    """Seconds for which a folder of checkpoints in Cloud Storage stays with a run that is no longer heard of; it says
    that it lives four times as often. Another run that wants the folder waits for so long. At least 10: while the store
    takes longer to answer than the lease lasts, no checkpoint is saved."""
    keep: int = Field(3, ge=3)
    """Checkpoints that stay; at least 3, so that two older ones outlive a bad newest."""
    resume: str = "auto"
    """`auto` = go on from the newest checkpoint if there is one; `never` = start anew, past what earlier jobs saved
    (when this same job is started again after a failure, it goes on from its own); else the folder of another run's
    checkpoints to go on from."""
    warm_start: str = ""
    """Trained weights that replace the initial ones: the folder of a model, a folder of Hugging Face's
    (model.safetensors, or its shards with their index), or one .safetensors file; empty = none. `champion` = in a
    pipeline the run's champion, if there is one and the data has the values and columns that it was trained on."""
    warm_start_names: dict[str, str] = {}
    """How names begin here, and there: `{"backbone.": "bert."}`; the longest that fits counts. `Task.warm_name` can say
    more."""
    warm_start_new: list[str] = []
    """Patterns of weights that stay as they were made, such as a new `head.*`; every other must be in `warm_start`."""
    warm_start_ignore: list[str] = []
    """Patterns of weights in `warm_start` that are left there, such as its `classifier.*`."""
    freeze: list[str] = []
    """Patterns of parameters that are not trained, such as `backbone.*`: they get no gradient, no state of an optimizer
    and no decay."""
    rendezvous_timeout_s: float = Field(900, gt=0)
    """Seconds that nodes wait for each other at the start: machines come up minutes apart."""
    lost_after_s: float = Field(30, ge=2)
    """Seconds of silence after which a node counts as lost, such as behind a network that was cut; nodes say that
    they live twice a second. All others then end within 10 s."""
    hang_after_s: float = Field(600, ge=2)
    """Seconds that processes wait for one that does not come to where they meet. All then end within 10 s, and it is
    named, with the step and its Python stack. More than the slowest process may be behind the fastest."""
    profile_steps: str = ""
    """Steps of which a profiler trace is written beside the checkpoints, such as 100-105, counted as the log counts
    them; empty = none. A run that goes on is asked by a file `profile.request`."""
    profile_ranks: str = "0"
    """Numbers of the processes that write one, such as 0,3, or `all`."""
    memory_snapshot: Literal["auto", "history", "off"] = "auto"
    """What is written beside the checkpoints when a GPU runs out of memory: `auto` = what lay where, `history` = also
    the Python stacks of the last 20,000 allocations, for about 2 microseconds each; `off` = nothing."""

    @field_validator("checkpoint_every_s", mode="before")
    @classmethod
    def _interval(cls, value: object) -> object:
        if value == "auto":
            return value
        try:
            seconds = float(value) if isinstance(value, int | float | str) and value is not True else 0.0
        except ValueError:
            seconds = 0.0
        if not 0 < seconds < float("inf"):
            raise ValueError("give a number of seconds above 0, or auto")
        return seconds

    @field_validator("profile_steps", "profile_ranks", mode="before")
    @classmethod
    def _text(cls, value: object) -> object:
        return str(value) if type(value) is int else value  # one step, or one rank, as JSON has it

    @field_validator("profile_steps")
    @classmethod
    def _steps(cls, value: str) -> str:
        profile.steps(value)
        return value

    @field_validator("profile_ranks")
    @classmethod
    def _ranks(cls, value: str) -> str:
        profile.ranks(value)
        return value

    @field_validator("freeze", "warm_start_new", "warm_start_ignore", mode="before")
    @classmethod
    def _listed(cls, value: object) -> object:
        """A text is patterns with commas between them."""
        return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value

    @field_validator("epochs", "learning_rate", "weight_decay", "clip_norm", "loss_limit", "min_delta")
    @classmethod
    def _finite(cls, value: float) -> float:
        if not -1e300 < value < 1e300:
            raise ValueError("must be a finite number")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> "TrainConfig":
        if self.microbatches > self.global_batch_size:
            raise ValueError(
                f"microbatches={self.microbatches} is more than global_batch_size={self.global_batch_size}: "
                "every microbatch needs a sample"
            )
        if self.exact and self.strategy == "fsdp":
            raise ValueError("exact=true works with strategy=ddp only")
        if self.exact and self.deterministic is False:
            raise ValueError("exact=true needs deterministic kernels: leave deterministic at auto or true")
        if self.cpu_offload and self.strategy != "fsdp":
            raise ValueError("cpu_offload=true works with strategy=fsdp only")
        self._require_schedule()
        if not self.warm_start and (self.warm_start_names or self.warm_start_new or self.warm_start_ignore):
            raise ValueError("warm_start_names, warm_start_new and warm_start_ignore do nothing without warm_start")
        return self

    def _require_schedule(self) -> None:
        decays = self.schedule == "warmup_stable_decay"
        if self.final_lr_fraction and self.schedule in ("constant", "inverse_sqrt"):
            raise ValueError(f"final_lr_fraction={self.final_lr_fraction} does nothing with schedule={self.schedule}")
        if not decays and self.decay_fraction != type(self).model_fields["decay_fraction"].default:
            raise ValueError(f"decay_fraction={self.decay_fraction} works with schedule=warmup_stable_decay only")
        if decays and self.warmup_fraction + self.decay_fraction > 1:
            raise ValueError(
                f"warmup_fraction={self.warmup_fraction} and decay_fraction={self.decay_fraction} are more than all "
                "steps"
            )

    def mathematical(self) -> JsonObject:
        """Returns the fields that decide the result: what a checkpoint's fingerprint compares.

        `tf32` is among them only where it is on, so that checkpoints of versions without it go on.
        """
        return self.model_dump(exclude={*OPERATIONAL, *(() if self.tf32 else ("tf32",))})


def parse(values: JsonObject) -> TrainConfig:
    """The configuration with these fields set.

    Raises:
        UserError: an unknown field or a value that breaks its rule; names each, with what was given.
    """
    try:
        return TrainConfig(**values)
    except ValidationError as error:
        raise UserError("\n".join(_sentence(problem) for problem in error.errors())) from None


def _sentence(problem: ErrorDetails) -> str:
    name = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"training has no setting {name!r}. {did_you_mean(name, TrainConfig.model_fields)}"
    message: str = problem["msg"].removeprefix("Value error, ")
    if not name:
        return message + "."
    return f"{name}={problem['input']!r}: {message[0].lower()}{message[1:]}."


# ---- the numbers of processes that a run may have, checked without numpy


def check_assignment(microbatches: int, world_size: int, exact: bool, where: str = "") -> None:
    """Raises UserError: a process would have none, or the exact mode has no such number. `where` says whose it is."""
    if microbatches < world_size:
        raise UserError(
            f"microbatches={microbatches} cannot be assigned to {world_size} processes{where}: each needs one. "
            f"Take at most {microbatches} processes, or at least {world_size} microbatches."
        )
    if exact and (microbatches & (microbatches - 1) or world_size & (world_size - 1)):
        raise UserError(
            f"exact=true needs powers of two, not {microbatches} microbatches on {world_size} processes{where}: "
            "set microbatches to 4, 8, 16... and take 1, 2, 4, 8... processes."
        )


def check_rungs(config: TrainConfig, world_sizes: Collection[int]) -> None:
    """Whether the run can begin, and go on, with each number of processes that its machines may have, on any rung.

    Raises:
        UserError: one cannot be. Without `exact` and `microbatches` each can: microbatches are as many as it takes.
    """
    if not (config.exact or config.microbatches):
        return
    for world_size in sorted(set(world_sizes)):
        microbatches = config.microbatches or max(4, world_size)
        check_assignment(microbatches, world_size, config.exact, where=", one for each GPU of the step's machines")
