"""A machine with its GPUs: the one shape in which both are searched, judged, priced and placed; and its GPU network.

Google's page on the network of a custom job on several machines: A3 Mega (GPUDirect-TCPXO) comes configured; A3 Ultra,
A4 and A4X (GPUDirect-RDMA) want the NCCL variables of gIB, from a script that the training command begins with; of A3
High (GPUDirect-TCPX) the page has nothing.
https://docs.cloud.google.com/gemini-enterprise-agent-platform/machine-learning/training/configure-compute#gpudirect-rdma,
state of 2026-08-20. Not verified on Vertex AI.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from vgp.machines.catalog import catalog, prices
from vgp.machines.catalog.catalog import Accelerator, Machine
from vgp.machines.catalog.prices import Price


@dataclass(frozen=True)
class Draw:
    """The amount of a Vertex AI quota that one machine uses: GPUs, or vCPU without GPUs."""

    metric: str
    #: Id of the quota, if the catalog knows it.
    quota_id: str | None
    amount: int
    #: Default limit by region.
    defaults: Mapping[str, int] = field(hash=False)


@dataclass(frozen=True)
class Combination:
    """One machine with its GPUs. Whether custom training accepts the two together is judged in `compatibility`."""

    machine: Machine
    accelerator: Accelerator | None = None
    count: int = 0

    @property
    def machine_type(self) -> str:
        return self.machine.name

    @property
    def accelerator_type(self) -> str | None:
        return self.accelerator.name if self.accelerator else None

    @property
    def vcpu(self) -> int:
        return self.machine.vcpu

    @property
    def memory_gb(self) -> float:
        return self.machine.memory_gb

    @property
    def gpu_memory_gb(self) -> int:
        """Returns the memory of all GPUs together."""
        return self.accelerator.memory_gb * self.count if self.accelerator else 0

    @property
    def default_provisioning(self) -> str:
        """Returns on demand, or the first provisioning of a machine that is not offered on demand."""
        return "standard" if "standard" in self.machine.provisioning else self.machine.provisioning[0]

    def is_in(self, region: str) -> bool:
        """Whether a Google page lists the GPU for training in the region; machines without GPUs are in every region."""
        return self.accelerator is None or self.accelerator.pages_listing(region) > 0

    def price(self, provisioning: str, region: str | None = None) -> Price | None:
        """Returns USD per hour in the region; without a region in the default one, or in the cheapest."""
        if region is not None:
            return prices.price(self.machine, self.accelerator_type, self.count, region, provisioning)
        return self.price(provisioning, catalog.DEFAULT_REGION) or next(iter(self.prices(provisioning)), None)

    def prices(self, provisioning: str) -> list[Price]:
        """Returns the price in every region that has one, cheapest first."""
        known = (self.price(provisioning, region) for region in catalog.regions())
        return sorted((price for price in known if price), key=lambda price: (price.usd_per_hour, price.region))

    def quota(self, *, preemptible: bool) -> Draw | None:
        """Returns the quota that it uses, with `preemptible` for Spot and Flex-start; None if Google lists none."""
        quota = self.accelerator.quota if self.accelerator else catalog.cpu_quota(self.machine.family)
        if quota is None:
            return None
        amount = self.count if self.accelerator else self.vcpu
        if preemptible and quota.preemptible_metric:
            return Draw(quota.preemptible_metric, quota.preemptible_id, amount, quota.defaults)
        return Draw(quota.metric, quota.id, amount, quota.defaults)

    def __str__(self) -> str:
        return (
            f"{self.count} x {self.accelerator_type} on {self.machine_type}" if self.accelerator else self.machine_type
        )

    def with_prices(self, region: str | None = None) -> str:
        """Returns `4 x NVIDIA_TESLA_T4 on n1-standard-8 (us-central1, $2.05/h on demand)`."""
        words = {"standard": "on demand", "spot": "Spot"}
        known = [price for price in (self.price(way, region) for way in words) if price]
        if not known:
            return str(self)
        offered = [price for price in known if price.provisioning in self.machine.provisioning]
        return (
            f"{self} ({', '.join([known[0].region, *(f'{price} {words[price.provisioning]}' for price in offered)])})"
        )


@cache
def combinations() -> tuple[Combination, ...]:
    """Returns every machine with GPUs that custom training accepts, in the order of the catalog."""
    return tuple(with_gpus for machine in catalog.machines().values() for with_gpus in of_machine(machine))


def of_machine(machine: Machine) -> tuple[Combination, ...]:
    """Returns the machine with each GPU that it takes, in each count."""
    accelerators = catalog.accelerators()
    return tuple(
        Combination(machine, accelerators[name], count) for name, counts in machine.choices.items() for count in counts
    )


@cache
def without_gpus() -> tuple[Combination, ...]:
    """Returns every machine without GPUs."""
    return tuple(Combination(machine) for machine in catalog.machines().values() if machine.accelerator is None)


@cache
def counts_of(accelerator: str) -> tuple[int, ...]:
    """Returns every count of the accelerator that some machine accepts."""
    return tuple(sorted({row.count for row in combinations() if row.accelerator_type == accelerator}))


def find_combination(machine_type: str | None, accelerator_type: str | None, count: int) -> Combination | None:
    """Returns the combination of these names; None if the catalog lacks one of them."""
    machine = catalog.machines().get(machine_type or "")
    accelerator = catalog.accelerators().get(accelerator_type or "")
    if machine is None or (accelerator_type and accelerator is None):
        return None
    return Combination(machine, accelerator, count if accelerator else 0)


#: $0 is the script, and "$@" the command. A container without the script, or without bash, runs the command anyway.
_NETWORK_TEXT = (
    'if [ -r "$0" ] && command -v bash >/dev/null; then '
    'exec bash -c \'. "$0" || echo "network: $0 failed" >&2; exec "$@"\' "$0" "$@"; fi; '
    'echo "network: no $0 here: NCCL goes by TCP, slower, unless the image configures it" >&2; exec "$@"'
)
_SHELL = ("sh", "-c", _NETWORK_TEXT)
#: Variables of users who configure the network themselves, which the script would overwrite.
_CHOSEN = ("NCCL_NET", "NCCL_NET_PLUGIN")


def network_command(words: Sequence[str], machine: Machine, nodes: int, env: Mapping[str, str]) -> list[str]:
    """Returns the training command, prefixed with the machine's network script; an image's own command is unchanged."""
    if not (words and machine.nccl_script and nodes > 1) or any(name in env for name in _CHOSEN):
        return list(words)
    return [*_SHELL, machine.nccl_script, *words]


def without_network(words: Sequence[str]) -> list[str]:
    """Returns the command without that prefix."""
    return list(words[len(_SHELL) + 1 :] if tuple(words[: len(_SHELL)]) == _SHELL else words)


def network_variables(machine: Machine, gpus: int) -> dict[str, str]:
    """Returns NCCL's variables for a machine with several GPUs, for any number of machines."""
    name, equals, value = (machine.nccl or "").partition("=")
    return {name: value} if equals and gpus > 1 else {}
