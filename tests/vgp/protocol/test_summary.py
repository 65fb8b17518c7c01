"""The summary of a run, night after night, in words, JSON and Markdown."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from vgp.protocol.capacity import ladder_view
from vgp.protocol.summary import Summary, summary_of
from vgp.steps.notice import markdown

from .nights import PRICES, all_of, night


def summarize(job: dict[str, Any], state: str = "SUCCEEDED") -> Summary:
    return summary_of(job, PRICES, state=state)


def test_a_night_with_new_data_trained() -> None:
    summary = summarize(night("b", all_of("SUCCEEDED")))
    assert (summary.state, summary.words) == ("succeeded", "trained; decision: promote")
    assert not summary.nothing_new and summary.since == ""
    assert [step.name for step in summary.steps] == ["resolve", "prepare", "train", "evaluate", "decide"]


def test_a_night_without_new_data_is_reported_with_the_run_since() -> None:
    summary = summarize(night("b", all_of("SKIPPED"), since="training-1a", decision="keep"))
    assert summary.words == "nothing new since training-1a: nothing was trained"
    assert summary.nothing_new and summary.since == "training-1a" and summary.decision == "keep"
    assert "The report is from training-1a." in markdown(summary)
    assert "/training-1a/decide_-74/report" in summary.links["report"]


def test_what_is_new_since_counts_from_the_newest_result() -> None:
    """The champion changed in run b, after the training of run a."""
    since = {"prepare": "a", "train": "a", "evaluate": "b", "decide": "b"}
    assert summarize(night("c", all_of("SKIPPED"), since=since)).words == "nothing new since b: nothing was trained"


def test_a_new_champion_trains_nothing_and_is_not_nothing() -> None:
    states = all_of("SUCCEEDED", prepare="SKIPPED", train="SKIPPED")
    summary = summarize(night("b", states, since="a", decision="keep"))
    assert summary.words == "nothing was trained; decision: keep; prepare and train taken from a"
    assert not summary.nothing_new


def test_a_night_that_found_no_reason_to_train_names_the_reason() -> None:
    """Of the pipeline retraining: what follows resolve lies in a branch that was not taken."""
    states = {step: "NOT_TRIGGERED" for step in ("prepare", "train", "evaluate", "decide")}
    job = night("b", {"resolve": "SUCCEEDED", **states})
    details = job["jobDetail"]["taskDetails"]
    resolve = next(detail for detail in details if detail["taskName"] == "resolve")
    resolve["execution"] = {"metadata": {"output:why": "no data is new since version 1 was trained."}}
    summary = summarize(job)
    assert summary.words == "nothing was trained: no data is new since version 1 was trained"
    assert (summary.nothing_new, summary.reason) == (False, "no data is new since version 1 was trained.")


def test_a_retry_of_a_failed_night_goes_on_from_it() -> None:
    summary = summarize(night("b-a2", all_of("SUCCEEDED", prepare="SKIPPED"), since="b"))
    assert summary.words == "trained; decision: promote; prepare taken from b"


def test_a_script_that_left_no_predictions_is_not_decided() -> None:
    summary = summarize(night("b", all_of("SUCCEEDED"), decision="not decided"))
    assert summary.words == "trained; not decided: the report has the reason"
    assert summary.as_json()["decision"] == "not decided"


def test_what_takes_up_a_model_did_not_train_it() -> None:
    """The command's step is a hit, and what is collected is made anew by another image."""
    job = night("b", all_of("SUCCEEDED", prepare="SKIPPED", train="SKIPPED"), since="a", decision="keep")
    components = job["pipelineSpec"]["components"]
    model = components["comp-train"]["outputDefinitions"]["artifacts"]["model"]
    components["comp-evaluate"]["inputDefinitions"] = {"artifacts": {"left_model": model}}
    components["comp-evaluate"]["outputDefinitions"] = components["comp-train"]["outputDefinitions"]
    assert summarize(job).words.startswith("nothing was trained; decision: keep")
    components["comp-evaluate"]["inputDefinitions"] = {"artifacts": {"dataset": {}}}
    assert summarize(job).words.startswith("trained; decision: keep")


def test_a_registered_version_is_reported_without_a_claim_of_training() -> None:
    words = "registered as version 7, champion since 2026-11-20T02:20:00Z in place of version 6"
    job = night("b", all_of("SUCCEEDED", prepare="SKIPPED", train="SKIPPED"), since="a")
    components, details = job["pipelineSpec"]["components"], job["jobDetail"]["taskDetails"]
    model = {"artifacts": components["comp-train"]["outputDefinitions"]["artifacts"]}
    components["comp-register"] = {"inputDefinitions": model, "outputDefinitions": model}
    components["comp-exit-handler-1"]["dag"]["tasks"]["register"] = {"componentRef": {"name": "comp-register"}}
    told_by = {"metadata": {"output:Output": "promoted", "output:words": words}}
    details.append({**details[-2], "taskName": "register", "taskId": "20", "execution": told_by, "outputs": {}})
    summary = summarize(job)
    assert summary.words == f"nothing was trained; decision: promote; {words}; prepare and train taken from a"
    assert summary.as_json()["released"] == words and words.replace("-", "-") in markdown(summary)


def test_a_failure_names_step_and_error() -> None:
    states = {"resolve": "SUCCEEDED", "prepare": "SKIPPED", "train": "FAILED"}
    summary = summarize(night("b", states, since="a", error="CUDA out\nof memory"), "FAILED")
    assert summary.words == "failed in train: CUDA out of memory"
    assert summary.as_json()["error"] == {"step": "train", "message": "CUDA out\nof memory"}
    assert not summary.nothing_new


def test_a_failure_of_no_step_has_the_runs_error() -> None:
    job = {**night("b", {}), "state": "PIPELINE_STATE_FAILED", "error": {"message": "quota"}}
    assert summarize(job).words == "failed: quota"


def test_a_cancelled_run_names_where() -> None:
    states = {"resolve": "SUCCEEDED", "prepare": "SUCCEEDED", "train": "CANCELLED"}
    assert summarize(night("b", states), "CANCELLED").words == "cancelled in train"


def test_a_run_that_cannot_take_results_is_never_nothing_new() -> None:
    job = night("b", all_of("SUCCEEDED"))
    for task in job["pipelineSpec"]["components"]["comp-exit-handler-1"]["dag"]["tasks"].values():
        task["cachingOptions"] = {}
    assert not summarize(job).nothing_new


def test_a_step_that_knows_its_runs_name_does_not_stand_in_the_way() -> None:
    """With the cache switched on for every step, resolve runs all the same."""
    job = night("b", all_of("SKIPPED"), since="a")
    job["pipelineSpec"]["components"]["comp-exit-handler-1"]["dag"]["tasks"]["resolve"]["cachingOptions"] = {
        "enableCache": True
    }
    assert summarize(job).nothing_new


def test_the_cost_is_time_by_price_of_what_ran() -> None:
    summary = summarize(night("b", all_of("SUCCEEDED", prepare="SKIPPED"), since="a"))
    assert summary.total_usd == pytest.approx((0.15 + 2.4 + 0.8 + 0.15) / 6)
    assert summary.unpriced == []
    without = summary_of(night("b", all_of("SUCCEEDED")), {"train": 2.4}, state="SUCCEEDED")
    assert without.total_usd == pytest.approx(0.4) and "train" not in without.unpriced
    assert "at least $0.40" in markdown(without)


def test_the_days_of_the_prices_of_the_run_are_shown_with_a_warning_if_old() -> None:
    prices = {"resolve": [0.15, "2026-07-30"], "prepare": [0.3, "2025-01-01"], "train": [2.4, "2026-07-09"]}
    job = night("b", all_of("SUCCEEDED", prepare="SKIPPED"), since="a")
    summary = summary_of(job, {**prices, "evaluate": [0.8, ""]}, state="SUCCEEDED")
    assert summary.price_dates == ["2026-07-09", "2026-07-30"] == summary.as_json()["price_dates"]
    assert summary.total_usd == pytest.approx((0.15 + 2.4 + 0.8) / 6)
    assert "\n\nPrices of 2026-07-09 to 2026-07-30" in markdown(summary)
    assert "rices of" not in markdown(summary_of(job, {"train": 2.4}, state="SUCCEEDED"))


def test_the_days_of_a_ladders_prices_are_those_of_its_rungs() -> None:
    """The price of the step is that of the machine that climbs; the rungs have their own."""
    rungs = [{"name": "1-spot-us-central1", "price_date": "2026-06-01"}]
    attempt = {"number": 1, "rung": "1-spot-us-central1", "outcome": "succeeded", "hours": 1.0, "usd": 3.0}
    climbed = ladder_view.read({"format": 1, "step": "train", "rungs": rungs, "attempts": [attempt]})
    assert climbed is not None
    prices = {"resolve": [0.15, "2026-07-30"], "train": [2.4, "2026-07-09"]}
    summary = summary_of(night("b", all_of("SUCCEEDED")), prices, state="SUCCEEDED", ways=(climbed,))
    assert summary.price_dates == ["2026-06-01", "2026-07-30"] == summary.as_json()["price_dates"]
    assert "Prices of 2026-06-01 to 2026-07-30" in markdown(summary)


def test_iterations_of_a_loop_are_distinguished() -> None:
    job = night("b", all_of("SUCCEEDED"))
    details = job["jobDetail"]["taskDetails"]
    train = next(detail for detail in details if detail["taskName"] == "train")
    details.append({**train, "taskId": "99"})
    assert [step.name for step in summarize(job).steps][2:4] == ["train[0]", "train[1]"]


@pytest.mark.parametrize(
    "uri", ["gs://b/checkpoints/train-1f/2", "/kfp/x", "gs://b/runs/1/a/train/model", "gs://b/", ""]
)
def test_an_artifact_elsewhere_names_no_run(uri: str) -> None:
    job = night("b", all_of("SKIPPED"), since="a")
    for detail in job["jobDetail"]["taskDetails"]:
        for output in detail.get("outputs", {}).values():
            output["artifacts"][0]["uri"] = uri
    assert summarize(job).words == "nothing new: nothing was trained"


def test_text_of_others_is_shown_and_not_obeyed() -> None:
    evil = "<img src=x onerror=alert(1)> [a](http://e) `|` https://u:hunter2@h \x1b[2J\n# no title\n| a |"
    page = markdown(summarize(night("b", {"resolve": "SUCCEEDED", "train": "FAILED"}, error=evil), "FAILED"))
    outside = [line for line in page.splitlines() if not line.startswith("    ")]
    assert not [line for line in outside if "<img" in line.replace("\\<", "") or line == "# no title"]
    assert "hunter2" not in page and "\x1b" not in page


@pytest.mark.parametrize(
    "job",
    [
        {}, {"name": 5, "state": None, "jobDetail": [], "pipelineSpec": "x"},
        {"jobDetail": {"taskDetails": [None, {"taskName": None, "outputs": {"a": 1}, "startTime": "soon"}]}},
        {"pipelineSpec": {"root": {"dag": {"tasks": {"a": None, "b": {"inputs": {"parameters": {"x": 1}}}}}},
                          "components": [1]}},
    ],
)  # fmt: skip
def test_a_job_that_is_none_is_no_error(job: dict[str, Any]) -> None:
    summary = summary_of(job, {}, state="SUCCEEDED")
    assert json.dumps(summary.as_json()) and markdown(summary)


def test_the_page_explains_every_field_of_the_message() -> None:
    page = (Path(__file__).parents[3] / "docs/how-to/alerts.md").read_text()
    sent = summarize(night("training-3f2a-a2", all_of("SUCCEEDED", prepare="SKIPPED"), since="training-3f2a")).as_json()
    explained = {
        name for row in re.findall(r"^\| (`[^|]+`) \|", page, re.MULTILINE) for name in row.strip("`").split("`, `")
    }
    assert set(sent) <= explained
