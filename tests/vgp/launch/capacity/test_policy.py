"""Single choices, and whole jobs in the simulation of benchmarks/capacity on clouds of any behaviour."""

import math
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.capacity import rivals
from benchmarks.capacity.simulation import Outcome, Policy, World, simulate
from benchmarks.capacity.supply import ALWAYS, HOUR, Supply, draw_supplies
from vgp.launch.capacity.policy import Offer, Record, Situation, decide
from vgp.launch.capacity.prospect import MARGIN_S

SPOT = Offer(index=0, strategy="spot", usd_per_hour=3.5)
DEMAND = Offer(index=1, strategy="standard", usd_per_hour=10.0)
LADDER = (SPOT, DEMAND)
NONE = Record()


def situation(
    slack_h: float = 5.0,
    work_h: float = 10.0,
    now_s: float = 100_000.0,
    records: tuple[Record, ...] = (),
    **more: object,
) -> Situation:
    """With so much more time than the work takes on demand."""
    deadline_s = now_s + (work_h + slack_h) * HOUR
    return Situation(now_s=now_s, deadline_s=deadline_s, work_left_s=work_h * HOUR, records=records, **more)  # type: ignore[arg-type]


def refused(*ago_s: float, now_s: float = 100_000.0) -> Record:
    return Record(refused_s=tuple(sorted(now_s - each for each in ago_s)))


def world(
    supplies: tuple[Supply, ...], slack: float, over_s: float = 600.0, hours: float = 10.0, **more: object
) -> World:
    offers = tuple(replace(SPOT, index=place, change_over_s=over_s) for place in range(len(supplies)))
    demand = replace(DEMAND, index=len(supplies), change_over_s=over_s)
    base = World(
        offers=(*offers, demand),
        supplies=(*supplies, ALWAYS),
        work_s=hours * HOUR,
        deadline_s=hours * HOUR * slack,
        checkpoint_s=600.0,
        lag_s=30.0,
        limit_s=10 * hours * HOUR,
    )
    return replace(base, **more)  # type: ignore[arg-type]


lengths = st.lists(st.floats(20.0, 6 * HOUR), max_size=40)


@st.composite
def supplies(draw: st.DrawFn) -> Supply:
    changes, time_s = list[float](), 0.0
    for length in draw(lengths):
        time_s += length
        changes.append(time_s)
    return Supply(tuple(changes), draw(st.booleans()))


@settings(deadline=None, max_examples=20)
@given(
    st.lists(supplies(), min_size=1, max_size=3).map(tuple),
    st.floats(1.0, 2.5),
    st.floats(30.0, 3000.0),
    st.just(0.0) | st.floats(30.0, 1800.0),
    st.booleans(),
    st.floats(0.3, 1.0),
)
def test_no_deadline_is_missed_that_on_demand_from_the_first_moment_makes(
    clouds: tuple[Supply, ...], slack: float, over_s: float, checkpoint_s: float, asks: bool, speed: float
) -> None:
    job = world(clouds, slack, over_s, checkpoint_s=checkpoint_s, can_ask_beside=asks)
    slow = tuple(replace(offer, speed=1.0 if offer.is_net else speed) for offer in job.offers)
    job = replace(job, offers=slow)
    assert job.deadline_s is not None
    outcome = simulate(job, rivals.ours)
    if simulate(job, rivals.on_demand).finished_s + MARGIN_S <= job.deadline_s:
        assert outcome.finished_s <= job.deadline_s
    assert outcome == simulate(job, rivals.ours)


@settings(deadline=None, max_examples=6)
@given(st.floats(20.0, 900.0), st.floats(20.0, 900.0), st.booleans())
def test_a_rung_that_flaps_is_not_followed_up_and_down(there_s: float, gone_s: float, asks: bool) -> None:
    changes = [there_s]
    while changes[-1] < 30 * HOUR:
        changes += [changes[-1] + gone_s, changes[-1] + gone_s + there_s]
    outcome = simulate(world((Supply(tuple(changes), True),), 2.0, can_ask_beside=asks), rivals.ours)
    assert outcome.change_overs <= 20 * HOUR / 300.0 / 2
    assert outcome.finished_s <= 20 * HOUR


@cache
def outcomes(slack: float, policy: str) -> list[Outcome]:
    made: dict[str, type[rivals.UniformProgress] | None] = {"ours": None, "Uniform Progress": rivals.UniformProgress}
    kind = made[policy]
    jobs = [world(tuple(draw_supplies(seed, 1, 24 * HOUR)), slack) for seed in range(18)]
    return [simulate(job, _policy(kind)) for job in jobs]


def _policy(kind: type[rivals.UniformProgress] | None) -> Policy:
    return kind() if kind else rivals.ours


def cost(slack: float, policy: str = "ours") -> float:
    """Of 18 seeded jobs, as a share of on demand."""
    return sum(each.usd for each in outcomes(slack, policy)) / 18 / (10.0 * (10 + 1 / 6))


def test_more_time_costs_less_on_average() -> None:
    costs = [cost(slack) for slack in (1.05, 1.3, 1.6, 2.0)]
    assert costs == sorted(costs, reverse=True) and costs[-1] < 0.75 < costs[0] <= 1.01


def test_it_costs_less_than_uniform_progress_on_average() -> None:
    slacks = (1.3, 1.6, 2.0)
    assert sum(cost(slack) for slack in slacks) < sum(cost(slack, "Uniform Progress") for slack in slacks) - 0.03


def test_spot_comes_first_while_there_is_time_and_on_demand_at_the_safety_net() -> None:
    assert decide(situation(slack_h=5), LADDER).rung == 0
    assert decide(situation(slack_h=0.3), LADDER).rung == 1


def test_slack_above_the_reserve_is_waited_and_below_it_on_demand_trains() -> None:
    gone = (refused(10, 200), NONE)
    waits = decide(situation(slack_h=5, records=gone), LADDER)
    assert waits.rung is None and 0 < waits.look_again_s <= 300
    assert decide(situation(slack_h=1, records=gone), LADDER).rung == 1
    assert decide(situation(slack_h=1, records=gone, on=0, asked_s=99_600.0), LADDER).rung == 1


def test_spot_is_kept_until_it_is_taken_away_even_at_the_net() -> None:
    assert decide(situation(slack_h=0.3, on=0, running=True, asked_s=0.0), LADDER).rung == 0


def test_on_demand_a_job_waits_for_spot_and_the_training_moves_once_it_has_machines() -> None:
    on = situation(slack_h=1, on=1, running=True, asked_s=90_000.0)
    asks = decide(on, LADDER)
    assert (asks.rung, asks.beside) == (1, 0)
    waits = decide(replace(on, next_on=0), LADDER)
    assert (waits.rung, waits.beside) == (1, 0)
    assert decide(replace(on, next_on=0, next_running=True), LADDER).rung == 0
    late = replace(on, next_on=0, next_running=True, deadline_s=on.now_s + 10.2 * HOUR)
    assert (decide(late, LADDER).rung, decide(late, LADDER).beside) == (1, None), "too late to move: it is given up"


def test_after_a_refusal_spot_is_asked_for_later_and_never_where_that_may_not_be() -> None:
    on = situation(slack_h=1, on=1, running=True, asked_s=90_000.0)
    assert decide(replace(on, records=(refused(10), NONE)), LADDER).beside is None
    assert decide(replace(on, records=(refused(400), NONE)), LADDER).beside == 0
    assert decide(replace(on, can_ask_beside=False), LADDER).beside is None


def test_of_several_spot_rungs_none_is_asked_again_from_the_slack_that_is_kept_for_change_overs() -> None:
    """One of them may always be asked: in turn they would use it up, and there would be no way back from on demand."""
    ladder = (SPOT, replace(SPOT, index=1), replace(DEMAND, index=2))
    fresh = situation(slack_h=1, records=(refused(30), NONE, NONE))
    assert decide(fresh, ladder).rung == 1, "it has not refused yet"
    assert decide(replace(fresh, records=(refused(400), refused(30), NONE)), ladder).rung == 2
    assert decide(situation(slack_h=5, records=(refused(400), refused(30), NONE)), ladder).rung == 0


def test_going_back_is_not_worth_it_where_machines_live_shorter_than_a_change_over() -> None:
    short = Record(granted_s=(99_990.0,), preempted_s=tuple(range(90_000, 99_000, 100)), held_s=9_000.0)
    on = situation(slack_h=4, on=1, running=True, asked_s=99_100.0, records=(short, NONE))
    assert decide(on, LADDER).rung == 1


def test_on_demand_that_has_refused_is_asked_earlier() -> None:
    gone = refused(10, 200)
    calm = situation(slack_h=2.5, records=(gone, NONE))
    assert decide(calm, LADDER).rung is None
    assert decide(replace(calm, records=(gone, refused(5_000, 6_000, 7_000))), LADDER).rung == 1


def test_when_on_demand_has_just_refused_every_other_rung_is_asked_and_then_it_again() -> None:
    late = situation(slack_h=0.0, records=(NONE, refused(5)))
    assert decide(late, LADDER).rung == 0
    assert decide(replace(late, records=(refused(5), refused(5))), LADDER).rung is None
    assert decide(replace(late, records=(refused(5), refused(70))), LADDER).rung == 1
    assert decide(replace(late, records=(NONE, NONE)), LADDER).rung == 1


def test_the_net_is_the_cheapest_rung_on_demand_that_still_finishes_in_time() -> None:
    slow = Offer(index=2, strategy="standard", usd_per_hour=3.0, speed=0.4)
    ladder = (replace(SPOT, usd_per_hour=20.0), DEMAND, slow)
    assert decide(situation(slack_h=20), ladder).rung == 2
    assert decide(situation(slack_h=5), ladder).rung == 1
    assert decide(situation(slack_h=1, on=2, running=True, asked_s=0.0), ladder).rung == 1


def test_a_queue_is_left_in_time_for_on_demand() -> None:
    flex = Offer(index=0, strategy="flex_start", usd_per_hour=5.0, max_wait_s=7200.0)
    assert decide(situation(slack_h=3), (flex, DEMAND)).rung == 0
    queued = situation(slack_h=3, on=0, asked_s=99_000.0)
    assert decide(queued, (flex, DEMAND)).rung == 0
    assert decide(replace(queued, deadline_s=queued.now_s + 10.2 * HOUR), (flex, DEMAND)).rung == 1
    assert decide(situation(slack_h=1, on=0, running=True, asked_s=0.0), (flex, DEMAND)).rung == 0


def test_without_a_deadline_rungs_are_asked_in_order_and_round_again() -> None:
    calm = replace(situation(), deadline_s=None)
    assert decide(calm, LADDER).rung == 0
    assert decide(replace(calm, records=(refused(10), NONE)), LADDER).rung == 1
    pause = decide(replace(calm, records=(refused(10), refused(5))), LADDER)
    assert pause.rung is None and 60 < pause.look_again_s <= 120
    assert decide(replace(calm, records=(refused(121), refused(5))), LADDER).rung == 0


def test_a_rung_that_does_not_answer_is_left_for_another() -> None:
    other = replace(SPOT, index=1)
    ladder = (SPOT, other, replace(DEMAND, index=2))
    assert decide(situation(on=0, asked_s=99_500.0), ladder).rung == 0
    assert decide(situation(on=0, asked_s=99_000.0), ladder).rung == 1
    assert decide(replace(situation(on=0, asked_s=99_000.0), deadline_s=None), ladder).rung == 1


def test_unknown_prices_are_taken_by_the_strategy() -> None:
    ladder = (replace(DEMAND, index=0, usd_per_hour=None), replace(SPOT, index=1, usd_per_hour=None))
    assert decide(situation(), ladder).rung == 1


def test_the_reason_is_a_sentence_with_the_time_that_is_left() -> None:
    assert decide(situation(slack_h=5), LADDER).why == (
        "the cheapest rung that may be asked; 15.0 h to the deadline, 4.8 h of slack."
    )


def test_an_impossible_situation_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one rung"):
        decide(situation(), ())
    with pytest.raises(ValueError, match="1 records for 2 rungs"):
        decide(situation(records=(NONE,)), LADDER)
    assert math.isfinite(decide(situation(slack_h=-20), LADDER).look_again_s)
