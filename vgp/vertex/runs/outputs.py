"""What the steps of a run left: artifacts, metrics, and the values that they returned.

Google keeps them in ML Metadata and repeats them in the run: artifacts in `outputs`, returned values as
`output:NAME` in the metadata of the step's execution.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from vgp.vertex import names
from vgp.vertex.runs.state import Run, whole
from vgp.vertex.runs.steps import Step

#: Types whose metadata are metrics; the google.* ones are of Google's own components.
_METRICS = (
    "system.Metrics", "system.ClassificationMetrics", "system.SlicedClassificationMetrics",
    "google.ClassificationMetrics", "google.RegressionMetrics", "google.ForecastingMetrics",
)  # fmt: skip
_OUTPUT = "output:"
#: Google's components tell here which jobs they started: no result.
_NO_RESULT = ("gcp_resources",)


@dataclass(frozen=True)
class Artifact:
    """An output of a step. `metadata` is JSON."""

    step: str
    name: str
    type: str
    uri: str
    #: Its resource name in ML Metadata.
    resource: str
    metadata: Mapping[str, Any]

    @property
    def url(self) -> str:
        """Its page in the console."""
        parts = self.resource.split("/")
        if len(parts) != 8:
            return ""
        page = f"vertex-ai/locations/{parts[3]}/metadata-stores/{quote(parts[5])}/artifacts/{quote(parts[7])}"
        return f"https://console.cloud.google.com/{page}?project={quote(parts[1])}"


def artifacts(run: Run) -> list[Artifact]:
    """The artifacts of all steps, in DAG order."""
    return [artifact for step in run.steps for artifact in _artifacts(step)]


def metrics(run: Run) -> dict[str, Any]:
    """`evaluate.auc` -> value: every scalar of the metrics artifacts; curves and matrices are left out.

    Where two artifacts of a step have the same metric, its name holds theirs: evaluate.challenger.auc.
    """
    scalars: dict[str, Any] = {}
    for step in run.steps:
        rows = [
            (artifact.name, key, value)
            for artifact in _artifacts(step)
            if artifact.type in _METRICS
            for key, value in sorted(artifact.metadata.items())
            if isinstance(value, bool | int | float | str)
        ]
        keys = [key for _, key, _ in rows]
        scalars |= {
            f"{step.name}.{key}" if keys.count(key) == 1 else f"{step.name}.{name}.{key}": value
            for name, key, value in rows
        }
    return scalars


def returned(run: Run) -> dict[str, Any]:
    """`evaluate.Output` -> value: what the steps returned."""
    return {
        f"{step.name}.{key}": value
        for step in run.steps
        for key, value in values(step).items()
        if key not in _NO_RESULT and value is not None
    }


def values(step: Step) -> dict[str, Any]:
    """The values that a step returned, by name."""
    if step.detail is None:
        return {}
    metadata = sorted(_json(step.detail.execution).items())
    return {key.removeprefix(_OUTPUT): value for key, value in metadata if key.startswith(_OUTPUT)}


def _artifacts(step: Step) -> list[Artifact]:
    if step.detail is None:
        return []
    return [
        Artifact(step.name, name, artifact.schema_title, artifact.uri, artifact.name, _json(artifact))
        for name, output in sorted(step.detail.outputs.items())
        for artifact in output.artifacts
    ]


def _json(message: Any) -> dict[str, Any]:
    """The metadata of an artifact or execution."""
    from google.protobuf import json_format

    return dict(whole(json_format.MessageToDict(type(message).pb(message).metadata)))


def short_type(title: str) -> str:
    """system.Dataset -> Dataset, google.VertexModel -> VertexModel."""
    return names.short(title).rsplit(".", 1)[-1]
