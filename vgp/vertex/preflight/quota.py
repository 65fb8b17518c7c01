"""Whether the project's quotas cover what the steps ask for, by the Cloud Quotas API.

A limit says what the project may use at a time, not what is free now: that other jobs use it up is not seen.

A pipeline draws on a quota its largest step, and at most what its steps can need together. The most is taken over
every step with all that may run beside it. It never says too little; too much only for steps of which each may
overlap with the first, but not all with each other (the exact answer is a maximum antichain, and the difference is a
warning more on a DAG that few people draw). Two steps may overlap unless one waits, directly or over others, for the
other. The branches of a condition count as overlapping: which of them runs is known only then.
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
from vgp.vertex.preflight.preflight_questions import Finding, Question, patience

if TYPE_CHECKING:
    from google.cloud.cloudquotas_v1 import QuotaInfo

#: Metric, the quota's id where it is known, and region.
_Quota = tuple[str, str | None, str]
#: Names of rungs, and of each the quotas, metric and region, that do not cover it.
_Rungs = Mapping[str, set[tuple[str, str]]]
_SERVICE = "aiplatform.googleapis.com"


@dataclass
class Order:
    """Steps by the names that the checker gives them (vgp/check/pipeline.py)."""

    #: Step -> all steps that have ended when it starts.
    before: dict[str, set[str]] = field(default_factory=dict)
    #: Step -> how many of it loops start at once; items that only the run knows count as the loop's limit, or 1.
    copies: dict[str, int] = field(default_factory=dict)

    def beside(self, step: str) -> set[str]:
        """The steps that may run while `step` runs, itself included."""
        ended = self.before[step]
        return {other for other, before in self.before.items() if other not in ended and step not in before}


def order(spec: PipelineSpec) -> Order:
    """The order of the steps of a compiled pipeline."""
    result = Order()
    _visit(result, spec.root, "", {step.path: step.name for step in spec.steps}, set(), 1)
    return result


def _visit(
    result: Order, group: Component, way: str, names: Mapping[str, str], ended: set[str], copies: int
) -> set[str]:
    """Adds the steps of a group that starts when `ended` have ended; returns them."""
    steps: dict[str, set[str]] = {}
    for name, task in group.tasks.items():
        waited = ended.union(*(steps[producer] for producer in task.dependencies if producer in steps))
        waited = waited.union(*(result.before[step] for step in waited))
        number = copies * _copies(task)
        if task.component.is_group:
            steps[name] = _visit(result, task.component, f"{way}{task.path_prefix}", names, waited, number)
        else:
            step = names[f"{way}{name}"]
            result.before[step], result.copies[step] = waited, number
            steps[name] = {step}
    return set().union(*steps.values())


def _copies(task: Task) -> int:
    """How many iterations of a loop run at once: its items, and no more than its limit."""
    loop = task.loop
    if loop is None:
        return 1
    number = len(loop.items({})) if loop.raw else loop.limit
    return max(1, min(number, loop.limit or number))


@dataclass(frozen=True)
class Need:
    """What is drawn on one quota in one region: GPUs, or vCPU of a family without GPUs."""

    metric: str
    #: The quota's id by the catalog, where it knows it; what the API says goes first.
    quota_id: str | None
    region: str
    #: The step that needs most by itself, and how much.
    largest: str
    alone: int
    #: The steps that may need most together, and how much.
    steps: tuple[str, ...]
    together: int


def needs(steps: Sequence[StepRow], spec: PipelineSpec) -> list[Need]:
    """What the steps need, by quota and region. Steps whose machine is not known, and TPUs, are left out."""
    drawn: dict[_Quota, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    overlap = order(spec)
    for row in steps:
        for key, amount in _drawn(row).items():
            drawn[key][row.step] += amount
    return [_need(key, amounts, overlap) for key, amounts in sorted(drawn.items(), key=str)]


def short(row: StepRow, limits: Mapping[tuple[str, str], int]) -> Mapping[str, set[tuple[str, str]]]:
    """The quotas, metric and region, that do not cover a step: of the step itself (""), and of each of its rungs.

    Args:
        row: Its machines.
        limits: What is known of them; a quota that is not among them covers all.
    """

    def over(rows: Sequence[StepRow]) -> set[tuple[str, str]]:
        drawn = {(metric, region): amount for (metric, _, region), amount in _sum(rows).items()}
        return {quota for quota, amount in drawn.items() if amount > limits.get(quota, amount)}

    return {"": over([row])} | {rung.name: over(rung.rows) for rung in row.rungs}


def _drawn(row: StepRow) -> dict[_Quota, int]:
    """What a step draws at a time; of a ladder's rungs one does, so that of each quota the most counts."""
    drawn = _sum([row])
    for rung in row.rungs:
        for key, amount in _sum(rung.rows).items():
            drawn[key] = max(drawn[key], amount)
    return drawn


def _sum(rows: Sequence[StepRow]) -> dict[_Quota, int]:
    drawn: dict[_Quota, int] = defaultdict(int)
    for row in rows:
        combination = None if row.is_persistent else row.combination
        draw = combination.quota(preemptible=is_preemptible(row.strategy)) if combination else None
        if draw:
            drawn[draw.metric, draw.quota_id, row.region or ""] += draw.amount * (row.replicas or 1)
    return drawn


def _need(key: _Quota, amounts: Mapping[str, int], overlap: Order) -> Need:
    def total(names: set[str]) -> int:
        return sum(amounts[step] * overlap.copies[step] for step in names)

    sets = [overlap.beside(step) & set(amounts) for step in amounts]
    most = max(sets, key=lambda names: (total(names), -len(names)))
    largest = max(amounts, key=lambda step: amounts[step])
    metric, quota_id, region = key
    return Need(metric, quota_id, region, largest, amounts[largest], tuple(sorted(most)), total(most))


def questions(settings: Settings, project: Project, steps: Sequence[StepRow], spec: PipelineSpec) -> Iterator[Question]:
    yield Question("quota.limit", project.id, lambda: _limits(settings, project, needs(steps, spec), steps))


def _limits(
    settings: Settings, project: Project, needed: Sequence[Need], steps: Sequence[StepRow]
) -> Iterator[Finding]:
    """https://cloud.google.com/docs/quotas/reference/rest/v1/projects.locations.services.quotaInfos/list"""
    parent = f"projects/{project.id}/locations/global/services/{_SERVICE}"
    listed = clients.quotas(settings).list_quota_infos(parent=parent, **patience())
    by_metric: dict[str, list[QuotaInfo]] = {need.metric: [] for need in needed}
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


def _least(need: Need, infos: Sequence["QuotaInfo"]) -> tuple[int, str] | None:
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
        seen += f": {need.largest} cannot start on rung {join_words(rungs, 'and')}, but on another"
        return Finding("quota.limit", subject, "warning", seen, hint)
    if need.alone > value:
        return Finding("quota.limit", subject, "error", f"{seen}: {need.largest} cannot start", hint)
    return Finding("quota.limit", subject, "warning", f"{seen}: one will wait for the other", hint)


def limit(info: "QuotaInfo", region: str) -> int | None:
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
