"""The parts of a step's request: a rung of its ladder, a size, services, a custom command.

    [steps.prepare]
    memory_gb = 24

    [steps.prepare.bigquery]
    max_gb = 500

    [steps.train]
    command = ["python", "train.py", "--epochs", "{epochs}"]
    launch = "torchrun"
    deadline = "12h"
    capacity = [
      {accelerator = "H100", count = 8, strategy = "spot"},
      {accelerator = "A100-80GB", count = 8, regions = ["us-east4", "europe-west4"]},
    ]

Every other key of the step holds for all rungs. A size is a rung that stands alone, or has a ladder of its own. A step
reads its services from one environment variable, as JSON (vgp/base/engine_settings.py); the checker reads their cost
there.
"""

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from vgp.base.documents.json_text import JsonObject
from vgp.base.text import google_names
from vgp.base.text.google_names import check_image
from vgp.machines.placement import job_fields, plain
from vgp.machines.placement.job_options import Strict
from vgp.machines.placement.provisioning import region_known

#: Sizes by which the cheapest machine is chosen.
NEEDS = ("min_memory_gb", "min_vcpu", "min_gpu_memory_gb")
#: Provisioning keys, which a persistent resource makes useless.
_STARTING_KEYS = ("strategy", "max_wait", "reservation", "reduction_server", "parameter_server")


class MachineNeed(Strict):
    """A machine by name, or the minimum sizes of the cheapest one."""

    #: Google's name of the machine type, such as `g2-standard-24`. GPUs follow from it, except on N1.
    machine: str | None = None
    #: GPU by its short name (`L4`, `A100-80GB`) or Google's: the cheapest machine that has it.
    accelerator: str | None = None
    #: GPUs of each node.
    count: int | None = Field(default=None, ge=1)
    #: Least memory of the machine.
    min_memory_gb: float | None = Field(default=None, gt=0)
    #: Fewest vCPUs of the machine.
    min_vcpu: int | None = Field(default=None, ge=1)
    #: Least memory of each GPU.
    min_gpu_memory_gb: float | None = Field(default=None, gt=0)


class Rung(MachineNeed):
    """The request of one rung; keys that it leaves open come from the step."""

    #: Machines that train together.
    nodes: int | None = Field(default=None, ge=1)
    #: Provisioning of the machine.
    strategy: Literal["standard", "spot", "flex_start"] | None = None
    #: How long Flex-start may wait for capacity before the next rung is tried: `2h`.
    max_wait: str | int | None = None
    #: `projects/PROJECT/zones/ZONE/reservations/NAME`, or `any`.
    reservation: str | None = None
    #: Id of a persistent resource that has the machines.
    persistent_resource: str | None = None
    #: Regions to try in this order, each as a rung of its own. Default: that of the step.
    regions: tuple[str, ...] = ()
    #: Image of this rung alone, such as one with kernels for its GPU.
    image: Annotated[str, AfterValidator(check_image)] | None = None
    #: Type of the boot disk.
    boot_disk_type: str | None = None
    #: Size of the boot disk.
    boot_disk_gb: int | None = None
    #: Limit for all jobs of this rung together.
    timeout: str | int | None = None
    #: Environment variables, in addition to those of the step.
    env: dict[str, str] = {}

    @field_validator("timeout", "max_wait")
    @classmethod
    def _duration(cls, value: str | int | None) -> str | int | None:
        return job_fields.check_duration(value)

    @field_validator("regions")
    @classmethod
    def _regions(cls, regions: tuple[str, ...]) -> tuple[str, ...]:
        for region in regions:
            for problem in region_known(region):
                raise ValueError(f"{problem.message} {problem.suggestion}")
        if not regions:
            raise ValueError("the list is empty. Name regions, or remove it to use the step's region.")
        if len(set(regions)) < len(regions):
            raise ValueError("a region is listed twice; each is tried once per round.")
        return regions

    @model_validator(mode="after")
    def _check_keys(self) -> Self:
        if self.max_wait is not None and self.strategy not in (None, "flex_start"):
            raise ValueError("max_wait is for strategy = 'flex_start'.")
        conflicts = [name for name in _STARTING_KEYS[:3] if getattr(self, name) is not None]
        if self.persistent_resource and conflicts:
            raise ValueError(
                f"{conflicts[0]} has no effect with persistent_resource, because its machines exist already."
            )
        return self

    @model_serializer(mode="wrap")
    def _serialize_set_keys(self, handler: SerializerFunctionWrapHandler) -> JsonObject:
        """Returns the keys that are set, for `vgp config`."""
        return {name: value for name, value in handler(self).items() if value not in (None, (), [], {})}

    def override_step(self, step: JsonObject) -> JsonObject:
        """Returns the step's keys, overridden by the rung's; another machine replaces the step's request for one."""
        values = {name: getattr(self, name) for name in self.model_fields_set - {"regions", "env"}}
        inherited = {name: value for name, value in step.items() if name not in self._list_replaced_keys()}
        env = {**inherited.get("env", {}), **self.env}
        return {**inherited, **values, **({"env": env} if env else {})}

    def _list_replaced_keys(self) -> tuple[str, ...]:
        """Returns the step's keys about its machine that do not apply to this rung."""
        replaced: tuple[str, ...] = ()
        if self.machine:
            replaced = ("accelerator", "count", *NEEDS)
        elif self.accelerator or any(getattr(self, name) for name in NEEDS):
            replaced = ("machine",)
        if self.strategy or self.reservation:
            replaced += ("strategy", "reservation", *(() if self.strategy == "flex_start" else ("max_wait",)))
        return (*replaced, *_STARTING_KEYS) if self.persistent_resource else replaced


_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
_OF_MACHINE = ("machine", "accelerator", *NEEDS)


class Size(Rung):
    """The request of the step in one size."""

    #: Ladder of this size. Default: the step's, unless the size names a machine.
    capacity: tuple[Rung, ...] = ()

    def apply_to(self, step: JsonObject) -> JsonObject:
        """Returns the step's keys in this size, always with a ladder of at least one rung."""
        named_sizes = any(getattr(self, name) for name in _OF_MACHINE)
        kept = {name: value for name, value in step.items() if not (named_sizes and name == "capacity")}
        values = self.override_step(kept)
        only = Rung(regions=self.regions) if self.regions else Rung()
        return {**values, "capacity": values.get("capacity") or (only,)}


def require_valid_names(sizes: JsonObject) -> JsonObject:
    """Returns the sizes, or raises ValueError for a name that is not a valid parameter value."""
    for name in sizes:
        if not _NAME.fullmatch(name):
            raise ValueError(f"'{name}' is not a valid name of a size: at most 31 lower-case letters, digits and -.")
    return sizes


def _unless_empty(rule: Callable[[str], str]) -> AfterValidator:
    return AfterValidator(lambda value: rule(value) if value else value)


class _Finite(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class BigQuery(_Finite):
    """The project and location of queries, and their maximum cost."""

    #: Project that runs and pays for the queries. Default: `project`.
    project: Annotated[str, _unless_empty(google_names.check_project)] = ""
    #: Dataset for intermediate tables, created if missing.
    dataset: Annotated[str, AfterValidator(google_names.check_dataset)] = "vertex_gpu_pipelines"
    #: Location of the source: `EU`, `us-central1`. Default: looked up when the step runs.
    location: Annotated[str, _unless_empty(google_names.check_bigquery_location)] = ""
    #: GiB that the queries of one attempt may read. More is refused before anything is billed; the cost ceiling counts
    #: all of it.
    max_gb: float = Field(default=100.0, gt=0)
    #: Days after which BigQuery deletes intermediate tables.
    expiry_days: int = Field(default=7, ge=1, le=365)


class Dataflow(_Finite):
    """A job that prepares shards on many machines."""

    #: Region of the job; best that of the data. Default: `region`.
    region: Annotated[str, _unless_empty(google_names.check_region)] = ""
    #: Machine type of the workers.
    machine: Annotated[str, AfterValidator(google_names.check_machine_type)] = "n2-standard-4"
    #: Maximum number of workers at one time.
    max_workers: int = Field(default=10, ge=1, le=4000)
    #: Disk of each worker.
    disk_gb: int = Field(default=50, ge=30, le=64_000)
    #: Account of the workers. Default: `service_account`.
    service_account: Annotated[str, _unless_empty(google_names.check_service_account)] = ""
    #: `regions/REGION/subnetworks/NAME` with Private Google Access: workers then have no public address.
    subnetwork: Annotated[str, _unless_empty(google_names.check_subnetwork)] = ""
    #: Hours after which the job is cancelled.
    max_hours: float = Field(default=24.0, gt=0)

    @model_validator(mode="after")
    def _in_one_region(self) -> "Dataflow":
        if self.subnetwork and self.region and google_names.subnetwork_region(self.subnetwork) != self.region:
            raise ValueError(f"the subnetwork is in another region than {self.region}. Name one of the job's region.")
        return self


class Job(Dataflow):
    """A Dataflow job with the settings that all steps share."""

    project: str = ""
    temp: str = ""
    image: str = ""


class Engines(_Finite):
    """The content of the engines variable."""

    #: Maximum memory of the engine, in GiB; 0: by the size of the input.
    memory_gb: float = Field(default=0.0, ge=0)
    #: Processes or threads; 0: as many as there are cores.
    workers: int = Field(default=0, ge=0)
    bigquery: BigQuery | None = None
    dataflow: Job | None = None

    def environment(self) -> dict[str, str]:
        """Returns the variable without empty values; empty if there are none."""
        values = _without_empty(self.model_dump())
        return {plain.ENGINES_VARIABLE: json.dumps(values, separators=(",", ":"))} if values else {}


def _without_empty(values: Mapping[str, object]) -> JsonObject:
    inner = {key: _without_empty(value) if isinstance(value, dict) else value for key, value in values.items()}
    return {key: value for key, value in inner.items() if value not in ("", 0, None, {})}


#: torchrun: one process per GPU, with its variables. The others start one per node: tensorflow with TF_CONFIG,
#: jax with its coordinator, plain with the node numbers only.
Launch = Literal["torchrun", "tensorflow", "jax", "plain"]
#: Programs and modules that start a process for each GPU.
_LAUNCHERS = frozenset({"torchrun", "deepspeed", "mpirun", "mpiexec", "horovodrun"})
_MODULES = frozenset(
    {"torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch", "deepspeed.launcher.runner"}
)
_SHELL = re.compile(r"(?:.*/)?(?:ba|da|z)?sh")


class ParameterServer(Strict):
    """Machines that hold the variables of TensorFlow's ParameterServerStrategy; they run the same command."""

    #: Number of machines.
    count: int = Field(ge=1)
    #: Machine type.
    machine: str = "n1-highmem-8"


def _list(value: object) -> Any:
    if isinstance(value, str):
        raise ValueError(
            f"it must be a list of words: command = {json.dumps(_split_words(value) or ['python', 'train.py'])}."
        )
    return value


def _check_command(command: tuple[str, ...]) -> tuple[str, ...]:
    if not command or not command[0].strip():
        raise ValueError('names no program. Write the words of a command: command = ["python", "train.py"].')
    if any("\0" in word for word in command):
        raise ValueError("a word of a command cannot contain the character NUL.")
    return command


Command = Annotated[tuple[str, ...], BeforeValidator(_list), AfterValidator(_check_command)]


def process_launcher(command: Sequence[str]) -> str:
    """Returns the program of a command that starts processes, such as torchrun; "" if there is none."""
    words = list(command)
    if _SHELL.fullmatch(words[0]):
        words = [inner for word in words for inner in (_split_words(word) if " " in word else [word])]
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name = word.rpartition("/")[2]
        if name in _LAUNCHERS:
            return name
        if name == "accelerate" and following == "launch":
            return "accelerate launch"
        if word == "-m":
            return f"python -m {following}" if following in _MODULES else ""
        if word.endswith(".py"):
            return ""
    return ""


def _split_words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
