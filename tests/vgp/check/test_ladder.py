"""A compiled ladder, read as a stranger's: every rung is judged by the rules of a job, named, priced, and counted."""

import copy
import io
import json
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from vgp.base.documents.document import Document
from vgp.base.errors import RequestError
from vgp.check import cost_bound
from vgp.check.check_report import Report
from vgp.check.checker import check
from vgp.machines.placement.dearest import RungTime
from vgp.protocol.capacity.plan import HANDOVER_S, Plan, PlannedRung

LONG = "a program that is long enough to be written once, in whatever many rungs it stands: " * 2


def rung(name: str, machine: str, gpu: str, count: int, region: str, strategy: str, **more: Any) -> PlannedRung:
    spec = {"machineType": machine, "acceleratorType": gpu, "acceleratorCount": count}
    container = {"imageUri": "x.dev/p/r/i:1", "command": ["python", "-c", LONG], "args": ["launch"]}
    pool = {"machineSpec": spec, "replicaCount": 1, "containerSpec": container}
    scheduling = {"strategy": strategy.upper(), "timeout": "36000s", "disableRetries": True}
    job = {"displayName": "train", "jobSpec": {"workerPoolSpecs": [pool], "scheduling": scheduling}}
    return PlannedRung(name=name, region=region, strategy=strategy, timeout_s=36000, job=job, **more)


PLAN = Plan(
    step="train",
    rungs=(
        rung("1-spot-us-central1", "g2-standard-24", "NVIDIA_L4", 2, "us-central1", "spot"),
        rung("2-standard-europe-west4", "g2-standard-24", "NVIDIA_L4", 2, "europe-west4", "standard"),
    ),
    deadline_s=36000 * 1.5,
)


def document(plan: Any = PLAN, **container: Any) -> Document:
    text = plan.to_json() if isinstance(plan, Plan) else plan if isinstance(plan, str) else json.dumps(plan)
    climbs = {
        "image": "x.dev/p/r/i:1",
        "command": ["sh", "-c", "limit_s=$STEP_TIMEOUT_S", "python3", "-m", "vgp.launch.capacity"],
        "args": ["--plan", text, "--executor_input", "{{$}}"],
        "env": [{"name": "STEP_TIMEOUT_S", "value": "7200"}],
        **container,
    }
    spec = {
        "pipelineInfo": {"name": "p"},
        "root": {"dag": {"tasks": {"train": {"componentRef": {"name": "c"}, "retryPolicy": {"maxRetryCount": 2}}}}},
        "components": {"c": {"executorLabel": "e"}},
        "deploymentSpec": {"executors": {"e": {"container": climbs}}},
    }
    return Document("p.json", spec, json.dumps(spec))


def judged(plan: Any = PLAN, **container: Any) -> Report:
    return check([document(plan, **container)], regions=["us-central1"])


def find(report: Report, severity: str = "error") -> list[str]:
    return [f"{finding.step}: {finding.message} [{finding.rule}]" for finding in report.of_severity(severity)]


def mutated(number: int, *path: Any, value: Any) -> dict[str, Any]:
    whole = copy.deepcopy(json.loads(PLAN.to_json()))
    at = whole["rungs"][number]
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return whole


def test_a_ladder_is_one_step_with_its_rungs_and_the_dearest_way_is_counted():
    report = judged()
    assert find(report) == []
    (row,) = report.steps
    cheap, dear = row.rungs
    assert [each.name for each in row.rungs] == ["1 (spot, us-central1)", "2 (standard, europe-west4)"]
    assert dear.usd_per_hour > cheap.usd_per_hour > 0
    assert (dear.held, cheap.held) == (RungTime(36000), RungTime(18000, 10 * HANDOVER_S)), (
        "10 hours of the dearest, then 5 of what is left"
    )
    assert dear.held_usd_per_hour > dear.usd_per_hour, "the machines have boot disks"
    climbs = row.held_usd_per_hour * 2
    assert row.max_usd == pytest.approx(climbs + 10 * dear.held_usd_per_hour + 6 * cheap.held_usd_per_hour)
    assert cost_bound.most_usd(report.steps) == pytest.approx(row.max_usd)
    assert [each["name"] for each in row.as_json()["rungs"]] == [each.name for each in row.rungs]


def test_two_jobs_at_once_count_with_the_dearest_spot_for_each_hour_on_demand():
    (row,) = judged().steps
    beside = "plus 1h 00m of Spot while a job takes over, 6 minutes for each hour on demand"
    assert f"train: {beside}" in drawn([row])
    assert [(each["hours_of_dearest_way"], each["hours_of_handover"]) for each in row.as_json()["rungs"]] == [
        (5, 1), (10, 0),
    ]  # fmt: skip
    with pytest.raises(RequestError, match=r"rung 1 .* 5h 00m, rung 2 .* 10h 00m; plus 1h 00m of Spot"):
        cost_bound.refuse_above([row], 1)


def test_without_a_deadline_it_is_seven_days_or_the_timeouts():
    plan = Plan(step="train", rungs=PLAN.rungs)
    (row,) = judged(plan).steps
    assert [each.held for each in row.rungs] == [RungTime(36000, 3600), RungTime(36000)]


def drawn(steps):
    console = Console(width=140, record=True, file=io.StringIO())
    console.print(cost_bound.steps_table(steps, width=140))
    return console.export_text()


def test_of_several_sizes_the_dearest_counts():
    rungs = tuple(replace(each, size=size) for each in PLAN.rungs for size in ("small", "large"))
    large = rung("1-spot-us-central1", "a3-highgpu-8g", "NVIDIA_H100_80GB", 8, "us-central1", "spot", size="huge")
    (row,) = judged(Plan(step="train", rungs=(*rungs, large), deadline_s=3600.0)).steps
    assert [each.held for each in row.rungs] == [*[RungTime(0)] * 4, RungTime(3600)]
    text = drawn([row])
    assert text.count("  size small ") == 2 and "rung" not in text
    assert "train: a run uses one size, small, large or huge; the maximum is for the most expensive" in text


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("job", "jobSpec", "workerPoolSpecs", 0, "machineSpec", "acceleratorCount"), 3,
         "train, rung 2 (standard, europe-west4): g2-standard-24 takes 2 of NVIDIA_L4, not 3. [GPU003]"),
        (("region",), "us-west9", "train, rung 2 (standard, europe-west4): Vertex AI training has no region"),
        (("region",), "us-south1", "train, rung 2 (standard, europe-west4): us-south1 has no NVIDIA_L4"),
        (("job", "jobSpec", "scheduling", "strategy"), "SPOTT", "No scheduling strategy is called 'SPOTT'"),
        (("job",), {}, "train, rung 2 (standard, europe-west4): job must be a custom job"),
        (("job", "jobSpec", "workerPoolSpecs"), [], "train, rung 2 (standard, europe-west4): workerPoolSpecs must be"),
    ],
)  # fmt: skip
def test_a_mutated_rung_is_found_by_its_place(path, value, words):
    report = judged(mutated(1, *path, value=value))
    assert any(words in line for line in find(report)), find(report)
    assert [row.step for row in report.steps] == ["train"]


def test_a_rung_that_vertex_ai_would_try_again_itself_is_warned_of():
    report = judged(mutated(0, "job", "jobSpec", "scheduling", "disableRetries", value=False))
    assert any("rung 1" in line and "GPU028" in line for line in find(report, "warning"))


def test_a_rung_without_a_price_leaves_no_ceiling():
    report = judged(mutated(0, "job", "jobSpec", "workerPoolSpecs", 0, "machineSpec", value={
        "machineType": "a4x-highgpu-4g", "acceleratorType": "NVIDIA_GB200", "acceleratorCount": 4}))  # fmt: skip
    (row,) = report.steps
    assert row.max_usd is None and "rung 1" in row.unknown_reason and "a4x-highgpu-4g" in row.unknown_reason


@pytest.mark.parametrize("plan", ["{nope", '{"rungs": 5}', "[]", '{"rungs": [5]}', '{"rungs": [], "texts": 3}', "{}"])
def test_a_plan_that_is_none_is_no_free_step(plan):
    report = judged(plan)
    assert report.findings and cost_bound.as_json(report.steps)["max_usd"] is None
    assert not any(finding.rule == "GPU031" for finding in report.findings)


def test_the_table_has_a_line_for_each_rung_and_its_assumptions():
    text = drawn(judged().steps)
    assert "rung 1" in text and "europe-west4" in text
    assert "train: a ladder, one rung at a time, 15h 00m at most; the maximum is for its most expensive course" in text


def test_a_ladder_above_the_limit_is_described_by_its_rungs():
    way = r"a ladder with rung 1 .* for 5h 00m, rung 2 .* for 10h 00m"
    with pytest.raises(Exception, match=rf"{way}(.|\n)*Shorten its deadline, use cheaper rungs"):
        cost_bound.refuse_above(judged().steps, 1)
