"""Compute Engine's advice on Spot, with the calls that its discovery document defines."""

import pytest

from tools.emulator.cloud import Cloud, status
from vgp.machines.placement.combination import find_combination
from vgp.machines.placement.spot_advice import SpotAdvice
from vgp.settings import Settings
from vgp.vertex.spot_advice import ask_regions

L4 = find_combination("g2-standard-24", "NVIDIA_L4", 2)
T4 = find_combination("n1-standard-8", "NVIDIA_TESLA_T4", 1)


def test_each_region_gets_its_score_its_uptime_and_its_last_preemption_rate(cloud: Cloud, settings: Settings) -> None:
    cloud.zones.advice = {("us-central1", "g2-standard-24"): (0.9, 600), ("us-east1", "g2-standard-24"): (0.2, 3600)}
    cloud.zones.preemptions = {("us-central1", "g2-standard-24"): {21: 0.5, 20: 0.25}}
    advice, problem = ask_regions(settings, "test-project", L4, 3, ["us-central1", "us-east1", "us-west1"])
    assert advice == {"us-central1": SpotAdvice(0.9, 600, 0.5), "us-east1": SpotAdvice(0.2, 3600)} and not problem
    bodies = [call.body for call in cloud.requests if call.method == "compute.advice.capacity"]
    assert [body["size"] for body in bodies] == [3, 3, 3]


def test_a_gpu_attached_to_a_machine_is_in_the_request_and_has_no_history(cloud: Cloud, settings: Settings) -> None:
    cloud.zones.advice = {("us-central1", "n1-standard-8"): (0.5, 600)}
    assert ask_regions(settings, "test-project", T4, 1, ["us-central1"])[0]["us-central1"].rank == 1
    (call,) = [call for call in cloud.requests if call.method.startswith("compute.advice")]
    (selection,) = call.body["instanceFlexibilityPolicy"]["instanceSelections"].values()
    assert selection["guestAccelerators"] == [{"acceleratorType": "nvidia-tesla-t4", "acceleratorCount": 1}]


@pytest.mark.parametrize("method", ["capacity", "capacityHistory"])
def test_without_the_permission_there_is_one_line_with_the_reason(
    cloud: Cloud, settings: Settings, method: str
) -> None:
    cloud.fail(f"compute.advice.{method}", status(403, "Required 'compute.advice' permission"), forever=True)
    advice, problem = ask_regions(settings, "test-project", L4, 1, ["us-central1"])
    assert not advice and "no advice of Compute Engine" in problem and "\n" not in problem
    assert "order of distance and price" in problem


def test_a_machine_without_advice_is_named(cloud: Cloud, settings: Settings) -> None:
    advice, problem = ask_regions(settings, "test-project", L4, 1, ["us-central1"])
    assert not advice and "g2-standard-24" in problem
