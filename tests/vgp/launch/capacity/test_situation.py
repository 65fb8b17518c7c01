from dataclasses import replace

import pytest

from vgp.launch.capacity.policy import decide
from vgp.launch.capacity.situation import (
    Progress,
    build_situation,
    make_offers,
    open_rungs,
    parse_progress,
    time_left_s,
    work_left_s,
)
from vgp.launch.capacity.verdict import decide_verdict
from vgp.protocol.capacity.ladder import Attempt, Ladder, Waiting

from .conftest import ladder_of, rung

NOW = 1_000_000.0
PLAN = ladder_of(rung("a", timeout_s=3600), rung("b", timeout_s=3600, speed=0.5), rung("c", work_hours=3, speed=2))


def attempt(number, name, **changed):
    given = {"number": number, "rung": name, "region": "r", "token": f"{number}-x", "intended": NOW - 900}
    return Attempt(**{**given, "outputs": "o", **changed})


def ladder(*attempts):
    return Ladder(run="r", step="train", began=NOW - 7200, deadline=None, rungs=[], attempts=attempts)


def test_the_work_left_follows_from_the_steps_and_the_speed_of_the_rung_they_were_measured_on():
    slow = Progress("1-x", step=60, steps=100, saved_step=50, seconds_per_step=4.0)
    here = ladder(attempt(1, "b", started=NOW - 600))
    assert work_left_s(PLAN, here, slow) == 50 * 4.0 * 0.5
    assert work_left_s(PLAN, here, None) == 3 * 3600 * 2, "the declared time is used"
    bare = ladder_of(*PLAN.rungs[:2])
    assert work_left_s(bare, here, None) == 3600, "else the whole timeout counts"
    assert work_left_s(bare, here, Progress("1-x", 60, 100, 75)) == 900, "and the part of it that the steps show"


def test_all_jobs_of_a_rung_together_have_its_timeout():
    used = attempt(1, "a", started=NOW - 3000, ended=NOW - 300, outcome="preempted")
    assert time_left_s(PLAN.rungs[0], ladder(used), NOW) == 900
    over = ladder(used, attempt(2, "a", started=NOW - 890, ended=NOW, outcome="preempted"))
    assert [each.name for each in open_rungs(PLAN, over, NOW)] == ["b", "c"]


def test_records_list_refusals_grants_and_preemptions_of_each_rung():
    tried = (
        attempt(1, "a", ended=NOW - 500, outcome="stockout"),
        attempt(2, "a", ended=NOW - 450, outcome="lost", job="j"),
        attempt(2, "a", ended=NOW - 400, outcome="lost"),
        attempt(3, "a", ended=NOW - 300, outcome="moved"),
        attempt(4, "a", started=NOW - 290, ended=NOW - 200, outcome="preempted"),
        attempt(5, "b", started=NOW - 100, created=NOW - 150),
        attempt(6, "c", ended=NOW - 110, outcome="moved", next_rung="c"),
    )
    known = build_situation(PLAN, ladder(*tried), PLAN.rungs, None, NOW)
    first, second, third = known.records
    assert first.refused_s == (NOW - 500, NOW - 400, NOW - 300) and first.preempted_s == (NOW - 200,)
    assert first.granted_s == (NOW - 290,) and first.held_s == 90
    assert second.held_s == 100 and third.granted_s == third.refused_s == ()
    assert (known.on, known.running, known.asked_s) == (1, True, NOW - 150)


def test_a_time_of_googles_that_cannot_be_by_this_clock_is_when_it_was_asked_for_or_now():
    behind = waiting(1, "a", "stockout", intended=NOW - 60, ended=NOW - 300)
    ahead = waiting(2, "b", "stockout", intended=NOW - 60, ended=NOW + 300)
    asked = attempt(1, "c", created=NOW + 290, started=NOW + 299)
    known = build_situation(PLAN, replace(ladder(asked), waiting=(behind, ahead)), PLAN.rungs, None, NOW)
    assert [each.refused_s for each in known.records] == [(NOW - 60,), (NOW,), ()] and known.asked_s == NOW


def test_jobs_that_are_lost_again_and_again_fail_the_step_unless_they_save_something():
    def ended(saves):
        lost = [
            attempt(n, "a", job="j", outcome="lost", ended=NOW - 9, step_from=n, step_to=n + saves, words="gone")
            for n in range(1, 6)
        ]
        return decide_verdict(PLAN, replace(ladder(*lost), began=NOW - 60), "o", NOW, lambda job: ())

    found = ended(0)
    assert found is not None and found.words == "5 jobs in a row were lost: gone"
    assert ended(1) is None


@pytest.mark.parametrize(
    ("jobs", "silent", "each_s", "words"),
    [
        (4, 4, 120, None),
        (5, 1, 120, "5 jobs in a row were lost: gone"),
        (0, 5, 719, None),
        (0, 5, 720, "no job could be created for 1h 00m: no answer"),
        (0, 4, 7200, None),
    ],
    ids=["no jobs of the five", "five jobs", "not for an hour", "for an hour", "a launcher that was away for hours"],
)
def test_a_creation_without_an_answer_lost_no_machines_and_is_tried_for_an_hour(jobs, silent, each_s, words):
    lost = [attempt(n, "a", job="j", outcome="lost", ended=NOW, words="gone") for n in range(jobs)]
    began = NOW - silent * each_s
    for n in range(silent):
        times = {"intended": began + n * each_s, "ended": began + (n + 1) * each_s}
        lost.append(attempt(9 + n, "a", outcome="lost", words="no answer", **times))
    found = decide_verdict(PLAN, replace(ladder(*lost), began=NOW - 30_000), "o", NOW, lambda job: ())
    assert (found.words if found else None) == words


def waiting(number, name, outcome, **changed):
    given = {"number": number, "rung": name, "region": "r", "token": f"{number}-y", "intended": NOW - 900}
    return Waiting(**{**given, "outcome": outcome, "ended": NOW - 100 * number, **changed})


def test_jobs_that_waited_in_vain_are_refusals_and_the_one_that_waits_is_known_with_its_machines():
    waited = (
        waiting(5, "a", "stockout"),
        waiting(4, "a", "granted", started=NOW - 460),
        waiting(3, "b", "lost"),
        waiting(2, "b", "cancelled", ending="cancelled"),
        waiting(1, "b", "wait_expired", ending="wait_expired"),
        waiting(6, "b", None, ended=None),
    )
    tried = (attempt(1, "a", ended=NOW - 300, outcome="quota"), attempt(2, "c", started=NOW - 60))
    known = build_situation(PLAN, replace(ladder(*tried), waiting=waited), PLAN.rungs, None, NOW)
    first, second, _ = known.records
    assert first.refused_s == (NOW - 500, NOW - 300), "with those of attempts, in the order of time"
    assert first.granted_s == () and first.held_s == 0, "what took over is an attempt, and counted as one"
    assert second.refused_s == (NOW - 300, NOW - 100), (
        "a request that the launcher ended, as the step went on, does not count"
    )
    assert (known.next_on, known.next_running, known.can_ask_beside) == (1, False, True)
    runs = (*waited[:-1], replace(waited[-1], started=NOW - 5))
    assert build_situation(PLAN, replace(ladder(*tried), waiting=runs), PLAN.rungs, None, NOW).next_running


def test_after_one_that_google_would_not_have_none_is_asked_for():
    asked = replace(ladder(), waiting=(waiting(1, "a", "user_error"),))
    assert not build_situation(PLAN, asked, PLAN.rungs, None, NOW).can_ask_beside


def test_work_of_unknown_length_leaves_time_to_try_spot_and_is_measured_by_the_first_job():
    """The timeouts of rungs are the deadline by default: taken for the work, on demand would always come first."""
    spot = rung("spot", timeout_s=36_000)
    slow = rung("standard", strategy="standard", timeout_s=36_000, usd_per_hour=9, speed=0.5)
    plan = ladder_of(spot, slow, deadline_s=36_000)
    fresh = replace(ladder(), began=NOW, deadline=NOW + 36_000)
    known = build_situation(plan, fresh, plan.rungs, None, NOW)
    assert known.work_left_s == 0.8 * 36_000 * 0.5, "of what on demand can do until the deadline"
    assert decide(known, make_offers(plan.rungs, fresh, None)).rung == 0
    declared = ladder_of(replace(spot, timeout_s=30_000), slow, deadline_s=36_000)
    assert work_left_s(declared, fresh, None) == 30_000


def test_the_progress_of_a_job_is_taken_only_where_it_makes_sense():
    document = {"attempt": "1-x", "step": 5, "steps": 10, "saved_step": 4, "seconds_per_step": -1, "start_s": "x"}
    assert parse_progress(document) == Progress("1-x", 5, 10, 4)
    assert parse_progress({"step": "5", "steps": 10}) is None and parse_progress({}) is None
