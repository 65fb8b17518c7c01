"""The catalog against what Google published on 2026-08-20, typed in here once more by hand."""

import pytest

from vgp.machines.catalog import catalog
from vgp.machines.catalog.catalog import short_name


def test_every_machine_of_the_published_list_is_there():
    kinds = [row.family.split("-")[0] for row in catalog.machines().values()]
    assert {kind: kinds.count(kind) for kind in sorted(set(kinds))} == {
        "a2": 9, "a3": 6, "a4": 1, "a4x": 1, "c2": 5, "e2": 10, "g2": 8, "g4": 4, "m1": 4, "n1": 17, "n2": 20, "n4": 24,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("L4", "NVIDIA_L4"), ("l4", "NVIDIA_L4"), ("nvidia-l4", "NVIDIA_L4"), ("T4", "NVIDIA_TESLA_T4"),
        ("nvidia-tesla-t4", "NVIDIA_TESLA_T4"), ("A100", "NVIDIA_TESLA_A100"), ("A100-40GB", "NVIDIA_TESLA_A100"),
        ("A100-80GB", "NVIDIA_A100_80GB"), ("H100", "NVIDIA_H100_80GB"), ("H100-MEGA", "NVIDIA_H100_MEGA_80GB"),
        ("H200", "NVIDIA_H200_141GB"), ("B200", "NVIDIA_B200"), ("GB200", "NVIDIA_GB200"),
        ("RTX-PRO-6000", "NVIDIA_RTX_PRO_6000"), ("NVIDIA_H100", "NVIDIA_H100_80GB"), ("k80", "NVIDIA_TESLA_K80"),
    ],
)  # fmt: skip
def test_short_names_mean_one_accelerator(given, name):
    assert catalog.accelerator(given).name == name


@pytest.mark.parametrize("given", ["", "L5", "nvidia.com/gpu", "tesla", "80GB"])
def test_what_is_no_name_is_refused(given):
    assert catalog.accelerator(given) is None


def test_numbers_of_accelerators_are_those_of_the_api():
    from google.cloud.aiplatform_v1.types import AcceleratorType

    ours = {row.name: row.number for row in catalog.accelerators().values()}
    theirs = {each.name: each.value for each in AcceleratorType if each.value}
    assert ours == theirs


def test_every_fact_names_a_source_with_page_and_date():
    for row in [*catalog.machines().values(), *catalog.accelerators().values()]:
        assert row.sources
        for key in row.sources:
            source = catalog.source(key)
            assert source["page"].startswith("https://") and len(source["date"]) == 10


def test_regions_are_counted_by_the_two_pages():
    l4 = catalog.accelerator("L4")
    assert (l4.pages_listing("us-central1"), l4.pages_listing("europe-west2"), l4.pages_listing("europe-west1")) == (
        2,
        1,
        0,
    )
    rtx = catalog.accelerator("RTX-PRO-6000")
    assert (rtx.pages_listing("us-west1"), rtx.pages_listing("us-east1")) == (1, 1)


def test_machines_know_network_disk_and_architecture():
    mega = catalog.machines()["a3-megagpu-8g"]
    assert (mega.gpudirect, mega.network_gbps, mega.nics) == ("GPUDirect-TCPXO", 1800, 9)
    assert catalog.machines()["a4x-highgpu-4g"].architecture == "arm64"
    assert catalog.machines()["a3-ultragpu-8g"].boot_disks == ("hyperdisk-balanced",)
    assert catalog.machines()["a3-highgpu-2g"].provisioning == ("spot", "flex_start")
    assert catalog.machines()["g4-standard-96"].nccl == "NCCL_P2P_LEVEL=PHB"
    assert catalog.machines()["g4-standard-384"].nccl == "NCCL_P2P_LEVEL=SYS"


@pytest.mark.parametrize("name", catalog.accelerators())
def test_the_short_name_that_tables_show_means_the_accelerator(name):
    assert catalog.accelerator(short_name(name)) is catalog.accelerators()[name]


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
