"""The short form of `python -m tools.drills.capacity`, and that it would see what is wrong."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from tools.drills.capacity import checks, restarts, rows, stories, summary, work
from tools.drills.capacity.__main__ import plan_climbs
from tools.drills.capacity.climb import Evidence, Step
from tools.emulator.working_job import CANCELLED, FAILED, RUNNING, SUCCEEDED, Spell
from vgp.base.clock import format_time

SPEED = 100


def test_a_climb_through_all_that_goes_wrong_and_a_launcher_that_is_gone_finishes_with_the_same_bits(tmp_path):
    assert stories.orphaned(tmp_path, SPEED) == []


TASK = work.StandIn(steps=6, every=2)
PLAN = work.plan(TASK)
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def job(number, why, state, minutes, token):
    """A job that had machines for so long."""
    spell = Spell(BEGAN, BEGAN + timedelta(minutes=minutes), why)
    return SimpleNamespace(
        state=state, over=state != RUNNING, spells=[spell], created=BEGAN, ended=spell.ended,
        hours=lambda now: minutes / 60, message=SimpleNamespace(labels={"training-attempt": token}),
    )  # fmt: skip


def attempt(number, outcome, minutes, **more):
    name = f"customJobs/{number}"
    facts = {
        "number": number,
        "job": name,
        "token": "ab"[number - 1],
        "rung": "1 spot",
        "outcome": outcome,
        "words": "",
    }
    return {**facts, "hours": minutes / 60, "usd": 30 * minutes / 60, "step_to": 0, "steps_lost": 0, **more}


@pytest.fixture
def good():
    """A preemption after step 3 of 6, a checkpoint after every second step, and the end."""
    jobs = {
        "customJobs/1": job(1, "preempted", FAILED, 5, "a"),
        "customJobs/2": job(2, "succeeded", SUCCEEDED, 6, "b"),
    }
    steps = [Step("a", "1", n, n) for n in (1, 2, 3)] + [Step("b", "2", n, 10 + n) for n in (3, 4, 5, 6)]
    lost = attempt(1, "preempted", 5, step_to=2, steps_lost=1)
    ladder = {"attempts": [lost, attempt(2, "succeeded", 6, step_to=6, steps_lost=None)]}
    resources = '{"resources": [{"resourceType": "CustomJob", "resourceUri": "https://x/v1/customJobs/2"}]}'
    region = SimpleNamespace(jobs=jobs)
    return Evidence(0, "", BEGAN, BEGAN, region, ladder, steps, TASK.expected_model(), resources, 1)


def test_nothing_is_wrong_with_a_good_climb(good):
    assert checks.list_problems(good, TASK, PLAN) == []


def test_a_job_that_ended_well_while_it_was_being_stopped_has_succeeded(good):
    good.region.jobs["customJobs/2"].spells[-1].why = "cancelled"
    assert checks.list_problems(good, TASK, PLAN) == []


def test_a_job_that_waited_and_took_over_is_an_attempt_and_nothing_is_wrong(good):
    assert checks.list_problems(waited(good, outcome="granted"), TASK, PLAN) == []


@pytest.mark.parametrize(("after_s", "wrong"), [(-60, 0), (20, 0), (300, 1)])
def test_one_may_be_asked_for_when_the_job_beside_it_has_just_ended_and_not_later(good, after_s, wrong):
    at = {name: format_time((BEGAN + timedelta(seconds=s)).timestamp()) for name, s in (("started", 0), ("ended", 900))}
    sent = format_time((BEGAN + timedelta(seconds=900 + after_s)).timestamp())
    found = with_attempt(good, 2, rung="4 standard", **at)
    found.ladder["waiting"] = [{"number": 1, "job": "", "outcome": "stockout", "intended": sent, "ended": sent}]
    problems = [each for each in checks.list_problems(found, TASK, PLAN) if "nothing worked on demand" in each]
    assert len(problems) == wrong


def test_climbs_that_are_done_are_not_played_again(tmp_path):
    given = SimpleNamespace(calls=False, stories=False, seeds=[3, 4], work="standin", speed=100)
    assert list(plan_climbs(given, tmp_path, {"seed 3"})) == ["seed 4"]


def test_what_all_climbs_come_to_names_those_that_went_wrong():
    good = {**rows.empty("seed 1", []), "lost": 2, "most_lost": 2, "kills": {"node": 1}}
    bad = {**rows.empty("seed 2", ["the launcher ended with 1"]), "lost": 3, "most_lost": 3, "kills": {"node": 2}}
    text = summary.of([good, bad])
    assert "2 climbs, 1 as they must be; wrong: seed 2" in text
    assert "killed: 3 node" in text
    assert "5 steps done again, 3 at one end at most" in text


def with_attempt(good, number, **more):
    attempts = [each | more if each["number"] == number else each for each in good.ladder["attempts"]]
    return replace(good, ladder={"attempts": attempts})


def worked_beside(good):
    return replace(good, steps=[*good.steps, Step("a", "1", 4, 12)])


def from_the_beginning(good):
    return replace(good, steps=[*good.steps[:3], *(Step("b", "2", n, 9 + n) for n in range(1, 7))])


def still_at_work(good):
    good.region.jobs["customJobs/3"] = job(3, "", RUNNING, 1, "c")
    return good


def waited(good, **more):
    """The second attempt's job had waited beside one on demand."""
    good.region.jobs["customJobs/2"].message.labels["training-attempt"] = "next-1-b"
    at = format_time(BEGAN.timestamp())
    first, second = good.ladder["attempts"]
    ladder = {
        "attempts": [
            first | {"rung": "4 standard", "started": at, "ended": at, "usd": 7.5},
            second | {"token": "next-1-b"},
        ],
        "waiting": [
            {
                "number": 1,
                "job": "customJobs/2",
                "token": "next-1-b",
                "intended": at,
                "ended": at,
                "hours": 0,
                "usd": 0,
                "rung": "1 spot",
                **more,
            }
        ],
    }
    return replace(good, ladder=ladder)


def twin(good, token):
    """A job of the first attempt's time that its launcher did not follow, and that took the first step."""
    good.region.jobs["customJobs/3"] = job(3, "cancelled", CANCELLED, 1, token)
    return replace(good, steps=[Step(token, "3", 1, 0), *good.steps])


def test_of_a_request_that_was_handled_twice_both_jobs_may_begin(good):
    assert checks.list_problems(twin(good, "a"), TASK, PLAN) == []


def a_stranger(good):
    good.region.jobs["customJobs/3"] = job(3, "cancelled", CANCELLED, 1, "c")
    return replace(good, steps=[Step("c", "3", 1, 0), *good.steps])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda good: replace(good, code=None), "ended with None"),
        (lambda good: replace(good, model=b"other"), "other bits"),
        (worked_beside, "before and after another one"),
        (from_the_beginning, "3 steps lost"),
        (
            lambda good: with_attempt(good, 1, outcome="stockout"),
            "is recorded as stockout, and its machines ended: preempted",
        ),
        (lambda good: with_attempt(good, 1, outcome=None), "attempt 1 is not over"),
        (lambda good: with_attempt(good, 2, hours=0.2), "and had 0.1000 h"),
        (lambda good: with_attempt(good, 2, usd=1.0), "is recorded with a cost of 1.0"),
        (
            lambda good: with_attempt(good, 1, steps_lost=2),
            "is recorded with 2 lost steps: it reached step 3, and step 2 was saved",
        ),
        (
            lambda good: with_attempt(good, 1, step_to=3),
            "is recorded with the saved step 3, and the next job resumed after step 2",
        ),
        (lambda good: with_attempt(good, 2, step_to=5), "is recorded as succeeded at step 5 of 6"),
        (lambda good: replace(good, gcp_resources=good.gcp_resources.replace("/2", "/1")), "the last job is"),
        (still_at_work, "is still active"),
        (a_stranger, "no attempt names it"),
        (lambda good: waited(good, outcome=None), "waiting job 1 is not over"),
        (lambda good: waited(good, outcome="stockout"), "is recorded as stockout, its machines ended: succeeded"),
        (lambda good: waited(good, outcome="granted", hours=0.1), "is no attempt with its hours"),
        (lambda good: waited(good, outcome="granted", token="next-1-c"), "is no attempt with its hours"),
    ],
)
def test_the_drill_sees_what_is_wrong(good, change, words):
    assert words in "; ".join(checks.list_problems(change(good), TASK, PLAN))


@pytest.mark.parametrize(
    ("ends", "model", "steps", "words"),
    [
        (["preempted", "succeeded"], b"m", [1, 2, 3, 3, 4], ""),
        (["succeeded"], b"m", [1, 2, 3, 3, 4], "the machines of the jobs ended"),
        (["preempted", "succeeded"], b"other", [1, 2, 3, 3, 4], "not one with the bits"),
        (["preempted", "succeeded"], b"m", [1, 2, 3, 1, 2], "steps done again at the ends: [3], and 2 may be"),
    ],
)
def test_a_plain_job_that_was_started_again_is_held_to_its_bits_and_its_steps(tmp_path, ends, model, steps, words):
    (tmp_path / "run/model").mkdir(parents=True)
    (tmp_path / "run/model/model.safetensors").write_bytes(model)
    plain = SimpleNamespace(spells=[SimpleNamespace(why=why) for why in ends])
    region = SimpleNamespace(jobs={"one": plain}, machines=SimpleNamespace(mount=tmp_path))
    run = SimpleNamespace(state=SimpleNamespace(name="PIPELINE_STATE_SUCCEEDED"))
    done, task = [Step("", "1", number, 0) for number in steps], SimpleNamespace(every=2, expected_model=lambda: b"m")
    problems = "; ".join(restarts.problems(run, region, task, done, ["preempted", "succeeded"]))
    assert words in problems and bool(problems) == bool(words)
