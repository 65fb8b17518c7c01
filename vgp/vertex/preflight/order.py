"""Which steps of a compiled pipeline may run at the same time, and how many of each a loop starts at once.

Two steps may overlap unless one waits, directly or over others, for the other. The branches of a condition count as
overlapping: which of them runs is known only then.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from vgp.check.spec.dag import Component, Task
from vgp.check.spec.pipeline_spec import PipelineSpec


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
