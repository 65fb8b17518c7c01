"""Whether the project's quotas cover what the steps ask for, by the Cloud Quotas API.

A limit says what the project may use at a time, not what is free now: that other jobs use it up is not seen.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from vgp.base.text.figures import listed
from vgp.check.check_finding import StepRow
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.settings import Settings
from vgp.vertex import clients
from vgp.vertex.preflight.account import Project
from vgp.vertex.preflight.needs import Need, needs, short
from vgp.vertex.preflight.preflight_questions import Finding, Question, patience

#: Names of rungs, and of each the quotas, metric and region, that do not cover it.
_Rungs = Mapping[str, set[tuple[str, str]]]
_SERVICE = "aiplatform.googleapis.com"


def questions(settings: Settings, project: Project, steps: Sequence[StepRow], spec: PipelineSpec) -> Iterator[Question]:
    yield Question("quota.limit", project.id, lambda: _limits(settings, project, needs(steps, spec), steps))


def _limits(
    settings: Settings, project: Project, needed: Sequence[Need], steps: Sequence[StepRow]
) -> Iterator[Finding]:
    """https://cloud.google.com/docs/quotas/reference/rest/v1/projects.locations.services.quotaInfos/list"""
    parent = f"projects/{project.id}/locations/global/services/{_SERVICE}"
    listed = clients.quotas(settings).list_quota_infos(parent=parent, **patience())
    by_metric: dict[str, list[Any]] = {need.metric: [] for need in needed}
    for info in listed:
        if info.metric in by_metric:
            by_metric[info.metric].append(info)
    limits = {(need.metric, need.region): _least(need, by_metric[need.metric]) for need in needed}
    least = {quota: found[0] for quota, found in limits.items() if found and found[0] >= 0}
    others = {row.step: kept for row in steps if (kept := _refused(row, least))}
    for need in needed:
        yield _judged(need, limits[need.metric, need.region], others.get(need.largest, {}), project)


def _refused(row: StepRow, limits: Mapping[tuple[str, str], int]) -> _Rungs:
    """The rungs of a step's ladder with the quotas that do not cover them, if another rung can start; else nothing."""
    own, *rungs = short(row, limits).items()
    return {} if own[1] or all(quotas for _, quotas in rungs) else {rung: quotas for rung, quotas in rungs if quotas}


def _least(need: Need, infos: Sequence[Any]) -> tuple[int, str] | None:
    """The least limit of a quota in its region, and the quota's id."""
    found = [(value, info.quota_id) for info in infos if (value := limit(info, need.region)) is not None]
    return min(found, default=None)


def _judged(need: Need, least: tuple[int, str] | None, refused: _Rungs, project: Project) -> Finding:
    subject = f"{need.metric.rsplit('/', 1)[-1]} in {need.region}"
    if least is None:
        hint = f"Look it up: {link(project)}"
        return Finding("quota.limit", subject, "unknown", f"{_asked(need)}; the API names no limit for it", hint)
    value, quota_id = least
    seen = f"{_asked(need)}; the limit is {value if value >= 0 else 'none'}"
    if value < 0 or need.together <= value:
        return Finding("quota.limit", subject, "ok", seen)
    hint = _more(need, quota_id or need.quota_id, project)
    if rungs := [rung for rung, quotas in refused.items() if (need.metric, need.region) in quotas]:
        seen += f": {need.largest} cannot start on rung {listed(rungs, 'and')}, but on another"
        return Finding("quota.limit", subject, "warning", seen, hint)
    if need.alone > value:
        return Finding("quota.limit", subject, "error", f"{seen}: {need.largest} cannot start", hint)
    return Finding("quota.limit", subject, "warning", f"{seen}: one will wait for the other", hint)


def limit(info: Any, region: str) -> int | None:
    """The limit that a QuotaInfo sets in a region; negative: none; None: it says nothing of this region.

    Values for a region go before those for all: https://cloud.google.com/docs/quotas/reference/rest/v1/DimensionsInfo
    """
    exact = [one for one in info.dimensions_infos if one.dimensions.get("region") == region]
    rest = [
        one
        for one in info.dimensions_infos
        if "region" not in one.dimensions
        and (not one.applicable_locations or {region, "global"} & set(one.applicable_locations))
    ]
    values = [int(one.details.value) for one in exact or rest]
    return min(values) if values else None


def _asked(need: Need) -> str:
    unit = "vCPU" if need.metric.endswith("cpus") else "GPU" if need.together == 1 else "GPUs"
    together = " and ".join(filter(None, [", ".join(need.steps[:-1]), need.steps[-1]]))
    which = f"{together} together need" if len(need.steps) > 1 else f"{together} needs"
    return f"{which} {need.together} {unit}"


def _more(need: Need, quota_id: str | None, project: Project) -> str:
    page = f"in the console: {link(project)}"
    if not quota_id:
        return f"Ask for more {page}"
    words = [
        "gcloud", "beta", "quotas", "preferences", "create", f"--service={_SERVICE}", f"--project={project.id}",
        f"--quota-id={quota_id}", f"--preferred-value={need.together}", f"--dimensions=region={need.region}",
    ]  # fmt: skip
    return f"{shlex.join(words)}\nor {page}"


def link(project: Project) -> str:
    return f"https://console.cloud.google.com/iam-admin/quotas?project={quote(project.id)}"
