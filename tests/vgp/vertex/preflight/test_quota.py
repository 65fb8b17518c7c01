"""Quota against the request, through the Cloud Quotas API. What steps draw on quotas: sums over machines, metrics by
strategy and region, and the most that can overlap. Which steps may overlap: on pipelines that kfp compiles, with the
names that the checker gives their steps."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kfp import dsl

from vgp.base.documents.document import Document
from vgp.check.check_finding import RungRow, StepRow
from vgp.check.checker import check
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.machines.catalog import catalog
from vgp.settings import Settings, find_repository
from vgp.vertex.preflight.quota import list_needs, read_limit, read_order
from vgp.workflow.compiling import workflow_files
from vgp.workflow.compiling.vertex import Vertex

from .conftest import CPUS, L4, STEPS, chain

TWO_L4 = "aiplatform.googleapis.com/custom_model_training_nvidia_l4_gpus"
SPOT_L4 = "aiplatform.googleapis.com/custom_model_training_preemptible_nvidia_l4_gpus"


def row(
    step, *, gpus=1, replicas=1, strategy="STANDARD", region="us-central1", gpu="NVIDIA_L4", machine="g2-standard-4"
):
    return StepRow(step, machine or "g2-standard-4", gpu, gpus, replicas, strategy, None, region)


def spec_of(waits):
    """A spec whose steps wait for each other by `waits`: step -> steps."""
    tasks = {
        name: {"componentRef": {"name": "comp"}, **({"dependentTasks": list(others)} if others else {})}
        for name, others in waits.items()
    }
    return PipelineSpec({"root": {"dag": {"tasks": tasks}}, "components": {"comp": {"executorLabel": "exec"}}})


@st.composite
def pipelines(draw):
    """Steps with GPUs, and which earlier ones each waits for."""
    number = draw(st.integers(1, 7))
    names = [f"s{index}" for index in range(number)]
    waits = {name: draw(st.sets(st.sampled_from(names[:at]))) if at else set() for at, name in enumerate(names)}
    gpus = {name: draw(st.integers(1, 8)) for name in names}
    return waits, gpus


def most_by_trying(waits, gpus):
    """The largest sum over steps none of which waits for another, by trying all sets."""
    before = read_order(spec_of(waits)).before
    sets = [set(some) for size in range(1, len(gpus) + 1) for some in combinations(gpus, size)]
    free = [some for some in sets if not any(before[step] & some for step in some)]
    return max(sum(gpus[step] for step in some) for some in free)


@given(pipelines())
def test_the_sum_is_never_below_what_can_overlap_nor_above_all(pipeline):
    waits, gpus = pipeline
    (need,) = list_needs([row(step, gpus=number) for step, number in gpus.items()], spec_of(waits))
    assert most_by_trying(waits, gpus) <= need.together <= sum(gpus.values())
    assert need.alone == max(gpus.values()) <= need.together
    assert sum(gpus[step] for step in need.steps) == need.together


@given(pipelines())
def test_the_sum_is_exact_for_chains_and_for_independent_steps(pipeline):
    _, gpus = pipeline
    names = list(gpus)
    chain = {name: {names[at - 1]} if at else set() for at, name in enumerate(names)}
    rows = [row(step, gpus=number) for step, number in gpus.items()]
    assert list_needs(rows, spec_of(chain))[0].together == max(gpus.values())
    assert list_needs(rows, spec_of({name: set() for name in names}))[0].together == sum(gpus.values())


@given(st.integers(1, 8), st.integers(1, 64), st.integers(1, 5), st.sampled_from(["STANDARD", "SPOT"]))
def test_every_machine_of_every_iteration_counts(gpus, replicas, items, strategy):
    made = dict(spec_of({"train": set()}).content)
    made["components"]["loop"] = {"dag": made["root"]["dag"]}
    iterator = {"items": {"raw": str(list(range(items)))}, "itemInput": "item"}
    made["root"] = {"dag": {"tasks": {"for": {"componentRef": {"name": "loop"}, "parameterIterator": iterator}}}}
    (need,) = list_needs([row("train", gpus=gpus, replicas=replicas, strategy=strategy)], PipelineSpec(made))
    assert need.together == gpus * replicas * items and need.alone == gpus * replicas


@pytest.mark.parametrize(
    ("strategy", "metric"),
    [("STANDARD", TWO_L4), ("ON_DEMAND", TWO_L4), ("SPOT", SPOT_L4), ("LOW_COST", SPOT_L4), ("FLEX_START", SPOT_L4)],
)
def test_the_strategy_decides_on_which_quota_a_gpu_draws(strategy, metric):
    (need,) = list_needs([row("train", strategy=strategy)], spec_of({"train": set()}))
    assert need.metric == metric


def test_quotas_are_counted_by_gpu_and_region():
    rows = [row("a"), row("b", region="europe-west4"), row("c", gpu="NVIDIA_TESLA_T4", machine="n1-standard-4")]
    found = list_needs(rows, spec_of({"a": (), "b": (), "c": ()}))
    assert sorted((need.metric.rsplit("_", 2)[-2], need.region, need.together) for need in found) == [
        ("l4", "europe-west4", 1), ("l4", "us-central1", 1), ("t4", "us-central1", 1),
    ]  # fmt: skip


def test_pools_of_one_step_are_added_up():
    pools = [row("train", gpus=8, machine="g2-standard-96"), row("train", gpus=8, replicas=3, machine="g2-standard-96")]
    (need,) = list_needs(pools, spec_of({"train": set()}))
    assert (need.alone, need.together, need.steps) == (32, 32, ("train",))


def test_machines_without_gpus_draw_vcpu_of_their_family():
    rows = [row("a", gpu=None, gpus=0, machine="e2-standard-8"), row("b", gpu=None, gpus=0, machine="n1-standard-4")]
    (need,) = list_needs(rows, spec_of({"a": (), "b": ()}))
    assert (need.metric, need.together) == ("aiplatform.googleapis.com/custom_model_training_cpus", 12)


@pytest.mark.parametrize("name", sorted(each.name for each in catalog.accelerators().values() if each.quota))
def test_every_gpu_of_the_catalog_has_a_quota_of_its_own(name):
    rows = [row("a", gpu=name), row("b", gpu=name, strategy="SPOT")]
    standard, spot = sorted(
        list_needs(rows, spec_of({"a": (), "b": ()})), key=lambda need: "preemptible" in need.metric
    )
    assert "preemptible" in spot.metric and spot.metric.replace("preemptible_", "") == standard.metric


def test_what_is_not_known_draws_nothing():
    rows = [row("a", gpu=None, gpus=0, machine="unheard-of"), row("b", gpu="TPU_V3", gpus=8, machine="cloud-tpu")]
    assert list_needs(rows, spec_of({"a": (), "b": ()})) == []


def test_of_a_ladder_one_rung_draws_at_a_time():
    rungs = (
        RungRow("1 (spot, us-central1)", (row("train", gpus=8, replicas=2, strategy="SPOT"),), 3600),
        RungRow("2 (flex_start, us-central1)", (row("train", gpus=8, strategy="FLEX_START"),), 3600),
        RungRow("3 (standard, europe-west4)", (row("train", gpus=2, region="europe-west4"),), 3600),
        RungRow("4 (persistent, us-central1)", (replace(row("train", gpus=8), is_persistent=True),), 3600),
    )
    climbs = StepRow("train", "e2-standard-4", None, 0, 1, "STANDARD", None, "us-central1", rungs=rungs)
    drawn = {(need.metric, need.region): need.together for need in list_needs([climbs], spec_of({"train": []}))}
    assert {key: amount for key, amount in drawn.items() if "l4" in key[0]} == {
        (SPOT_L4, "us-central1"): 16, (TWO_L4, "europe-west4"): 2,
    }  # fmt: skip


REPOSITORY = Path(__file__).parents[4]


@dsl.component(base_image="python:3.11", install_kfp_package=False)
def work(given: str = "") -> str:
    return given


def task(*after):
    """A step that waits for others; kfp calls them work, work-2, ... in the order of their making."""
    made = work(given="x")
    return made.after(*after) if after else made


def names_of(made):
    return {row.step for row in check([Document("p.json", made, "")]).steps}


def test_the_steps_of_a_chain_never_overlap():
    made = workflow_files.compile_workflow(
        "training", Vertex(Settings()), find_repository(REPOSITORY / "pipelines.toml")
    ).content
    found = read_order(PipelineSpec(made))
    assert set(found.before) == names_of(made)
    assert all(found.list_overlapping(step) == {step} for step in found.before)
    assert found.before["decide"] == {"resolve", "prepare", "train", "evaluate"}
    assert found.before["register"] == {"decide", *found.before["decide"]}
    assert found.before["notify"] == {"register", *found.before["register"]}


def test_branches_overlap_and_what_follows_both_does_not(compiled):
    def build():
        first = task()
        left, right = task(first), task(first)
        task(left, right)

    found = read_order(PipelineSpec(compiled(dsl.pipeline(name="p")(build))))
    assert found.list_overlapping("work-2") == {"work-2", "work-3"}
    assert found.list_overlapping("work") == {"work"} and found.list_overlapping("work-4") == {"work-4"}


def test_steps_in_groups_wait_for_what_their_group_waits_for(compiled):
    def build():
        first = task()
        with dsl.If(first.output == "x"):
            inner = task()
            task(inner)
        task()

    made = compiled(dsl.pipeline(name="p")(build))
    found = read_order(PipelineSpec(made))
    assert set(found.before) == names_of(made)
    assert found.before["work-3"] == {"work", "work-2"}
    assert found.list_overlapping("work-3") == {"work-3", "work-4"}


def test_a_step_after_a_group_waits_for_all_in_it(compiled):
    def build():
        clean = task()
        with dsl.ExitHandler(clean):
            task()
            task()

    found = read_order(PipelineSpec(compiled(dsl.pipeline(name="p")(build))))
    assert found.before["work"] == {"work-2", "work-3"}
    assert found.list_overlapping("work-2") == {"work-2", "work-3"}


@pytest.mark.parametrize(("limit", "copies"), [(None, 3), (2, 2), (8, 3)])
def test_a_loop_starts_its_items_at_once_up_to_its_limit(compiled, limit, copies):
    def build():
        with dsl.ParallelFor(["a", "b", "c"], parallelism=limit):
            task()
        task()

    found = read_order(PipelineSpec(compiled(dsl.pipeline(name="p")(build))))
    assert found.copies == {"work": copies, "work-2": 1}


def test_loops_in_loops_multiply(compiled):
    def build():
        with dsl.ParallelFor([1, 2, 3]), dsl.ParallelFor([4, 5]):
            task()

    assert read_order(PipelineSpec(compiled(dsl.pipeline(name="p")(build)))).copies == {"work": 6}


def test_equal_names_in_groups_are_distinguished_as_the_checker_does():
    task = {"componentRef": {"name": "comp-work"}}
    made = {
        "root": {"dag": {"tasks": {"work": task, "group": {"componentRef": {"name": "comp-group"}}}}},
        "components": {
            "comp-work": {"executorLabel": "exec-work"},
            "comp-group": {"dag": {"tasks": {"work": task}}},
        },
        "deploymentSpec": {"executors": {"exec-work": {"container": {"image": "python:3.11"}}}},
    }
    assert set(read_order(PipelineSpec(made)).before) == names_of(made) == {"work", "group/work"}


def test_a_step_that_needs_more_than_the_limit_cannot_start(world):
    world.quota(L4, 1, region="us-central1")
    found = world.only("quota.limit", "error")
    assert found.subject == f"{L4} in us-central1"
    assert found.seen == "train needs 2 GPUs; the limit is 1: train cannot start"
    assert "https://console.cloud.google.com/iam-admin/quotas?project=test-project" in found.hint
    assert (
        "gcloud beta quotas preferences create --service=aiplatform.googleapis.com --project=test-project "
        "--quota-id=CustomModelTrainingL4GPUsPerProjectPerRegion --preferred-value=2 --dimensions=region=us-central1"
    ) in found.hint


def test_a_ladder_can_start_as_long_as_one_of_its_rungs_can(world):
    spot = replace(STEPS[1], strategy="SPOT")
    rungs = (RungRow("1 (spot, us-central1)", (spot,), 3600), RungRow("2 (standard, us-central1)", (STEPS[1],), 3600))
    world.steps = [replace(STEPS[0], step="train", rungs=rungs)]
    world.quota("custom_model_training_preemptible_nvidia_l4_gpus", 1, region="us-central1")
    found = world.only("quota.limit", "warning")
    assert found.seen == (
        "train needs 2 GPUs; the limit is 1: train cannot start on rung 1 (spot, us-central1), but on another"
    )
    world.quota(L4, 1, region="us-central1")
    assert [(each.check, each.level) for each in world.found()] == [("quota.limit", "error")] * 2
    world.quota(L4, 8, region="us-central1")
    world.quota(CPUS, 1, region="us-central1")
    assert {each.level for each in world.found()} == {"error"}


def test_steps_that_may_overlap_are_added_up(world):
    world.steps = [replace(STEPS[1], step=name) for name in ("one", "two", "three")]
    world.spec = chain("one", "two", "three")
    world.quota(L4, 3, region="us-central1")
    assert world.found() == []
    world.spec["root"]["dag"]["tasks"]["three"]["dependentTasks"] = ["one"]
    found = world.only("quota.limit", "warning")
    assert found.seen == "three and two together need 4 GPUs; the limit is 3: one will wait for the other"
    assert "--preferred-value=4" in found.hint


def test_spot_machines_draw_on_a_quota_of_their_own(world):
    world.steps = [replace(row, strategy="SPOT") if row.step == "train" else row for row in STEPS]
    found = world.only("quota.limit", "unknown")
    assert found.subject == "custom_model_training_preemptible_nvidia_l4_gpus in us-central1"
    world.quota("custom_model_training_preemptible_nvidia_l4_gpus", 2, region="us-central1")
    assert world.found() == []


def test_a_limit_in_another_region_does_not_help(world):
    world.steps = [replace(row, region="europe-west4") if row.step == "train" else row for row in STEPS]
    assert [each.level for each in world.found() if each.check == "quota.limit"] == ["unknown"]


def test_a_limit_for_all_regions_gives_way_to_one_for_the_region(world):
    world.quota(L4, 1)
    assert world.found() == []
    world.quota(L4, -1)
    world.quota(L4, 0, region="us-central1")
    world.only("quota.limit", "error")


def test_an_unlimited_quota_is_enough(world):
    world.quota(L4, -1, region="us-central1")
    assert world.found() == []


def test_without_the_permission_quota_is_unknown(world):
    world.forbid("cloudquotas.*.list", "cloudquotas.quotas.get")
    assert "roles/cloudquotas.viewer" in world.only("quota.limit", "unknown").hint


def test_every_page_of_quotas_is_read(world):
    for number in range(150):
        world.cloud.quotas.set(f"A{number}", 0, metric=f"aiplatform.googleapis.com/a{number}", region="us-central1")
    assert world.found() == []
    calls = [call for call in world.cloud.requests if call.method.endswith("quotaInfos.list")]
    assert len(calls) > 1 and all("services/aiplatform.googleapis.com" in call.path for call in calls)


@pytest.mark.parametrize("region", ["us-central1", "europe-west4"])
@given(
    exact=st.dictionaries(st.sampled_from(["us-central1", "europe-west4"]), st.integers(-1, 99)),
    rest=st.integers(-1, 99),
)
def test_the_limit_of_a_region_is_its_own_else_that_of_all(region, exact, rest):
    from google.cloud.cloudquotas_v1 import DimensionsInfo, QuotaInfo

    infos = [DimensionsInfo(dimensions={"region": where}, details={"value": value}) for where, value in exact.items()]
    everywhere = DimensionsInfo(details={"value": rest}, applicable_locations=["us-central1", "europe-west4"])
    assert read_limit(QuotaInfo(dimensions_infos=[everywhere, *infos]), region) == exact.get(region, rest)
    assert read_limit(QuotaInfo(dimensions_infos=infos), region) == exact.get(region)
