"""Where a step runs: what the author asks for in pipelines.toml, and the machine that it gets.

    place(Request(accelerator="L4", count=4)).combination    # 4 x NVIDIA_L4 on g2-standard-48, the cheapest

A placement lands in a spec as the worker pools of a custom job, or as the resource limits of a plain step.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal

from vgp.catalog import catalog
from vgp.catalog.prices import Price
from vgp.placement import compatibility, job_fields, plain
from vgp.placement.choice import choose
from vgp.placement.combination import Combination, known
from vgp.placement.request import ReductionServer, Request
from vgp.placement.rules import PlacementError, Problem, refuse

DEFAULT_TIMEOUT_S = 86_400
#: What a plain step of a pipeline cannot have.
_OF_JOBS = (
    "nodes", "strategy", "max_wait", "reservation", "boot_disk_type", "boot_disk_gb", "reduction_server", "timeout",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Placement:
    """A machine for one step, checked against the catalog."""

    combination: Combination
    nodes: int
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
            server = known(self.reduction_server.machine, None, 0)
            price = server.price(self.strategy, self.region) if server else None
            if price is None:
                return None
            hourly += price.usd_per_hour * self.reduction_server.count
        return hourly * self.timeout_s / 3600

    def machine_spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = {"machine_type": self.combination.machine_type}
        if self.combination.accelerator:
            spec["accelerator_type"] = self.combination.accelerator_type
            spec["accelerator_count"] = self.combination.count
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
            # Pool 2 is theirs; without workers pool 1 stays empty.
            workers = pools[1:] or [{}]
            pools = [pools[0], *workers, self._reduction_pool(self.reduction_server)]
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
        chosen = plain.chosen_by_limits(self.combination)
        if chosen != self.combination:
            got = f"Vertex AI would choose {chosen.machine_type}." if chosen else "No limits reach it."
            fix = f"Make it a custom job, or ask for {(chosen or plain.default()).machine_type}."
            asked = f"{self.combination.machine_type} cannot be had by a plain step"
            raise PlacementError(Problem("GPU014", "machine", got, fix), asked)
        vcpu, memory_gb = plain.limits_of(self.combination)
        return {
            "cpu_limit": str(vcpu),
            "memory_limit": f"{memory_gb:g}G",
            "accelerator_type": self.combination.accelerator_type,
            "accelerator_count": self.combination.count,
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
    where = request.region or region or catalog.DEFAULT_REGION
    if kind == "step":
        refuse(_not_for_a_step(request, region), f"{name} is a plain pipeline step")
    choice = choose(request, where, plain_step=kind == "step", as_of=day, name=name)
    placement = Placement(
        combination=choice.combination,
        nodes=request.nodes,
        region=where,
        strategy=request.strategy,
        max_wait_s=_seconds(request.max_wait),
        reservation=request.reservation,
        boot_disk_type=request.boot_disk_type or choice.combination.machine.default_boot_disk,
        boot_disk_gb=request.boot_disk_gb or job_fields.DEFAULT_DISK_GB,
        # A plain step has no timeout of its own: a pipeline task ends after seven days.
        timeout_s=job_fields.MAX_TIMEOUT_S if kind == "step" else _seconds(request.timeout) or DEFAULT_TIMEOUT_S,
        env=dict(request.env),
        reduction_server=request.reduction_server,
        price=choice.price,
        reason=choice.reason,
    )
    refuse(_problems(placement, day), f"{name} asks for {placement.combination.machine_type}")
    if kind == "step":
        placement.resources()
    return placement


def _seconds(value: str | int | None) -> int | None:
    seconds = job_fields.duration_s(value, units="smhd")
    return None if seconds is None else int(seconds)


def _not_for_a_step(request: Request, region: str | None) -> Iterator[Problem]:
    if request.region and region and request.region != region:
        text = f"It asks for {request.region}, the pipeline runs in {region}."
        fix = "A plain step runs where the pipeline does; only custom jobs (the training step) have a region."
        yield Problem("GPU014", "region", text, fix)
    defaults = Request()
    for name in _OF_JOBS:
        if getattr(request, name) != getattr(defaults, name):
            fix = f"Only custom jobs (the training step) take {', '.join(_OF_JOBS)}."
            yield Problem("GPU014", name, f"{name} is not possible there.", fix)


def _problems(placement: Placement, as_of: date) -> list[Problem]:
    """What speaks against the fields around the machine."""
    strategy = placement.strategy.upper()
    problems = job_fields.disk(placement.combination.machine, placement.boot_disk_type, placement.boot_disk_gb)
    problems += job_fields.scheduling(strategy, placement.timeout_s, placement.max_wait_s)
    if placement.reservation:
        affinity = placement.reservation_affinity()
        problems += job_fields.reservation(
            affinity["reservation_affinity_type"],
            affinity.get("key"), affinity.get("values"), strategy, [placement.region],
        )  # fmt: skip
    if placement.reduction_server:
        problems += _reduction_problems(placement, placement.reduction_server, as_of)
    return problems


def _reduction_problems(placement: Placement, server: ReductionServer, as_of: date) -> list[Problem]:
    problems = compatibility.problems(server.machine, None, 0, as_of=as_of)
    if placement.strategy == "flex_start":
        text = "Flex-start needs the same machine in every pool: it cannot have reduction servers."
        problems.append(Problem("GPU008", "reduction_server", text, "Drop reduction_server, or use Spot."))
    if placement.combination.accelerator is None or placement.nodes < 2:
        text = "Reduction servers sum gradients of several GPU nodes; this step has one node or no GPU."
        problems.append(Problem("GPU007", "reduction_server", text, "Drop reduction_server, or set nodes."))
    return problems
