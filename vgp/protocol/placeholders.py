"""Texts that Kubeflow Pipelines replaces wherever it finds them, also within a parameter's value.

{{$.pipeline_job_uuid}} becomes a number, {{$.inputs.parameters["task"]}} another parameter, /kfp-workspace a folder.
Placeholders belong in a pipeline's code; a placeholder in a parameter's value is refused.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

#: Replaced by `image` of pipelines.toml at compile time; not a valid image name.
IMAGE = "<image of pipelines.toml>"


_REPLACED = re.compile(r"\{\{\$|/kfp-workspace")
RULE = (
    "holds a placeholder, {{$...}} or /kfp-workspace: Kubeflow Pipelines would replace it. "
    "Write the text itself; placeholders belong in the pipeline's code."
)


def within(value: object) -> bool:
    """Whether `value` contains a text that Kubeflow Pipelines replaces."""
    return any(_REPLACED.search(text) for text in texts(value))


def texts(value: object) -> Iterator[str]:
    """Yields all texts of a JSON value, including keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        inner: Iterable[object] = [*value, *value.values()] if isinstance(value, Mapping) else value
        for item in inner:
            yield from texts(item)
