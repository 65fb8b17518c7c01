"""The CUDA version in an image's name against the GPU of its job."""

import json

import pytest

from vgp.base.documents.node import Computed, Node
from vgp.check.container_facts import Service, find_early_end
from vgp.check.container_facts import image_problems as problems
from vgp.check.container_facts import services_of as of
from vgp.machines.catalog import prices
from vgp.machines.placement import plain

B200, RTX, V100, H100 = "NVIDIA_B200", "NVIDIA_RTX_PRO_6000", "NVIDIA_TESLA_V100", "NVIDIA_H100_80GB"


@pytest.mark.parametrize(
    ("image", "accelerator", "message"),
    [
        ("us-docker.pkg.dev/p/r/torch:2.8.0-cu126", B200, "has CUDA 12.6; NVIDIA_B200 needs 12.8 or newer"),
        ("pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime", RTX, "has CUDA 12.4; NVIDIA_RTX_PRO_6000 needs 12.8"),
        ("nvidia/cuda:11.7.1-runtime-ubuntu22.04", H100, "has CUDA 11.7"),
        ("us-docker.pkg.dev/p/r/torch:2.9.0-cu130", V100, "has CUDA 13.0, without kernels for NVIDIA_TESLA_V100"),
    ],
)
def test_an_image_without_kernels_for_its_gpu_is_reported(image: str, accelerator: str, message: str) -> None:
    (problem,) = problems(image, "python train.py", accelerator, None)
    assert problem.rule == "GPU016" and message in problem.message


@pytest.mark.parametrize(
    ("image", "accelerator"),
    [
        ("us-docker.pkg.dev/p/r/torch:2.8.0-cu128", B200),
        ("us-docker.pkg.dev/p/r/torch:2.8.0-cu126", V100),
        ("us-docker.pkg.dev/p/r/torch:2.9.0-cu130", H100),
        ("us-docker.pkg.dev/p/r/focu110-nightly:1", B200),
        ("us-docker.pkg.dev/p/r/mine@sha256:" + "c" * 64, B200),
    ],
)
def test_an_image_with_kernels_and_one_without_a_version_pass(image: str, accelerator: str) -> None:
    assert problems(image, "python train.py", accelerator, None) == []


BOTH = {"bigquery": {"max_gb": 1024, "location": "US"}, "dataflow": {"max_hours": 2, "region": "us-central1"}}


def used(*values, name=plain.ENGINES_VARIABLE):
    return of(Node([{"name": "OTHER", "value": "{}"}, *({"name": name, "value": value} for value in values)]))


def test_a_step_may_use_both_services_each_at_its_most():
    bigquery, dataflow = used(json.dumps(BOTH))
    assert bigquery == Service("BigQuery", "1024 GB", "US", prices.bigquery_usd(1024, "US"))
    most = prices.dataflow_usd("n2-standard-4", 50, 10, 2, "us-central1")
    assert dataflow == Service("Dataflow", "10 x n2-standard-4 for 2 h", "us-central1", most, limit_s=7200)
    assert bigquery.usd and dataflow.usd and not bigquery.unknown_reason
    assert dataflow.as_json() == {
        "name": "Dataflow", "what": "10 x n2-standard-4 for 2 h", "region": "us-central1", "max_usd_a_try": most,
    }  # fmt: skip
    assert [each.region for each in used('{"bigquery": {}}')] == ["anywhere"]
    assert [each.name for each in used('{"dataflow": {}}')] == ["Dataflow"]


@pytest.mark.parametrize("value", ["", "no JSON", "[]", '{"bigquery": {"max_gb": -1}}', Computed("x"), None, "{}"])
def test_a_variable_that_cannot_be_read_or_asks_for_nothing_is_no_service(value):
    assert used(value) == () and used(json.dumps(BOTH), value) == (), "the last of several counts"


def test_other_variables_and_none_are_no_service():
    assert used(json.dumps(BOTH), name="ENGINES") == () and of(Node(None)) == ()


def test_a_service_without_a_price_names_its_region_or_that_it_has_none():
    assert Service("Dataflow", "a", "us-central1", None).unknown_reason == "no price of Dataflow, a in us-central1"
    assert Service("Dataflow", "a", "", None).unknown_reason == "no price of Dataflow, a in its region"


@pytest.mark.parametrize(("timeout_s", "early"), [(7199, True), (7200, True), (7201, False), (None, False)])
def test_a_step_has_to_outlive_the_job_that_it_waits_for(timeout_s, early):
    found = list(find_early_end(used(json.dumps(BOTH)), timeout_s))
    assert [(each.rule, each.field, each.severity) for each in found] == [("GPU028", "timeout", "warning")] * early
    assert all("its Dataflow job" in each.message for each in found)
