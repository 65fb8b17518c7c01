"""Machine, accelerator and count: whether custom training has them together, and what is nearest if not."""

from datetime import date

from vgp.catalog import catalog
from vgp.catalog.catalog import Accelerator, Machine
from vgp.catalog.names import listed
from vgp.placement.nearest import describe, nearest, nearest_machine
from vgp.placement.rules import Problem

MACHINE, TYPE, COUNT = "machineType", "acceleratorType", "acceleratorCount"

#: What the API and its clients write for "no accelerator".
NO_ACCELERATOR = (None, "", "ACCELERATOR_TYPE_UNSPECIFIED")


def problems(
    machine_type: str | None, accelerator_type: str | None, count: int, *, as_of: date, region: str | None = None
) -> list[Problem]:
    """What is wrong with the three together; nothing if custom training accepts them.

    `machine_type` None means that it is not known: then only what holds for every machine is judged.
    """
    accelerator_type = None if accelerator_type in NO_ACCELERATOR else accelerator_type
    found = _unknown(machine_type, accelerator_type, as_of)
    if found:
        return found
    if catalog.is_tpu(machine_type or ""):
        return []
    machine = catalog.machine(machine_type) if machine_type else None
    accelerator = catalog.accelerators().get(accelerator_type or "")
    request = _Request(machine, accelerator, count, as_of, region)
    if accelerator is None or count < 1:
        return request.incomplete()
    return request.mismatch() or request.retired()


def _unknown(machine_type: str | None, accelerator_type: str | None, as_of: date) -> list[Problem]:
    found = []
    if machine_type is not None and machine_type not in catalog.machines() and not catalog.is_tpu(machine_type):
        found.append(unknown_machine(machine_type, bool(accelerator_type)))
    if accelerator_type and accelerator_type not in catalog.accelerators():
        found.append(unknown_accelerator(accelerator_type, as_of))
    return found


def unknown_machine(name: str, has_gpu: bool = False) -> Problem:
    why = catalog.not_for_training(name)
    near = nearest_machine(name, has_gpu)
    message = f"{why}." if why else f"No machine type of custom training is called '{name}'."
    if not name.strip():
        message = "The machine type is empty."
    return Problem("GPU001", MACHINE, message, f"Nearest: {near}." if near else "See `pipelines machines`.")


def unknown_accelerator(name: str, as_of: date) -> Problem:
    near = catalog.did_you_mean_accelerator(name)
    message = f"No accelerator is called '{name}'."
    if name.lower() in ("nvidia.com/gpu", "gpu"):
        message = f"'{name}' is the resource name of Kubernetes; Vertex AI wants the accelerator's own name."
        return Problem("GPU002", TYPE, message, "For instance NVIDIA_L4: see `pipelines machines`.")
    if near:
        return Problem("GPU002", TYPE, message, f"Did you mean {near}?")
    living = [row.name for row in catalog.accelerators().values() if row.kind == "gpu" and not row.is_retired(as_of)]
    return Problem("GPU002", TYPE, message, f"The accelerators: {', '.join(living)}.")


class _Request:
    def __init__(
        self, machine: Machine | None, accelerator: Accelerator | None, count: int, as_of: date, region: str | None
    ) -> None:
        self.machine, self.accelerator, self.count = machine, accelerator, count
        self.as_of, self.region = as_of, region

    def incomplete(self) -> list[Problem]:
        """No GPU is asked for, or half of a GPU request."""
        if self.accelerator is not None:
            what = "is 0" if self.count == 0 else f"is {self.count}"
            text = f"{TYPE} is {self.accelerator.name}, but {COUNT} {what}."
            return [Problem("GPU005", COUNT, text, self._near(1))]
        if self.count:
            text = f"{COUNT} is {self.count}, but {TYPE} is missing: the count is dropped or refused."
            return [Problem("GPU005", TYPE, text, self._own() or f"Name the accelerator, or drop {COUNT}.")]
        if self.machine and self.machine.accelerator:
            text = f"{self.machine.name} has {self._built_in()} built in, and the request names neither."
            return [Problem("GPU006", TYPE, text, self._own())]
        return []

    def mismatch(self) -> list[Problem]:
        """The accelerator is none of this machine's, or the count is none of its counts."""
        assert self.accelerator is not None
        machine, name = self.machine, self.accelerator.name
        if machine is None:
            counts = catalog.counts_of(name)
            if self.count in counts or not counts:
                return []
            text = f"No machine takes {self.count} of {name}; the counts are {listed(counts)}."
            return [Problem("GPU003", COUNT, text, self._near(self.count))]
        counts_here = machine.counts(name)
        if self.count in counts_here:
            return []
        if counts_here:
            text = f"{machine.name} takes {listed(counts_here)} of {name}, not {self.count}."
            return [Problem("GPU003", COUNT, text, self._near(self.count))]
        return [Problem("GPU011" if self._dead() else "GPU004", TYPE, self._why_not(), self._near(self.count))]

    def retired(self) -> list[Problem]:
        """The hardware is gone, or has a date on which it goes (a warning in the half year before)."""
        row = self.accelerator
        assert row is not None
        if self._dead():
            return [Problem("GPU011", TYPE, f"{_end(row)}.", self._near(self.count))]
        if row.end_of_support and (row.end_of_support - self.as_of).days <= 180:
            text = f"{row.name} reaches its end of support on {row.end_of_support}."
            return [Problem("GPU011", TYPE, text, self._successor(), severity="warning")]
        return []

    def _dead(self) -> bool:
        return self.accelerator is not None and self.accelerator.is_retired(self.as_of)

    def _why_not(self) -> str:
        machine, row = self.machine, self.accelerator
        assert machine is not None and row is not None
        if self._dead():
            return f"{_end(row)}."
        if machine.accelerator:
            return f"{machine.name} comes with {self._built_in()}; it does not take {row.name}."
        if not machine.choices:
            return f"{machine.name} takes no accelerator; GPUs attach to N1 only, A2, A3, A4, G2 and G4 have them."
        if row.name in catalog.document("machines.json")["attachable"]["max_vcpu_and_memory_gb"]:
            return f"{machine.name} is too large for any count of {row.name}."
        takes = ", ".join(name for name in machine.choices if not catalog.accelerator(name).is_retired(self.as_of))
        return f"{machine.name} does not take {row.name}; it takes {takes}."

    def _built_in(self) -> str:
        assert self.machine is not None
        return f"{self.machine.gpus} x {self.machine.accelerator}"

    def _own(self) -> str:
        """The machine with its own accelerator, where it has one built in."""
        if self.machine is None or self.machine.accelerator is None:
            return ""
        row = (self.machine.name, self.machine.accelerator, self.machine.gpus)
        return f"Nearest that works: {describe(row, self.region)}."

    def _near(self, count: int) -> str:
        name = self.accelerator.name if self.accelerator else None
        found = nearest(
            self.machine.name if self.machine else None, name, count, as_of=self.as_of, region=self.region
        ) or nearest(self.machine.name if self.machine else None, name, count, as_of=self.as_of)
        return f"Nearest that works: {describe(found, self.region)}." if found else ""

    def _successor(self) -> str:
        row = self.accelerator
        return f"Next: {listed(row.successors)}." if row and row.successors else ""


def _end(row: Accelerator) -> str:
    when = f" since {row.end_of_support}" if row.end_of_support else ""
    return f"{row.name} is retired{when}"
