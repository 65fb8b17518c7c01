"""A ladder: its rungs over their regions, placed by the rules of a single machine, and the dearest way up it."""

from datetime import date
from math import ceil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from vgp.base.gpu_peaks import peak_of_accelerator
from vgp.machines.catalog import catalog
from vgp.machines.placement import placed_ladder as module
from vgp.machines.placement.dearest import Terms, find_dearest_course
from vgp.machines.placement.machine_rules import PlacementError
from vgp.machines.placement.placed_ladder import ladder
from vgp.machines.placement.request_parts import Rung
from vgp.machines.placement.step_request import Request
from vgp.protocol.capacity.plan import HANDOVER_S

TODAY = date(2026, 11, 20)
H100 = {"accelerator": "H100", "count": 8}


def climbed(rungs: list[dict[str, Any]], **step: Any) -> module.Ladder:
    asked = Request.model_validate({"capacity": rungs, **step})
    return ladder(asked, region="us-central1", name="train", as_of=TODAY)


def refused(rungs: list[dict[str, Any]], **step: Any) -> str:
    with pytest.raises(PlacementError) as error:
        climbed(rungs, **step)
    return str(error.value)


def test_each_rung_is_placed_in_each_of_its_regions_in_order():
    rungs = climbed(
        [
            {**H100, "strategy": "spot"},
            {**H100, "strategy": "flex_start", "max_wait": "2h"},
            {"accelerator": "A100_80GB", "count": 8, "regions": ["us-east4", "europe-west4"]},
        ],
        deadline="12h",
    ).rungs
    assert [rung.name for rung in rungs] == [
        "1-spot-us-central1", "2-flex_start-us-central1", "3-standard-us-east4", "3-standard-europe-west4",
    ]  # fmt: skip
    assert [rung.placement.combination.machine_type for rung in rungs] == ["a3-highgpu-8g"] * 2 + ["a2-ultragpu-8g"] * 2
    assert rungs[1].placement.max_wait_s == 7200
    assert rungs[2].speed == pytest.approx(312 / 989.5, abs=1e-4) and rungs[0].speed == rungs[1].speed == 1


def test_the_keys_of_the_step_hold_for_all_rungs_and_those_of_a_rung_lie_over_them():
    step = {"machine": "g2-standard-24", "timeout": "6h", "boot_disk_gb": 500, "env": {"A": "1", "B": "1"}}
    first, second, third = climbed(
        [{"strategy": "spot"}, {"timeout": "2h", "env": {"B": "2"}}, {"accelerator": "T4", "count": 2}], **step
    ).rungs
    assert (first.placement.timeout_s, first.placement.boot_disk_gb, first.placement.env) == (21600, 500, step["env"])
    assert (second.placement.timeout_s, second.placement.env) == (7200, {"A": "1", "B": "2"})
    assert second.placement.strategy == "standard" and second.gpus == 2
    assert third.placement.combination.machine.family == "n1", "another GPU drops the machine of the step"


def test_a_rung_of_another_strategy_keeps_the_wait_of_the_step_only_where_something_waits():
    rungs = climbed([{"strategy": "spot"}, {"strategy": "flex_start"}], machine="g2-standard-4", max_wait="1h").rungs
    assert [rung.placement.max_wait_s for rung in rungs] == [None, 3600]


def test_without_a_timeout_of_its_own_a_rung_may_run_until_the_deadline():
    assert climbed([H100], deadline="12h").rungs[0].placement.timeout_s == 43200
    assert climbed([H100]).rungs[0].placement.timeout_s == 86400


@pytest.mark.parametrize(
    ("rungs", "step", "words"),
    [
        ([H100, {**H100, "strategy": "flex_start", "regions": ["us-east1"]}], {},
         ("train, rung 2 (flex_start) asks for 8 x NVIDIA_H100_80GB", "us-east1 has no NVIDIA_H100_80GB", "GPU010")),
        ([{"machine": "a3-ultragpu-8g"}], {}, ("rung 1 (standard)", "a3-ultragpu-8g is not offered with STANDARD")),
        ([{"machine": "a3-highgpu-8g", "nodes": 2, "strategy": "flex_start"}], {"reduction_server": {"count": 2}},
         ("rung 1 (flex_start)", "the same machine in every pool", "GPU008")),
        ([{"machine": "n1-standard-4", "strategy": "flex_start"}], {}, ("rung 1", "GPU009")),
        ([{"machine": "g2-standard-4", "strategy": "flex_start", "max_wait": "0s"}], {}, ("waits without limit", "2h")),
        ([{"machine": "g2-standard-4", "strategy": "flex_start", "max_wait": "9999h"}], {},
         ("rung 1 (flex_start)", "waits as long as the step may take, 7d 00h", "GPU028")),
        ([{"machine": "g2-standard-4"}, {"machine": "g2-standard-4", "strategy": "flex_start", "max_wait": "3h"}],
         {"deadline": "3h"}, ("rung 2 (flex_start)", "max_wait = 3h 00m waits as long as the step may take, 3h 00m")),
        ([{"machine": "g2-standard-4"}, {"machine": "g2-standard-4"}], {}, ("Rungs 1 and 2 are equal", "Keep")),
        ([{"machine": "g2-standard-4"}], {"deadline": "5m"}, ("No rung can meet a deadline of 5m 00s", "12h")),
        ([{"machine": "g2-standard-4"}], {"deadline": "8d"}, ("7 days", "Set 7d")),
        ([{"machine": "g2-standard-4", "timeout": "8d"}], {}, ("rung 1", "7 days; the timeout is 8d 00h", "Set 7d")),
        ([{"machine": "g2-standard-4"}, {"machine": "g2-standard-8", "timeout": "5h"}],
         {"deadline": "4h", "timeout": "6h", "command": ["python", "t.py"]},
         ("No rung does the command's work by the deadline", "5h 10m")),
        ([{"machine": "g2-standard-4"}], {"deadline": "4h", "command": ["python", "t.py"]},
         ("reports no progress", "timeout = '6h'")),
        ([{"machine": "g2-standard-4", "reservation": "projects/p/zones/us-east4-a/reservations/r"}], {},
         ("rung 1 (reservation)", "us-east4-a", "GPU013")),
    ],
)  # fmt: skip
def test_a_ladder_that_cannot_be_is_refused_with_the_place_of_the_rung(rungs, step, words):
    text = refused(rungs, **step)
    assert all(word in text for word in words), text


def test_a_script_with_a_declared_length_has_a_ladder_with_a_deadline():
    rungs = climbed([{"machine": "g2-standard-4"}], deadline="8h", timeout="6h", command=["python", "t.py"]).rungs
    assert rungs[0].placement.timeout_s == 21600


def test_a_persistent_resource_is_a_rung_without_strategy():
    rung = climbed([{"persistent_resource": "mine"}], machine="g2-standard-24", strategy="spot").rungs[0]
    assert (rung.name, rung.placement.strategy) == ("1-persistent-us-central1", "standard")
    with pytest.raises(ValidationError, match="strategy has no effect with persistent_resource"):
        Rung(persistent_resource="mine", strategy="spot")


def test_a_ladder_on_a_plain_step_is_refused_with_what_to_do():
    from vgp.machines.placement.placing import place

    asked = Request.model_validate({"capacity": [H100]})
    with pytest.raises(PlacementError, match=r"capacity is not possible for a plain step(?s:.)*retries = 5"):
        place(asked, kind="step", as_of=TODAY, name="prepare")


def test_the_setting_probe_of_earlier_versions_is_refused_with_the_way_out():
    with pytest.raises(ValidationError, match="probe .* remove it"):
        Request(probe=False, capacity=({"machine": "g2-standard-4"},))


def test_a_deadline_without_a_ladder_is_refused():
    with pytest.raises(ValidationError, match="deadline is for a step with a ladder"):
        Request(deadline="12h")
    assert Request(deadline="12h", capacity=()).capacity == (), "an environment takes the ladder away, and not the key"


TERMS = st.builds(Terms, st.floats(0, 100), st.floats(1, 1e6), st.sampled_from(["standard", "spot", "flex_start"]))


@given(st.lists(TERMS, min_size=1, max_size=5), st.floats(1, 7 * 86400))
def test_no_way_is_dearer_than_the_dearest(rungs, limit_s):
    way = find_dearest_course(rungs, limit_s)
    most = sum(rung.usd_per_hour * held.total_s for rung, held in zip(rungs, way, strict=True))
    assert sum(held.jobs_s for held in way) <= limit_s * (1 + 1e-9), "hours of jobs, which run one at a time"
    spot_usd = max((rung.usd_per_hour for rung in rungs if rung.strategy == "spot"), default=0.0)
    for order in (rungs, rungs[::-1], sorted(rungs)):  # other ways to spend the same time
        left, usd, on_demand_s = limit_s, 0.0, 0.0
        for rung in order:
            held = min(left, rung.timeout_s)
            usd, left = usd + rung.usd_per_hour * held, left - held
            on_demand_s += held * (rung.strategy == "standard")
        handover = spot_usd * HANDOVER_S * ceil(on_demand_s / 3600 - 1e-9)
        assert usd + handover <= most * (1 + 1e-9) + 1e-6


def test_two_jobs_at_once_are_counted_for_each_hour_on_demand_that_may_begin():
    ladder = [Terms(10, 7200, "spot"), Terms(12, 1800, "spot"), Terms(30, 5 * 3600), Terms(20, 1e6, "flex_start")]
    assert find_dearest_course(ladder, 9 * 3600) == [(0, 0), (0, 5 * HANDOVER_S), (5 * 3600, 0), (4 * 3600, 0)]
    assert find_dearest_course(ladder, 1.5 * 3600) == [(0, 0), (0, 2 * HANDOVER_S), (1.5 * 3600, 0), (0, 0)], (
        "the second hour has begun"
    )
    assert find_dearest_course(ladder[:2], 3600) == [(1800, 0), (1800, 0)], "no rung is on demand"


def test_gpus_of_the_catalog_have_peaks_but_those_without_tensor_cores():
    peaks = {name: peak_of_accelerator(name) for name in catalog.accelerators()}
    without = {name for name, peak in peaks.items() if peak is None and name.startswith("NVIDIA_")}
    assert without == {"NVIDIA_TESLA_P4", "NVIDIA_TESLA_P100", "NVIDIA_TESLA_K80", "NVIDIA_RTX_PRO_6000"}
    assert peaks["NVIDIA_H100_MEGA_80GB"] == 989.5e12 and peaks["NVIDIA_TESLA_T4"] == 65e12
    assert peaks["NVIDIA_A100_80GB"] == peaks["NVIDIA_TESLA_A100"] == 312e12
