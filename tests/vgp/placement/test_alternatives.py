"""What is proposed to a step that found no capacity could be had, by the same catalog that checks requests."""

from datetime import date

import pytest

from vgp.catalog import catalog
from vgp.check.finding import StepRow
from vgp.placement.alternatives import alternatives
from vgp.placement.combination import problems

TODAY = date(2026, 11, 21)


def row(machine: str, gpu: str | None, count: int, region: str = "us-central1", strategy: str = "STANDARD") -> StepRow:
    return StepRow("train", machine, gpu, count, 1, strategy, 1.0, region)


def test_other_regions_other_gpus_and_waiting_are_proposed() -> None:
    waiting, elsewhere, gpus = alternatives(row("a2-highgpu-1g", "NVIDIA_TESLA_A100", 1), TODAY)
    assert "flex_start" in waiting
    assert elsewhere.startswith("a2-highgpu-1g elsewhere: ") and "us-central1" not in elsewhere
    assert gpus.startswith("Other GPUs in us-central1: ") and "NVIDIA_TESLA_A100 " not in gpus


def test_spot_is_told_to_try_on_demand() -> None:
    assert 'strategy = "standard"' in alternatives(row("g2-standard-24", "NVIDIA_L4", 2, strategy="SPOT"), TODAY)[0]


@pytest.mark.parametrize("combination", sorted(catalog.combinations())[::7])
def test_what_is_proposed_can_be_had_and_has_the_memory(combination: tuple[str, str, int]) -> None:
    machine, gpu, count = combination
    needed = catalog.accelerator(gpu).memory_gb * count
    lines = [each for each in alternatives(row(machine, gpu, count), TODAY) if each.startswith("Other GPUs")]
    for proposal in lines[0].removeprefix("Other GPUs in us-central1: ").rstrip(".").split("), ") if lines else []:
        number, _, other, _, name, *_ = proposal.split()
        assert not problems(name, other, int(number), as_of=TODAY, region="us-central1")
        assert catalog.accelerator(other).memory_gb * int(number) >= needed


def test_a_machine_that_the_catalog_does_not_know_has_none() -> None:
    assert alternatives(row("z9-mega", None, 0), TODAY) == []
