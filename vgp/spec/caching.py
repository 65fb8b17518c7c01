"""Whether the steps of a compiled pipeline take results of earlier runs.

Vertex AI looks a step up by its pipeline's name, the values of its parameters, the ids of its input artifacts, its
outputs, image, command, arguments and environment; entries never expire. A text that names a bucket is the same text
when the bucket holds other data, so a step that reads one would be a hit for ever, and all that come after it.
https://cloud.google.com/vertex-ai/docs/pipelines/configure-caching
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any


def switched(spec: Mapping[str, Any], enabled: bool) -> dict[str, Any]:
    """The spec with the cache switched on or off for every task, in all its DAGs."""
    copied: dict[str, Any] = json.loads(json.dumps(spec))
    for _, task in _tasks(copied):
        task["cachingOptions"] = {"enableCache": True} if enabled else {}
    return copied


def cached(spec: Mapping[str, Any]) -> list[str]:
    """The tasks that may take results of earlier runs, by name."""
    return sorted({name for name, task in _tasks(spec) if _enabled(task)})


def _enabled(task: Mapping[str, Any]) -> bool:
    options = task.get("cachingOptions")
    return isinstance(options, dict) and bool(options.get("enableCache"))


def _tasks(spec: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every task with its name. A live spec may be anything: what is no task is passed over."""
    components = spec.get("components")
    for component in [spec.get("root"), *(components.values() if isinstance(components, dict) else ())]:
        dag = component.get("dag") if isinstance(component, dict) else None
        tasks = dag.get("tasks") if isinstance(dag, dict) else None
        for name, task in tasks.items() if isinstance(tasks, dict) else ():
            if isinstance(task, dict):
                yield name, task
