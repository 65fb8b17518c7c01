"""What the parameters of a run mean to the commands in its spec: one that has no effect is refused."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from vgp.base.errors import RequestError
from vgp.base.text.figures import number
from vgp.check.spec import sizes
from vgp.check.spec.dag import Component, Task, table
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.check.spec.script import scripts

#: The first step takes every parameter, only to check it.
_CHECKS = "resolve"
#: The input of a step by which its own Python takes its settings.
_SETTINGS = "config"
#: A worker pool is JSON made by concatenation: these would end its texts.
_UNSAFE = re.compile(r'["\\\x00-\x1f]')


@dataclass(frozen=True)
class _Parameter:
    """Stands for a parameter of the pipeline on its way to the steps."""

    name: str


def refuse(spec: PipelineSpec, arguments: Mapping[str, Any], *, remote: bool, settings: Collection[str] = ()) -> None:
    """Raises RequestError: an argument has no effect, since the command that runs in place of a step does not take it.

    Args:
        spec: The compiled pipeline.
        arguments: Those of a run; parameters that are not among them have their defaults.
        remote: Whether the run is one on Vertex AI.
        settings: Parameters that reach the step's own Python as one value, its input `config`.
    """
    commands = scripts(spec)
    if not commands:
        return
    sized = sizes.choices(spec)
    takers = list(_takers(spec.root, {name: _Parameter(name) for name in spec.parameters}))
    for task, inputs in takers:
        script = commands.get(task.component.name.removeprefix("comp-"))
        if script is None:
            continue
        elsewhere = [taken for other, taken in takers if other is not task and other.name != _CHECKS]
        others = {parameter for taken in elsewhere for parameter in taken.values()}
        if _SETTINGS in table(task.content, "inputs", "parameters"):
            inputs = {**{name: name for name in settings if name in spec.parameters}, **inputs}
        for name, parameter in inputs.items():
            if parameter in sized:
                continue  # of the machines, not of the command
            value = arguments.get(parameter, spec.defaults.get(parameter))
            if name not in script.names and parameter not in others:
                _refuse_unused(spec, task.name, name, parameter, value)
            elif name in script.names and remote and isinstance(value, str) and _UNSAFE.search(value):
                raise RequestError(
                    f"{parameter} = {value!r}: the command of [steps.{task.name}] takes it, and on Vertex AI no "
                    "quotation mark, backslash or line break reaches it by a parameter. Write it into the command."
                )


def _refuse_unused(spec: PipelineSpec, step: str, name: str, parameter: str, value: Any) -> None:
    default = spec.defaults.get(parameter)
    if value == default:
        return
    if spec.parameters[parameter].type in ("STRUCT", "LIST"):
        fix = "Those are settings of the step's own Python; what the command needs, write into it"
    else:
        fix = f"Write {{{name}}} into it"
    shown = number(default) if isinstance(default, float) else repr(default)
    raise RequestError(
        f"the command of [steps.{step}] does not take {parameter}. {fix}, or leave {parameter} at its default, {shown}."
    )


def _takers(group: Component, values: Mapping[str, Any]) -> Iterator[tuple[Task, dict[str, str]]]:
    """Every task that does work, with the parameters of the pipeline that it takes, by the names of its inputs."""
    for task in group.tasks.values():
        taken = {name: value for name, value in task.inputs(values, {}).items() if isinstance(value, _Parameter)}
        if task.component.is_group:
            yield from _takers(task.component, taken)
        else:
            yield task, {name: parameter.name for name, parameter in taken.items()}
