"""Judges one machine of a step: type, accelerator, count, region, price. Shared by jobs and predictions."""

from dataclasses import dataclass
from datetime import date

from vgp.catalog import catalog
from vgp.catalog.machine import Machine
from vgp.check.fields import Reader
from vgp.check.finding import Judgement
from vgp.documents.node import Node
from vgp.placement import compatibility, provisioning
from vgp.placement.combination import Combination, known
from vgp.placement.rules import Problem, first_error


@dataclass(frozen=True)
class Asked:
    """What a machineSpec asks for. None: missing or not known; `complete` False: parts are not known."""

    machine_type: str | None
    accelerator: str | None
    count: int
    complete: bool
    #: Where the three go together, so that more can be judged.
    combination: Combination | None

    @property
    def machine(self) -> Machine | None:
        return catalog.machines().get(self.machine_type or "")


def judge(judgement: Judgement, step: str, spec: Node, *, serving: bool = False) -> Asked:
    """Reports what is wrong with a machineSpec, and returns what it asks for."""
    reader = Reader(judgement, step)
    nodes = {name: spec.get(name) for name in (compatibility.MACHINE, compatibility.TYPE, compatibility.COUNT)}
    machine_type = reader.text(nodes[compatibility.MACHINE], compatibility.MACHINE)
    accelerator = reader.accelerator(nodes[compatibility.TYPE])
    accelerator = None if accelerator in compatibility.NO_ACCELERATOR else accelerator
    count_node = nodes[compatibility.COUNT]
    count = reader.number(count_node, compatibility.COUNT)
    complete = all(node.known for node in nodes.values()) and (count is not None or count_node.value in (None, ""))
    if machine_type is None and nodes[compatibility.MACHINE].missing:
        judgement.malformed(step, nodes[compatibility.MACHINE], compatibility.MACHINE, "given")
        complete = False
    unread = {name for name, node in nodes.items() if not node.known}
    if count is None and count_node.value not in (None, ""):
        unread.add(compatibility.COUNT)
    if machine_type == "" and nodes[compatibility.MACHINE].assumed:
        text = f"machineType is not checkable: the default of '{nodes[compatibility.MACHINE].assumed}' is empty."
        judgement.say(step, nodes[compatibility.MACHINE], "GPU024", text, "Give the parameter a default.")
        machine_type, complete = None, False
        unread.add(compatibility.MACHINE)
    found = _problems(judgement, machine_type, accelerator, count, unread, serving)
    for each in found:
        judgement.report(step, _place(each, nodes), each)
    sound = complete and first_error(found) is None
    combination = known(machine_type, accelerator, count or 0) if sound else None
    return Asked(machine_type, accelerator, count or 0, complete, combination)


def _problems(
    judgement: Judgement, machine_type: str | None, accelerator: str | None, count: int | None,
    unknown: set[str], serving: bool,
) -> list[Problem]:  # fmt: skip
    """As much as can be judged: parts that are not known are left out of the question."""
    region = judgement.regions[0] if len(judgement.regions) == 1 else None
    if serving and machine_type and machine_type not in catalog.machines():
        return _serving_machine(machine_type, accelerator, judgement.as_of)
    if not unknown:
        return compatibility.problems(machine_type, accelerator, count or 0, as_of=judgement.as_of, region=region)
    found: list[Problem] = []
    if machine_type and machine_type not in catalog.machines() and not catalog.is_tpu(machine_type):
        found.append(compatibility.unknown_machine(machine_type, bool(accelerator)))
    if accelerator and compatibility.COUNT in unknown:
        found += _without_count(machine_type, accelerator, judgement)
    elif accelerator and compatibility.MACHINE in unknown:
        found += compatibility.problems(None, accelerator, count or 0, as_of=judgement.as_of, region=region)
    return found


def _without_count(machine_type: str | None, accelerator: str, judgement: Judgement) -> list[Problem]:
    """With a count known only to the run: right for no count at all, or the name itself is wrong."""
    if accelerator not in catalog.accelerators():
        return [compatibility.unknown_accelerator(accelerator, judgement.as_of)]
    machine = catalog.machines().get(machine_type or "")
    counts = machine.counts(accelerator) if machine else ()
    count = counts[0] if counts else 1
    return compatibility.problems(machine.name if machine else None, accelerator, count, as_of=judgement.as_of)


def _serving_machine(machine_type: str, accelerator: str | None, as_of: date) -> list[Problem]:
    """Predictions take machine types that training does not (n1-standard-2, c3): not in this catalog."""
    found = (
        [compatibility.unknown_accelerator(accelerator, as_of)]
        if accelerator and accelerator not in catalog.accelerators()
        else []
    )
    why = catalog.not_for_training(machine_type)
    prefix = machine_type.rsplit("-", 1)[0]
    series = any(name.rsplit("-", 1)[0] == prefix for name in catalog.machines())
    real = why or series or machine_type.split("-")[0] in ("c3", "c3d", "c4", "n2d", "c2d", "e2", "n4", "h3")
    if not real:
        return [*found, compatibility.unknown_machine(machine_type, bool(accelerator))]
    text = f"{machine_type} is no training machine; the catalog does not say whether predictions take it."
    return [*found, Problem("GPU024", compatibility.MACHINE, text)]


def _place(problem: Problem, nodes: dict[str, Node]) -> Node:
    """The field that the problem names, or the machine type where that field is not in the file."""
    node = nodes.get(problem.field, nodes[compatibility.MACHINE])
    fallback = nodes[compatibility.MACHINE]
    return node if node.value is not None or fallback.value is None else fallback


def judge_region(judgement: Judgement, step: str, at: Node, asked: Asked, regions: list[str], serving: bool) -> None:
    """Region rules for every region in question; without any, the accelerator must exist somewhere."""
    row = catalog.accelerators().get(asked.accelerator or "")
    for region in regions:
        unknown = provisioning.region_known(region)
        for each in unknown:
            judgement.report(step, at, each)
        if row is not None and asked.combination and not unknown:
            for each in provisioning.region(asked.machine, row, region, serving=serving):
                judgement.report(step, at, each)


def price_of(asked: Asked, regions: list[str], way: str) -> tuple[float | None, str | None]:
    """$/hour of one machine in the first region in question, else in us-central1 or where it is cheapest."""
    region = regions[0] if regions else None
    price = asked.combination.price(way, region) if asked.combination else None
    return (price.usd_per_hour, price.region) if price else (None, region)
