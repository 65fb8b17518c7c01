"""The settings of a training run and their checks, without torch."""

from collections.abc import Collection
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import UserError
from vgp.base.text.nearest import did_you_mean
from vgp.train import profile_settings

#: Fields that do not change the result: a resumed run may have other values.
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

#: Decisive fields that the first checkpoints did not have.
_LATER = ("tf32", "gradient_precision")

#: Fields whose `auto` the run resolves at its start, from its model and device.
AUTO_FIELDS = ("precision", "compile", "deterministic")


class TrainConfig(BaseModel):
    """The settings of a training run (docs/reference/training-settings.md); the defaults suit a small table."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    task: str = "flights"
    """A shipped task by its short name, or any `module:Class` derived from `vgp.data.task.Task`."""
    options: JsonObject = {}
    """Options of the task, such as layer sizes; see the task."""
    epochs: float = Field(3, gt=0)
    """Passes over the training split; a fraction is allowed."""
    global_batch_size: int = Field(1024, ge=1, le=2**31)
    """Samples per optimizer step over all processes, whatever their number."""
    microbatches: int = Field(0, ge=0)
    """Number of parts of a global batch. Each process computes its parts one after the other: more parts need less
    memory. 0 = one for each process; a resumed run keeps its number unless it has more processes; exact=true takes at
    least 4."""
    learning_rate: float = Field(1e-3, gt=0)
    """Peak learning rate, reached after the warm-up."""
    weight_decay: float = Field(0.01, ge=0)
    """Decoupled weight decay (AdamW) on matrices; vectors (biases, norms) have none."""
    warmup_fraction: float = Field(0.05, ge=0, lt=1)
    """Share of all steps over which the learning rate rises linearly, with every `schedule`."""
    schedule: Literal["auto", "cosine", "linear", "constant", "warmup_stable_decay", "inverse_sqrt"] = "auto"
    """The learning rate after the warm-up. `cosine` and `linear` fall to `final_lr_fraction` of the peak;
    `warmup_stable_decay` is constant, then falls linearly over the last `decay_fraction` of all steps; `inverse_sqrt`
    falls as 1/sqrt(step). `auto` = the task's own schedule (`Task.learning_rate`), else `cosine`."""
    final_lr_fraction: float = Field(0.0, ge=0, le=1)
    """Share of the peak learning rate at which `cosine`, `linear` and `warmup_stable_decay` end."""
    decay_fraction: float = Field(0.2, gt=0, le=1)
    """Share of all steps over which `warmup_stable_decay` falls."""
    clip_norm: float = Field(1.0, ge=0)
    """Largest 2-norm of the whole gradient; 0 = no clipping."""
    ema_decay: float = Field(0, ge=0, lt=1)
    """Decay per step of an exponential moving average of the weights (EMA), for example 0.999; lower in the first
    steps. The run then validates and exports the average. 0 = no average."""
    loss_limit: float = Field(1e6, gt=0)
    """Training stops if a step's loss is above this limit or not a number."""
    seed: int = Field(0, ge=0, lt=2**63)
    """Seed of the initial weights, the sample order, augmentation and dropout."""
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """Arithmetic of the model: bfloat16 autocast, float16 autocast with a scaled loss, or float32. `auto` = bfloat16 if
    the GPU supports it, float16 on GPUs with tensor cores but no bfloat16 (V100, T4), else float32."""
    tf32: bool = False
    """Whether a GPU may round the inputs of float32 products and convolutions to 10 bits (TF32), which is faster.
    Rejected if the model multiplies raw values that lose their meaning when rounded."""
    gradient_precision: Literal["fp32", "bf16"] = "fp32"
    """Precision of gradients while they cross between processes. `bf16` halves the traffic; each process's gradient is
    rounded to 8 bits before the sum."""
    compile: Literal["auto", True, False] = "auto"
    """Whether to use `torch.compile`: a slower start, then faster steps. `auto` = on a GPU, for models of at least 50
    million parameters."""
    deterministic: Literal["auto", True, False] = "auto"
    """Whether two runs give identical bits; `false` selects the fastest GPU kernels, which may add in any order. `auto`
    = `true`, except for models of at least 50 million parameters on a GPU, and models with an operation that has no
    deterministic kernel."""
    exact: bool = False
    """Whether the result is bit-identical for every number of processes (powers of two only)."""
    strategy: Literal["ddp", "fsdp"] = "ddp"
    """`ddp` = every GPU holds the whole model; `fsdp` = every GPU holds a share of it (FSDP2)."""
    unused_parameters: bool = False
    """Whether a step may leave parameters without a gradient on some process, for example with random branches; every
    step then searches for them. Turned on automatically if the first backward pass leaves some."""
    cpu_offload: bool = False
    """Whether `fsdp` keeps weights and optimizer state in host memory: slower, for models that do not fit on the
    GPUs."""
    activation_checkpointing: Literal[True, False, "selective"] = False
    """Whether to recompute the repeated blocks of the model (`Task.blocks`) in the backward pass to save memory: the
    same gradients, about a third more work. `selective` keeps the results of matrix products and attention and
    recomputes the cheap rest: less memory saved, little more work."""
    validate_every_steps: int = Field(0, ge=0)
    """Steps between validations; 0 = at the end of every epoch, unless `validate_every_s` is set. A run always
    validates after its last step."""
    validate_every_s: float = Field(0, ge=0)
    """Seconds between validations, by the clock of rank 0, instead of at the ends of epochs; 0 = not by the clock. Two
    runs then validate at different steps, so the effects of `keep_best` and `patience` are not reproducible. A resumed
    run keeps its past validations."""
    best_metric: str = "validation_loss"
    """The metric that selects the best validation: `validation_loss`, `accuracy` for classification, or a metric of the
    task (`Task.metrics`)."""
    keep_best: Literal["auto", True, False] = "auto"
    """Whether to export the weights of the best validation instead of the last ones. `auto` = if the data has a
    validation split."""
    patience: int = Field(0, ge=0)
    """Validations without improvement after which training stops early; 0 = never. The learning rate schedule still
    spans all steps."""
    min_delta: float = Field(0, ge=0)
    """Smallest change of `best_metric` that counts as an improvement."""
    checkpoint_every_s: Literal["auto"] | float = "auto"
    """Seconds between checkpoints, by the clock of rank 0. `auto` = the interval that loses least time, from the
    measured cost of a save and the expected rate of preemption: 10 s to 30 min, with at most 5 % of the time spent on
    saves."""
    checkpoint_every_steps: int = Field(0, ge=0)
    """Steps between checkpoints; 0 = by the clock only."""
    checkpoint_patience_s: float = Field(600, gt=0)
    """Seconds for which failed saves cause warnings only; then training fails."""
    lease_s: float = Field(120, ge=10, le=3600)
    """Seconds for which a silent run keeps its checkpoint folder in Cloud Storage; another run waits that long before
    it takes the folder over. The run renews its lease four times as often. At least 10: while the store takes longer to
    answer than the lease lasts, no checkpoint is saved."""
    keep: int = Field(3, ge=3)
    """Number of checkpoints to keep; at least 3, so that two remain if the newest is damaged."""
    resume: str = "auto"
    """`auto` = resume from the newest checkpoint, if there is one; `never` = ignore the checkpoints of earlier jobs (a
    retry of this job resumes from its own); else the checkpoint folder of another run to resume from."""
    warm_start: str = ""
    """Trained weights to start from: the folder of a model, a Hugging Face folder (model.safetensors, or shards with
    their index), or one .safetensors file; empty = none. `champion` = in a pipeline, the current champion, if there is
    one and the data has the values and columns that it was trained on."""
    warm_start_names: dict[str, str] = {}
    """Maps prefixes of names in this model to prefixes in `warm_start`, for example `{"backbone.": "bert."}`; the
    longest matching prefix wins. For other rules, override `Task.warm_name`."""
    warm_start_new: list[str] = []
    """Patterns of weights that keep their initial values, such as a new `head.*`; `warm_start` must hold all others."""
    warm_start_ignore: list[str] = []
    """Patterns of weights in `warm_start` to ignore, such as its `classifier.*`."""
    freeze: list[str] = []
    """Patterns of parameters not to train, such as `backbone.*`: they have no gradient, optimizer state or decay."""
    rendezvous_timeout_s: float = Field(900, gt=0)
    """Seconds for which nodes wait for each other at the start: machines come up minutes apart."""
    lost_after_s: float = Field(30, ge=2)
    """Seconds without a heartbeat after which a node counts as lost, for example when its network fails; nodes send two
    heartbeats a second. All other nodes then end within 10 s."""
    hang_after_s: float = Field(600, ge=2)
    """Seconds for which processes wait for a missing process. All then end within 10 s; the error names the process,
    its step and its Python stack. Set it above the longest time by which the slowest process may lag."""
    profile_steps: str = ""
    """Steps to profile, for example 100-105, numbered as in the log; the trace is written beside the checkpoints; empty
    = none. To profile a running job, create the file `profile.request`."""
    profile_ranks: str = "0"
    """Numbers of the processes that write a trace, for example 0,3, or `all`."""
    memory_snapshot: Literal["auto", "history", "off"] = "auto"
    """The file that a run writes beside the checkpoints when a GPU runs out of memory: `auto` = the memory map,
    `history` = also the Python stacks of the last 20,000 allocations, at about 2 microseconds each; `off` = none."""

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
        return str(value) if type(value) is int else value  # JSON may hold one step or rank as a number

    @field_validator("profile_steps")
    @classmethod
    def _steps(cls, value: str) -> str:
        profile_settings.parse_steps(value)
        return value

    @field_validator("profile_ranks")
    @classmethod
    def _ranks(cls, value: str) -> str:
        profile_settings.parse_ranks(value)
        return value

    @field_validator("freeze", "warm_start_new", "warm_start_ignore", mode="before")
    @classmethod
    def _listed(cls, value: object) -> object:
        """Splits a text at its commas."""
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
        if self.exact and self.gradient_precision != "fp32":
            raise ValueError("exact=true adds gradients in float32: leave gradient_precision at fp32")
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
                f"warmup_fraction={self.warmup_fraction} and decay_fraction={self.decay_fraction} must not exceed 1 "
                "together"
            )

    def decisive_fields(self) -> JsonObject:
        """Returns the fields that decide the result, which a resume compares with the checkpoint.

        Later fields are included only if they differ from their default, so that checkpoints from versions without
        them still resume.
        """
        defaults = {name for name in _LATER if getattr(self, name) == type(self).model_fields[name].default}
        return self.model_dump(exclude={*OPERATIONAL, *defaults})


def parse_config(values: JsonObject) -> TrainConfig:
    """Returns the configuration with these field values.

    Raises:
        UserError: a field is unknown or its value is invalid; the message lists every such field and value.
    """
    try:
        return TrainConfig(**values)
    except ValidationError as error:
        raise UserError("\n".join(_format_problem(problem) for problem in error.errors())) from None


def _format_problem(problem: ErrorDetails) -> str:
    name = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"training has no setting {name!r}. {did_you_mean(name, TrainConfig.model_fields)}"
    message: str = problem["msg"].removeprefix("Value error, ")
    if not name:
        return message + "."
    return f"{name}={problem['input']!r}: {message[0].lower()}{message[1:]}."


def check_assignment(microbatches: int, world_size: int, exact: bool, where: str = "") -> None:
    """Raises UserError if a process would have no microbatch, or if `exact` does not allow one of the two numbers.

    `where` follows the number of processes in the message.
    """
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
    """Raises UserError if the run cannot start or resume with one of these numbers of processes.

    Without `exact` and `microbatches` every number is possible: the run chooses its number of microbatches.
    """
    if not (config.exact or config.microbatches):
        return
    for world_size in sorted(set(world_sizes)):
        microbatches = config.microbatches or max(4, world_size)
        check_assignment(microbatches, world_size, config.exact, where=", one for each GPU of the step's machines")
