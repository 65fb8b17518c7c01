"""The difference between two compiled pipelines, in readable terms and line by line."""

import difflib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from vgp.base.documents.json_text import JsonObject
from vgp.check.spec import step_difference
from vgp.check.spec.dag import Component
from vgp.check.spec.parameters import Parameter
from vgp.check.spec.pipeline_spec import PipelineSpec, as_text, list_cached_tasks
from vgp.check.spec.step_difference import Side, select_comparable

_ADDED, _REMOVED = "added", "removed"
#: Fields whose change is reported without the values.
_WITHOUT_VALUES = ("code", "inputs", "flow", "description", "optional", "definition")
#: Step -> its machine in words.
Machines = Mapping[str, str]


@dataclass(frozen=True)
class Difference:
    """One difference. `before` None: added; `after` None: removed."""

    field: str
    before: Any
    after: Any


def differences(
    before: PipelineSpec, after: PipelineSpec, machines: tuple[Machines, Machines] = ({}, {})
) -> list[Difference]:
    """Returns added and removed steps; changes of machine, image, rungs, code and inputs; parameters with their
    defaults.

    Both are JSON objects. Any other difference has its path as name.
    """
    result = [
        *_compare_parameters(before, after),
        *_compare_steps(before, after, machines),
        *_compare_remainder(before, after),
    ]
    if not result and before != after:
        result = [Difference("definition", None, "changed")]
    return result


def diff_texts(before: PipelineSpec, after: PipelineSpec) -> list[str]:
    """Returns the unified diff of the texts. The order of parameters is ignored, because Google does not keep it."""
    old, new = (as_text(spec.content).splitlines() for spec in (before, after))
    return list(difflib.unified_diff(old, new, "live", "declared", lineterm=""))


def _compare_parameters(before: PipelineSpec, after: PipelineSpec) -> Iterator[Difference]:
    for name in sorted(before.parameters.keys() | after.parameters.keys()):
        old, new = (_describe_parameter(spec.parameters.get(name)) for spec in (before, after))
        yield from _compare_parts(f"parameter {name}", old, new)


def _describe_parameter(declared: Parameter | None) -> JsonObject | None:
    if declared is None:
        return None
    return {
        "type": declared.type,
        "default": json.dumps(declared.default) if declared.default is not None else None,
        "description": declared.description,
        "optional": declared.is_optional,
    }


def _compare_steps(
    before: PipelineSpec, after: PipelineSpec, machines: tuple[Machines, Machines]
) -> Iterator[Difference]:
    handlers = {component.name for spec in (before, after) for component in _list_groups(spec)}  # compared as the flow
    for name in sorted((before.components.keys() | after.components.keys()) - handlers):
        step = name.removeprefix("comp-")
        sides = [
            Side(spec, spec.components[name], words.get(step)) if name in spec.components else None
            for spec, words in zip((before, after), machines, strict=True)
        ]
        yield from _compare_parts(step, *select_comparable(*sides))
        plans = [side.plan if side else {} for side in sides]
        if all(plans):
            yield from (
                Difference(f"{step}: {path}", *both) for path, *both in step_difference.ladder_differences(*plans)
            )


def _compare_parts(name: str, old: JsonObject | None, new: JsonObject | None) -> Iterator[Difference]:
    if old is None or new is None:
        yield Difference(name, None if old is None else "present", _ADDED if old is None else _REMOVED)
        return
    for key in dict.fromkeys([*old, *new]):
        if old.get(key) != new.get(key):
            yield _build_difference(f"{name}: {key}", key, old.get(key), new.get(key))


def _build_difference(field: str, key: str, old: object, new: object) -> Difference:
    return Difference(field, None, "changed") if key in _WITHOUT_VALUES else Difference(field, old, new)


def _compare_remainder(before: PipelineSpec, after: PipelineSpec) -> Iterator[Difference]:
    """Yields differences of constant inputs, order, kfp's version, and the pipeline's name and description."""
    constants = [step_difference.read_task_constants(spec) for spec in (before, after)]
    for task in constants[0].keys() & constants[1].keys():
        yield from _compare_parts(task, constants[0][task], constants[1][task])
    old, new = _read_remainder(before), _read_remainder(after)
    yield from (_build_difference(name, name, old[name], new[name]) for name in old if old[name] != new[name])


def _list_groups(spec: PipelineSpec) -> list[Component]:
    """Returns the groups of tasks in exit handlers and branches."""
    return [task.component for _, task in spec.walk() if task.component.is_group and not task.path_prefix]


def _read_remainder(spec: PipelineSpec) -> JsonObject:
    flows = [step_difference.strip_dag(component) for component in (spec.root, *_list_groups(spec))]
    return {
        "flow": (flows, spec.root.content.get("outputDefinitions")),
        "cached steps": ", ".join(list_cached_tasks(spec)) or "none",
        "name": spec.name,
        "description": spec.description,
        "kfp": spec.content.get("sdkVersion"),
    }
