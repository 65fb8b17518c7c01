"""TPUs: valid combinations of machine, accelerator, count and topology, their number of machines, and their regions.

Combinations outside of Google's tables get a warning:
https://docs.cloud.google.com/vertex-ai/docs/training/configure-compute#tpus
"""

import math
import re

from vgp.base.text.figures import join_words
from vgp.machines.catalog import catalog, tpu_machines
from vgp.machines.catalog.tpu_machines import TpuBoard, TpuMachine
from vgp.machines.placement.machine_rules import Problem

MACHINE, TYPE, COUNT, TOPOLOGY = "machineType", "acceleratorType", "acceleratorCount", "tpuTopology"
#: Names that look like machines with TPU chips, known here or not.
_LIKE_TPU = re.compile(r"(ct\d\w*(-\w+-\d+t)?|tpu\w*-\w+-\d+t)")


def looks_like(machine_type: str) -> bool:
    """Whether a name looks like a TPU machine, known or unknown."""
    return tpu_machines.is_tpu(machine_type) or _LIKE_TPU.fullmatch(machine_type) is not None


def problems(
    machine_type: str, accelerator: str | None, count: int, topology: str | None, *, serving: bool = False
) -> list[Problem]:
    """Returns the problems of the four fields together. `topology` "": missing; None: unknown."""
    if machine_type == tpu_machines.board_machine():
        return _refuse_serving() if serving else _board(accelerator, count, topology)
    machine = tpu_machines.machines().get(machine_type)
    if machine is None:
        return [_unknown(machine_type)]
    return _chips(machine, accelerator, count) + _check_topology(machine, topology, serving)


def plain(accelerator: str, count: int) -> list[Problem]:
    """Returns the problems of TPUs in a plain step, for which only v2 and v3 are listed."""
    board = tpu_machines.boards().get(accelerator)
    if board is None:
        text = f"No page of Google lists {accelerator} for plain steps, only {join_words(tpu_machines.boards())}."
        return [Problem("GPU014", TYPE, text, "Run it as a custom job on a TPU machine.", severity="warning")]
    return _check_cores(board, count)


def region(
    machine_type: str | None, accelerator: str | None, count: int, *, where: str, serving: bool
) -> list[Problem]:
    """Returns a problem if the locations page does not list the TPU in a region."""
    if where not in catalog.regions():
        return []
    machine, board = tpu_machines.machines().get(machine_type or ""), tpu_machines.boards().get(accelerator or "")
    if machine:
        regions = machine.serving_regions if serving else machine.training_regions
        name = f"TPU {machine.generation.removeprefix('TPU')}"
    elif board and not serving:
        is_pod = count > board.single
        regions, name = (board.pod_regions if is_pod else board.regions), f"{accelerator}{' Pod' if is_pod else ''}"
    else:
        return []
    if where in regions:
        return []
    text = f"{where} has no {name} for {'predictions' if serving else 'training'}."
    return [Problem("GPU010", "region", text, f"Regions that have it: {', '.join(sorted(regions))}.")]


def spot(machine_type: str | None, accelerator: str | None, count: int, topology: str | None) -> list[Problem]:
    """Returns a problem if the slice is a Pod, because Spot machines cannot be part of one."""
    machine, board = tpu_machines.machines().get(machine_type or ""), tpu_machines.boards().get(accelerator or "")
    several = bool(machine and topology in machine.topologies and machine.vms(topology or "") > 1)
    if not several and not (board and count > board.single):
        return []
    text = "Spot is not offered for TPU Pods: all machines of a slice are needed at once."
    return [Problem("GPU009", "strategy", text, "Set strategy STANDARD, or take a topology of one machine.")]


def _board(accelerator: str | None, count: int, topology: str | None) -> list[Problem]:
    """Returns the problems of cloud-tpu with its accelerator, count and topology."""
    choices = f"{join_words(tpu_machines.boards())} with {COUNT} 8"
    board = tpu_machines.boards().get(accelerator or "")
    if board is None:
        text = f"{tpu_machines.board_machine()} does not take {accelerator}." if accelerator else (
            f"{tpu_machines.board_machine()} needs {TYPE} and {COUNT}."
        )  # fmt: skip
        rule = "GPU004" if accelerator else "GPU006"
        first = next(iter(tpu_machines.boards().values()))
        near = ((TYPE, first.accelerator), (COUNT, first.single))
        fix = f"Choices: {choices}; later TPUs have machine types of their own."
        return [Problem(rule, TYPE, text, fix, nearest=near if rule == "GPU006" else ())]
    problems = [Problem("GPU032", TOPOLOGY, f"{accelerator} is asked for by {COUNT}, not by a topology.",
                     f"Drop {TOPOLOGY}.", severity="warning")] if topology else []  # fmt: skip
    return _check_cores(board, count) + problems


def _check_cores(board: TpuBoard, count: int) -> list[Problem]:
    if count in board.counts:
        return []
    if count < 1:
        text = f"{TYPE} is {board.accelerator}, but {COUNT} is {count or 'missing or 0'}."
        return [
            Problem("GPU005", COUNT, text, f"Nearest that works: {board.single}.", nearest=((COUNT, board.single),))
        ]
    near = min(board.counts, key=lambda allowed: (abs(allowed - count), allowed))
    text = (
        f"{board.accelerator} comes as {board.single} cores, or as a Pod in multiples of {board.pod} up to "
        f"{board.largest}, not {count}."
    )
    return [Problem("GPU003", COUNT, text, f"Nearest that works: {near}.", nearest=((COUNT, near),))]


def _chips(machine: TpuMachine, accelerator: str | None, count: int) -> list[Problem]:
    """Returns the problems of an accelerator on a machine with built-in chips."""
    if not accelerator:
        if not count:
            return []
        text = f"{machine.name} has its {machine.chips} chips built in: {COUNT} has no effect without {TYPE}."
        return [Problem("GPU005", COUNT, text, f"Drop {COUNT}.", severity="warning")]
    if accelerator != machine.accelerator:
        chips = f"{machine.chips} TPU {machine.generation.removeprefix('TPU')} chips"
        text = f"{machine.name} has {chips} built in; it does not take {accelerator}."
        return [Problem("GPU004", TYPE, text, f"Remove {TYPE} and {COUNT}.")]
    if count == machine.chips:
        return []
    text = f"{machine.name} has {machine.chips} chips built in, and the request names {count} of {accelerator}."
    return [Problem("GPU003", COUNT, text, f"Remove {TYPE} and {COUNT}.", severity="warning")]


def _check_topology(machine: TpuMachine, topology: str | None, serving: bool) -> list[Problem]:
    if topology is None or topology in machine.topologies or (serving and not topology):
        return []
    choices = f"{machine.name} trains as {join_words(machine.topologies)}."
    if not topology:
        text = f"{machine.name} is asked for without {TOPOLOGY}."
        return [Problem("GPU032", TOPOLOGY, text, choices, severity="warning")]
    others = [row.name for row in tpu_machines.machines().values() if topology in row.topologies]
    near = f" {topology} is a topology of {join_words(others)}." if others else ""
    text = f"{machine.name} has no topology {topology}."
    nearest = min(machine.topologies, key=lambda own: abs(_chips_of(own) - _chips_of(topology)))
    change = ((TOPOLOGY, nearest),)
    return [Problem("GPU032", TOPOLOGY, text, choices + near, "warning" if serving else "", change)]


def _chips_of(topology: str) -> int:
    """Returns the chips of a topology: 8 for 2x4, 0 for any other text."""
    sizes = topology.split("x")
    return (
        math.prod(map(int, sizes))
        if all(re.fullmatch(r"[0-9]{1,6}", size) for size in sizes[:4]) and len(sizes) < 5
        else 0
    )


def _unknown(machine_type: str) -> Problem:
    """Returns the problem of a TPU machine that the catalog does not know; it may be newer."""
    generation = tpu_machines.find_other_generation(machine_type)
    if generation:
        text = f"{machine_type} is a TPU {generation} machine of GKE that Vertex AI does not list."
        return Problem("GPU001", MACHINE, text, f"Vertex AI has {join_words(tpu_machines.machines())}.")
    text = f"{machine_type} looks like a TPU machine that the catalog does not know."
    return Problem("GPU001", MACHINE, text, f"It knows {join_words(tpu_machines.machines())}.", severity="warning")


def _refuse_serving() -> list[Problem]:
    text = f"{tpu_machines.board_machine()} trains only: predictions take TPU v5e, v6e and 7x."
    return [Problem("GPU001", MACHINE, text, f"Choices: {join_words(tpu_machines.machines())}.")]
