import dataclasses
import json

import pytest

from vgp.protocol.capacity.plan import EXECUTOR_INPUT, Plan, PlannedRung, fill_job

PROGRAM = "print('a program that every rung starts')\n" * 500


def rung(name="first", **changed) -> PlannedRung:
    container = {"imageUri": "image", "command": ["python3", "-c", PROGRAM], "args": ["--x", EXECUTOR_INPUT]}
    job = {"displayName": name, "jobSpec": {"workerPoolSpecs": [{"containerSpec": container}]}}
    given = {"name": name, "region": "us-central1", "strategy": "spot", "timeout_s": 3600.0, "job": job, **changed}
    return PlannedRung(**given)


def test_a_plan_comes_back_as_it_was_and_writes_what_rungs_share_once():
    plan = Plan(step="train", rungs=(rung(), rung("second", max_wait_s=60.0, usd_per_hour=2.5)), deadline_s=7200.0)
    text = plan.to_json()
    assert Plan.from_json(text) == plan and "\n" not in text
    assert text.count("a program that every rung starts") == 500


def test_the_executor_input_is_put_where_it_was_left_open_and_nowhere_else():
    body = fill_job(rung().job, '{"inputs": {}}')
    assert body["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["args"] == ["--x", '{"inputs": {}}']
    assert EXECUTOR_INPUT in json.dumps(rung().job)


def test_what_a_run_leaves_empty_is_not_sent():
    """As {{$.pipeline_network}} and the key are in a run without them."""
    job = {"jobSpec": {"network": "", "scheduling": {"disableRetries": False}}, "encryptionSpec": {"kmsKeyName": ""}}
    assert fill_job(job, "{}") == {"jobSpec": {"scheduling": {"disableRetries": False}}}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda plan: plan.update(rungs=[]), "has no rungs"),
        (lambda plan: plan.update(rngs=1), "rngs, which this launcher does not know"),
        (lambda plan: plan["rungs"][0].pop("region"), "rung 1 lacks a field"),
        (lambda plan: plan["rungs"][0].update(strategy="spott"), "one of standard, spot, flex_start, reservation"),
        (lambda plan: plan["rungs"][0].update(job={}), "no jobSpec.workerPoolSpecs"),
        (lambda plan: plan["rungs"][0].update(speed=0), "speed = 0: must be a number above 0"),
        (lambda plan: plan["rungs"][0].update(timeout_s="3600s"), "timeout_s = '3600s': must be a number above 0"),
        (lambda plan: plan["rungs"].append(plan["rungs"][0]), "the same name"),
    ],
)
def test_what_is_no_plan_is_refused_in_a_sentence(change, words):
    whole = dataclasses.asdict(Plan(step="train", rungs=(rung(),)))
    whole["rungs"] = list(whole["rungs"])
    change(whole)
    with pytest.raises(ValueError, match=words):
        Plan.from_json(json.dumps(whole))


def test_a_size_is_a_ladder_of_its_own():
    plan = Plan(step="train", rungs=(rung(size="small"), rung(size="large"), rung("second", size="large")))
    assert [each.name for each in Plan.from_json(plan.to_json()).of_size("large").rungs] == ["first", "second"]
    with pytest.raises(ValueError, match="size = 'huge': one of small, large"):
        plan.of_size("huge")
    with pytest.raises(ValueError, match="size = 'small': the step has no sizes"):
        Plan(step="train", rungs=(rung(),)).of_size("small")
