"""How often a run saves: the published optimum, what a save is taken to cost, and the bounds."""

import math

import pytest

from vgp.base.exits import UserError
from vgp.train.loop.interval import LEAST_S, MOST_S, RATE_PER_H, Interval, optimum, rate_per_h

MINUTE, HOUR = 60.0, 3600.0


@pytest.mark.parametrize(("failure_every_s", "minutes"), [(24 * HOUR, 117), (6 * HOUR, 57), (15 * MINUTE, 9.1)])
def test_the_optimum_is_that_of_dalys_figures_3_to_5(failure_every_s, minutes):
    """Saves of 5 minutes."""
    assert optimum(5 * MINUTE, failure_every_s) / MINUTE == pytest.approx(minutes, abs=0.5 if minutes > 10 else 0.05)


def test_no_other_interval_loses_less():
    """Held against the whole of Daly's cost function, by arithmetic."""
    for save_s, failure_every_s in ((0.4, 2 * HOUR), (30.0, HOUR), (300.0, 6 * HOUR)):

        def wall(interval_s, save_s=save_s, failure_every_s=failure_every_s):
            return failure_every_s * math.expm1((interval_s + save_s) / failure_every_s) / interval_s

        best = optimum(save_s, failure_every_s)
        assert wall(best) <= 1.0001 * min(wall(best * factor) for factor in (0.5, 0.7, 0.9, 1.1, 1.4, 2))
    assert optimum(3 * HOUR, HOUR) == HOUR


def saved(interval, *, held_s=0.0, waited_s=0.0, slower=1.0, steps=4):
    """What an interval says after quiet steps of 0.1 s and a save with some steps beside it."""
    for _ in range(5):
        assert interval.add(5, 0.5, writing=False) == ""
    interval.begin(held_s)
    interval.hold(waited_s)
    assert interval.add(steps, 0.1 * steps * slower, writing=True) == ""
    return interval.add(steps, 0.1 * steps * slower, writing=False)


def test_what_a_save_costs_decides_and_is_told_once_with_its_reason():
    interval = Interval("auto", 0.4)
    assert interval.every_s == 60
    assert saved(interval, held_s=0.3, waited_s=0.1) == (
        "checkpoints every 85 s: a save costs 0.4 s, and one interruption in 2.5 h is expected"
    )
    assert saved(interval, held_s=0.3, waited_s=0.1) == "" and interval.every_s == pytest.approx(84.5, abs=0.5)
    assert "every 10 min" in saved(Interval("auto"), slower=3.6)  # 8 steps of 0.36 s in place of 0.1 s: 2.1 s


def test_a_save_that_costs_otherwise_than_the_first_moves_the_interval_and_is_told_again():
    interval = Interval("auto", 0.4)
    assert "every 4.2 min" in saved(interval, held_s=3.6)
    said = [saved(interval, held_s=0.4) for _ in range(4)]
    assert interval.every_s == pytest.approx(84.5, abs=0.5)
    assert [text[:23] for text in said if text] == ["checkpoints every 85 s:"]


def test_the_interval_keeps_within_its_bounds_and_says_so():
    cheap, rare, dear = Interval("auto", 60), Interval("auto", 1e-4), Interval("auto", 3600)
    assert saved(cheap, held_s=0.001).endswith("expected (0.35 s would lose least; least)")
    assert saved(rare, held_s=9.0).endswith("would lose least; most)")
    assert saved(dear, held_s=6.0).endswith("would lose least; saving takes 5% of the time at most)")
    assert (cheap.every_s, rare.every_s, dear.every_s) == (LEAST_S, MOST_S, 120)


def test_a_number_stays_a_number_whatever_saves_cost():
    interval = Interval(7.0, 0.4)
    assert saved(interval, held_s=5.0) == "" and interval.every_s == 7.0


def test_the_rate_is_the_launchers_or_the_stated_one():
    assert rate_per_h({}) == RATE_PER_H and rate_per_h({"TRAINING_PREEMPTIONS_PER_HOUR": "0.5"}) == 0.5
    for wrong in ("0", "-1", "often", "nan", "inf"):
        with pytest.raises(UserError, match="TRAINING_PREEMPTIONS_PER_HOUR=.*give a number above 0"):
            rate_per_h({"TRAINING_PREEMPTIONS_PER_HOUR": wrong})


@pytest.mark.parametrize("step_s", [20.0, 30.0, 70.0, 400.0])
def test_saving_takes_no_more_than_its_share_of_steps_that_are_long(step_s):
    """Each save makes the step beside it a fifth longer, and holds training up for next to nothing."""
    interval, since_s, slower_s, total_s, is_beside = Interval("auto", 0.6), 0.0, 0.0, 0.0, False
    for _ in range(400):
        seconds = step_s * (1.2 if is_beside else 1.0)
        interval.add(1, seconds, writing=False)
        since_s, total_s, slower_s = since_s + seconds, total_s + seconds, slower_s + seconds - step_s
        if is_beside := since_s >= interval.every_s:
            interval.begin(0.01)
            since_s = 0.0
    assert interval.costs and slower_s <= 0.06 * total_s
