"""The request of a step in pipelines.toml.

[steps.train]
accelerator = "L4"
count = 4
strategy = "spot"
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)  # fmt: skip

from vgp.base.text.google_names import check_image
from vgp.machines.placement import job_fields, plain
from vgp.machines.placement.job_options import JobOptions, Strict, none_if_empty
from vgp.machines.placement.request_parts import (
    BigQuery,
    Command,
    Dataflow,
    Launch,
    MachineNeed,
    ParameterServer,
    Rung,
    Size,
    process_launcher,
    require_valid_names,
)
from vgp.protocol import environment as variables

#: More retries do not help against a transient fault; each may cost its whole timeout.
MAX_RETRIES = 10
REDUCTION_IMAGE = "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"


Image = Annotated[Annotated[str, AfterValidator(check_image)] | None, BeforeValidator(none_if_empty)]


class ReductionServer(Strict):
    """Machines without GPUs that sum the gradients of TCP workers; the image must have google-reduction-server."""

    #: Number of machines. Their joint egress should reach that of the workers: about one for each worker.
    count: int = Field(ge=1)
    #: Machine type, without GPUs.
    machine: str = "n1-highcpu-16"
    #: Image of the reduction servers.
    image: str = REDUCTION_IMAGE


def _as_shells_write(value: object) -> Any:
    """Returns a variable's value as text: TOML's true becomes `true`, the usual spelling outside Python."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else value


@contextmanager
def _name_part_in_errors(part: str) -> Iterator[None]:
    """Adds the name of the request's part to errors in its values."""
    try:
        yield
    except ValidationError as error:
        raise ValueError(f"{part}: {error.errors()[0]['msg'].removeprefix('Value error, ')}") from None


class Request(MachineNeed, JobOptions):
    """The request of a step: a machine by name or by need, its options and its command."""

    #: Machines that train together: one chief and `nodes - 1` workers. Default: 1.
    nodes: int = Field(default=1, ge=1)
    #: Provisioning of the machine.
    strategy: Literal["standard", "spot", "flex_start"] = "standard"
    #: Ladder of rungs: requests that are tried in order until one gets machines.
    capacity: tuple[Rung, ...] = ()
    #: Named sizes, of which each run takes one by the parameter `STEP_size`. All are checked and priced.
    sizes: Annotated[dict[str, Size], AfterValidator(require_valid_names)] = {}
    #: Size of a run that names none. Default: the first.
    size: str | None = None
    #: Time from the first attempt by which a step with a ladder must be done: `12h`, at most `7d`.
    deadline: str | int | None = None
    #: How long Flex-start may wait for capacity: `24h`; `0s` waits without limit.
    max_wait: str | int | None = None
    #: `projects/PROJECT/zones/ZONE/reservations/NAME`, or `any`.
    reservation: str | None = None
    #: Type of the boot disk. A plain step with a disk of its own becomes a custom job.
    boot_disk_type: str | None = None
    #: Size of the boot disk, which holds temporary files. Default: 100.
    boot_disk_gb: int | None = None
    #: Time after which the step is ended: `24h`, `90m`. It bounds the cost. Default: `24h`, plain steps `4h`.
    timeout: str | int | None = None
    #: Further attempts after a failure, at most 10; each may cost the whole timeout. Default: 0, plain steps 2.
    retries: int | None = Field(default=None, ge=0, le=MAX_RETRIES)
    #: Environment variables of the step. Specs are readable, so no secrets.
    env: dict[str, str] = {}
    #: Memory limit of the engine that prepares data, in GiB. Default: by the size of the input.
    memory_gb: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    #: Limits of the step's BigQuery queries.
    bigquery: BigQuery | None = None
    #: Lets the step prepare its shards on Dataflow.
    dataflow: Dataflow | None = None
    #: Machines that sum the gradients of workers on several nodes.
    reduction_server: ReductionServer | None = None
    #: Region of this job alone. Not for plain steps.
    region: str | None = None
    #: Image of this step alone: by digest, or by a version tag.
    image: Image = None
    #: Command line of your own script, one word an item; it runs in place of the step's Python.
    command: Command | None = None
    #: How the command is started. `torchrun` starts one process for each GPU, the others one for each node. Default:
    #: `plain`.
    launch: Launch | None = None
    #: Machines of TensorFlow's parameter servers, which run the same command.
    parameter_server: ParameterServer | None = None

    @field_validator("timeout", "max_wait", "deadline")
    @classmethod
    def _duration(cls, value: str | int | None) -> str | int | None:
        return job_fields.check_duration(value)

    @field_validator("env", mode="before")
    @classmethod
    def _texts(cls, value: object) -> Any:
        if not isinstance(value, Mapping):
            return value
        return {key: _as_shells_write(text) for key, text in value.items()}

    @field_validator("env")
    @classmethod
    def _refuse_reserved(cls, env: dict[str, str]) -> dict[str, str]:
        if plain.TIMEOUT_VARIABLE in env:
            raise ValueError(f"{plain.TIMEOUT_VARIABLE} is set by the key timeout: timeout = '4h'.")
        if variables.CODE in env:
            raise ValueError(f"{variables.CODE} is set by the option --code: vgp submit --code.")
        if plain.ENGINES_VARIABLE in env:
            keys = "the keys memory_gb, bigquery and dataflow of the step"
            raise ValueError(f"{plain.ENGINES_VARIABLE} is set by {keys}.")
        return env

    @model_validator(mode="after")
    def _check_keys(self) -> "Request":
        if self.max_wait is not None and self.strategy != "flex_start" and not self.capacity:
            raise ValueError("max_wait is for strategy = 'flex_start'.")
        if self.deadline is not None and not {"capacity", "sizes"} & self.model_fields_set:
            raise ValueError("deadline is for a step with a ladder: capacity = [...]. Use timeout for other steps.")
        return self

    @model_validator(mode="before")
    @classmethod
    def _without_probe(cls, value: object) -> object:
        if isinstance(value, dict) and "probe" in value:
            raise ValueError(
                "probe is no setting any more: remove it. While a job works on demand, the job that is to follow it "
                "waits for Spot machines, which costs nothing until it has them."
            )
        return value

    @model_validator(mode="after")
    def _of_rungs_and_sizes(self) -> "Request":
        for number, rung in enumerate(self.capacity, 1):
            with _name_part_in_errors(f"capacity: rung {number}"):
                self.of_rung(rung)
        if self.size is not None and self.size not in self.sizes:
            there = (
                f"one of {', '.join(self.sizes)}"
                if self.sizes
                else "the step has no sizes; add [steps.NAME.sizes.small]"
            )
            raise ValueError(f"size = '{self.size}': {there}.")
        for name in self.sizes:
            with _name_part_in_errors(f"sizes: {name}"):
                self.of_size(name)
        return self

    @model_validator(mode="after")
    def _of_a_command(self) -> "Request":
        if self.command is None:
            for name in ("launch", "parameter_server"):
                if getattr(self, name) is not None:
                    raise ValueError(f'{name} needs a command of your own: command = ["python", "train.py"].')
            return self
        if self.parameter_server and self.launch != "tensorflow":
            raise ValueError(f"parameter_server is for launch = 'tensorflow', not for '{self.launch_method}'.")
        if self.reduction_server and self.launch != "torchrun":
            text = "reduction_server sums gradients of NCCL, between processes that launch = 'torchrun' starts"
            raise ValueError(f"{text}; not for '{self.launch_method}'.")
        program = process_launcher(self.command) if self.launch == "torchrun" else ""
        if program == "horovodrun":
            raise ValueError(
                "horovodrun starts processes over SSH, which the machines of a custom job do not accept. For "
                f"{job_fields.HOROVOD} (launch = 'tensorflow'), and leave horovodrun out: each GPU gets a process. "
                "On one machine it works with launch = 'plain'."
            )
        if program:
            raise ValueError(
                f"launch = 'torchrun' and {program} in the command would start processes twice. Leave {program} out: "
                "each GPU gets a process with torchrun's variables. Or keep it, with launch = 'plain': in the command "
                "{nodes} {node} {chief} {port} stand for what it needs to know of the machines."
            )
        return self

    def of_rung(self, rung: Rung) -> "Request":
        """Returns the request of the step on that rung.

        Raises:
            ValidationError: the rung's keys and those of the step exclude each other.
        """
        own = {name: getattr(self, name) for name in self.model_fields_set - {"capacity", "deadline"}}
        return type(self).model_validate(rung.override_step(own))

    def of_size(self, name: str) -> "Request":
        """Returns the request of the step in that size, with a ladder of at least one rung.

        Raises:
            ValidationError: the size's keys and those of the step exclude each other.
        """
        own = {key: getattr(self, key) for key in self.model_fields_set - {"sizes", "size"}}
        return type(self).model_validate(self.sizes[name].apply_to(own))

    @property
    def default_size(self) -> str:
        """Returns the size of a run that names none; empty for a step without sizes."""
        return self.size or next(iter(self.sizes), "")

    @property
    def images(self) -> tuple[str, ...]:
        """Returns the images that the step and its rungs name."""
        rungs = [
            *self.capacity,
            *self.sizes.values(),
            *(rung for size in self.sizes.values() for rung in size.capacity),
        ]
        return tuple(filter(None, (self.image, *(rung.image for rung in rungs))))

    @property
    def has_disk(self) -> bool:
        return self.boot_disk_type is not None or self.boot_disk_gb is not None

    @property
    def launch_method(self) -> str:
        """Returns how the command is started."""
        return self.launch or "plain"

    @property
    def provisioning(self) -> str:
        """Returns the provisioning, one of prices.PROVISIONING."""
        return "reservation" if self.reservation else self.strategy
