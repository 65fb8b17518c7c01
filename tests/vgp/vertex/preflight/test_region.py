"""Whether the region has the machines: by the catalog and by Compute Engine."""

from dataclasses import replace

from .conftest import STEPS


def test_a_gpu_that_no_zone_of_the_region_has_is_a_warning_with_where_it_is(world):
    for zone in world.cloud.zones.zones.values():
        zone["acceleratorTypes"].pop("nvidia-l4", None)
    world.cloud.zones.zones["europe-west4-a"] = {
        "acceleratorTypes": {"nvidia-l4": 8}, "machineTypes": {"g2-standard-24": 24},
    }  # fmt: skip
    found = world.only("region.now", "warning")
    assert found.subject == "g2-standard-24 with NVIDIA_L4 in us-central1"
    assert found.hint == "It is in europe-west4"


def test_machine_and_gpu_have_to_be_in_the_same_zone(world):
    for name, zone in world.cloud.zones.zones.items():
        zone["machineTypes"] = {} if name == "us-central1-a" else zone["machineTypes"]
        zone["acceleratorTypes"] = zone["acceleratorTypes"] if name == "us-central1-a" else {}
    found = world.found()
    assert {each.subject for each in found} == {
        "g2-standard-24 with NVIDIA_L4 in us-central1", "n1-standard-8 with NVIDIA_TESLA_T4 in us-central1",
    }  # fmt: skip
    assert {each.check for each in found} == {"region.now"}


def test_zones_are_named_and_every_page_is_read(world, monkeypatch):
    for number in range(600):
        world.cloud.zones.zones[f"us-central1-{number}"] = {
            "acceleratorTypes": {},
            "machineTypes": {"e2-standard-4": 4},
        }
    (found,) = [each for each in world.look() if each.check == "region.now" and each.subject.startswith("e2")]
    assert found.level == "ok" and "us-central1-a" in found.seen and "us-central1-599" in found.seen


def test_a_region_that_the_catalog_does_not_list_for_the_gpu_is_an_error(world):
    world.steps = [replace(row, region="europe-north1") if row.step == "train" else row for row in STEPS]
    errors = [each for each in world.found() if each.level == "error"]
    assert errors[0].check == "region.catalog"
    assert "europe-north1 has no NVIDIA_L4 for training" in errors[0].seen and "us-central1" in errors[0].hint


def test_without_compute_engine_the_catalog_still_answers(world):
    world.forbid("compute.machineTypes.aggregatedList", "compute.machineTypes.list")
    found = world.only("region.now", "unknown")
    assert "roles/compute.viewer" in found.hint
    assert [each.level for each in world.look() if each.check == "region.catalog"] == ["ok"] * 3


def test_a_low_score_of_a_spot_machine_is_a_warning_and_no_permission_is_unknown(world):
    world.steps = [replace(row, strategy="SPOT") if row.step == "train" else row for row in STEPS]
    machine = ("us-central1", "g2-standard-24")
    world.cloud.zones.advice[machine] = (0.7, 3600)

    def spot():
        return next(each for each in world.look() if each.check == "region.spot")

    assert spot().level == "ok"
    world.cloud.zones.advice[machine] = (0.3, 600)
    found = spot()
    assert found.level == "warning" and found.subject.endswith("g2-standard-24 in us-central1")
    assert "obtainability 0.3 of 1" in found.seen and "--ladder --project test-project" in found.hint
    world.forbid("compute.advice.capacity", "compute.advice.capacity")
    assert spot().level == "unknown" and "roles/compute.viewer" in spot().hint
