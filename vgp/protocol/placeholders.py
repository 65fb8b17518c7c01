"""Texts that Kubeflow Pipelines puts others in place of wherever it finds them, within a parameter's value too.

{{$.pipeline_job_uuid}} becomes a number, {{$.inputs.parameters["task"]}} another parameter, /kfp-workspace a folder.
An author writes them in a pipeline's code. A value that comes from outside is taken as it is, or refused.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

# ---- the name that stands in a component for the one image of the steps

#: The configured `image` of pipelines.toml takes its place when a pipeline is compiled: no image can be called so.
IMAGE = "<image of pipelines.toml>"


_REPLACED = re.compile(r"\{\{\$|/kfp-workspace")
RULE = (
    "holds a placeholder, {{$...}} or /kfp-workspace: Kubeflow Pipelines would put another text in its place. "
    "Write the text itself; placeholders belong into the pipeline's code."
)


def within(value: object) -> bool:
    """Whether a text in `value` would be replaced."""
    return any(_REPLACED.search(text) for text in texts(value))


def texts(value: object) -> Iterator[str]:
    """Every text of a JSON value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        inner: Iterable[object] = [*value, *value.values()] if isinstance(value, Mapping) else value
        for each in inner:
            yield from texts(each)
