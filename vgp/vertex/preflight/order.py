"""Which steps of a compiled pipeline may run at the same time, and how many of each a loop starts at once.

Two steps may overlap unless one waits, directly or over others, for the other. The branches of a condition count as
overlapping: which of them runs is known only then.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import Any


@dataclass
class Order:
    """Steps by the names that the checker gives them (machines/kfp_spec.py)."""

    #: Step -> all steps that have ended when it starts.
    before: dict[str, set[str]] = field(default_factory=dict)
    #: Step -> how many of it loops start at once; items that only the run knows count as the loop's limit, or 1.
    copies: dict[str, int] = field(default_factory=dict)

    def beside(self, step: str) -> set[str]:
        """The steps that may run while `step` runs, itself included."""
        ended = self.before[step]
        return {each for each in self.before if each not in ended and step not in self.before[each]}


def order(spec: Mapping[str, Any]) -> Order:
    """The order of the steps of a compiled pipeline."""
    return _Walk(spec.get("components", {})).order(spec["root"]["dag"])


class _Walk:
    def __init__(self, components: Mapping[str, Any]) -> None:
        self.components = components
        self.found = Order()
        self.names: dict[str, str] = {}

    def order(self, dag: Mapping[str, Any]) -> Order:
        for path in self._paths(dag, ""):
            key = path.rsplit("/", 1)[-1]
            self.names[path] = path if key in self.names.values() else key
        self._visit(dag, "", set(), 1)
        return self.found

    def _inner(self, task: Mapping[str, Any]) -> Mapping[str, Any] | None:
        inner: Mapping[str, Any] | None = self.components[task["componentRef"]["name"]].get("dag")
        return inner

    def _paths(self, dag: Mapping[str, Any], prefix: str) -> Iterator[str]:
        for key, task in dag["tasks"].items():
            inner = self._inner(task)
            if inner is None:
                yield f"{prefix}{key}"
            else:
                yield from self._paths(inner, f"{prefix}{key}/")

    def _visit(self, dag: Mapping[str, Any], prefix: str, ended: set[str], copies: int) -> set[str]:
        """Adds the steps of a DAG that starts when `ended` have ended; returns them."""
        steps: dict[str, set[str]] = {}
        upstream = {key: task.get("dependentTasks", ()) for key, task in dag["tasks"].items()}
        for key in TopologicalSorter(upstream).static_order():
            task = dag["tasks"][key]
            waited = ended.union(*(steps[each] for each in upstream[key]))
            waited = waited.union(*(self.found.before[each] for each in waited))
            inner, number = self._inner(task), copies * _copies(task)
            if inner is not None:
                steps[key] = self._visit(inner, f"{prefix}{key}/", waited, number)
                continue
            name = self.names[f"{prefix}{key}"]
            steps[key] = {name}
            self.found.before[name], self.found.copies[name] = waited, number
        return set().union(*steps.values())


def _copies(task: Mapping[str, Any]) -> int:
    """How many iterations of a loop run at once: its items, and no more than its limit."""
    items = task.get("parameterIterator", {}).get("items", {}).get("raw")
    limit = int(task.get("iteratorPolicy", {}).get("parallelismLimit", 0))
    number = len(json.loads(items)) if items else limit
    return max(1, min(number, limit or number))
