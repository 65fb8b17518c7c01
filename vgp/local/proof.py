"""Which tasks of a local run really ran, compared with what the compiled DAG and its conditions ask for.

kfp.local may skip a task (a condition on a named output, say) and still report success. Every task that runs leaves
`<folder>/<task>/executor_output.json`, a loop's iterations in `<folder>/<loop>-iteration-<n>/`; this module walks the
DAG with the values found there.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from vgp.spec import conditions

State = Literal["succeeded", "reused", "skipped", "missing"]


@dataclass(frozen=True)
class Step:
    """One task of the DAG: what should have happened to it, and whether it did."""

    name: str
    state: State
    #: Why it was skipped or why it should have run.
    why: str = ""
    folder: Path | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    artifacts: Mapping[str, str] = field(default_factory=dict)


def prove(
    spec: Mapping[str, Any], arguments: Mapping[str, Any], now: Sequence[Path], earlier: Sequence[Path] = ()
) -> list[Step]:
    """Every task of the pipeline in DAG order.

    Args:
        spec: The compiled PipelineSpec.
        arguments: The pipeline's parameters as given; the spec's defaults fill the rest.
        now: The folder into which kfp.local put the tasks of this start; none if it reused them all.
        earlier: The folders of earlier starts of the same run, newest first: what it may reuse.
    """
    defaults = {
        name: parameter["defaultValue"]
        for name, parameter in spec["root"].get("inputDefinitions", {}).get("parameters", {}).items()
        if "defaultValue" in parameter
    }
    return list(_Walk(spec, now, earlier).dag(spec["root"]["dag"], {**defaults, **arguments}, _Place()))


def names(spec: Mapping[str, Any]) -> list[str]:
    """The tasks that do work, groups resolved, in DAG order."""
    walk = _Walk(spec, (), ())
    dag = spec["root"]["dag"]
    return [leaf for name in _sorted(dag["tasks"]) for leaf in walk.leaves(name, walk.component(dag["tasks"][name]))]


@dataclass(frozen=True)
class _Place:
    """Where the walk stands: the loop iterations around it (`loop-iteration-2/`), and why it came here."""

    prefix: str = ""
    why: str = "no condition stands before it"

    def under(self, condition: str) -> "_Place":
        return replace(self, why=f"its condition holds: {condition}") if condition else self


class _Walk:
    def __init__(self, spec: Mapping[str, Any], now: Sequence[Path], earlier: Sequence[Path]) -> None:
        self.components = spec.get("components", {})
        self.places: list[tuple[State, Path]] = [("succeeded", folder) for folder in now]
        self.places += [("reused", folder) for folder in earlier]

    def dag(self, dag: Mapping[str, Any], values: Mapping[str, Any], place: _Place) -> Iterator[Step]:
        outputs: dict[tuple[str, str], Any] = {}
        for name in _sorted(dag["tasks"]):
            steps = list(self.task(name, dag["tasks"][name], _inputs(dag["tasks"][name], values, outputs), place))
            _publish(name, self.component(dag["tasks"][name]), steps, place.prefix, outputs)
            yield from steps

    def task(self, name: str, task: Mapping[str, Any], inputs: Mapping[str, Any], place: _Place) -> Iterator[Step]:
        component = self.component(task)
        condition = task.get("triggerPolicy", {}).get("condition", "")
        refused = _refused(condition, inputs)
        if refused:
            yield from (replace(refused, name=place.prefix + leaf) for leaf in self.leaves(name, component))
        elif "parameterIterator" in task:
            yield from self._loop(name, task["parameterIterator"], component["dag"], inputs, place.under(condition))
        elif "dag" in component:
            yield from self.dag(component["dag"], inputs, place.under(condition))
        else:
            yield self._ran(place.prefix + name, place.under(condition).why)

    def _loop(
        self,
        name: str,
        iterator: Mapping[str, Any],
        dag: Mapping[str, Any],
        inputs: Mapping[str, Any],
        place: _Place,
    ) -> Iterator[Step]:
        items = iterator["items"]
        values = items["raw"] if "raw" in items else inputs.get(items["inputParameter"], [])
        for number, item in enumerate(json.loads(values) if isinstance(values, str) else values):
            iteration = replace(place, prefix=f"{place.prefix}{name}-iteration-{number}/")
            yield from self.dag(dag, {**inputs, iterator["itemInput"]: item}, iteration)

    def component(self, task: Mapping[str, Any]) -> Mapping[str, Any]:
        return self.components[task["componentRef"]["name"]]

    def leaves(self, name: str, component: Mapping[str, Any]) -> Iterator[str]:
        if "dag" not in component:
            yield name
            return
        for child, task in component["dag"]["tasks"].items():
            yield from self.leaves(child, self.component(task))

    def _ran(self, name: str, why: str) -> Step:
        for state, folder in self.places:
            with suppress(OSError, ValueError):
                written = json.loads((folder / name / "executor_output.json").read_text(encoding="utf-8"))
                return _finished(name, state, why, folder / name, written)
        return Step(name, "missing", why)


def _refused(condition: str, inputs: Mapping[str, Any]) -> Step | None:
    """What becomes of a task whose condition does not hold or cannot be told; None if it should run."""
    try:
        if condition and not conditions.holds(condition, inputs):
            return Step("", "skipped", f"its condition does not hold: {condition}")
    except ValueError as error:
        return Step("", "missing", str(error))
    return None


def _finished(name: str, state: State, why: str, folder: Path, written: Mapping[str, Any]) -> Step:
    artifacts = {
        key: listed["artifacts"][0].get("uri", "")
        for key, listed in written.get("artifacts", {}).items()
        if listed.get("artifacts")
    }
    return Step(name, state, why, folder, written.get("parameterValues", {}), artifacts)


def _inputs(
    task: Mapping[str, Any], values: Mapping[str, Any], outputs: Mapping[tuple[str, str], Any]
) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for name, source in task.get("inputs", {}).get("parameters", {}).items():
        if "componentInputParameter" in source and source["componentInputParameter"] in values:
            given[name] = values[source["componentInputParameter"]]
        elif "runtimeValue" in source:
            given[name] = source["runtimeValue"].get("constant")
        elif "taskOutputParameter" in source:
            output = source["taskOutputParameter"]
            key = (output["producerTask"], output["outputParameterKey"])
            given |= {name: outputs[key]} if key in outputs else {}
    return given


def _publish(
    name: str,
    component: Mapping[str, Any],
    steps: Sequence[Step],
    prefix: str,
    outputs: dict[tuple[str, str], Any],
) -> None:
    """Makes the values that a task, or a group of tasks, hands out known under its name."""
    found = {step.name.removeprefix(prefix): step.parameters for step in steps}
    if "dag" not in component:
        outputs.update({(name, key): value for key, value in found.get(name, {}).items()})
        return
    for key, source in component["dag"].get("outputs", {}).get("parameters", {}).items():
        selectors = source.get("valueFromOneof", {}).get("parameterSelectors", [source.get("valueFromParameter", {})])
        for selector in selectors:
            values = found.get(selector.get("producerSubtask", ""), {})
            if selector.get("outputParameterKey") in values:
                outputs[(name, key)] = values[selector["outputParameterKey"]]


def _sorted(tasks: Mapping[str, Any]) -> list[str]:
    """Task names, producers first; names decide between independent tasks."""
    done: list[str] = []
    waiting = sorted(tasks)
    while waiting:
        ready = [name for name in waiting if all(other in done for other in tasks[name].get("dependentTasks", []))]
        if not ready:  # a cycle: kfp refuses it, and this must end all the same
            return done + waiting
        done.append(ready[0])
        waiting.remove(ready[0])
    return done
