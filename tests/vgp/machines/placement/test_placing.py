"""Placement: the cheapest machine that meets a request, and the spec that it lands in."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from vgp.base.documents.document import Document
from vgp.check.checker import check
from vgp.check.plain_step import memory_gb_of, vcpu_of
from vgp.machines.catalog import catalog
from vgp.machines.catalog.prices import boot_disk
from vgp.machines.placement import plain
from vgp.machines.placement.combination import combinations
from vgp.machines.placement.machine_rules import PlacementError
from vgp.machines.placement.placing import place
from vgp.machines.placement.step_request import Request

DAY = date(2026, 8, 20)


def strategy_for(machine):
    return next((way for way in ("standard", "spot") if way in machine.provisioning), None)


def test_by_name_the_accelerator_follows():
    placement = place(Request(machine="g2-standard-24"))
    assert str(placement.combination) == "2 x NVIDIA_L4 on g2-standard-24"
    assert (placement.combination.vcpu, placement.combination.memory_gb, placement.boot_disk_type) == (24, 96, "pd-ssd")


@pytest.mark.parametrize("count", [1, 2, 4, 8])
@pytest.mark.parametrize("accelerator", ["L4", "A100", "A100-80GB", "V100"])
def test_by_need_the_cheapest_is_chosen(accelerator, count):
    placement = place(Request(accelerator=accelerator, count=count), as_of=DAY)
    gpu = catalog.accelerator(accelerator)
    fitting = [row for row in combinations() if (row.accelerator, row.count) == (gpu, count)]
    costs = [row.price("standard", "us-central1").usd_per_hour for row in fitting]
    assert placement.usd_per_hour == min(costs)
    assert placement.combination.machine_type in placement.reason and "$" in placement.reason


def test_needs_add_up():
    placement = place(Request(accelerator="T4", count=2, min_memory_gb=50, min_vcpu=6))
    assert placement.combination.machine_type == "n1-highmem-8"
    assert place(Request(min_memory_gb=100)).combination.memory_gb >= 100
    assert place(Request(min_gpu_memory_gb=100)).combination.gpu_memory_gb >= 100


def test_without_any_need_a_step_gets_vertex_ais_default():
    assert place(Request(), kind="step").combination.machine_type == "e2-standard-4"


@pytest.mark.parametrize(
    ("asked", "kind", "rule", "fix"),
    [
        ({"machine": "n1-standard-8", "accelerator": "T4", "count": 3}, "custom_job", "GPU003", "4 x NVIDIA_TESLA_T4"),
        ({"machine": "h1000x8"}, "custom_job", "GPU001", "a3-highgpu-8g"),
        ({"accelerator": "L5"}, "custom_job", "GPU002", "NVIDIA_L4"),
        ({"count": 2}, "custom_job", "GPU005", "L4"),
        ({"accelerator": "H100"}, "custom_job", "GPU009", "SPOT"),
        ({"accelerator": "L4", "region": "europe-west1"}, "custom_job", "GPU010", "europe-west4"),
        ({"accelerator": "L4", "region": "us-centrall1"}, "custom_job", "GPU030", "us-central1"),
        ({"machine": "e2-standard-4", "region": "us-centrall1"}, "custom_job", "GPU030", "us-central1"),
        ({"accelerator": "K80"}, "custom_job", "GPU011", "NVIDIA_TESLA_T4"),
        ({"machine": "g4-standard-48", "boot_disk_type": "pd-ssd"}, "custom_job", "GPU012", "hyperdisk-balanced"),
        ({"machine": "g2-standard-4", "reservation": "mine"}, "custom_job", "GPU013", "projects/PROJECT/zones"),
        ({"machine": "g2-standard-4", "strategy": "spot", "reservation": "any"}, "custom_job", "GPU013", "STANDARD"),
        ({"machine": "a3-highgpu-8g"}, "step", "GPU014", "custom job"),
        ({"machine": "n2-standard-8"}, "step", "GPU014", "e2-standard-8"),
        ({"accelerator": "L4", "nodes": 2}, "step", "GPU014", "custom job"),
        ({"accelerator": "L4", "reduction_server": {"count": 1}}, "custom_job", "GPU007", "nodes"),
        ({"machine": "g2-standard-4", "min_memory_gb": 100}, "custom_job", "GPU001", "cheapest"),
        ({"machine": "g2-standard-4", "min_gpu_memory_gb": 100}, "custom_job", "GPU001", "cheapest"),
        ({"machine": "accelerator-optimized-8"}, "custom_job", "GPU001", "vgp machines"),
        ({"accelerator": "machine-1"}, "custom_job", "GPU002", "NVIDIA_L4"),
        ({"machine": "n1-standard-8", "accelerator": "machine-1"}, "custom_job", "GPU002", "NVIDIA_L4"),
        ({"accelerator": "H100", "reservation": "any"}, "custom_job", "GPU009", "Spot"),
        ({"accelerator": "TPU_V3"}, "custom_job", "GPU001", "vgp machines"),
        ({"accelerator": "L4", "count": 8, "min_memory_gb": 5000}, "custom_job", "GPU001", "The largest"),
        ({"min_vcpu": 200}, "step", "GPU014", "custom job"),
        ({"strategy": "flex_start"}, "custom_job", "GPU009", "standard"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_rule_and_fix(asked, kind, rule, fix):
    with pytest.raises(PlacementError) as error:
        place(Request(**asked), kind=kind, name="training.train")
    assert error.value.problem.rule == rule and f"[{rule}]" in str(error.value)
    assert fix in str(error.value)
    assert "training.train" in str(error.value).splitlines()[0] or "is not available" in str(error.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"machin": "x"}, {"count": 0}, {"nodes": 0}, {"timeout": "soon"}, {"max_wait": "1h"}, {"strategy": "spott"},
        {"env": {"A": ["b"]}}, {"min_memory_gb": -1}, {"reduction_server": {"count": 0}},
    ],
)  # fmt: skip
def test_a_request_with_a_wrong_value_is_refused(wrong):
    with pytest.raises(ValidationError):
        Request(**wrong)


@pytest.mark.parametrize("combination", combinations(), ids=str)
def test_every_combination_can_be_placed_and_passes_the_checker(combination):
    machine, accelerator, count = combination.machine_type, combination.accelerator_type, combination.count
    way = strategy_for(combination.machine)
    placement = place(
        Request(
            machine=machine, accelerator=accelerator, count=count, nodes=3, strategy=way or "standard",
            reservation=None if way else "any", timeout="24h", env={"EPOCHS": "3"},
        ),
        as_of=DAY,
    )  # fmt: skip
    spec = {"workerPoolSpecs": placement.worker_pool_specs("r/i:1-arm64", ["x"]), "scheduling": placement.scheduling()}
    report = check([Document("f.json", spec, "")], regions=["us-central1"], as_of=DAY)
    assert [finding for finding in report.findings if finding.severity == "error"] == []
    assert [(row.machine_type, row.accelerator_count, row.replicas) for row in report.steps] == [(machine, count, 3)]
    assert report.steps[0].max_usd == pytest.approx(placement.max_usd)


@pytest.mark.parametrize("combination", combinations(), ids=str)
def test_limits_of_a_plain_step_leave_exactly_the_machine(combination):
    reachable = combination.vcpu <= 96 and "standard" in combination.machine.provisioning
    names = {"machine": combination.machine_type, "accelerator": combination.accelerator_type}
    request = Request(**names, count=combination.count)
    if not reachable:
        with pytest.raises(PlacementError):
            place(request, kind="step", as_of=DAY)
        return
    limits = place(request, kind="step", as_of=DAY).resources()
    vcpu, memory_gb = vcpu_of(limits["cpu_limit"]), memory_gb_of(limits["memory_limit"])
    assert vcpu <= 96 and memory_gb <= 624
    assert plain.closest(vcpu, memory_gb, combination.accelerator_type, combination.count) == combination


def test_pools_are_chief_workers_and_reduction_servers():
    request = Request(machine="a2-highgpu-8g", nodes=4, reduction_server={"count": 6}, env={"NCCL_DEBUG": "INFO"})
    chief, workers, reducers = place(request).worker_pool_specs("r/i:1", ["python"], ["-m", "x"])
    assert (chief["replica_count"], workers["replica_count"], reducers["replica_count"]) == (1, 3, 6)
    assert (
        chief["container_spec"]["env"] == workers["container_spec"]["env"] == [{"name": "NCCL_DEBUG", "value": "INFO"}]
    )
    assert "env" not in reducers["container_spec"]
    assert reducers["machine_spec"] == {"machine_type": "n1-highcpu-16"}


def test_a_plain_step_runs_where_the_pipeline_does():
    with pytest.raises(PlacementError, match="GPU014"):
        place(Request(accelerator="L4", region="europe-west4"), region="us-central1", kind="step")
    assert place(Request(accelerator="L4", region="europe-west4"), region="us-central1").region == "europe-west4"


def test_the_most_it_can_cost_is_timeout_times_nodes_times_price(b200_without_price):
    placement = place(Request(machine="g2-standard-24", nodes=3, timeout="90m"))
    disk = boot_disk("pd-ssd", 100, "us-central1").usd_per_hour
    assert placement.max_usd == pytest.approx((placement.usd_per_hour + disk) * 3 * 1.5)
    assert place(Request(machine="a4-highgpu-8g", strategy="spot")).max_usd is None


@given(
    accelerator=st.sampled_from([None, "L4", "T4", "A100", "H100", "GB200", "K80"]),
    count=st.sampled_from([None, 1, 2, 3, 8, 16]),
    memory=st.sampled_from([None, 1, 60, 700, 5000]),
    strategy=st.sampled_from(["standard", "spot", "flex_start"]),
    region=st.sampled_from(["us-central1", "europe-west4", "africa-south1", "nowhere"]),
    kind=st.sampled_from(["custom_job", "step"]),
)
def test_any_request_is_placed_as_asked_or_refused(accelerator, count, memory, strategy, region, kind):
    request = Request(accelerator=accelerator, count=count, min_memory_gb=memory, strategy=strategy, region=region)
    try:
        placement = place(request, kind=kind, as_of=DAY)
    except PlacementError:
        return
    combination = placement.combination
    assert combination.memory_gb >= (memory or 0) and placement.region == region
    assert combination.count == (0 if accelerator is None else count or 1)
    assert strategy in combination.machine.provisioning


def test_variables_are_texts_as_shells_write_them():
    assert Request(env={"FLAG": True, "OFF": False, "N": 3, "TEXT": "True"}).env == {
        "FLAG": "true", "OFF": "false", "N": "3", "TEXT": "True",
    }  # fmt: skip
