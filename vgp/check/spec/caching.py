"""Whether the steps of a compiled pipeline take results of earlier runs.

Vertex AI looks a step up by its pipeline's name, the values of its parameters, the ids of its input artifacts, its
outputs, image, command, arguments and environment; entries never expire. A text that names a bucket is the same text
when the bucket holds other data, so a step that reads one would be a hit for ever, and all that come after it. Only a
step whose inputs are pinned is a function of them, and its author says so: `target.step(component, pinned=True)`.
https://cloud.google.com/vertex-ai/docs/pipelines/configure-caching
"""

import copy
from collections.abc import Callable, Iterator
from typing import Any

from vgp.check.spec.dag import Component, Task, table
from vgp.check.spec.pipeline_spec import PipelineSpec

#: The cache key of pinned tasks between their call and `as_pinned`: kfp asks for the cache for every other task, too.
PINNED = "pinned"
#: More than Google runs; a spec whose components contain each other would have no end.
_MAX_NESTING = 50


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
            options: dict[str, Any] = {"enableCache": True} if enabled(task) else {}
            task.content["cachingOptions"] = options
    return changed


def _tasks(spec: PipelineSpec) -> Iterator[Task]:
    for component in (spec.root, *spec.components.values()):
        yield from component.tasks.values()
