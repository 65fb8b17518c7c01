r"""A compiled pipeline: its content, its canonical text, its defaults, and its cached steps.

https://github.com/kubeflow/pipelines/blob/master/api/v2alpha1/pipeline_spec.proto

Vertex's SDK and its template registry parse YAML 1.1, which reads 1e-05 as a text and \ud83d\ude00 as two broken
characters. As 1.0e-05 and as the character itself, they are equal in JSON and in YAML.
"""

import copy
import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from vgp.base.documents.json_text import JsonObject, JsonView
from vgp.check.spec.dag import Component, Task, table
from vgp.check.spec.parameters import Parameter

_STRING_OR_EXPONENT = re.compile(r'"(?:[^"\\]|\\.)*"|(?<![.\d])(?P<whole>\d+)(?P<exponent>e[+-]\d+)')
_ESCAPE = re.compile(r"(?P<pair>\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2})|\\.")


def as_text(value: object, unsorted: object = None) -> str:
    """Returns the text of a JSON value with sorted keys, except those of the table `kept`."""
    return _STRING_OR_EXPONENT.sub(_as_yaml, json.dumps(_sort_keys(value, unsorted), indent=2)) + "\n"


def _sort_keys(value: object, unsorted: object) -> Any:
    if isinstance(value, Mapping):
        return {key: _sort_keys(value[key], unsorted) for key in (value if value is unsorted else sorted(value))}
    return [_sort_keys(member, unsorted) for member in value] if isinstance(value, list) else value


def _as_yaml(match: re.Match[str]) -> str:
    if match["whole"]:
        return f"{match['whole']}.0{match['exponent']}"
    return _ESCAPE.sub(lambda escape: json.loads(f'"{escape[0]}"') if escape["pair"] else escape[0], match[0])


#: Limit above Google's; a spec whose components contain each other would have no end.
_MAX_NESTING = 50


@dataclass(frozen=True)
class Step:
    """A task that does work. Its name is the task's, or its path if another step has that name."""

    name: str
    path: str
    task: Task


@dataclass(frozen=True)
class PipelineSpec:
    """A spec's JSON, and its parts."""

    content: JsonView

    @classmethod
    def read(cls, path: Path) -> "PipelineSpec":
        """Reads a spec. Raises ValueError or OSError if the file does not hold a JSON object."""
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError(f"{path} does not hold a JSON object")
        return cls(content)

    @property
    def name(self) -> str:
        return str(table(self.content, "pipelineInfo").get("name", ""))

    @property
    def description(self) -> str:
        return str(table(self.content, "pipelineInfo").get("description", ""))

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        declared = table(self.content, "root", "inputDefinitions", "parameters")
        return {name: Parameter.read(name, table(declared, name)) for name in declared}

    @cached_property
    def defaults(self) -> JsonObject:
        """Returns the default values of the parameters that have one."""
        return {name: parameter.default for name, parameter in self.parameters.items() if parameter.has_default}

    @cached_property
    def root(self) -> Component:
        return Component("root", table(self.content, "root"), table(self.content, "components"))

    @cached_property
    def components(self) -> dict[str, Component]:
        """Returns all components except the root, by name."""
        known = table(self.content, "components")
        return {name: Component(name, table(known, name), known) for name in known}

    def walk(self) -> Iterator[tuple[str, Task]]:
        """Yields every task with its path, `for-loop-1/train`: groups before their tasks, producers first."""
        yield from _walk(self.root, "", 0)

    @cached_property
    def steps(self) -> list[Step]:
        """Returns the tasks that do work, in DAG order."""
        names: dict[str, str] = {}
        for path, name in _list_step_names(
            self.root, "", 0
        ):  # in the order of the document, by which the checker names them
            names[path] = path if name in names.values() else name
        return [Step(names[path], path, task) for path, task in self.walk() if not task.component.is_group]

    @property
    def executors(self) -> dict[str, JsonView]:
        """Returns the executors by label."""
        executors = table(self.content, "deploymentSpec", "executors")
        return {label: table(executors, label) for label in executors}

    def executor(self, task: Task | Component) -> JsonView:
        """Returns the executor of a step, such as its container; empty for a group."""
        component = task.component if isinstance(task, Task) else task
        return self.executors.get(component.executor, {})

    @property
    def containers(self) -> dict[str, JsonView]:
        """Returns the container of every executor that has one, by the name of its component."""
        return {
            label.removeprefix("exec-"): table(executor, "container")
            for label, executor in self.executors.items()
            if "container" in executor
        }

    @cached_property
    def text(self) -> str:
        """Returns the canonical text, which is compared, committed and uploaded.

        The parameters keep their order, which is the order of the console's form.
        """
        return as_text(self.content, unsorted=table(self.content, "root", "inputDefinitions", "parameters"))

    @cached_property
    def digest(self) -> str:
        """Returns the SHA-256 of the text, in hex."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def with_defaults(self, values: Mapping[str, object]) -> "PipelineSpec":
        """Returns the spec with these values as the defaults of its parameters."""
        content = json.loads(json.dumps(self.content))
        for name, value in values.items():
            content["root"]["inputDefinitions"]["parameters"][name]["defaultValue"] = value
        return PipelineSpec(content)


def _list_step_names(group: Component, prefix: str, depth: int) -> Iterator[tuple[str, str]]:
    """Yields path and name of every step, in the order of the document."""
    for name in table(group.content, "dag", "tasks"):
        component = group.tasks[name].component
        if not component.is_group:
            yield f"{prefix}{name}", name
        elif depth < _MAX_NESTING:
            yield from _list_step_names(component, f"{prefix}{group.tasks[name].path_prefix}", depth + 1)


def _walk(group: Component, prefix: str, depth: int) -> Iterator[tuple[str, Task]]:
    for name, task in group.tasks.items():
        yield f"{prefix}{name}", task
        if depth < _MAX_NESTING:
            yield from _walk(task.component, f"{prefix}{task.path_prefix}", depth + 1)


#: A pipeline with both parameters uses the model registry of this library: vgp/registry.
_REGISTRY_PARAMETERS = ("registry", "model_name")


@dataclass(frozen=True)
class Places:
    """The output folder of a run, and the root of the model registry; "" leaves it open."""

    runs: str = ""
    registry: str = ""


def with_places(spec: PipelineSpec, places: Places) -> PipelineSpec:
    """Returns the spec with the places as its defaults, so that runs from the console use this registry too."""
    if places.registry and uses_registry(spec, [""]):
        spec = spec.with_defaults({_REGISTRY_PARAMETERS[0]: places.registry})
    return PipelineSpec({**spec.content, "defaultPipelineRoot": places.runs}) if places.runs else spec


def uses_registry(spec: PipelineSpec, roots: Collection[str]) -> bool:
    """Whether the pipeline uses this library's registry, with a root in `roots`; "" stands for the run's place."""
    has_both = all(name in spec.parameters for name in _REGISTRY_PARAMETERS)
    return has_both and spec.defaults.get(_REGISTRY_PARAMETERS[0]) in roots


def with_defaults(spec: PipelineSpec, changed: Callable[[Mapping[str, object]], Mapping[str, object]]) -> PipelineSpec:
    """Returns the spec with the defaults that `changed` returns; the spec itself if they are unchanged."""
    values = changed(spec.defaults)
    if values == spec.defaults:
        return spec
    content = copy.deepcopy(dict(spec.content))
    declared = content["root"]["inputDefinitions"]["parameters"]
    for name in spec.defaults:
        if values[name] != spec.defaults[name]:
            declared[name]["defaultValue"] = values[name]
    return PipelineSpec(content)


# Vertex AI looks a step up by its pipeline's name, the values of its parameters, the ids of its input artifacts, its
# outputs, image, command, arguments and environment; entries never expire. A text that names a bucket is the same text
# when the bucket holds other data, so a step that reads one would be a hit for ever, and all that come after it. Only a
# step whose inputs are pinned is a function of them, and its author marks it: `target.step(component, pinned=True)`.
# https://cloud.google.com/vertex-ai/docs/pipelines/configure-caching
#: The cache key of pinned tasks between their call and `as_pinned`: kfp asks for the cache for every other task, too.
PINNED = "pinned"


def as_pinned(spec: PipelineSpec, *, otherwise: bool) -> PipelineSpec:
    """Returns the compiled spec with the cache for pinned tasks only.

    `otherwise`: whether all tasks of a spec without a pinned one are cached.
    """
    if otherwise and not any(map(_is_pinned, _list_tasks(spec))):
        return spec
    return _set_caching(spec, _is_pinned)


def switch_cache(spec: PipelineSpec, enabled: bool) -> PipelineSpec:
    """Returns the spec with the cache on or off for every task, in all its DAGs."""
    return _set_caching(spec, lambda task: enabled)


def list_cached_tasks(spec: PipelineSpec) -> list[str]:
    """Returns the names of the tasks that may use results of earlier runs."""
    return sorted({task.name for task in _list_tasks(spec) if task.is_cached})


def pins_first(spec: PipelineSpec) -> bool:
    """Whether every cached task follows one that runs in every run and detects changes.

    A cached task without one would have constant inputs: it would run once, and then always be a cache hit.
    """
    return all(after for task, after in _walk_with_runs(spec.root, False, 0) if task.is_cached)


def _walk_with_runs(group: Component, always_runs: bool, depth: int) -> Iterator[tuple[Task, bool]]:
    """Yields every task that does work, with whether a task before it runs in every run."""
    after: dict[str, bool] = {}
    for name, task in group.tasks.items():
        before = always_runs or any(after.get(other, False) for other in task.dependencies)
        if not task.component.is_group:
            after[name] = before or not task.is_cached
            yield task, before
        elif depth < _MAX_NESTING:
            inside = list(_walk_with_runs(task.component, before, depth + 1))
            after[name] = before or any(not inner.is_cached for inner, _ in inside)
            yield from inside


def _is_pinned(task: Task) -> bool:
    return task.is_cached and table(task.content, "cachingOptions").get("cacheKey") == PINNED


def _set_caching(spec: PipelineSpec, enabled: Callable[[Task], bool]) -> PipelineSpec:
    changed = PipelineSpec(copy.deepcopy(spec.content))
    for task in _list_tasks(changed):
        if isinstance(task.content, dict):
            options: JsonObject = {"enableCache": True} if enabled(task) else {}
            task.content["cachingOptions"] = options
    return changed


def _list_tasks(spec: PipelineSpec) -> Iterator[Task]:
    for component in (spec.root, *spec.components.values()):
        yield from component.tasks.values()
