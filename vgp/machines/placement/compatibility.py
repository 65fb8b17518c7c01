"""Whether custom training accepts machine, accelerator and count together, and the nearest that it accepts."""

from dataclasses import dataclass
from datetime import date

from vgp.base.text.figures import join_words
from vgp.machines.catalog import catalog, tpu_machines
from vgp.machines.catalog.catalog import Accelerator, Machine
from vgp.machines.placement import search
from vgp.machines.placement.combination import Combination, counts_of, of_machine
from vgp.machines.placement.machine_rules import Problem
from vgp.machines.placement.search import nearest_accelerator, nearest_combination, nearest_machine

MACHINE, TYPE, COUNT = "machineType", "acceleratorType", "acceleratorCount"

#: Values of the API and its clients for "no accelerator".
NO_ACCELERATOR = (None, "", "ACCELERATOR_TYPE_UNSPECIFIED")


def problems(
    machine_type: str | None, accelerator_type: str | None, count: int, *, as_of: date, region: str | None = None
) -> list[Problem]:
    """Returns the problems of the three names together; none if custom training accepts them.

    If `machine_type` is None (unknown), only the rules for all machines apply.
    """
    accelerator_type = None if accelerator_type in NO_ACCELERATOR else accelerator_type
    unknown = []
    if machine_type is not None and machine_type not in catalog.machines() and not tpu_machines.is_tpu(machine_type):
        unknown.append(unknown_machine(machine_type, bool(accelerator_type)))
    if accelerator_type and accelerator_type not in catalog.accelerators():
        unknown.append(unknown_accelerator(accelerator_type, as_of))
    if unknown or tpu_machines.is_tpu(machine_type or ""):
        return unknown
    machine, accelerator = (
        catalog.machines().get(machine_type or ""),
        catalog.accelerators().get(accelerator_type or ""),
    )
    return _Parts(machine, accelerator, count, as_of, region).problems()


def problems_of(combination: Combination, *, as_of: date, region: str | None = None) -> list[Problem]:
    """Returns the problems of a machine and GPUs that the catalog knows."""
    return _Parts(combination.machine, combination.accelerator, combination.count, as_of, region).problems()


def unknown_machine(name: str, has_gpu: bool = False) -> Problem:
    why = catalog.explain_unsuitable(name)
    near = nearest_machine(name, has_gpu)
    message = f"{why}." if why else f"No machine type of custom training is called '{name}'."
    if not name.strip():
        message = "The machine type is empty."
    elif catalog.is_new(name):
        message = f"Compute Engine has {name}; the catalog does not know yet whether custom training accepts it."
    if near is None:
        return Problem("GPU001", MACHINE, message, "See `vgp machines`.")
    return Problem("GPU001", MACHINE, message, f"Nearest: {near}.", nearest=((MACHINE, near),))


def unknown_accelerator(name: str, as_of: date) -> Problem:
    near = nearest_accelerator(name)
    message = f"No accelerator is called '{name}'."
    if name.lower() in ("nvidia.com/gpu", "gpu"):
        message = f"'{name}' is a Kubernetes resource name; Vertex AI needs the name of the accelerator."
        return Problem("GPU002", TYPE, message, "For example NVIDIA_L4. List all: vgp machines")
    if other := search.find_elsewhere(name):
        return Problem("GPU002", TYPE, f"{other.what}, which Vertex AI does not offer.", f"The nearest: {other.near}.")
    if tpu_machines.names_generation(name):
        text = f"'{name}' is not an accelerator type: request TPUs by machine type and topology."
        return Problem(
            "GPU002",
            TYPE,
            text,
            f"The machines: {join_words([*tpu_machines.machines(), tpu_machines.board_machine()])}.",
        )
    if near:
        return Problem("GPU002", TYPE, message, f"Did you mean {near}?", nearest=((TYPE, near),))
    current = [row.name for row in catalog.accelerators().values() if row.kind == "gpu" and not row.is_retired(as_of)]
    return Problem("GPU002", TYPE, message, f"The accelerators: {', '.join(current)}.")


@dataclass(frozen=True)
class _Parts:
    """The known parts of a combination: machine None is unknown; accelerator None is not requested."""

    machine: Machine | None
    accelerator: Accelerator | None
    count: int
    as_of: date
    region: str | None

    def problems(self) -> list[Problem]:
        if self.accelerator is None:
            return self._without_gpu()
        if self.count < 1:
            text = f"{TYPE} is {self.accelerator.name}, but {COUNT} is {self.count or 'missing or 0'}."
            return [self._similar_problem("GPU005", COUNT, text, 1)]
        return self._mismatch(self.accelerator) or self._check_end_of_support(self.accelerator)

    def _without_gpu(self) -> list[Problem]:
        """Returns the problems of a request without GPU: incomplete, or on a machine with built-in GPUs."""
        if self.count:
            text = f"{COUNT} is {self.count}, but {TYPE} is missing: the count is dropped or refused."
            return [self._propose_built_in("GPU005", text, f"Name the accelerator, or remove {COUNT}.")]
        if self.machine and self.machine.accelerator:
            text = f"{self.machine.name} has {_format_own_gpus(self.machine)} built in, and the request names neither."
            return [self._propose_built_in("GPU006", text)]
        return []

    def _mismatch(self, accelerator: Accelerator) -> list[Problem]:
        """Returns the problem of an accelerator or a count that the machine does not accept."""
        name, machine = accelerator.name, self.machine
        counts = machine.counts(name) if machine else counts_of(name)
        if self.count in counts or (machine is None and not counts):
            return []
        if machine is None:
            text = f"No machine takes {self.count} of {name}; the counts are {join_words(counts)}."
        elif counts:
            text = f"{machine.name} takes {join_words(counts)} of {name}, not {self.count}."
        else:
            rule = "GPU011" if accelerator.is_retired(self.as_of) else "GPU004"
            return [self._similar_problem(rule, TYPE, self._explain_mismatch(machine, accelerator), self.count)]
        return [self._similar_problem("GPU003", COUNT, text, self.count)]

    def _check_end_of_support(self, accelerator: Accelerator) -> list[Problem]:
        """Returns the problem of retired hardware; a warning in the half year before its end of support."""
        if accelerator.is_retired(self.as_of):
            return [self._similar_problem("GPU011", TYPE, _explain_retirement(accelerator), self.count)]
        end = accelerator.end_of_support
        if end is None or (end - self.as_of).days > 180:
            return []
        next_ones = f"Next: {join_words(accelerator.successors)}." if accelerator.successors else ""
        text = f"{accelerator.name} reaches its end of support on {end}."
        return [Problem("GPU011", TYPE, text, next_ones, severity="warning")]

    def _explain_mismatch(self, machine: Machine, accelerator: Accelerator) -> str:
        if accelerator.is_retired(self.as_of):
            return _explain_retirement(accelerator)
        if machine.accelerator:
            return f"{machine.name} comes with {_format_own_gpus(machine)}; it does not take {accelerator.name}."
        if not machine.choices:
            return f"{machine.name} takes no accelerator; GPUs attach to N1 only, A2, A3, A4, G2 and G4 have them."
        if accelerator.name in catalog.document("machines.json")["attachable"]["max_vcpu_and_memory_gb"]:
            return f"{machine.name} is too large for any count of {accelerator.name}."
        living = (name for name in machine.choices if not catalog.accelerators()[name].is_retired(self.as_of))
        return f"{machine.name} does not take {accelerator.name}; it takes {', '.join(living)}."

    def _propose_built_in(self, rule: str, text: str, otherwise: str = "") -> Problem:
        """Returns a problem that proposes the machine's built-in accelerator, if it has one."""
        if self.machine is None or self.machine.accelerator is None:
            return Problem(rule, TYPE, text, otherwise)
        return self._propose(rule, TYPE, text, of_machine(self.machine)[0])

    def _similar_problem(self, rule: str, field: str, text: str, count: int) -> Problem:
        near = nearest_combination(self.machine, self.accelerator, count, as_of=self.as_of, region=self.region)
        return self._propose(rule, field, text, near) if near else Problem(rule, field, text)

    def _propose(self, rule: str, field: str, text: str, near: Combination) -> Problem:
        return Problem(
            rule, field, text, f"Nearest that works: {near.with_prices(self.region)}.", nearest=fields_of(near)
        )  # fmt: skip


def fields_of(combination: Combination) -> tuple[tuple[str, str | int], ...]:
    """Returns the machineSpec fields of a combination; empty without GPUs, which are never a proposal for GPUs."""
    if combination.accelerator is None:
        return ()
    return (MACHINE, combination.machine_type), (TYPE, combination.accelerator.name), (COUNT, combination.count)


def _format_own_gpus(machine: Machine) -> str:
    return f"{machine.gpus} x {machine.accelerator}"


def _explain_retirement(accelerator: Accelerator) -> str:
    when = f" since {accelerator.end_of_support}" if accelerator.end_of_support else ""
    return f"{accelerator.name} is retired{when}."
