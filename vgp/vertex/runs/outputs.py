"""What the steps of a run left: artifacts, metrics, and the values that they returned; all about a run as JSON.

Google keeps them in ML Metadata and repeats them in the run: artifacts in `outputs`, returned values as
`output:NAME` in the metadata of the step's execution.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

from vgp.base.documents.json_text import JsonObject
from vgp.base.text.times import rfc3339
from vgp.settings import Settings
from vgp.vertex import resource_names
from vgp.vertex.runs import run_cost
from vgp.vertex.runs.remote_run import Run, Step, whole
from vgp.vertex.runs.run_cost import Rows

#: Types whose metadata are metrics; the google.* ones are of Google's own components.
_METRICS = (
    "system.Metrics", "system.ClassificationMetrics", "system.SlicedClassificationMetrics",
    "google.ClassificationMetrics", "google.RegressionMetrics", "google.ForecastingMetrics",
)  # fmt: skip
_OUTPUT = "output:"
#: Google's components list the jobs they started under this name; it is not a result.
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
    metadata: JsonObject

    def as_json(self) -> JsonObject:
        return {name: getattr(self, name) for name in ("step", "name", "type", "uri", "url", "metadata")}

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


def metrics(run: Run) -> JsonObject:
    """`evaluate.auc` -> value: every scalar of the metrics artifacts; curves and matrices are left out.

    Where two artifacts of a step have the same metric, its name holds theirs: evaluate.challenger.auc.
    """
    scalars: JsonObject = {}
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


def returned(run: Run) -> JsonObject:
    """`evaluate.Output` -> value: what the steps returned."""
    return {
        f"{step.name}.{key}": value
        for step in run.steps
        for key, value in values(step).items()
        if key not in _NO_RESULT and value is not None
    }


def values(step: Step) -> JsonObject:
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


def _json(message: Any) -> JsonObject:
    """The metadata of an artifact or execution."""
    from google.protobuf import json_format

    return dict(whole(json_format.MessageToDict(type(message).pb(message).metadata)))


def short_type(title: str) -> str:
    """system.Dataset -> Dataset, google.VertexModel -> VertexModel."""
    return resource_names.short(title).rsplit(".", 1)[-1]


def brief_report(settings: Settings, run: Run, now: datetime) -> JsonObject:
    """A row of `vgp runs`."""
    return {
        "id": run.id,
        "state": run.state,
        "pipeline": run.pipeline or run.labels.get("pipeline", ""),
        "display_name": run.display_name,
        "created": rfc3339(run.created),
        "started": rfc3339(run.started),
        "ended": rfc3339(run.ended),
        "seconds": _rounded(run.seconds(now)),
        "error": run.error,
        "labels": dict(run.labels),
        "schedule": resource_names.short(run.job.schedule_name),
        "name": run.name,
        "url": resource_names.run_link(settings, run.id),
    }


def report_json(settings: Settings, run: Run, rows: Rows, now: datetime) -> JsonObject:
    """The whole run. Dollars are an estimate by list prices; null where a price is not known.

    `words`, `nothing_new`, `since` and `decision` are those of the run's summary: docs/how-to/alerts.md.
    `ladders` are the ways up: docs/explanation/how-capacity-is-chosen.md; what their machines cost is in `usd`.
    `usd` is the sum of the steps that have a price: without those of `unpriced`. `usd_at_most` is a bound, or null.
    """
    spent, most = run_cost.sum_costs(run, rows, now), run_cost.cost_limit(run, rows)
    return {
        **brief_report(settings, run, now),
        "words": run.summary.words,
        "nothing_new": run.summary.nothing_new,
        "since": run.summary.since,
        "decision": run.summary.decision,
        "usd": round(spent.usd, 4),
        "usd_at_most": None if most.unpriced else round(most.usd, 4),
        "price_dates": run_cost.price_dates(rows),
        "unpriced": list(dict.fromkeys([*spent.unpriced, *most.unpriced])),
        "template": {"uri": run.job.template_uri, "version": run.job.template_metadata.version},
        "pipeline_root": run.job.runtime_config.gcs_output_directory,
        "service_account": run.job.service_account,
        "ladders": [way.as_json() for way in run.ways],
        "steps": [_step_report(step, rows, now) for step in run.steps],
        "parameters": parameters(run),
        "metrics": metrics(run),
        "outputs": returned(run),
        "artifacts": [artifact.as_json() for artifact in artifacts(run)],
    }


def parameters(run: Run) -> dict[str, JsonObject]:
    """Name -> value in this run, default, and whether they differ."""
    rows = {}
    for name in sorted({*run.spec.parameters, *run.arguments}):
        default = run.spec.defaults.get(name)
        value = run.arguments.get(name, default)
        rows[name] = {"value": value, "default": default, "differs": name in run.arguments and value != default}
    return rows


def _step_report(step: Step, rows: Rows, now: datetime) -> JsonObject:
    spent = run_cost.step_cost(step, rows, now)
    return {
        "step": step.name,
        "state": step.state,
        "started": rfc3339(step.start),
        "ended": rfc3339(step.end),
        "seconds": _rounded(step.seconds(now)),
        "machines": [row.as_json() for row in run_cost.step_rows(step, rows)],
        "usd": None if spent is None else round(spent, 4),
        "custom_jobs": list(step.jobs),
        "error": step.error,
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
