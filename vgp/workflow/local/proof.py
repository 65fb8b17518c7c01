"""Compares the tasks of a local run that really ran with those that the compiled DAG and its conditions require.

kfp.local can skip a task, for example after a condition on a named output, and still report success. Every task that
runs writes `<folder>/<task>/executor_output.json`; iterations of a loop write to `<folder>/<loop>-iteration-<n>/`. This
module walks the DAG and evaluates its conditions with the values in those files.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from vgp.base.documents.json_text import JsonView
from vgp.check.spec import dag
from vgp.check.spec.dag import Component, Loop, Output, Task, table
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.protocol import file_names

State = Literal["succeeded", "reused", "skipped", "missing"]


@dataclass(frozen=True)
class Step:
    """A task of the DAG with its proven state."""

    name: str
    state: State
    #: Why the task was skipped, or should have run, or should not have run.
    why: str = ""
    folder: Path | None = None
    parameters: JsonView = field(default_factory=dict)
    artifacts: Mapping[str, str] = field(default_factory=dict)


def prove(spec: PipelineSpec, arguments: JsonView, now: Sequence[Path], earlier: Sequence[Path] = ()) -> list[Step]:
    """Returns every task of the pipeline with its state, in the order of the DAG.

    Args:
        spec: The compiled pipeline.
        arguments: Parameters of the run; missing ones have the spec's defaults.
        now: kfp.local's folder of this start; empty if it reused all tasks.
        earlier: Folders of earlier starts of this run, newest first, whose tasks it may reuse.
    """
    return list(_Walk(now, earlier).walk_group(spec.root, {**spec.defaults, **arguments}, _Position()))


@dataclass(frozen=True)
class _Position:
    """A position in the DAG: the loop iterations around it (`loop-iteration-2/`), and why its tasks should run."""

    prefix: str = ""
    why: str = "it has no condition"

    def enter_condition(self, condition: str) -> "_Position":
        return replace(self, why=f"its condition holds: {condition}") if condition else self


class _Walk:
    def __init__(self, now: Sequence[Path], earlier: Sequence[Path]) -> None:
        self.folders: list[tuple[State, Path]] = [("succeeded", folder) for folder in now]
        self.folders += [("reused", folder) for folder in earlier]

    def walk_group(self, group: Component, values: JsonView, position: _Position) -> Iterator[Step]:
        outputs: dict[Output, Any] = {}
        for task in group.tasks.values():
            steps = list(self.walk_task(task, task.inputs(values, outputs), position))
            outputs |= _collect_outputs(
                task, {step.name.removeprefix(position.prefix): step.parameters for step in steps}
            )
            yield from steps

    def walk_task(self, task: Task, inputs: JsonView, position: _Position) -> Iterator[Step]:
        skipped = _check_condition(task.condition, inputs)
        inner = position.enter_condition(task.condition)
        if skipped:
            yield from (self._prove_skip(replace(skipped, name=position.prefix + name)) for name in _list_tasks(task))
        elif task.loop:
            yield from self._walk_loop(task, task.loop, inputs, inner)
        elif task.component.is_group:
            yield from self.walk_group(task.component, inputs, inner)
        else:
            yield self._prove_step(position.prefix + task.name, inner.why, task.is_cached)

    def _prove_skip(self, step: Step) -> Step:
        """Returns the skipped step, as `missing` if it ran in this start nevertheless."""
        ran = any((folder / step.name).is_dir() for state, folder in self.folders if state == "succeeded")
        return replace(step, state="missing", why=f"it ran, though {step.why}") if ran else step

    def _walk_loop(self, task: Task, loop: Loop, inputs: JsonView, position: _Position) -> Iterator[Step]:
        for number, item in enumerate(loop.items(inputs)):
            iteration = replace(position, prefix=f"{position.prefix}{task.name}-iteration-{number}/")
            yield from self.walk_group(task.component, {**inputs, loop.item: item}, iteration)

    def _prove_step(self, name: str, why: str, may_be_reused: bool) -> Step:
        for state, folder in self.folders:
            if state == "reused" and not may_be_reused:
                break
            with suppress(OSError, ValueError):
                written = json.loads((folder / name / file_names.EXECUTOR_OUTPUT).read_text(encoding="utf-8"))
                return _read_step(name, state, why, folder / name, written)
        return Step(name, "missing", why)


def _list_tasks(task: Task) -> Iterator[str]:
    if not task.component.is_group:
        yield task.name
    for inner in task.component.tasks.values():
        yield from _list_tasks(inner)


def _check_condition(condition: str, inputs: JsonView) -> Step | None:
    """Returns a skipped step if the condition is false, a missing one if it cannot be evaluated, None if it holds."""
    try:
        if condition and not dag.evaluate_condition(condition, inputs):
            return Step("", "skipped", f"its condition does not hold: {condition}")
    except ValueError as error:
        return Step("", "missing", str(error))
    return None


def _read_step(name: str, state: State, why: str, folder: Path, written: JsonView) -> Step:
    artifacts = {
        key: listed["artifacts"][0].get("uri", "")
        for key, listed in table(written, "artifacts").items()
        if listed.get("artifacts")
    }
    return Step(name, state, why, folder, table(written, "parameterValues"), artifacts)


def _collect_outputs(task: Task, parameters: Mapping[str, JsonView]) -> dict[Output, Any]:
    """Returns the output values of a task or of a group of tasks, from the `parameters` of its steps by name."""
    if not task.component.is_group:
        return {Output(task.name, key): value for key, value in parameters.get(task.name, {}).items()}
    return {
        Output(task.name, name): parameters[source.task][source.key]
        for name, sources in task.component.outputs()
        for source in sources
        if source.key in parameters.get(source.task, {})
    }
