"""The network: there, and peered with Google's services."""

from dataclasses import replace

import pytest

from vgp.check.check_finding import RungRow, StepRow
from vgp.settings import Settings
from vgp.vertex.preflight import network


def test_a_network_that_is_not_there_is_an_error(world):
    world.own["network"] = "projects/123456789012/global/networks/other"
    found = world.only("network.exists", "error")
    assert found.hint == "The networks there: gcloud compute networks list --project 123456789012"


def test_a_network_without_private_services_access_is_an_error(world):
    world.cloud.zones.networks["default"] = []
    found = world.only("network.peering", "error")
    assert found.hint == (
        "gcloud services vpc-peerings connect --service=servicenetworking.googleapis.com --network=default "
        "--ranges=RANGE --project=123456789012"
    )


def test_a_network_that_may_not_be_seen_is_unknown(world):
    world.forbid("compute.networks.get", "compute.networks.get")
    assert "roles/compute.networkViewer" in world.only("network.exists", "unknown").hint


def test_no_network_is_nothing_to_look_at(world):
    world.own["network"] = None
    assert [each.level for each in world.look() if each.check.startswith("network.")] == ["skipped"]
    assert not any(call.startswith("compute.networks") for call in world.calls())


@pytest.mark.parametrize(("mode", "region", "seen"), [
    ("REGIONAL", "us-east4", True), ("GLOBAL", "us-east4", False), ("REGIONAL", "us-central1", False),
])  # fmt: skip
def test_regional_routes_do_not_carry_to_a_rung_elsewhere(mode, region, seen):
    row = StepRow("train", "g2-standard-4", "NVIDIA_L4", 1, 1, "STANDARD", None, region)
    step = replace(row, region="us-central1", rungs=(RungRow("1", (row,), 3600),))
    problems = list(
        network._check_routes(
            Settings(), "projects/1/global/networks/n", {"routingConfig": {"routingMode": mode}}, [step]
        )
    )
    assert [each.check for each in problems] == (["network.routes"] if seen else [])
    assert all("--bgp-routing-mode=global" in each.hint for each in problems)
