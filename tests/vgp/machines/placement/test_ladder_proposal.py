"""A proposed ladder: its rungs in their order, within the budget, and of machines that compile takes."""

from datetime import date

import pytest

from vgp.base.errors import RequestError
from vgp.machines.catalog import catalog, prices
from vgp.machines.placement import plain
from vgp.machines.placement.ladder_proposal import Proposal, propose_ladder
from vgp.machines.placement.placed_ladder import ladder
from vgp.machines.placement.search import Need
from vgp.machines.placement.step_request import Request

TODAY = date(2026, 11, 20)


def need(gpu: str | None = None, **sizes) -> Need:
    return Need(as_of=TODAY, accelerator=catalog.accelerator(gpu) if gpu else None, **sizes)


def taken(proposal: Proposal, region: str) -> None:
    """Every proposed rung is one that compile takes."""
    asked = {"capacity": [rung.keys for rung in proposal.rungs], "deadline": f"{proposal.deadline_s}s"}
    ladder(Request.model_validate(asked), region=region, name="train", as_of=TODAY)


def test_spot_here_then_elsewhere_then_the_queue_then_on_demand():
    made = propose_ladder(need("L4"), region="us-central1", gpus=16, deadline_s=43200)
    ways = [(rung.keys.get("strategy", "standard"), "regions" in rung.keys) for rung in made.rungs]
    assert ways == [("spot", False), ("spot", True), ("flex_start", False), ("standard", False)]
    assert {(rung.keys["machine"], rung.keys["nodes"]) for rung in made.rungs} == {("g2-standard-96", 2)}
    disk = prices.boot_disk("pd-ssd", 100, "us-central1").usd_per_hour
    spots = [rung for rung in made.rungs if rung.keys.get("strategy") == "spot"]
    spot = max(rung.usd_per_hour + rung.disks_usd_per_hour for rung in spots)
    dearest = 2 * disk + max(rung.usd_per_hour for rung in made.rungs)
    climber = plain.default().price("standard", "us-central1").usd_per_hour + disk
    assert made.max_usd == pytest.approx(12 * dearest + 12 * spot * 360 / 3600 + 12.5 * climber)
    assert all(region.startswith("us-") for region in made.rungs[1].keys["regions"])
    taken(made, "us-central1")


@pytest.mark.parametrize("gpu", ["T4", "L4", "A100", "A100-80GB", "H100", "H200", "B200", "RTX-PRO-6000"])
@pytest.mark.parametrize("region", ["us-central1", "europe-west4", "asia-southeast1"])
def test_what_is_proposed_compiles_wherever_the_run_is(gpu, region):
    taken(propose_ladder(need(gpu), region=region), region)


def test_what_the_budget_does_not_afford_is_left_out_and_said():
    whole = propose_ladder(need("H100", count=8), region="us-central1", deadline_s=36000)
    dear = max(rung.usd_per_hour for rung in whole.rungs)
    made = propose_ladder(need("H100", count=8), region="us-central1", deadline_s=36000, max_usd=dear * 10 - 1)
    assert len(made.rungs) == len(whole.rungs) - 1 and made.max_usd < dear * 10 - 1
    assert any("left out, as a ladder of " in note and " with it can cost $" in note for note in made.notes)
    taken(made, "us-central1")


def test_a_budget_alone_gives_the_deadline():
    made = propose_ladder(need("L4"), region="us-central1", max_usd=20)
    assert 19 < made.max_usd <= 20 and made.deadline_s % 60 == 0


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"max_usd": 0.01}, "less than a start takes"),
        ({"max_usd": 0.01, "deadline_s": 36000}, "on the cheapest rung"),
        ({"gpus": 7}, None),
    ],
)
def test_what_cannot_be_is_said(asked, words):
    if words is None:
        with pytest.raises(RequestError, match="adds up to --gpus 7"):
            propose_ladder(need("A100-80GB", count=2), region="us-central1", **asked)
    else:
        with pytest.raises(RequestError, match=words):
            propose_ladder(need("L4"), region="us-central1", **asked)
