"""Judges one machine of a step: type, accelerator and count. Used for jobs and predictions."""

from dataclasses import dataclass, replace
from datetime import date

from vgp.base.documents.node import Node
from vgp.check.check_finding import StepRow
from vgp.check.judgement import Judgement, Reader
from vgp.machines.catalog import catalog, tpu_machines
from vgp.machines.catalog.catalog import Machine
from vgp.machines.placement import compatibility, tpu_rules
from vgp.machines.placement.combination import Combination, counts_of, find_combination
from vgp.machines.placement.machine_rules import Problem, first_error
from vgp.machines.placement.provisioning import is_preemptible, region_known
from vgp.machines.placement.search import Conditions, nearest_combination

#: Series of machines for predictions only.
_SERVING_SERIES = ("c3", "c3d", "c4", "n2d", "c2d", "e2", "n4", "h3")


@dataclass(frozen=True)
class MachineSpec:
    """The request of a machineSpec. None: missing or unknown; `complete` False: some fields are unknown."""

    machine_type: str | None
    accelerator: str | None
    count: int
    complete: bool
    #: The machine with its GPUs, if the three fields go together.
    combination: Combination | None
    #: Topology of the TPU chips; "" without one, None if only the run knows it.
    topology: str | None = ""
    #: GPU for the rules about regions and images, even if its count or its machine is unknown; None if it is wrong or
    #: missing.
    gpu: str | None = None

    @property
    def machine(self) -> Machine | None:
        return catalog.machines().get(self.machine_type or "")

    @property
    def names(self) -> tuple[str | None, str | None, int]:
        return self.machine_type, self.accelerator, self.count

    @property
    def is_tpu(self) -> bool:
        return tpu_machines.is_tpu(self.machine_type or "")

    def __str__(self) -> str:
        gpus = f"{self.count} x {self.accelerator} on " if self.accelerator else ""
        return f"{gpus}{self.machine_type}"

    def row(
        self, step: str, replicas: int | None, strategy: str, usd: float | None, region: str | None,
        timeout_s: float | None = None, tries: int | None = 1,
    ) -> StepRow:  # fmt: skip
        """Returns the report's row for this number of machines."""
        return StepRow(step, *self.names, replicas, strategy, usd, region, timeout_s, tries)


UNKNOWN = MachineSpec(None, None, 0, False, None)


class _Fields:
    """The three fields of a machineSpec, with their positions and values."""

    def __init__(self, reader: Reader, spec: Node) -> None:
        names = compatibility.MACHINE, compatibility.TYPE, compatibility.COUNT, tpu_rules.TOPOLOGY
        self.nodes = {name: spec.get(name) for name in names}
        self.machine_type = reader.text(self.nodes[compatibility.MACHINE], compatibility.MACHINE)
        self.accelerator = reader.accelerator(self.nodes[compatibility.TYPE])
        if self.accelerator in compatibility.NO_ACCELERATOR:
            self.accelerator = None
        count = self.nodes[compatibility.COUNT]
        self.count = reader.number(count, compatibility.COUNT)
        node = self.nodes.pop(tpu_rules.TOPOLOGY)
        self.topology = (reader.text(node, tpu_rules.TOPOLOGY) or "") if node.known else None
        self.unread = {name for name, node in self.nodes.items() if not node.known}
        self.nodes[tpu_rules.TOPOLOGY] = node
        if self.count is None and count.value not in (None, ""):
            self.unread.add(compatibility.COUNT)
        self.complete = not self.unread
        self._judge_machine_type(reader)

    def _judge_machine_type(self, reader: Reader) -> None:
        node = self.nodes[compatibility.MACHINE]
        if self.machine_type is None and node.missing:
            reader.report_malformed(node, compatibility.MACHINE, "given")
            self.complete = False
        if self.machine_type == "" and node.assumed:
            text = f"machineType is not checkable: the default of '{node.assumed}' is empty."
            reader.add(node, "GPU024", text, "Give the parameter a default.")
            self.machine_type, self.complete = None, False
            self.unread.add(compatibility.MACHINE)

    def of(self, problem: Problem) -> Node:
        """Returns the field that the problem names, or the machine type if the file lacks that field."""
        machine_type = self.nodes[compatibility.MACHINE]
        node = self.nodes.get(problem.field, machine_type)
        return node if node.value is not None or machine_type.value is None else machine_type


def judge_machine(
    judgement: Judgement, step: str, spec: Node, *, serving: bool = False, conditions: Conditions | None = None
) -> MachineSpec:
    """Reports the problems of a machineSpec, and returns its request.

    `conditions`: region and provisioning of the machine; proposals fulfil them.
    """
    fields = _Fields(Reader(judgement, step), spec)
    conditions = conditions or Conditions(tuple(judgement.regions), serving=serving)
    problems = _add_proposals(
        _find_problems(judgement, fields, serving), fields, judgement.as_of, _correct_regions(conditions)
    )
    for problem in problems:
        judgement.report(step, fields.of(problem), problem, parts=fields.nodes)
    sound = first_error(problems) is None
    names = fields.machine_type, fields.accelerator, fields.count or 0
    combination = find_combination(*names) if sound and fields.complete else None
    return MachineSpec(*names, fields.complete, combination, fields.topology, _find_gpu(fields) if sound else None)


def _find_gpu(fields: _Fields) -> str | None:
    """Returns the accelerator of the request, or that of the machine if only the run knows the request's."""
    machine = catalog.machines().get(fields.machine_type or "")
    is_unread = compatibility.TYPE in fields.unread
    return machine.accelerator if is_unread and machine else fields.accelerator


def _find_problems(judgement: Judgement, fields: _Fields, serving: bool) -> list[Problem]:
    """Returns the problems of the known fields; unknown fields are left out."""
    machine_type, accelerator, count = fields.machine_type, fields.accelerator, fields.count or 0
    region = judgement.regions[0] if len(judgement.regions) == 1 else None
    if machine_type and tpu_rules.looks_like(machine_type):
        return _check_tpu(fields, serving, judgement.as_of)
    if serving and machine_type and machine_type not in catalog.machines():
        return _check_serving_machine(machine_type, accelerator, judgement.as_of)
    if not fields.unread:
        known = compatibility.problems(machine_type, accelerator, count, as_of=judgement.as_of, region=region)
        return [_allow_sharing(problem, machine_type, count) if serving else problem for problem in known]
    problems: list[Problem] = []
    if machine_type and machine_type not in catalog.machines():
        problems.append(compatibility.unknown_machine(machine_type, bool(accelerator)))
    if accelerator and compatibility.COUNT in fields.unread:
        problems += _without_count(machine_type, accelerator, judgement)
    elif accelerator and compatibility.MACHINE in fields.unread:
        problems += compatibility.problems(None, accelerator, count, as_of=judgement.as_of, region=region)
    return problems


def _correct_regions(conditions: Conditions) -> Conditions:
    """Returns the conditions with the corrected names of their regions."""
    meant = [dict(problem.nearest).get("region") for where in conditions.regions for problem in region_known(where)]
    known = [where for where in conditions.regions if not region_known(where)]
    return replace(conditions, regions=tuple([*known, *(str(where) for where in meant if where)]))


def _add_proposals(problems: list[Problem], fields: _Fields, as_of: date, conditions: Conditions) -> list[Problem]:
    """Returns the problems with a working proposal: corrected names first, else the nearest available machine."""
    proposing = [problem for problem in problems if problem.nearest and problem.level == "error"]
    if not proposing or fields.unread:
        return problems
    if tpu_rules.looks_like(fields.machine_type or ""):
        return [_add_tpu_proposal(each, fields, conditions) if each in proposing else each for each in problems]
    names = {name: value for problem in proposing if len(problem.nearest) == 1 for name, value in problem.nearest}
    machine = str(names.get(compatibility.MACHINE, fields.machine_type))
    accelerator = names.get(compatibility.TYPE, fields.accelerator)
    count = fields.count or 0
    if names and _is_valid(machine, str(accelerator) if accelerator else None, count, as_of, conditions):
        return problems
    near = _find_nearest(catalog.machines().get(machine), str(accelerator or ""), count, as_of, conditions)
    region = conditions.regions[0] if len(conditions.regions) == 1 else None
    proposal = f"Nearest that works: {near.with_prices(region)}." if near else ""
    return [
        _replace_proposal(problem, proposal, near if problem is proposing[0] else None)
        if problem in proposing
        else problem
        for problem in problems
    ]


def _add_tpu_proposal(problem: Problem, fields: _Fields, conditions: Conditions) -> Problem:
    """Returns the problem of a TPU with a working proposal, or without a proposal."""
    machine = tpu_machines.machines().get(fields.machine_type or "")
    others: list[tuple[tuple[str, str | int], ...]] = [
        ((tpu_rules.TOPOLOGY, topology),) for topology in (machine.topologies if machine else ())
    ]
    for board in tpu_machines.boards().values():
        others += [
            ((tpu_rules.TYPE, board.accelerator), (tpu_rules.COUNT, board.single)),
            ((tpu_rules.COUNT, board.single),),
        ]
    names = [name for name, _ in problem.nearest]
    for near in (problem.nearest, *others):
        if [name for name, _ in near] == names and _is_valid_tpu(dict(near), fields, conditions):
            value = near[-1][1]
            is_named = near != problem.nearest and problem.suggestion.startswith("Nearest that works")
            return replace(
                problem, nearest=near, suggestion=f"Nearest that works: {value}." if is_named else problem.suggestion
            )
    return replace(
        problem, nearest=(), suggestion="" if len(names) == 1 and tpu_rules.COUNT in names else problem.suggestion
    )


def _is_valid_tpu(values: dict[str, str | int], fields: _Fields, conditions: Conditions) -> bool:
    name = str(fields.machine_type)
    accelerator = str(values.get(tpu_rules.TYPE, fields.accelerator or "")) or None
    count, topology = (
        int(values.get(tpu_rules.COUNT, fields.count or 0)),
        str(values.get(tpu_rules.TOPOLOGY, fields.topology)),
    )
    found = tpu_rules.problems(name, accelerator, count, topology, serving=conditions.serving)
    for where in conditions.regions:
        found += tpu_rules.region(name, accelerator, count, where=where, serving=conditions.serving)
    if is_preemptible(conditions.strategy):
        found += tpu_rules.spot(name, accelerator, count, topology)
    return first_error(found) is None


def _replace_proposal(problem: Problem, proposal: str, near: Combination | None) -> Problem:
    """Returns the problem with another proposal; a corrected name is kept in it."""
    meant = f"Did you mean {problem.nearest[0][1]}?" if len(problem.nearest) == 1 else ""
    fields = compatibility.fields_of(near) if near else ()
    return replace(problem, suggestion=" ".join(part for part in (meant, proposal) if part), nearest=fields)


def _is_valid(machine: str, accelerator: str | None, count: int, as_of: date, conditions: Conditions) -> bool:
    combination = find_combination(machine, accelerator, count)
    found = compatibility.problems(machine, accelerator, count, as_of=as_of)
    return combination is not None and first_error(found) is None and conditions.allow(combination)


def _find_nearest(
    machine: Machine | None, accelerator: str, count: int, as_of: date, conditions: Conditions
) -> Combination | None:
    """Returns the nearest GPUs to the request's or the machine's; None if no GPU is requested."""
    own = machine.accelerator if machine else None
    wanted = catalog.accelerators().get(accelerator or own or "")
    if wanted is None or wanted.kind != "gpu":
        return None
    count = (count if accelerator else machine.gpus if machine else 0) or 1
    return nearest_combination(machine, wanted, count, as_of=as_of, conditions=conditions)


def _allow_sharing(problem: Problem, machine_type: str | None, count: int) -> Problem:
    """Returns the problem as a warning if replicas may share the machine (MachineSpec of the API allows fewer GPUs)."""
    machine = catalog.machines().get(machine_type or "")
    fewer = machine is not None and 0 < count < machine.gpus
    return replace(problem, severity="warning") if problem.rule == "GPU003" and fewer else problem


def _check_tpu(fields: _Fields, serving: bool, as_of: date) -> list[Problem]:
    """Returns the problems of a machine with TPUs; an unknown accelerator is reported as for other machines."""
    accelerator = fields.accelerator
    if accelerator and accelerator not in catalog.accelerators():
        return [compatibility.unknown_accelerator(accelerator, as_of)]
    if compatibility.TYPE in fields.unread or compatibility.COUNT in fields.unread:
        return []
    return tpu_rules.problems(
        str(fields.machine_type), accelerator, fields.count or 0, fields.topology, serving=serving
    )


def _without_count(machine_type: str | None, accelerator: str, judgement: Judgement) -> list[Problem]:
    """Returns the problems if only the run knows the count: those that every count has."""
    machine = catalog.machines().get(machine_type or "")
    counts = machine.counts(accelerator) if machine else ()
    count = next(iter(counts or counts_of(accelerator)), 1)
    return compatibility.problems(machine.name if machine else None, accelerator, count, as_of=judgement.as_of)


def _check_serving_machine(machine_type: str, accelerator: str | None, as_of: date) -> list[Problem]:
    """Returns the problems of a prediction's machine. Some of these types (n1-standard-2, c3) are not in this
    catalog."""
    unknown = accelerator is not None and accelerator not in catalog.accelerators()
    problems = [compatibility.unknown_accelerator(accelerator, as_of)] if accelerator and unknown else []
    prefix = machine_type.rsplit("-", 1)[0]
    is_real = (
        catalog.explain_unsuitable(machine_type)
        or any(name.rsplit("-", 1)[0] == prefix for name in catalog.machines())
        or machine_type.split("-")[0] in _SERVING_SERIES
    )
    if not is_real:
        return [*problems, compatibility.unknown_machine(machine_type, bool(accelerator))]
    text = f"{machine_type} is not a training machine; whether predictions accept it is not in the catalog."
    return [*problems, Problem("GPU024", compatibility.MACHINE, text)]
