"""The catalog against Google's table of 2026-08-20, typed in here once more by hand."""

import pytest

from vgp.catalog import catalog
from vgp.catalog.catalog import UnknownAccelerator, UnknownMachine

BUILT_IN = """
a2-highgpu-1g NVIDIA_TESLA_A100 1 | a2-highgpu-2g NVIDIA_TESLA_A100 2 | a2-highgpu-4g NVIDIA_TESLA_A100 4
a2-highgpu-8g NVIDIA_TESLA_A100 8 | a2-megagpu-16g NVIDIA_TESLA_A100 16
a2-ultragpu-1g NVIDIA_A100_80GB 1 | a2-ultragpu-2g NVIDIA_A100_80GB 2 | a2-ultragpu-4g NVIDIA_A100_80GB 4
a2-ultragpu-8g NVIDIA_A100_80GB 8
a3-highgpu-1g NVIDIA_H100_80GB 1 | a3-highgpu-2g NVIDIA_H100_80GB 2 | a3-highgpu-4g NVIDIA_H100_80GB 4
a3-highgpu-8g NVIDIA_H100_80GB 8 | a3-megagpu-8g NVIDIA_H100_MEGA_80GB 8 | a3-ultragpu-8g NVIDIA_H200_141GB 8
a4-highgpu-8g NVIDIA_B200 8 | a4x-highgpu-4g NVIDIA_GB200 4
g2-standard-4 NVIDIA_L4 1 | g2-standard-8 NVIDIA_L4 1 | g2-standard-12 NVIDIA_L4 1 | g2-standard-16 NVIDIA_L4 1
g2-standard-24 NVIDIA_L4 2 | g2-standard-32 NVIDIA_L4 1 | g2-standard-48 NVIDIA_L4 4 | g2-standard-96 NVIDIA_L4 8
g4-standard-48 NVIDIA_RTX_PRO_6000 1 | g4-standard-96 NVIDIA_RTX_PRO_6000 2
g4-standard-192 NVIDIA_RTX_PRO_6000 4 | g4-standard-384 NVIDIA_RTX_PRO_6000 8
"""

# machine: counts of P4; P100; T4; V100
N1 = """
n1-standard-4: 1 2 4; 1 2 4; 1 2 4; 1 2 4 8
n1-standard-8: 1 2 4; 1 2 4; 1 2 4; 1 2 4 8
n1-standard-16: 1 2 4; 1 2 4; 1 2 4; 2 4 8
n1-standard-32: 2 4; 2 4; 2 4; 4 8
n1-standard-64: 4; ; 4; 8
n1-standard-96: 4; ; 4; 8
n1-highmem-2: 1 2 4; 1 2 4; 1 2 4; 1 2 4 8
n1-highmem-4: 1 2 4; 1 2 4; 1 2 4; 1 2 4 8
n1-highmem-8: 1 2 4; 1 2 4; 1 2 4; 1 2 4 8
n1-highmem-16: 1 2 4; 1 2 4; 1 2 4; 2 4 8
n1-highmem-32: 2 4; 2 4; 2 4; 4 8
n1-highmem-64: 4; ; 4; 8
n1-highmem-96: 4; ; 4; 8
n1-highcpu-16: 1 2 4; 1 2 4; 1 2 4; 2 4 8
n1-highcpu-32: 2 4; 2 4; 2 4; 4 8
n1-highcpu-64: 4; 4; 4; 8
n1-highcpu-96: 4; ; 4; 8
"""


def published() -> set[tuple[str, str, int]]:
    rows = {tuple(row.split()) for line in BUILT_IN.split("\n") for row in line.split("|") if row.strip()}
    found = {(name, gpu, int(count)) for name, gpu, count in rows}
    for line in N1.strip().split("\n"):
        name, _, cells = line.partition(":")
        for gpu, counts in zip(("P4", "P100", "T4", "V100"), cells.split(";"), strict=True):
            found |= {(name, f"NVIDIA_TESLA_{gpu}", int(count)) for count in counts.split()}
    return found


def test_the_combinations_are_exactly_the_173_that_are_published():
    assert len(published()) == 173
    assert set(catalog.combinations()) == published()


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
    with pytest.raises(UnknownAccelerator):
        catalog.accelerator(given)


def test_a_wrong_machine_name_gets_the_nearest():
    with pytest.raises(UnknownMachine, match="Nearest: g2-standard-24"):
        catalog.machine("g2-standard-23")


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
    mega = catalog.machine("a3-megagpu-8g")
    assert (mega.gpudirect, mega.network_gbps, mega.nics) == ("GPUDirect-TCPXO", 1800, 9)
    assert catalog.machine("a4x-highgpu-4g").architecture == "arm64"
    assert catalog.machine("a3-ultragpu-8g").boot_disks == ("hyperdisk-balanced",)
    assert catalog.machine("a3-highgpu-2g").provisioning == ("spot", "flex_start")
    assert catalog.machine("g4-standard-96").nccl == "NCCL_P2P_LEVEL=PHB"
    assert catalog.machine("g4-standard-384").nccl == "NCCL_P2P_LEVEL=SYS"
