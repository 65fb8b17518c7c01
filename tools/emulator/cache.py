"""The key of Vertex AI's cache of step results. Entries never expire.

https://cloud.google.com/vertex-ai/docs/pipelines/configure-caching lists its parts: the pipeline's name, values of
parameters, ids of input artifacts, names of outputs, image, command, arguments and environment. Not on that list, and
not in the key: the name of the step, its machine, its retries, the run, the schedule, labels and time.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from .wiring import UNKNOWN


def cache_key(
    pipeline: str,
    executor: Mapping[str, Any],
    component: Mapping[str, Any],
    parameters: Mapping[str, Any],
    artifacts: Iterable[tuple[str, Any]],
) -> str:
    """Returns the key of a step. `artifacts` are the names of inputs with artifact ids, which differ in every run."""
    declared = component.get("inputDefinitions", {}).get("parameters", {})
    # A default is a value too: Google's custom-job components carry the whole job as one.
    defaults = {name: part["defaultValue"] for name, part in declared.items() if "defaultValue" in part}
    known = {name: "?" if value is UNKNOWN else value for name, value in {**defaults, **parameters}.items()}
    outputs = {kind: sorted(names) for kind, names in component.get("outputDefinitions", {}).items()}
    text = json.dumps([pipeline, work(executor), known, sorted(artifacts), outputs], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def work(executor: Mapping[str, Any]) -> Any:
    """Returns a container without its machine; any other executor unchanged."""
    if "container" not in executor:
        return executor
    return {key: executor["container"].get(key) for key in ("image", "command", "args", "env")}
