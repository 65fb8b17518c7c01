"""What steps draw on quotas: sums over machines, metrics by strategy and region, and the most that can overlap."""

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgp.check.check_finding import RungRow, StepRow
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.machines.catalog import catalog
from vgp.vertex.preflight.quota import needs, order

L4 = "aiplatform.googleapis.com/custom_model_training_nvidia_l4_gpus"
SPOT_L4 = "aiplatform.googleapis.com/custom_model_training_preemptible_nvidia_l4_gpus"


def row(
    step, *, gpus=1, replicas=1, strategy="STANDARD", region="us-central1", gpu="NVIDIA_L4", machine="g2-standard-4"
):
    return StepRow(step, machine or "g2-standard-4", gpu, gpus, replicas, strategy, None, region)


def spec_of(waits):
    """A spec whose steps wait for each other as `waits` says: step -> steps."""
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
    before = order(spec_of(waits)).before
    sets = [set(some) for size in range(1, len(gpus) + 1) for some in combinations(gpus, size)]
    free = [some for some in sets if not any(before[step] & some for step in some)]
    return max(sum(gpus[step] for step in some) for some in free)


@given(pipelines())
def test_the_sum_is_never_below_what_can_overlap_nor_above_all(pipeline):
    waits, gpus = pipeline
    (need,) = needs([row(step, gpus=number) for step, number in gpus.items()], spec_of(waits))
    assert most_by_trying(waits, gpus) <= need.together <= sum(gpus.values())
    assert need.alone == max(gpus.values()) <= need.together
    assert sum(gpus[step] for step in need.steps) == need.together


@given(pipelines())
def test_the_sum_is_exact_for_chains_and_for_independent_steps(pipeline):
    _, gpus = pipeline
    names = list(gpus)
    chain = {name: {names[at - 1]} if at else set() for at, name in enumerate(names)}
    rows = [row(step, gpus=number) for step, number in gpus.items()]
    assert needs(rows, spec_of(chain))[0].together == max(gpus.values())
    assert needs(rows, spec_of({name: set() for name in names}))[0].together == sum(gpus.values())


@given(st.integers(1, 8), st.integers(1, 64), st.integers(1, 5), st.sampled_from(["STANDARD", "SPOT"]))
def test_every_machine_of_every_iteration_counts(gpus, replicas, items, strategy):
    made = dict(spec_of({"train": set()}).content)
    made["components"]["loop"] = {"dag": made["root"]["dag"]}
    iterator = {"items": {"raw": str(list(range(items)))}, "itemInput": "item"}
    made["root"] = {"dag": {"tasks": {"for": {"componentRef": {"name": "loop"}, "parameterIterator": iterator}}}}
    (need,) = needs([row("train", gpus=gpus, replicas=replicas, strategy=strategy)], PipelineSpec(made))
    assert need.together == gpus * replicas * items and need.alone == gpus * replicas


@pytest.mark.parametrize(
    ("strategy", "metric"),
    [("STANDARD", L4), ("ON_DEMAND", L4), ("SPOT", SPOT_L4), ("LOW_COST", SPOT_L4), ("FLEX_START", SPOT_L4)],
)
def test_the_strategy_decides_on_which_quota_a_gpu_draws(strategy, metric):
    (need,) = needs([row("train", strategy=strategy)], spec_of({"train": set()}))
    assert need.metric == metric


def test_quotas_are_counted_by_gpu_and_region():
    rows = [row("a"), row("b", region="europe-west4"), row("c", gpu="NVIDIA_TESLA_T4", machine="n1-standard-4")]
    found = needs(rows, spec_of({"a": (), "b": (), "c": ()}))
    assert sorted((need.metric.rsplit("_", 2)[-2], need.region, need.together) for need in found) == [
        ("l4", "europe-west4", 1), ("l4", "us-central1", 1), ("t4", "us-central1", 1),
    ]  # fmt: skip


def test_pools_of_one_step_are_added_up():
    pools = [row("train", gpus=8, machine="g2-standard-96"), row("train", gpus=8, replicas=3, machine="g2-standard-96")]
    (need,) = needs(pools, spec_of({"train": set()}))
    assert (need.alone, need.together, need.steps) == (32, 32, ("train",))


def test_machines_without_gpus_draw_vcpu_of_their_family():
    rows = [row("a", gpu=None, gpus=0, machine="e2-standard-8"), row("b", gpu=None, gpus=0, machine="n1-standard-4")]
    (need,) = needs(rows, spec_of({"a": (), "b": ()}))
    assert (need.metric, need.together) == ("aiplatform.googleapis.com/custom_model_training_cpus", 12)


@pytest.mark.parametrize("name", sorted(each.name for each in catalog.accelerators().values() if each.quota))
def test_every_gpu_of_the_catalog_has_a_quota_of_its_own(name):
    rows = [row("a", gpu=name), row("b", gpu=name, strategy="SPOT")]
    standard, spot = sorted(needs(rows, spec_of({"a": (), "b": ()})), key=lambda need: "preemptible" in need.metric)
    assert "preemptible" in spot.metric and spot.metric.replace("preemptible_", "") == standard.metric


def test_what_is_not_known_draws_nothing():
    rows = [row("a", gpu=None, gpus=0, machine="unheard-of"), row("b", gpu="TPU_V3", gpus=8, machine="cloud-tpu")]
    assert needs(rows, spec_of({"a": (), "b": ()})) == []


def test_of_a_ladder_one_rung_draws_at_a_time():
    rungs = (
        RungRow("1 (spot, us-central1)", (row("train", gpus=8, replicas=2, strategy="SPOT"),), 3600),
        RungRow("2 (flex_start, us-central1)", (row("train", gpus=8, strategy="FLEX_START"),), 3600),
        RungRow("3 (standard, europe-west4)", (row("train", gpus=2, region="europe-west4"),), 3600),
        RungRow("4 (persistent, us-central1)", (replace(row("train", gpus=8), is_persistent=True),), 3600),
    )
    climbs = StepRow("train", "e2-standard-4", None, 0, 1, "STANDARD", None, "us-central1", rungs=rungs)
    drawn = {(need.metric, need.region): need.together for need in needs([climbs], spec_of({"train": []}))}
    assert {key: amount for key, amount in drawn.items() if "l4" in key[0]} == {
        (SPOT_L4, "us-central1"): 16, (L4, "europe-west4"): 2,
    }  # fmt: skip
