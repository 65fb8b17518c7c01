"""The placement of a step: its machine, region, provisioning, time limit and price.

In a spec it becomes the worker pools of a custom job, or the resource limits of a plain step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vgp.base.documents.json_text import JsonObject
from vgp.machines.catalog.prices import Price, boot_disk
from vgp.machines.placement import job_fields, plain, provisioning
from vgp.machines.placement.combination import Combination, find_combination, network_command, network_variables
from vgp.machines.placement.job_options import JobOptions
from vgp.machines.placement.machine_rules import PlacementError, Problem
from vgp.machines.placement.request_parts import ParameterServer
from vgp.machines.placement.step_request import ReductionServer


@dataclass(frozen=True, kw_only=True)
class Placement:
    """The machine of one step, checked against the catalog."""

    combination: Combination
    nodes: int
    region: str
    strategy: str
    max_wait_s: int | None
    reservation: str | None
    boot_disk_type: str
    boot_disk_gb: int
    timeout_s: int
    retries: int = 0
    env: dict[str, str] = field(default_factory=dict)
    reduction_server: ReductionServer | None = None
    parameter_server: ParameterServer | None = None
    #: Options of a custom job.
    options: JobOptions = JobOptions()
    #: Whether it is a custom job; else a plain step.
    is_job: bool = True
    #: Price of one node; None if the catalog has none.
    price: Price | None = None
    #: Reason for this machine, in one line.
    reason: str = ""

    @property
    def usd_per_hour(self) -> float | None:
        """Returns $/hour of one node."""
        return self.price.usd_per_hour if self.price else None

    @property
    def servers(self) -> ReductionServer | ParameterServer | None:
        """Returns the machines of pool 2; a job has one kind of servers, or none."""
        return self.reduction_server or self.parameter_server

    @property
    def hourly_usd(self) -> float | None:
        """Returns $/hour of all nodes with the servers."""
        if self.price is None:
            return None
        hourly = self.price.usd_per_hour * self.nodes
        if self.servers:
            machine = find_combination(self.servers.machine, None, 0)
            price = machine.price(self.strategy, self.region) if machine else None
            if price is None:
                return None
            hourly += price.usd_per_hour * self.servers.count
        return hourly

    @property
    def price_date(self) -> str | None:
        """Returns the date of the price of a node; None without a price."""
        return self.price.date if self.price else None

    @property
    def max_usd(self) -> float | None:
        """Returns the maximum cost of one run of the step: timeout x attempts x nodes x price, with servers and boot
        disks."""
        if self.hourly_usd is None:
            return None
        disk = boot_disk(self.boot_disk_type, self.boot_disk_gb, self.region)
        machines = self.nodes + (self.servers.count if self.servers else 0)
        hourly = self.hourly_usd + (disk.usd_per_hour * machines if disk else 0.0)
        return hourly * self.timeout_s * (1 + self.retries) / 3600

    def machine_spec(self) -> JsonObject:
        spec: JsonObject = {"machine_type": self.combination.machine_type}
        if self.combination.accelerator:
            spec["accelerator_type"] = self.combination.accelerator_type
            spec["accelerator_count"] = self.combination.count
        if self.reservation:
            spec["reservation_affinity"] = self.reservation_affinity()
        return spec

    def reservation_affinity(self) -> JsonObject:
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
    ) -> list[JsonObject]:
        """Returns worker pools in snake_case: the chief, the other nodes, and in pool 2 the servers.

        Parameter servers run the nodes' command; CLUSTER_SPEC and TF_CONFIG hold their role.
        """
        machine = self.combination.machine
        defaults = {
            **network_variables(machine, self.combination.count),
            **provisioning.preemption_variables(self.strategy),
        }
        variables = {**defaults, **self.env, **(env or {})}
        words = network_command(command, machine, self.nodes, variables)
        container: JsonObject = {"image_uri": image, "command": words, "args": list(args)}
        if variables:
            container["env"] = [{"name": name, "value": value} for name, value in variables.items()]
        disk = {"boot_disk_type": self.boot_disk_type, "boot_disk_size_gb": self.boot_disk_gb}
        pool = {
            "machine_spec": self.machine_spec(),
            "container_spec": container,
            "disk_spec": disk,
            **self.options.pool(),
        }
        pools: list[JsonObject] = [{"replica_count": 1, **pool}]
        if self.nodes > 1:
            pools.append({"replica_count": self.nodes - 1, **pool})
        if self.servers:
            # Servers are in pool 2; without workers, pool 1 stays empty.
            servers = {"replica_count": self.servers.count, "machine_spec": {"machine_type": self.servers.machine}}
            if self.reduction_server:
                servers["container_spec"] = {"image_uri": self.reduction_server.image}
            else:
                servers["container_spec"] = {**container, "command": list(command)}  # servers have no GPUs to connect
            pools = [pools[0], *(pools[1:] or [{}]), servers]
        return pools

    def job_fields(self) -> JsonObject:
        """Returns CustomJobSpec in snake_case, without its pools and the run's account, network and key."""
        return {"scheduling": self.scheduling(), **self.options.spec()}

    def scheduling(self) -> JsonObject:
        """Returns the scheduling of the custom job: strategy, timeout, the longest wait with Flex-start, and
        retries."""
        values: JsonObject = {"strategy": self.strategy.upper(), "timeout": f"{self.timeout_s}s"}
        if self.max_wait_s is not None:
            values["max_wait_duration"] = f"{self.max_wait_s}s"
        return values | self.options.scheduling()

    def resources(self) -> JsonObject:
        """Returns the limits of a plain step for which exactly this machine is the closest one.

        Raises:
            PlacementError: no limits select it.
        """
        chosen = plain.choose_by_limits(self.combination)
        if chosen != self.combination:
            got = f"Vertex AI would choose {chosen.machine_type}." if chosen else "No limits reach it."
            fix = f"Make it a custom job, or request {(chosen or plain.default()).machine_type}."
            asked = f"{self.combination.machine_type} is not available to a plain step"
            raise PlacementError(Problem("GPU014", "machine", got, fix), asked)
        vcpu, memory_gb = plain.limits_of(self.combination)
        return {
            "cpu_limit": str(vcpu),
            "memory_limit": f"{memory_gb:g}G",
            "accelerator_type": self.combination.accelerator_type,
            "accelerator_count": self.combination.count,
        }
