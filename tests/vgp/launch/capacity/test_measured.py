import json

from vgp.launch.capacity.situation import Progress, at_risk_s, change_over_s, pace_s
from vgp.protocol.capacity.ladder import Ladder

from .conftest import ladder_of, rung
from .test_situation import NOW, attempt, ladder

SPOT, STANDARD = rung("spot", speed=0.5), rung("standard", strategy="standard")
PLAN = ladder_of(SPOT, STANDARD)
#: A job that has just begun: it has measured its start and nothing else.
BEGUN = Progress("2-x", step=40, steps=100, saved_step=40, start_s=200.0)


def after(**measured) -> Ladder:
    """A first job that ended, and a second one; as the next launcher reads them."""
    first = attempt(1, "spot", created=NOW - 5000, started=NOW - 4900, ended=NOW - 900, outcome="preempted", **measured)
    ladders = ladder(first, attempt(2, "standard", created=NOW - 900, started=NOW - 500))
    return Ladder.from_json(json.loads(json.dumps(ladders.to_json())))


def test_what_a_job_measured_holds_until_the_next_one_knows_better_whichever_launcher_looks():
    here = after(seconds_per_step=4.0, start_s=100.0, checkpoint_every_s=300.0, save_s=20.0)
    assert pace_s(PLAN, here, BEGUN) == 4.0 * 0.5 and at_risk_s(here, BEGUN) == 320
    report = Progress("2-x", 50, 100, 40, seconds_per_step=1.0, checkpoint_every_s=900.0)
    assert pace_s(PLAN, here, report) == 1.0 and at_risk_s(here, report) == 900
    assert pace_s(PLAN, after(), BEGUN) is None


def test_what_is_at_risk_is_the_interval_of_checkpoints_and_not_what_is_unsaved_at_the_moment():
    just_saved = Progress("2-x", 50, 100, 50, seconds_per_step=1.0, checkpoint_every_s=900.0, save_s=30.0)
    assert at_risk_s(after(), just_saved) == 930
    assert at_risk_s(after(), None) == 600, "before anything is known"
    behind = Progress("2-x", 2050, 9000, 50, seconds_per_step=1.0, checkpoint_every_s=900.0)
    assert at_risk_s(after(), behind) == 2000, "where saves do not come through"


def test_a_change_over_takes_what_was_measured_and_ten_minutes_before_that():
    assert change_over_s(STANDARD, ladder(), None) == 600
    here = after(start_s=100.0)
    assert change_over_s(STANDARD, here, BEGUN) == 1.5 * (400 + 200) + 120
    assert change_over_s(SPOT, here, BEGUN) == 1.5 * (100 + 200) + 120
    other = rung("other", strategy="standard")
    assert change_over_s(other, here, BEGUN) == 600, "nothing is known of its machines"
    assert change_over_s(other, here, Progress("2-x", 1, 9, 0, start_s=1000.0)) == 1.5 * (100 + 1000) + 120


def test_a_change_over_waits_for_the_slowest_end_and_not_for_a_queue():
    ended = attempt(1, "spot", created=NOW - 9000, ended=NOW - 6000, ending_at=NOW - 6250.0, outcome="moved")
    queued = attempt(2, "spot", created=NOW - 6000, started=NOW - 3000, ended=NOW - 2000, outcome="preempted")
    quick = attempt(3, "spot", created=NOW - 2000, started=NOW - 1900, start_s=60.0)
    assert change_over_s(SPOT, ladder(ended, queued, quick), None) == 1.5 * (100 + 60) + 250 + 120
