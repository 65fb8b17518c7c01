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

from vgp.base.documents.json_text import JsonView
from vgp.check.spec import dag
from vgp.check.spec.dag import Component, Loop, Output, Task, table
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.protocol import file_names

State = Literal["succeeded", "reused", "skipped", "missing"]


@dataclass(frozen=True)
class Step:
    """One task of the DAG: what should have happened to it, and whether it did."""

    name: str
    state: State
    #: Why it was skipped, why it should have run, or that it ran and should not have.
    why: str = ""
    folder: Path | None = None
    parameters: JsonView = field(default_factory=dict)
    artifacts: Mapping[str, str] = field(default_factory=dict)


def prove(spec: PipelineSpec, arguments: JsonView, now: Sequence[Path], earlier: Sequence[Path] = ()) -> list[Step]:
    """Every task of the pipeline in DAG order.

    Args:
        spec: The compiled pipeline.
        arguments: Its parameters; the spec's defaults fill the rest.
        now: The folder into which kfp.local put the tasks of this start; none if it reused them all.
        earlier: The folders of earlier starts of the same run, newest first: what it may reuse.
    """
    return list(_Walk(now, earlier).group(spec.root, {**spec.defaults, **arguments}, _Place()))


@dataclass(frozen=True)
class _Place:
    """Where the walk stands: the loop iterations around it (`loop-iteration-2/`), and why it came here."""

    prefix: str = ""
    why: str = "no condition stands before it"

    def under(self, condition: str) -> "_Place":
        return replace(self, why=f"its condition holds: {condition}") if condition else self


class _Walk:
    def __init__(self, now: Sequence[Path], earlier: Sequence[Path]) -> None:
        self.folders: list[tuple[State, Path]] = [("succeeded", folder) for folder in now]
        self.folders += [("reused", folder) for folder in earlier]

    def group(self, group: Component, values: JsonView, place: _Place) -> Iterator[Step]:
        outputs: dict[Output, Any] = {}
        for task in group.tasks.values():
            steps = list(self.task(task, task.inputs(values, outputs), place))
            outputs |= _outputs(task, {step.name.removeprefix(place.prefix): step.parameters for step in steps})
            yield from steps

    def task(self, task: Task, inputs: JsonView, place: _Place) -> Iterator[Step]:
        refused = _refused(task.condition, inputs)
        inside = place.under(task.condition)
        if refused:
            yield from (self._left_out(replace(refused, name=place.prefix + name)) for name in _leaves(task))
        elif task.loop:
            yield from self._loop(task, task.loop, inputs, inside)
        elif task.component.is_group:
            yield from self.group(task.component, inputs, inside)
        else:
            yield self._ran(place.prefix + task.name, inside.why, task.is_cached)

    def _left_out(self, step: Step) -> Step:
        """The step, unless it ran in this start all the same."""
        ran = any((folder / step.name).is_dir() for state, folder in self.folders if state == "succeeded")
        return replace(step, state="missing", why=f"it ran, though {step.why}") if ran else step

    def _loop(self, task: Task, loop: Loop, inputs: JsonView, place: _Place) -> Iterator[Step]:
        for number, item in enumerate(loop.items(inputs)):
            iteration = replace(place, prefix=f"{place.prefix}{task.name}-iteration-{number}/")
            yield from self.group(task.component, {**inputs, loop.item: item}, iteration)

    def _ran(self, name: str, why: str, may_be_reused: bool) -> Step:
        for state, folder in self.folders:
            if state == "reused" and not may_be_reused:
                break
            with suppress(OSError, ValueError):
                written = json.loads((folder / name / file_names.EXECUTOR_OUTPUT).read_text(encoding="utf-8"))
                return _finished(name, state, why, folder / name, written)
        return Step(name, "missing", why)


def _leaves(task: Task) -> Iterator[str]:
    if not task.component.is_group:
        yield task.name
    for inner in task.component.tasks.values():
        yield from _leaves(inner)


def _refused(condition: str, inputs: JsonView) -> Step | None:
    """What becomes of a task whose condition does not hold or cannot be told; None if it should run."""
    try:
        if condition and not dag.evaluate_condition(condition, inputs):
            return Step("", "skipped", f"its condition does not hold: {condition}")
    except ValueError as error:
        return Step("", "missing", str(error))
    return None


def _finished(name: str, state: State, why: str, folder: Path, written: JsonView) -> Step:
    artifacts = {
        key: listed["artifacts"][0].get("uri", "")
        for key, listed in table(written, "artifacts").items()
        if listed.get("artifacts")
    }
    return Step(name, state, why, folder, table(written, "parameterValues"), artifacts)


def _outputs(task: Task, parameters: Mapping[str, JsonView]) -> dict[Output, Any]:
    """The values that a task, or a group of tasks, hands out; `parameters` are those of the steps in it."""
    if not task.component.is_group:
        return {Output(task.name, key): value for key, value in parameters.get(task.name, {}).items()}
    return {
        Output(task.name, name): parameters[source.task][source.key]
        for name, sources in task.component.outputs()
        for source in sources
        if source.key in parameters.get(source.task, {})
    }
