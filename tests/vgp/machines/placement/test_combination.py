"""Machines with their GPUs against Google's table of 2026-08-20, typed in here once more by hand."""

import pytest

from vgp.machines.catalog import catalog
from vgp.machines.placement.combination import Combination, combinations, known, without_gpus

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
    ours = {(row.machine_type, row.accelerator_type, row.count) for row in combinations()}
    assert ours == published() and len(combinations()) == len(ours)


def test_a_combination_is_asked_for_its_sizes_price_and_quota():
    t4s = known("n1-standard-8", "NVIDIA_TESLA_T4", 4)
    assert t4s is not None
    assert (str(t4s), t4s.vcpu, t4s.memory_gb) == ("4 x NVIDIA_TESLA_T4 on n1-standard-8", 8, 30)
    assert t4s.gpu_memory_gb == 4 * 16
    assert t4s.with_prices("us-central1").startswith(f"{t4s} (us-central1, $")
    standard, spot = t4s.quota(preemptible=False), t4s.quota(preemptible=True)
    assert standard is not None and spot is not None and standard.metric != spot.metric
    assert (standard.amount, spot.amount) == (4, 4)


def test_a_machine_without_gpus_draws_on_the_quota_of_vcpu_however_it_is_got():
    machine = Combination(catalog.machines()["n2-standard-8"])
    assert machine.quota(preemptible=False) == machine.quota(preemptible=True)
    draw = machine.quota(preemptible=False)
    assert draw is not None and draw.metric.endswith("cpus") and draw.amount == 8


def test_equal_combinations_are_one_key():
    assert len({*combinations(), *combinations()}) == 173
    assert {known(row.machine_type, row.accelerator_type, row.count) for row in combinations()} == set(combinations())


@pytest.mark.parametrize("names", [("z9-mega", None, 0), ("n1-standard-8", "NVIDIA_T5", 1), (None, None, 0)])
def test_names_that_the_catalog_lacks_are_no_combination(names):
    assert known(*names) is None


def test_without_a_region_the_price_is_that_of_the_default_region_or_the_lowest(b200_without_price):
    l4 = known("g2-standard-4", "NVIDIA_L4", 1)
    assert l4 is not None and l4.price("standard") == l4.price("standard", catalog.DEFAULT_REGION)
    elsewhere = [row for row in (*combinations(), *without_gpus()) if not row.price("standard", catalog.DEFAULT_REGION)]
    assert elsewhere
    for row in elsewhere:
        assert row.price("standard") == next(iter(row.prices("standard")), None)
