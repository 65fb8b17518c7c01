"""One rung of a ladder and one of several sizes of a step, as they stand in pipelines.toml.

[steps.train]
deadline = "12h"
capacity = [
  {accelerator = "H100", count = 8, strategy = "spot"},
  {accelerator = "A100-80GB", count = 8, regions = ["us-east4", "europe-west4"]},
]

Every other key of the step holds for all rungs.

A size is a rung that stands alone, or has a ladder of its own; what it leaves open is as the step has it.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)  # fmt: skip

from vgp.base.text.google_names import image_name
from vgp.machines.placement import job_fields
from vgp.machines.placement.provisioning import region_known

#: Sizes of a machine, by which the cheapest is found.
NEEDS = ("min_memory_gb", "min_vcpu", "min_gpu_memory_gb")
#: How machines are got, which those of a persistent resource are already.
_GOT = ("strategy", "max_wait", "reservation", "reduction_server", "parameter_server")


class Rung(BaseModel):
    """What this rung asks for; what it leaves open is as the step has it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    machine: str | None = None
    accelerator: str | None = None
    count: int | None = Field(default=None, ge=1)
    min_memory_gb: float | None = Field(default=None, gt=0)
    min_vcpu: int | None = Field(default=None, ge=1)
    min_gpu_memory_gb: float | None = Field(default=None, gt=0)
    nodes: int | None = Field(default=None, ge=1)
    strategy: Literal["standard", "spot", "flex_start"] | None = None
    #: How long Flex-start may wait for capacity before the next rung is tried: 2h.
    max_wait: str | int | None = None
    reservation: str | None = None
    #: Id of a persistent resource whose machines, which the rung names too, are there already.
    persistent_resource: str | None = None
    #: In each of them, in this order, as a rung of its own; none: where the step runs.
    regions: tuple[str, ...] = ()
    #: Of this rung alone, such as one with kernels for its GPU.
    image: Annotated[str, AfterValidator(image_name)] | None = None
    boot_disk_type: str | None = None
    boot_disk_gb: int | None = None
    #: How long its jobs may run together.
    timeout: str | int | None = None
    #: Beside the step's own.
    env: dict[str, str] = {}

    @field_validator("timeout", "max_wait")
    @classmethod
    def _duration(cls, value: str | int | None) -> str | int | None:
        return job_fields.checked_duration(value)

    @field_validator("regions")
    @classmethod
    def _regions(cls, regions: tuple[str, ...]) -> tuple[str, ...]:
        for region in regions:
            for problem in region_known(region):
                raise ValueError(f"{problem.message} {problem.suggestion}")
        if not regions:
            raise ValueError("there is none in it. Name some, or drop it: then the rung is where the step runs.")
        if len(set(regions)) < len(regions):
            raise ValueError("a region stands there twice: each is tried once in a round.")
        return regions

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.max_wait is not None and self.strategy not in (None, "flex_start"):
            raise ValueError("max_wait is for strategy = 'flex_start'.")
        got = [name for name in _GOT[:3] if getattr(self, name) is not None]
        if self.persistent_resource and got:
            raise ValueError(f"{got[0]} has no effect with persistent_resource: its machines are there already.")
        return self

    @model_serializer(mode="wrap")
    def _said(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """What it says, without what it leaves open: `vgp config` shows that."""
        return {name: value for name, value in handler(self).items() if value not in (None, (), [], {})}

    def over(self, step: Mapping[str, Any]) -> dict[str, Any]:
        """The keys of the step with the rung's own laid over them; another machine drops the step's request for one."""
        own = {name: getattr(self, name) for name in self.model_fields_set - {"regions", "env"}}
        kept = {name: value for name, value in step.items() if name not in self._given_way()}
        env = {**kept.get("env", {}), **self.env}
        return {**kept, **own, **({"env": env} if env else {})}

    def _given_way(self) -> tuple[str, ...]:
        """What the step says of its machine and does not hold here: as between the places of a setting."""
        gone: tuple[str, ...] = ()
        if self.machine:
            gone = ("accelerator", "count", *NEEDS)
        elif self.accelerator or any(getattr(self, name) for name in NEEDS):
            gone = ("machine",)
        if self.strategy or self.reservation:
            gone += ("strategy", "reservation", *(() if self.strategy == "flex_start" else ("max_wait",)))
        return (*gone, *_GOT) if self.persistent_resource else gone


_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
_OF_MACHINE = ("machine", "accelerator", *NEEDS)


class Size(Rung):
    """What the step asks for in this size."""

    #: Its ladder; empty: that of the step, unless the size names a machine, which is then its only rung.
    capacity: tuple[Rung, ...] = ()

    def of(self, step: dict[str, Any]) -> dict[str, Any]:
        """The keys of the step in this size; always with a ladder, of one rung at least."""
        named_sizes = any(getattr(self, name) for name in _OF_MACHINE)
        kept = {name: value for name, value in step.items() if not (named_sizes and name == "capacity")}
        values = self.over(kept)
        only = Rung(regions=self.regions) if self.regions else Rung()
        return {**values, "capacity": values.get("capacity") or (only,)}


def named_sizes(sizes: dict[str, Any]) -> dict[str, Any]:
    """The sizes, if they are called as a parameter's value can be."""
    for name in sizes:
        if not _NAME.fullmatch(name):
            raise ValueError(f"'{name}' is no name of a size: at most 31 lower-case letters, digits and -.")
    return sizes
