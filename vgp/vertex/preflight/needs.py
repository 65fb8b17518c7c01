"""What a pipeline draws on each quota at a time: its largest step, and the most that its steps can need together.

The most is taken over every step with all that may run beside it. It never says too little; too much only for steps
of which each may overlap with the first, but not all with each other (the exact answer is a maximum antichain, and
the difference is a warning more on a DAG that few people draw).

Two steps may overlap unless one waits, directly or over others, for the other. The branches of a condition count as
overlapping: which of them runs is known only then.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vgp.check.check_finding import StepRow
from vgp.check.spec.dag import Component, Task
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.machines.placement.provisioning import is_preemptible


@dataclass
class Order:
    """Steps by the names that the checker gives them (vgp/check/pipeline.py)."""

    #: Step -> all steps that have ended when it starts.
    before: dict[str, set[str]] = field(default_factory=dict)
    #: Step -> how many of it loops start at once; items that only the run knows count as the loop's limit, or 1.
    copies: dict[str, int] = field(default_factory=dict)

    def beside(self, step: str) -> set[str]:
        """The steps that may run while `step` runs, itself included."""
        ended = self.before[step]
        return {other for other, before in self.before.items() if other not in ended and step not in before}


def order(spec: PipelineSpec) -> Order:
    """The order of the steps of a compiled pipeline."""
    result = Order()
    _visit(result, spec.root, "", {step.path: step.name for step in spec.steps}, set(), 1)
    return result


def _visit(
    result: Order, group: Component, way: str, names: Mapping[str, str], ended: set[str], copies: int
) -> set[str]:
    """Adds the steps of a group that starts when `ended` have ended; returns them."""
    steps: dict[str, set[str]] = {}
    for name, task in group.tasks.items():
        waited = ended.union(*(steps[producer] for producer in task.dependencies if producer in steps))
        waited = waited.union(*(result.before[step] for step in waited))
        number = copies * _copies(task)
        if task.component.is_group:
            steps[name] = _visit(result, task.component, f"{way}{task.way}", names, waited, number)
        else:
            step = names[f"{way}{name}"]
            result.before[step], result.copies[step] = waited, number
            steps[name] = {step}
    return set().union(*steps.values())


def _copies(task: Task) -> int:
    """How many iterations of a loop run at once: its items, and no more than its limit."""
    loop = task.loop
    if loop is None:
        return 1
    number = len(loop.items({})) if loop.raw else loop.limit
    return max(1, min(number, loop.limit or number))


#: Metric, the quota's id where it is known, and region.
_Quota = tuple[str, str | None, str]


@dataclass(frozen=True)
class Need:
    """What is drawn on one quota in one region: GPUs, or vCPU of a family without GPUs."""

    metric: str
    #: The quota's id by the catalog, where it knows it; what the API says goes first.
    quota_id: str | None
    region: str
    #: The step that needs most by itself, and how much.
    largest: str
    alone: int
    #: The steps that may need most together, and how much.
    steps: tuple[str, ...]
    together: int


def needs(steps: Sequence[StepRow], spec: PipelineSpec) -> list[Need]:
    """What the steps need, by quota and region. Steps whose machine is not known, and TPUs, are left out."""
    drawn: dict[_Quota, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    overlap = order(spec)
    for row in steps:
        for key, amount in _drawn(row).items():
            drawn[key][row.step] += amount
    return [_need(key, amounts, overlap) for key, amounts in sorted(drawn.items(), key=str)]


def short(row: StepRow, limits: Mapping[tuple[str, str], int]) -> Mapping[str, set[tuple[str, str]]]:
    """The quotas, metric and region, that do not cover a step: of the step itself (""), and of each of its rungs.

    Args:
        row: Its machines.
        limits: What is known of them; a quota that is not among them covers all.
    """

    def over(rows: Sequence[StepRow]) -> set[tuple[str, str]]:
        drawn = {(metric, region): amount for (metric, _, region), amount in _sum(rows).items()}
        return {quota for quota, amount in drawn.items() if amount > limits.get(quota, amount)}

    return {"": over([row])} | {rung.name: over(rung.rows) for rung in row.rungs}


def _drawn(row: StepRow) -> dict[_Quota, int]:
    """What a step draws at a time; of a ladder's rungs one does, so that of each quota the most counts."""
    drawn = _sum([row])
    for rung in row.rungs:
        for key, amount in _sum(rung.rows).items():
            drawn[key] = max(drawn[key], amount)
    return drawn


def _sum(rows: Sequence[StepRow]) -> dict[_Quota, int]:
    drawn: dict[_Quota, int] = defaultdict(int)
    for row in rows:
        combination = None if row.is_persistent else row.combination
        draw = combination.quota(preemptible=is_preemptible(row.strategy)) if combination else None
        if draw:
            drawn[draw.metric, draw.quota_id, row.region or ""] += draw.amount * (row.replicas or 1)
    return drawn


def _need(key: _Quota, amounts: Mapping[str, int], overlap: Order) -> Need:
    def total(names: set[str]) -> int:
        return sum(amounts[step] * overlap.copies[step] for step in names)

    sets = [overlap.beside(step) & set(amounts) for step in amounts]
    most = max(sets, key=lambda names: (total(names), -len(names)))
    largest = max(amounts, key=lambda step: amounts[step])
    metric, quota_id, region = key
    return Need(metric, quota_id, region, largest, amounts[largest], tuple(sorted(most)), total(most))
