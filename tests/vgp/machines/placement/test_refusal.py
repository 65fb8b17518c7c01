"""What is proposed to a step that found no capacity could be had, by the same catalog that checks requests."""

from datetime import date

import pytest

from vgp.machines.placement.combination import Combination, combinations, find_combination
from vgp.machines.placement.compatibility import problems_of
from vgp.machines.placement.refusal import alternatives

TODAY = date(2026, 11, 21)
HERE = "us-central1"


def named(machine: str, gpu: str | None, count: int) -> Combination:
    combination = find_combination(machine, gpu, count)
    assert combination is not None
    return combination


def test_other_regions_other_gpus_and_waiting_are_proposed() -> None:
    a100 = named("a2-highgpu-1g", "NVIDIA_TESLA_A100", 1)
    waiting, elsewhere, gpus = alternatives(a100, HERE, "STANDARD", TODAY)
    assert "flex_start" in waiting
    assert elsewhere.startswith("a2-highgpu-1g elsewhere: ") and HERE not in elsewhere
    assert gpus.startswith(f"Other GPUs in {HERE}: ") and "NVIDIA_TESLA_A100 " not in gpus


def test_spot_is_told_to_try_on_demand_where_that_is_offered() -> None:
    assert 'strategy = "standard"' in alternatives(named("g2-standard-24", "NVIDIA_L4", 2), HERE, "SPOT", TODAY)[0]
    assert not any(
        "on demand" in line for line in alternatives(named("a3-highgpu-1g", "NVIDIA_H100_80GB", 1), HERE, "SPOT", TODAY)
    )


@pytest.mark.parametrize("strategy", ["STANDARD", "SPOT"])
@pytest.mark.parametrize("combination", combinations()[::7], ids=str)
def test_what_is_proposed_can_be_had_like_that_and_has_the_memory(combination: Combination, strategy: str) -> None:
    lines = [line for line in alternatives(combination, HERE, strategy, TODAY) if line.startswith("Other GPUs")]
    for proposal in lines[0].removeprefix(f"Other GPUs in {HERE}: ").rstrip(".").split("), ") if lines else []:
        count, _, gpu, _, machine, *_ = proposal.split()
        other = named(machine, gpu, int(count))
        assert not problems_of(other, as_of=TODAY, region=HERE)
        assert strategy.lower() in other.machine.provisioning
        assert other.gpu_memory_gb >= combination.gpu_memory_gb


def test_a_machine_without_gpus_gets_no_gpus() -> None:
    assert not any("GPUs" in line for line in alternatives(named("n2-standard-8", None, 0), HERE, "STANDARD", TODAY))
