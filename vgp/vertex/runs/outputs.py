"""The outputs of a run's steps: artifacts, metrics and return values; a run as JSON.

They are in the run's task details: artifacts in `outputs`, return values as `output:NAME` in the metadata of the
step's execution.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

from vgp.base.documents.json_text import JsonObject
from vgp.base.text.times import rfc3339
from vgp.settings import Settings
from vgp.vertex import resource_names
from vgp.vertex.runs import run_cost, run_overhead
from vgp.vertex.runs.remote_run import Run, Step, restore_integers
from vgp.vertex.runs.run_cost import Rows

#: Types whose metadata are metrics; those of Google's components begin with `google.`.
_METRICS = (
    "system.Metrics", "system.ClassificationMetrics", "system.SlicedClassificationMetrics",
    "google.ClassificationMetrics", "google.RegressionMetrics", "google.ForecastingMetrics",
)  # fmt: skip
_OUTPUT = "output:"
#: Outputs that are not results: the list of jobs that a step of Google's components has started.
_NO_RESULT = ("gcp_resources",)


@dataclass(frozen=True)
class Artifact:
    """An output artifact of a step."""

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
        """Returns the link to its page in the console, or an empty text."""
        parts = self.resource.split("/")
        if len(parts) != 8:
            return ""
        page = f"vertex-ai/locations/{parts[3]}/metadata-stores/{quote(parts[5])}/artifacts/{quote(parts[7])}"
        return f"https://console.cloud.google.com/{page}?project={quote(parts[1])}"


def artifacts(run: Run) -> list[Artifact]:
    """Returns the artifacts of all steps, in DAG order."""
    return [artifact for step in run.steps for artifact in _list_artifacts(step)]


def metrics(run: Run) -> JsonObject:
    """Returns the scalar metrics by STEP.METRIC, such as evaluate.auc, without curves and matrices.

    If two artifacts of a step have a metric of one name, its key has the artifact's name: evaluate.challenger.auc.
    """
    scalars: JsonObject = {}
    for step in run.steps:
        rows = [
            (artifact.name, key, value)
            for artifact in _list_artifacts(step)
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


def return_values(run: Run) -> JsonObject:
    """Returns the values that the steps returned, by STEP.NAME, such as evaluate.Output."""
    return {
        f"{step.name}.{key}": value
        for step in run.steps
        for key, value in step_values(step).items()
        if key not in _NO_RESULT and value is not None
    }


def step_values(step: Step) -> JsonObject:
    """Returns the values that a step returned, by name."""
    if step.detail is None:
        return {}
    metadata = sorted(_json(step.detail.execution).items())
    return {key.removeprefix(_OUTPUT): value for key, value in metadata if key.startswith(_OUTPUT)}


def _list_artifacts(step: Step) -> list[Artifact]:
    if step.detail is None:
        return []
    return [
        Artifact(step.name, name, artifact.schema_title, artifact.uri, artifact.name, _json(artifact))
        for name, output in sorted(step.detail.outputs.items())
        for artifact in output.artifacts
    ]


def _json(message: Any) -> JsonObject:
    """Returns the metadata of an artifact or execution."""
    from google.protobuf import json_format

    return dict(restore_integers(json_format.MessageToDict(type(message).pb(message).metadata)))


def short_type(title: str) -> str:
    """Returns the last part of a type: Dataset for system.Dataset."""
    return resource_names.short(title).rsplit(".", 1)[-1]


def brief_report(settings: Settings, run: Run, now: datetime) -> JsonObject:
    """Returns a run as JSON, for the list of `vgp runs`."""
    return {
        "id": run.id,
        "state": run.state,
        "pipeline": run.pipeline or run.labels.get("pipeline", ""),
        "display_name": run.display_name,
        "created": rfc3339(run.created),
        "started": rfc3339(run.started),
        "ended": rfc3339(run.ended),
        "seconds": _round(run.seconds(now)),
        "error": run.error,
        "labels": dict(run.labels),
        "schedule": resource_names.short(run.job.schedule_name),
        "name": run.name,
        "url": resource_names.run_link(settings, run.id),
    }


def report_json(settings: Settings, run: Run, rows: Rows, now: datetime) -> JsonObject:
    """Returns a run with its steps and outputs as JSON.

    `words`, `nothing_new`, `since` and `decision` are from the run's summary: docs/how-to/alerts.md. `usd` is an
    estimate from list prices, without the steps in `unpriced`; it includes the machines of `ladders`.
    `usd_at_most` is a limit, or null if a price is unknown.
    """
    spent, most = run_cost.sum_costs(run, rows, now), run_cost.cost_limit(run, rows)
    return {
        **brief_report(settings, run, now),
        "overhead_s": _round(run_overhead.measure(run)),
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
        "outputs": return_values(run),
        "artifacts": [artifact.as_json() for artifact in artifacts(run)],
    }


def parameters(run: Run) -> dict[str, JsonObject]:
    """Returns the value in this run, the default, and whether they differ, by parameter."""
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
        "seconds": _round(step.seconds(now)),
        "machines": [row.as_json() for row in run_cost.step_rows(step, rows)],
        "usd": None if spent is None else round(spent, 4),
        "custom_jobs": list(step.jobs),
        "error": step.error,
    }


def _round(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
