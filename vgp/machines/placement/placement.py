"""Where a step runs: its machine, its region, how it is got, for how long and at what price; the network of its GPUs.

A placement lands in a spec as the worker pools of a custom job, or as the resource limits of a plain step.

For the network between the GPUs of several machines Google's page wants this of a custom job.
A3 Mega (GPUDirect-TCPXO) comes configured; A3 Ultra, A4 and A4X (GPUDirect-RDMA) want the NCCL variables of gIB, from a
script that the training command begins with; of A3 High (GPUDirect-TCPX) the page says nothing.
https://docs.cloud.google.com/gemini-enterprise-agent-platform/machine-learning/training/configure-compute#gpudirect-rdma,
state of 2026-08-20. Not verified on Vertex AI.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vgp.machines.catalog.hardware import Machine
from vgp.machines.catalog.prices import Price
from vgp.machines.placement import job_fields, plain, provisioning
from vgp.machines.placement.combination import Combination, known
from vgp.machines.placement.job_options import JobOptions
from vgp.machines.placement.machine_rules import PlacementError, Problem
from vgp.machines.placement.script_command import ParameterServer
from vgp.machines.placement.step_request import ReductionServer

#: $0 is the script, and "$@" the command. A container without the script, or without bash, starts all the same.
_NETWORK_TEXT = (
    'if [ -r "$0" ] && command -v bash >/dev/null; then '
    'exec bash -c \'. "$0" || echo "network: $0 failed" >&2; exec "$@"\' "$0" "$@"; fi; '
    'echo "network: no $0 here: NCCL goes by TCP, slower, unless the image configures it" >&2; exec "$@"'
)
_SHELL = ("sh", "-c", _NETWORK_TEXT)
#: Who sets it has chosen the network for themselves, and the script would choose again.
_CHOSEN = ("NCCL_NET", "NCCL_NET_PLUGIN")


def network_command(words: Sequence[str], machine: Machine, nodes: int, env: Mapping[str, str]) -> list[str]:
    """The command of a training container, begun as the machine's network wants it; an image's own command as it is."""
    if not (words and machine.nccl_script and nodes > 1) or any(name in env for name in _CHOSEN):
        return list(words)
    return [*_SHELL, machine.nccl_script, *words]


def without_network(words: Sequence[str]) -> list[str]:
    """The command itself."""
    return list(words[len(_SHELL) + 1 :] if tuple(words[: len(_SHELL)]) == _SHELL else words)


def network_variables(machine: Machine, gpus: int) -> dict[str, str]:
    """What NCCL needs to be told on a machine with several GPUs, whatever the number of machines."""
    name, equals, value = (machine.nccl or "").partition("=")
    return {name: value} if equals and gpus > 1 else {}


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
    retries: int = 0
    env: dict[str, str] = field(default_factory=dict)
    reduction_server: ReductionServer | None = None
    parameter_server: ParameterServer | None = None
    #: Of a custom job.
    options: JobOptions = JobOptions()
    #: Whether it is a custom job; else a plain step.
    is_job: bool = True
    #: Of one node; None where the catalog has no price.
    price: Price | None = None
    #: One line: why this machine.
    reason: str = ""

    @property
    def usd_per_hour(self) -> float | None:
        """Of one node."""
        return self.price.usd_per_hour if self.price else None

    @property
    def servers(self) -> ReductionServer | ParameterServer | None:
        """The machines of pool 2: a job has one kind or none."""
        return self.reduction_server or self.parameter_server

    @property
    def hourly_usd(self) -> float | None:
        """Of all nodes, with the servers."""
        if self.price is None:
            return None
        hourly = self.price.usd_per_hour * self.nodes
        if self.servers:
            machine = known(self.servers.machine, None, 0)
            price = machine.price(self.strategy, self.region) if machine else None
            if price is None:
                return None
            hourly += price.usd_per_hour * self.servers.count
        return hourly

    @property
    def price_date(self) -> str | None:
        """Of which day the price of a node is; None where it has none."""
        return self.price.date if self.price else None

    @property
    def max_usd(self) -> float | None:
        """The most that one run of the step can cost: timeout x tries x nodes x price, with the servers."""
        return None if self.hourly_usd is None else self.hourly_usd * self.timeout_s * (1 + self.retries) / 3600

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
        """Worker pools in snake_case: the chief, the other nodes, and in pool 2 the servers.

        Parameter servers run what the nodes run, and are told their role by CLUSTER_SPEC and TF_CONFIG.
        """
        machine = self.combination.machine
        told = {**network_variables(machine, self.combination.count), **provisioning.expected(self.strategy)}
        variables = {**told, **self.env, **(env or {})}
        words = network_command(command, machine, self.nodes, variables)
        container: dict[str, Any] = {"image_uri": image, "command": words, "args": list(args)}
        if variables:
            container["env"] = [{"name": name, "value": value} for name, value in variables.items()]
        disk = {"boot_disk_type": self.boot_disk_type, "boot_disk_size_gb": self.boot_disk_gb}
        pool = {
            "machine_spec": self.machine_spec(),
            "container_spec": container,
            "disk_spec": disk,
            **self.options.pool(),
        }
        pools: list[dict[str, Any]] = [{"replica_count": 1, **pool}]
        if self.nodes > 1:
            pools.append({"replica_count": self.nodes - 1, **pool})
        if self.servers:
            # Pool 2 is theirs; without workers pool 1 stays empty.
            servers = {"replica_count": self.servers.count, "machine_spec": {"machine_type": self.servers.machine}}
            if self.reduction_server:
                servers["container_spec"] = {"image_uri": self.reduction_server.image}
            else:
                servers["container_spec"] = {**container, "command": list(command)}  # they have no GPUs to connect
            pools = [pools[0], *(pools[1:] or [{}]), servers]
        return pools

    def job_fields(self) -> dict[str, Any]:
        """All of CustomJobSpec in snake_case, but its pools and what it has of the run: account, network and key."""
        return {"scheduling": self.scheduling(), **self.options.spec()}

    def scheduling(self) -> dict[str, Any]:
        """Scheduling of the custom job: strategy, timeout, with Flex-start the longest wait, and who tries again."""
        values: dict[str, Any] = {"strategy": self.strategy.upper(), "timeout": f"{self.timeout_s}s"}
        if self.max_wait_s is not None:
            values["max_wait_duration"] = f"{self.max_wait_s}s"
        return values | self.options.scheduling()

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
