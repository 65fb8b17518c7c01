"""Everything about a run as one JSON document: what `show`, `wait` and `compare` tell with --json."""

from datetime import datetime
from typing import Any

from vgp.base.text.times import rfc3339
from vgp.settings import Settings
from vgp.vertex import names
from vgp.vertex.runs import cost, outputs
from vgp.vertex.runs.cost import Rows
from vgp.vertex.runs.state import Run
from vgp.vertex.runs.steps import Step


def brief(settings: Settings, run: Run, now: datetime) -> dict[str, Any]:
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
        "schedule": names.short(run.job.schedule_name),
        "name": run.name,
        "url": names.run_link(settings, run.id),
    }


def as_json(settings: Settings, run: Run, rows: Rows, now: datetime) -> dict[str, Any]:
    """The whole run. Dollars are an estimate by list prices; null where a price is not known.

    `words`, `nothing_new`, `since` and `decision` are those of the run's summary: docs/notifications.md.
    `ladders` are the ways up: docs/capacity.md; what their machines cost is in `usd`.
    `usd` is the sum of the steps that have a price: without those of `unpriced`. `usd_at_most` is a bound, or null.
    """
    spent, most = cost.so_far(run, rows, now), cost.at_most(run, rows)
    return {
        **brief(settings, run, now),
        "words": run.summary.words,
        "nothing_new": run.summary.nothing_new,
        "since": run.summary.since,
        "decision": run.summary.decision,
        "usd": round(spent.usd, 4),
        "usd_at_most": None if most.unpriced else round(most.usd, 4),
        "price_dates": cost.price_dates(rows),
        "unpriced": list(dict.fromkeys([*spent.unpriced, *most.unpriced])),
        "template": {"uri": run.job.template_uri, "version": run.job.template_metadata.version},
        "pipeline_root": run.job.runtime_config.gcs_output_directory,
        "service_account": run.job.service_account,
        "ladders": [way.as_json() for way in run.ways],
        "steps": [_step(step, rows, now) for step in run.steps],
        "parameters": parameters(run),
        "metrics": outputs.metrics(run),
        "outputs": outputs.returned(run),
        "artifacts": [_artifact(artifact) for artifact in outputs.artifacts(run)],
    }


def parameters(run: Run) -> dict[str, dict[str, Any]]:
    """Name -> value in this run, default, and whether they differ."""
    rows = {}
    for name in sorted({*run.spec.parameters, *run.arguments}):
        default = run.spec.defaults.get(name)
        value = run.arguments.get(name, default)
        rows[name] = {"value": value, "default": default, "differs": name in run.arguments and value != default}
    return rows


def _step(step: Step, rows: Rows, now: datetime) -> dict[str, Any]:
    spent = cost.spent(step, rows, now)
    return {
        "step": step.name,
        "state": step.state,
        "started": rfc3339(step.start),
        "ended": rfc3339(step.end),
        "seconds": _rounded(step.seconds(now)),
        "machines": [row.as_json() for row in cost.of(step, rows)],
        "usd": None if spent is None else round(spent, 4),
        "custom_jobs": list(step.jobs),
        "error": step.error,
    }


def _artifact(artifact: outputs.Artifact) -> dict[str, Any]:
    names_ = ("step", "name", "type", "uri", "url", "metadata")
    return {name: getattr(artifact, name) for name in names_}


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
