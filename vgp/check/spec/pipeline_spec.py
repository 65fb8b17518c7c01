r"""A compiled pipeline, read once: what a spec says, its one textual form, its defaults, and which steps are cached.

https://github.com/kubeflow/pipelines/blob/master/api/v2alpha1/pipeline_spec.proto

Vertex's SDK and its template registry read YAML 1.1, to which 1e-05 is a text and \ud83d\ude00 two broken characters:
written as 1.0e-05 and as the character itself, both are the same in JSON and in YAML.
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


def as_text(value: object, kept: object = None) -> str:
    """Returns the text of a JSON value, keys in order, but for those of the table `kept`, which stay as they are."""
    return _STRING_OR_EXPONENT.sub(_as_yaml, json.dumps(_sorted(value, kept), indent=2)) + "\n"


def _sorted(value: object, kept: object) -> Any:
    if isinstance(value, Mapping):
        return {key: _sorted(value[key], kept) for key in (value if value is kept else sorted(value))}
    return [_sorted(member, kept) for member in value] if isinstance(value, list) else value


def _as_yaml(match: re.Match[str]) -> str:
    if match["whole"]:
        return f"{match['whole']}.0{match['exponent']}"
    return _ESCAPE.sub(lambda escape: json.loads(f'"{escape[0]}"') if escape["pair"] else escape[0], match[0])


#: More than Google runs; a spec whose components contain each other would have no end.
_MAX_NESTING = 50


@dataclass(frozen=True)
class Step:
    """A task that does work. Its name is the task's, or the way to it where another step has that name."""

    name: str
    path: str
    task: Task


@dataclass(frozen=True)
class PipelineSpec:
    """The JSON of a spec and what it says."""

    content: JsonView

    @classmethod
    def read(cls, path: Path) -> "PipelineSpec":
        """Raises ValueError or OSError: the file holds no JSON object."""
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError(f"{path} holds no JSON object")
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
        """The parameters that have a value if none is given."""
        return {name: parameter.default for name, parameter in self.parameters.items() if parameter.has_default}

    @cached_property
    def root(self) -> Component:
        return Component("root", table(self.content, "root"), table(self.content, "components"))

    @cached_property
    def components(self) -> dict[str, Component]:
        """All components but the root, by name."""
        known = table(self.content, "components")
        return {name: Component(name, table(known, name), known) for name in known}

    def walk(self) -> Iterator[tuple[str, Task]]:
        """Every task with the way to it, `for-loop-1/train`: groups before what is in them, producers first."""
        yield from _walk(self.root, "", 0)

    @cached_property
    def steps(self) -> list[Step]:
        """The tasks that do work, in DAG order."""
        names: dict[str, str] = {}
        for path, name in _written(self.root, "", 0):  # in the order of the document, as the checker names them
            names[path] = path if name in names.values() else name
        return [Step(names[path], path, task) for path, task in self.walk() if not task.component.is_group]

    @property
    def executors(self) -> dict[str, JsonView]:
        """By label."""
        executors = table(self.content, "deploymentSpec", "executors")
        return {label: table(executors, label) for label in executors}

    def executor(self, task: Task | Component) -> JsonView:
        """What runs a step: its container, or what else an executor may be; empty for a group."""
        component = task.component if isinstance(task, Task) else task
        return self.executors.get(component.executor, {})

    @property
    def containers(self) -> dict[str, JsonView]:
        """The container of every executor that is one, by the name of its component."""
        return {
            label.removeprefix("exec-"): table(executor, "container")
            for label, executor in self.executors.items()
            if "container" in executor
        }

    @cached_property
    def text(self) -> str:
        """The one textual form: what is compared, committed and uploaded.

        The parameters stay in their order, which is that of the form that people fill in.
        """
        return as_text(self.content, kept=table(self.content, "root", "inputDefinitions", "parameters"))

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the text, in hex."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def with_defaults(self, values: Mapping[str, object]) -> "PipelineSpec":
        """The spec with these values as the defaults of its parameters."""
        content = json.loads(json.dumps(self.content))
        for name, value in values.items():
            content["root"]["inputDefinitions"]["parameters"][name]["defaultValue"] = value
        return PipelineSpec(content)


def _written(group: Component, way: str, depth: int) -> Iterator[tuple[str, str]]:
    """Way and name of every step, in the order in which the document holds them."""
    for name in table(group.content, "dag", "tasks"):
        component = group.tasks[name].component
        if not component.is_group:
            yield f"{way}{name}", name
        elif depth < _MAX_NESTING:
            yield from _written(component, f"{way}{group.tasks[name].way}", depth + 1)


def _walk(group: Component, way: str, depth: int) -> Iterator[tuple[str, Task]]:
    for name, task in group.tasks.items():
        yield f"{way}{name}", task
        if depth < _MAX_NESTING:
            yield from _walk(task.component, f"{way}{task.way}", depth + 1)


#: A pipeline with both parameters uses our registry of models: vgp/registry.
_OF_A_REGISTRY = ("registry", "model_name")


@dataclass(frozen=True)
class Places:
    """Where a run writes, and the root of the registry of models; "" leaves it open."""

    runs: str = ""
    registry: str = ""


def with_places(spec: PipelineSpec, places: Places) -> PipelineSpec:
    """The spec with the places as its defaults: a run that the console starts with another folder for its output has
    the same registry.
    """
    if places.registry and registry_is(spec, [""]):
        spec = spec.with_defaults({_OF_A_REGISTRY[0]: places.registry})
    return PipelineSpec({**spec.content, "defaultPipelineRoot": places.runs}) if places.runs else spec


def registry_is(spec: PipelineSpec, roots: Collection[str]) -> bool:
    """Whether the pipeline uses our registry of models, and its default is one of `roots`; "" is the run's place."""
    has_both = all(name in spec.parameters for name in _OF_A_REGISTRY)
    return has_both and spec.defaults.get(_OF_A_REGISTRY[0]) in roots


def with_defaults(spec: PipelineSpec, changed: Callable[[Mapping[str, object]], Mapping[str, object]]) -> PipelineSpec:
    """The spec with the defaults that `changed` makes of its own; the same one where it leaves them as they are."""
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
# step whose inputs are pinned is a function of them, and its author says so: `target.step(component, pinned=True)`.
# https://cloud.google.com/vertex-ai/docs/pipelines/configure-caching
#: The cache key of pinned tasks between their call and `as_pinned`: kfp asks for the cache for every other task, too.
PINNED = "pinned"


def as_pinned(spec: PipelineSpec, *, otherwise: bool) -> PipelineSpec:
    """The spec that kfp compiled, with the cache for pinned tasks and for no other.

    `otherwise`: whether all tasks of a spec without a pinned one have it.
    """
    if otherwise and not any(map(_is_pinned, _tasks(spec))):
        return spec
    return _changed(spec, _is_pinned)


def switched(spec: PipelineSpec, enabled: bool) -> PipelineSpec:
    """The spec with the cache switched on or off for every task, in all its DAGs."""
    return _changed(spec, lambda task: enabled)


def cached(spec: PipelineSpec) -> list[str]:
    """The tasks that may take results of earlier runs, by name."""
    return sorted({task.name for task in _tasks(spec) if task.is_cached})


def pins_first(spec: PipelineSpec) -> bool:
    """Whether every task that may take earlier results comes after one that runs anew, which tells what moves.

    A task of which this is not so has the same inputs every night: it would run once, and be a hit for ever.
    """
    return all(after for task, after in _walked(spec.root, False, 0) if task.is_cached)


def _walked(group: Component, anew: bool, depth: int) -> Iterator[tuple[Task, bool]]:
    """Every task that does work, with whether one before it runs in every run."""
    after: dict[str, bool] = {}
    for name, task in group.tasks.items():
        before = anew or any(after.get(other, False) for other in task.dependencies)
        if not task.component.is_group:
            after[name] = before or not task.is_cached
            yield task, before
        elif depth < _MAX_NESTING:
            inside = list(_walked(task.component, before, depth + 1))
            after[name] = before or any(not inner.is_cached for inner, _ in inside)
            yield from inside


def _is_pinned(task: Task) -> bool:
    return task.is_cached and table(task.content, "cachingOptions").get("cacheKey") == PINNED


def _changed(spec: PipelineSpec, enabled: Callable[[Task], bool]) -> PipelineSpec:
    changed = PipelineSpec(copy.deepcopy(spec.content))
    for task in _tasks(changed):
        if isinstance(task.content, dict):
            options: JsonObject = {"enableCache": True} if enabled(task) else {}
            task.content["cachingOptions"] = options
    return changed


def _tasks(spec: PipelineSpec) -> Iterator[Task]:
    for component in (spec.root, *spec.components.values()):
        yield from component.tasks.values()
