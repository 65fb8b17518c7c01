"""Zones of accelerators: Google's own example, and what is not known."""

from vgp.machines.catalog import catalog


def test_no_zone_of_australia_southeast1_has_p4_t4_and_p100():
    kinds = ["NVIDIA_TESLA_P4", "NVIDIA_TESLA_T4", "NVIDIA_TESLA_P100"]
    assert catalog.shared(kinds, "australia-southeast1") == frozenset()
    assert catalog.shared(kinds[:2], "australia-southeast1") == {"australia-southeast1-a"}


def test_zones_that_are_not_known_are_none():
    assert catalog.zones("NVIDIA_B200", "us-central1") is None
    assert catalog.shared(["NVIDIA_L4", "NVIDIA_B200"], "us-central1") is None


def test_every_attached_gpu_has_zones_in_its_training_regions():
    for name in ("NVIDIA_TESLA_T4", "NVIDIA_TESLA_P4", "NVIDIA_TESLA_V100", "NVIDIA_L4"):
        assert all(catalog.zones(name, region) for region in catalog.accelerators()[name].training_regions)
