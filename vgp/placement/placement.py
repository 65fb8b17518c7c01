"""Where a step runs: what the author asks for in pipelines.toml, and the machine that it gets.

    place(Request(accelerator="L4", count=4)).machine_type    # g2-standard-48, the cheapest with four L4

A placement lands in a spec as the worker pools of a custom job, or as the resource limits of a plain step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal

from vgp.catalog import catalog
from vgp.catalog.prices import Price, price
from vgp.placement import combination, job_fields, plain, provisioning
from vgp.placement.choice import PlacementError, choose, refuse
from vgp.placement.request import ReductionServer, Request
from vgp.placement.rules import Problem

DEFAULT_REGION = "us-central1"
DEFAULT_TIMEOUT_S = 86_400

__all__ = ["Placement", "PlacementError", "ReductionServer", "Request", "place"]


@dataclass(frozen=True, kw_only=True)
class Placement:
    """A machine for one step, checked against the catalog."""

    machine_type: str
    accelerator_type: str | None
    accelerator_count: int
    nodes: int
    vcpu: int
    memory_gb: float
    region: str
    strategy: str
    max_wait_s: int | None
    reservation: str | None
    boot_disk_type: str
    boot_disk_gb: int
    timeout_s: int
    env: dict[str, str] = field(default_factory=dict)
    reduction_server: ReductionServer | None = None
    #: Of one node; None where the catalog has no price.
    price: Price | None = None
    #: One line: why this machine.
    reason: str = ""

    @property
    def usd_per_hour(self) -> float | None:
        """Of one node."""
        return self.price.usd_per_hour if self.price else None

    @property
    def max_usd(self) -> float | None:
        """The most that one run of the step can cost: timeout x nodes x price, with the reduction servers."""
        if self.price is None:
            return None
        hourly = self.price.usd_per_hour * self.nodes
        if self.reduction_server:
            server = price(self.reduction_server.machine, None, 0, self.region, self.strategy)
            if server is None:
                return None
            hourly += server.usd_per_hour * self.reduction_server.count
        return hourly * self.timeout_s / 3600

    def machine_spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = {"machine_type": self.machine_type}
        if self.accelerator_type:
            spec |= {"accelerator_type": self.accelerator_type, "accelerator_count": self.accelerator_count}
        if self.reservation:
            spec["reservation_affinity"] = self.reservation_affinity()
        return spec

    def reservation_affinity(self) -> dict[str, Any]:
        if self.reservation == "any":
            return {"reservation_affinity_type": "ANY_RESERVATION"}
        return {
            "reservation_affinity_type": "SPECIFIC_RESERVATION",
            "key": job_fields.RESERVATION_KEY,
            "values": [self.reservation],
        }

    def worker_pool_specs(
        self,
        image: str,
        command: Sequence[str] = (),
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> list[dict[str, Any]]:
        """Worker pools in snake_case: the chief, the other nodes, and in pool 2 the reduction servers."""
        container: dict[str, Any] = {"image_uri": image, "command": list(command), "args": list(args)}
        variables = {**self.env, **(env or {})}
        if variables:
            container["env"] = [{"name": name, "value": value} for name, value in variables.items()]
        disk = {"boot_disk_type": self.boot_disk_type, "boot_disk_size_gb": self.boot_disk_gb}
        pool = {"machine_spec": self.machine_spec(), "container_spec": container, "disk_spec": disk}
        pools: list[dict[str, Any]] = [{"replica_count": 1, **pool}]
        if self.nodes > 1:
            pools.append({"replica_count": self.nodes - 1, **pool})
        if self.reduction_server:
            pools += [{}] * (2 - len(pools))
            pools.append(self._reduction_pool(self.reduction_server))
        return pools

    def _reduction_pool(self, server: ReductionServer) -> dict[str, Any]:
        return {
            "replica_count": server.count,
            "machine_spec": {"machine_type": server.machine},
            "container_spec": {"image_uri": server.image},
        }

    def scheduling(self) -> dict[str, Any]:
        """Scheduling of the custom job: strategy, timeout, and with Flex-start the longest wait."""
        values: dict[str, Any] = {"strategy": self.strategy.upper(), "timeout": f"{self.timeout_s}s"}
        if self.max_wait_s is not None:
            values["max_wait_duration"] = f"{self.max_wait_s}s"
        return values

    def resources(self) -> dict[str, Any]:
        """Limits of a plain step that leave exactly this machine as the closest one.

        Raises:
            PlacementError: no limits do.
        """
        memory_gb = min(self.memory_gb, plain.MAX_MEMORY_GB)
        chosen = plain.machine_for(self.vcpu, memory_gb, self.accelerator_type, self.accelerator_count)
        if chosen is None or chosen.name != self.machine_type:
            got = f"Vertex AI would choose {chosen.name}" if chosen else "no limits reach it"
            raise PlacementError(
                f"{self.machine_type} cannot be had by a plain step: {got}.  [GPU014]\n"
                f"  Make it a custom job, or ask for {chosen.name if chosen else plain.DEFAULT_MACHINE}."
            )
        return {
            "cpu_limit": str(self.vcpu),
            "memory_limit": f"{memory_gb:g}G",
            "accelerator_type": self.accelerator_type,
            "accelerator_count": self.accelerator_count,
        }


def place(
    request: Request,
    *,
    region: str | None = None,
    kind: Literal["custom_job", "step"] = "custom_job",
    as_of: date | None = None,
    name: str = "the step",
) -> Placement:
    """The cheapest machine that meets the request, checked as `pipelines check` checks it.

    Args:
        request: What the step asks for.
        region: Region of the run; the request's own comes first.
        kind: A custom job takes everything; a plain step neither nodes, strategy, disk, reservation nor timeout.
        as_of: Day on which retirements are judged; today by default.
        name: Of the step, for messages.

    Raises:
        PlacementError: nothing meets the request; says what was asked, the rule, and the nearest that works.
    """
    day = as_of or date.today()
    where = request.region or region or DEFAULT_REGION
    if kind == "step":
        _refuse_job_fields(request, region, name)
    choice = choose(request, where, plain_step=kind == "step", as_of=day, name=name)
    machine = choice.machine
    disk = request.boot_disk_type or machine.default_boot_disk
    placement = Placement(
        machine_type=machine.name,
        accelerator_type=choice.accelerator,
        accelerator_count=choice.count,
        nodes=request.nodes,
        vcpu=machine.vcpu,
        memory_gb=machine.memory_gb,
        region=where,
        strategy=request.strategy,
        max_wait_s=_seconds(request.max_wait),
        reservation=request.reservation,
        boot_disk_type=disk,
        boot_disk_gb=request.boot_disk_gb or job_fields.DEFAULT_DISK_GB,
        # A plain step has no timeout of its own: a pipeline task ends after seven days.
        timeout_s=job_fields.MAX_TIMEOUT_S if kind == "step" else _seconds(request.timeout) or DEFAULT_TIMEOUT_S,
        env=dict(request.env),
        reduction_server=request.reduction_server,
        price=choice.price,
        reason=choice.reason,
    )
    _check(placement, request, name, day)
    if kind == "step":
        placement.resources()
    return placement


def _seconds(value: str | int | None) -> int | None:
    seconds = job_fields.duration_s(value, units="smhd")
    return None if seconds is None else int(seconds)


def _refuse_job_fields(request: Request, region: str | None, name: str) -> None:
    if request.region and region and request.region != region:
        raise PlacementError(
            f"{name} asks for {request.region}, the pipeline runs in {region}.  [GPU014]\n"
            "  A plain step runs where the pipeline does; only custom jobs (the training step) have a region."
        )
    defaults = Request()
    fields = (
        "nodes",
        "strategy",
        "max_wait",
        "reservation",
        "boot_disk_type",
        "boot_disk_gb",
        "reduction_server",
        "timeout",
    )
    for each in fields:
        if getattr(request, each) != getattr(defaults, each):
            raise PlacementError(
                f"{name} is a plain pipeline step: {each} is not possible there.  [GPU014]\n"
                f"  Only custom jobs (the training step) take {', '.join(fields)}."
            )


def _check(placement: Placement, request: Request, name: str, as_of: date) -> None:
    machine = catalog.machine(placement.machine_type)
    strategy = request.strategy.upper()
    problems = job_fields.disk(machine, placement.boot_disk_type, placement.boot_disk_gb)
    problems += job_fields.scheduling(strategy, placement.timeout_s, placement.max_wait_s)
    problems += provisioning.region_known(placement.region)
    if placement.reservation:
        affinity = placement.reservation_affinity()
        problems += job_fields.reservation(
            affinity["reservation_affinity_type"],
            affinity.get("key"), affinity.get("values"), strategy, [placement.region],
        )  # fmt: skip
    if placement.reduction_server:
        problems += _reduction_problems(placement, as_of)
    refuse(problems, f"{name} asks for {placement.machine_type}")


def _reduction_problems(placement: Placement, as_of: date) -> list[Problem]:
    server = placement.reduction_server
    assert server is not None
    found = combination.problems(server.machine, None, 0, as_of=as_of)
    if placement.strategy == "flex_start":
        text = "Flex-start needs the same machine in every pool: it cannot have reduction servers."
        found.append(Problem("GPU008", "reduction_server", text, "Drop reduction_server, or use Spot."))
    if not placement.accelerator_count or placement.nodes < 2:
        text = "Reduction servers sum gradients of several GPU nodes; this step has one node or no GPU."
        found.append(Problem("GPU007", "reduction_server", text, "Drop reduction_server, or set nodes."))
    return found
