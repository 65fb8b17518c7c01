"""Whether the steps of a compiled pipeline take results of earlier runs.

Vertex AI looks a step up by its pipeline's name, the values of its parameters, the ids of its input artifacts, its
outputs, image, command, arguments and environment; entries never expire. A text that names a bucket is the same text
when the bucket holds other data, so a step that reads one would be a hit for ever, and all that come after it.
https://cloud.google.com/vertex-ai/docs/pipelines/configure-caching
"""

import copy
from collections.abc import Iterator
from typing import Any

from vgp.spec.dag import Task
from vgp.spec.pipeline_spec import PipelineSpec


def switched(spec: PipelineSpec, enabled: bool) -> PipelineSpec:
    """The spec with the cache switched on or off for every task, in all its DAGs."""
    changed = PipelineSpec(copy.deepcopy(spec.content))
    options: dict[str, Any] = {"enableCache": True} if enabled else {}
    for task in _tasks(changed):
        if isinstance(task.content, dict):
            task.content["cachingOptions"] = dict(options)
    return changed


def cached(spec: PipelineSpec) -> list[str]:
    """The tasks that may take results of earlier runs, by name."""
    return sorted({task.name for task in _tasks(spec) if task.is_cached})


def _tasks(spec: PipelineSpec) -> Iterator[Task]:
    for component in (spec.root, *spec.components.values()):
        yield from component.tasks.values()
