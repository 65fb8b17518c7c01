"""The view of a ladder, read from the launcher's own document, whatever is in it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.vgp.protocol.nights import PRICES, all_of, night
from vgp.protocol.capacity.ladder_view import LadderView, has_ladder, of_run, read
from vgp.protocol.summary import summary_of
from vgp.settings import Settings
from vgp.steps.notice import markdown
from vgp.vertex import clients

DOCUMENT = json.loads((Path(__file__).parents[3] / "data/ladder.json").read_text())


def way(**changes: Any) -> LadderView:
    view = read({**DOCUMENT, **changes})
    assert view is not None
    return view


def test_rungs_time_money_and_what_was_lost_are_one_sentence() -> None:
    assert way().words == (
        "3 attempts on 3 rungs (1 preemption and 1 expired wait), 8h 00m of machines, $280.00, 37 steps lost, "
        "1h 50m before its deadline"
    )
    late = way(deadline="2026-11-20T12:00:00Z").words
    assert late.endswith("10m 00s after its deadline")


def test_an_attempt_that_goes_on_names_the_job_of_the_moment() -> None:
    going = {**DOCUMENT["attempts"][2], "outcome": None, "ended": None, "usd": None, "steps_lost": None}
    view = way(attempts=[DOCUMENT["attempts"][0], going])
    assert view.job == "projects/1/locations/europe-west4/customJobs/5003" and way().job == ""
    assert view.words.startswith("2 attempts on 2 of 3 rungs (1 preemption), 8h 00m of machines, at least $40.00")
    assert view.as_json()["usd"] is None and view.attempts[1].state == "running"


def test_attempts_stand_by_their_numbers_and_one_without_machines_needs_no_price() -> None:
    refused = {**DOCUMENT["attempts"][1], "usd": None}
    view = way(attempts=[DOCUMENT["attempts"][2], refused, DOCUMENT["attempts"][0]])
    assert [each.number for each in view.attempts] == [1, 2, 3] and view.as_json()["usd"] == 280


@pytest.mark.parametrize("name", ["waiting", "probes"], ids=["", "of an earlier version"])
def test_jobs_that_waited_are_counted_with_the_time_and_money_of_those_that_took_over_from_none(name: str) -> None:
    lost = {"outcome": "preempted", "hours": 0.05, "usd": 1.0}
    granted = {"outcome": "granted", "hours": 0.0, "usd": 0.0}
    view = way(**{name: [granted, lost, {"outcome": None}]})
    assert "3 Spot requests in parallel (1 granted), 8h 03m of machines, $281.00, " in view.words
    assert view.as_json()["waiting"] == {"asked": 3, "granted": 1, "hours": 0.05, "usd": 1.0}
    assert view.as_json()["usd"] == 281
    unpriced = way(waiting=[lost | {"usd": None}])
    assert unpriced.as_json()["usd"] is None and "at least $280.00" in unpriced.words
    assert way().as_json()["waiting"] == {"asked": 0, "granted": 0, "hours": 0, "usd": 0}


def test_the_days_of_the_prices_are_those_of_the_rungs_whose_machines_were_held() -> None:
    days = ["2026-07-30", "2026-01-01", "2026-07-09"]
    dated = [{**rung, "price_date": day} for rung, day in zip(DOCUMENT["rungs"], days, strict=True)]
    view = way(rungs=dated)
    assert view.price_dates == ("2026-07-09", "2026-07-30") and view.as_json()["price_dates"] == [days[2], days[0]]
    waited = way(rungs=dated, waiting=[{"rung": "flex-8xH100", "hours": 0.05, "usd": 1.0}])
    assert waited.price_dates == ("2026-01-01", "2026-07-09", "2026-07-30")
    assert way().price_dates == () == way(rungs=[{**dated[0], "price_date": ["x"]}]).price_dates
    assert view.words == way().words


@pytest.mark.parametrize("document", [None, [], {}, {"format": 2}, {"format": 1, "attempts": "x", "rungs": [1]}])
def test_a_malformed_document_shows_nothing_and_breaks_nothing(document: Any) -> None:
    view = read(document)
    assert view is None or view.words == "no attempt yet"


def test_values_of_the_wrong_kind_are_left_out() -> None:
    attempt = {"number": True, "hours": "2", "usd": float("nan"), "steps_lost": -1.5, "step_to": "9", "outcome": 7}
    view = way(attempts=[attempt, {"rung": None}]).as_json()
    assert view["attempts"][0]["hours"] == 0.0 and view["attempts"][0]["usd"] is None
    json.dumps(view, allow_nan=False)


def test_a_summary_has_the_ways_up_and_their_money() -> None:
    prices = {name: usd for name, usd in PRICES.items() if name != "train"}
    without = summary_of(night("b", all_of("SUCCEEDED")), prices, state="SUCCEEDED")
    summary = summary_of(night("b", all_of("SUCCEEDED")), prices, state="SUCCEEDED", ways=(way(),))
    assert without.unpriced == ["train"] and summary.unpriced == []
    assert summary.total_usd == pytest.approx(without.total_usd + 280)
    assert "train: 3 attempts on 3 rungs" in markdown(summary) and "\n\nPrices of 2026-07-30" in markdown(summary)
    dated = way(rungs=[{**rung, "price_date": "2026-07-09"} for rung in DOCUMENT["rungs"]])
    page = markdown(summary_of(night("b", all_of("SUCCEEDED")), prices, state="SUCCEEDED", ways=(dated,)))
    assert page.count("rices of ") == 1 and "\n\nPrices of 2026-07-09 to 2026-07-30" in page
    assert summary.as_json()["ladders"][0]["attempts"][0]["outcome"] == "preempted"


def test_only_a_pipeline_with_a_launcher_has_ladders() -> None:
    def spec(*words: Any) -> dict[str, Any]:
        return {"deploymentSpec": {"executors": {"exec-train": {"container": {"command": list(words)}}, "x": {}}}}

    assert has_ladder(spec("sh", "-c", "exec python3 -m vgp.launch.capacity --plan x"))
    assert not has_ladder(spec("python3", 3)) and not has_ladder({})


def test_ladders_are_found_below_the_run_and_what_is_none_is_passed_over(cloud: Any) -> None:
    client = clients.storage(Settings(project="test-project"))
    bucket = client.bucket("test-bucket")
    for name, text in {
        "runs/capacity/training-1a/train-0123456789ab/ladder.json": json.dumps(DOCUMENT),
        "runs/capacity/training-1a/train-0123456789ab/progress.json": "{}",
        "runs/capacity/training-1a/tune-0123456789ab/ladder.json": "{",
        "runs/capacity/training-1ab/train-0123456789ab/ladder.json": json.dumps(DOCUMENT),
    }.items():
        bucket.blob(name).upload_from_string(text)
    assert of_run(client, "gs://test-bucket/runs", "training-1a") == (way(),)
    assert of_run(client, "gs://test-bucket/runs/", "training-2") == of_run(client, "/local", "training-1a") == ()
