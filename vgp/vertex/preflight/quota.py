"""Checks that the project's quotas cover the requests of the steps, with the Cloud Quotas API.

A limit bounds the project's use at one time; the part that other jobs use now is not known here.

A pipeline needs at least the amount of its largest step, and at most the largest sum over one step and all steps that
may overlap with it. That sum is never too small. It is too large only if some of these steps cannot overlap with each
other (the exact answer is a maximum antichain; such a DAG gets one warning too many). Two steps may overlap unless one
waits for the other, directly or through other steps. Branches of a condition count as overlapping, because which of
them runs is known only at run time.
"""

import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

from vgp.base.text.figures import join_words
from vgp.check.check_finding import StepRow
from vgp.check.spec.dag import Component, Task
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.machines.placement.provisioning import is_preemptible
from vgp.settings import Settings
from vgp.vertex import clients
from vgp.vertex.preflight.account import Project
from vgp.vertex.preflight.preflight_questions import Finding, Question, call_options

if TYPE_CHECKING:
    from google.cloud.cloudquotas_v1 import QuotaInfo

#: Metric, the quota's id where it is known, and region.
_Quota = tuple[str, str | None, str]
#: Name of a rung -> the quotas, as (metric, region), that do not cover it.
_Rungs = Mapping[str, set[tuple[str, str]]]
_SERVICE = "aiplatform.googleapis.com"


@dataclass
class StepOrder:
    """The order of a pipeline's steps, by their names in vgp/check/pipeline.py."""

    #: Step -> all steps that have ended when it starts.
    before: dict[str, set[str]] = field(default_factory=dict)
    #: Step -> how many copies loops start at once. A loop over items that are known only at run time counts as its
    #: limit, or 1.
    copies: dict[str, int] = field(default_factory=dict)

    def list_overlapping(self, step: str) -> set[str]:
        """Returns the steps that may run while `step` runs, `step` included."""
        ended = self.before[step]
        return {other for other, before in self.before.items() if other not in ended and step not in before}


def read_order(spec: PipelineSpec) -> StepOrder:
    """Returns the order of the steps of a compiled pipeline."""
    result = StepOrder()
    _visit(result, spec.root, "", {step.path: step.name for step in spec.steps}, set(), 1)
    return result


def _visit(
    result: StepOrder, group: Component, path: str, names: Mapping[str, str], ended: set[str], copies: int
) -> set[str]:
    """Adds the steps of a group that starts when the steps `ended` have ended; returns the names of the group's steps.

    Args:
        path: Path of the group, with a separator at its end.
    """
    steps: dict[str, set[str]] = {}
    for name, task in group.tasks.items():
        predecessors = ended.union(*(steps[producer] for producer in task.dependencies if producer in steps))
        predecessors = predecessors.union(*(result.before[step] for step in predecessors))
        number = copies * _count_copies(task)
        if task.component.is_group:
            steps[name] = _visit(result, task.component, f"{path}{task.path_prefix}", names, predecessors, number)
        else:
            step = names[f"{path}{name}"]
            result.before[step], result.copies[step] = predecessors, number
            steps[name] = {step}
    return set().union(*steps.values())


def _count_copies(task: Task) -> int:
    """Returns how many iterations of a loop run at once: its number of items, bounded by its limit."""
    loop = task.loop
    if loop is None:
        return 1
    number = len(loop.items({})) if loop.raw else loop.limit
    return max(1, min(number, loop.limit or number))


@dataclass(frozen=True)
class Need:
    """The need of all steps for one quota in one region: GPUs, or vCPU of a family without GPUs."""

    metric: str
    #: The quota's id in the catalog, or None; an id from the API takes precedence.
    quota_id: str | None
    region: str
    #: The step with the largest need, and its amount.
    largest: str
    alone: int
    #: The overlapping steps with the largest sum, and that sum.
    steps: tuple[str, ...]
    together: int


def list_needs(steps: Sequence[StepRow], spec: PipelineSpec) -> list[Need]:
    """Returns the needs of the steps by quota and region, without TPUs and steps of unknown machines."""
    drawn: dict[_Quota, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    overlap = read_order(spec)
    for row in steps:
        for key, amount in _sum_step(row).items():
            drawn[key][row.step] += amount
    return [_build_need(key, amounts, overlap) for key, amounts in sorted(drawn.items(), key=str)]


def list_exceeded(row: StepRow, limits: Mapping[tuple[str, str], int]) -> Mapping[str, set[tuple[str, str]]]:
    """Returns the quotas, as (metric, region), that do not cover a step: by rung, and under "" for the step itself.

    Args:
        row: The machines of the step.
        limits: The known limits by (metric, region); a quota without a limit covers everything.
    """

    def over(rows: Sequence[StepRow]) -> set[tuple[str, str]]:
        drawn = {(metric, region): amount for (metric, _, region), amount in _sum_rows(rows).items()}
        return {quota for quota, amount in drawn.items() if amount > limits.get(quota, amount)}

    return {"": over([row])} | {rung.name: over(rung.rows) for rung in row.rungs}


def _sum_step(row: StepRow) -> dict[_Quota, int]:
    """Returns the amounts that a step needs at one time: for each quota the most of any rung, as one rung runs."""
    drawn = _sum_rows([row])
    for rung in row.rungs:
        for key, amount in _sum_rows(rung.rows).items():
            drawn[key] = max(drawn[key], amount)
    return drawn


def _sum_rows(rows: Sequence[StepRow]) -> dict[_Quota, int]:
    drawn: dict[_Quota, int] = defaultdict(int)
    for row in rows:
        combination = None if row.is_persistent else row.combination
        draw = combination.quota(preemptible=is_preemptible(row.strategy)) if combination else None
        if draw:
            drawn[draw.metric, draw.quota_id, row.region or ""] += draw.amount * (row.replicas or 1)
    return drawn


def _build_need(key: _Quota, amounts: Mapping[str, int], overlap: StepOrder) -> Need:
    def total(names: set[str]) -> int:
        return sum(amounts[step] * overlap.copies[step] for step in names)

    sets = [overlap.list_overlapping(step) & set(amounts) for step in amounts]
    most = max(sets, key=lambda names: (total(names), -len(names)))
    largest = max(amounts, key=lambda step: amounts[step])
    metric, quota_id, region = key
    return Need(metric, quota_id, region, largest, amounts[largest], tuple(sorted(most)), total(most))


def list_questions(
    settings: Settings, project: Project, steps: Sequence[StepRow], spec: PipelineSpec
) -> Iterator[Question]:
    yield Question("quota.limit", project.id, lambda: _check_limits(settings, project, list_needs(steps, spec), steps))


def _check_limits(
    settings: Settings, project: Project, needed: Sequence[Need], steps: Sequence[StepRow]
) -> Iterator[Finding]:
    """https://cloud.google.com/docs/quotas/reference/rest/v1/projects.locations.services.quotaInfos/list"""
    parent = f"projects/{project.id}/locations/global/services/{_SERVICE}"
    listed = clients.quotas(settings).list_quota_infos(parent=parent, **call_options())
    by_metric: dict[str, list[QuotaInfo]] = {need.metric: [] for need in needed}
    for info in listed:
        if info.metric in by_metric:
            by_metric[info.metric].append(info)
    limits = {(need.metric, need.region): _find_least_limit(need, by_metric[need.metric]) for need in needed}
    known = {quota: entry[0] for quota, entry in limits.items() if entry and entry[0] >= 0}
    refused = {row.step: rungs for row in steps if (rungs := _list_refused_rungs(row, known))}
    for need in needed:
        yield _judge(need, limits[need.metric, need.region], refused.get(need.largest, {}), project)


def _list_refused_rungs(row: StepRow, limits: Mapping[tuple[str, str], int]) -> _Rungs:
    """Returns the rungs that a quota does not cover, with these quotas, if another rung can start; else nothing."""
    own, *rungs = list_exceeded(row, limits).items()
    return {} if own[1] or all(quotas for _, quotas in rungs) else {rung: quotas for rung, quotas in rungs if quotas}


def _find_least_limit(need: Need, infos: Sequence["QuotaInfo"]) -> tuple[int, str] | None:
    """Returns the smallest limit of a quota in its region, and the quota's id; None if the API has no limit."""
    candidates = [(value, info.quota_id) for info in infos if (value := read_limit(info, need.region)) is not None]
    return min(candidates, default=None)


def _judge(need: Need, least: tuple[int, str] | None, refused: _Rungs, project: Project) -> Finding:
    subject = f"{need.metric.rsplit('/', 1)[-1]} in {need.region}"
    if least is None:
        hint = f"Look it up: {link_quotas(project)}"
        return Finding(
            "quota.limit", subject, "unknown", f"{_describe_need(need)}; the API names no limit for it", hint
        )
    value, quota_id = least
    seen = f"{_describe_need(need)}; the limit is {value if value >= 0 else 'none'}"
    if value < 0 or need.together <= value:
        return Finding("quota.limit", subject, "ok", seen)
    hint = _request_command(need, quota_id or need.quota_id, project)
    if rungs := [rung for rung, quotas in refused.items() if (need.metric, need.region) in quotas]:
        seen += f": {need.largest} cannot start on rung {join_words(rungs, 'and')}, but on another"
        return Finding("quota.limit", subject, "warning", seen, hint)
    if need.alone > value:
        return Finding("quota.limit", subject, "error", f"{seen}: {need.largest} cannot start", hint)
    return Finding("quota.limit", subject, "warning", f"{seen}: one will wait for the other", hint)


def read_limit(info: "QuotaInfo", region: str) -> int | None:
    """Returns the limit that a QuotaInfo sets in a region; negative if unlimited, None if it does not cover the region.

    A value for the region takes precedence over a value for all regions: https://cloud.google.com/docs/quotas/reference/rest/v1/DimensionsInfo
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


def _describe_need(need: Need) -> str:
    unit = "vCPU" if need.metric.endswith("cpus") else "GPU" if need.together == 1 else "GPUs"
    together = " and ".join(filter(None, [", ".join(need.steps[:-1]), need.steps[-1]]))
    which = f"{together} together need" if len(need.steps) > 1 else f"{together} needs"
    return f"{which} {need.together} {unit}"


def _request_command(need: Need, quota_id: str | None, project: Project) -> str:
    page = f"in the console: {link_quotas(project)}"
    if not quota_id:
        return f"Ask for more {page}"
    words = [
        "gcloud", "beta", "quotas", "preferences", "create", f"--service={_SERVICE}", f"--project={project.id}",
        f"--quota-id={quota_id}", f"--preferred-value={need.together}", f"--dimensions=region={need.region}",
    ]  # fmt: skip
    return f"{shlex.join(words)}\nor {page}"


def link_quotas(project: Project) -> str:
    return f"https://console.cloud.google.com/iam-admin/quotas?project={quote(project.id)}"
