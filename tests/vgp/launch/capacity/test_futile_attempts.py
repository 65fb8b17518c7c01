import pytest

from vgp.launch.capacity.verdict import describe_futile_attempts

from .test_situation import NOW, attempt, ladder

ENDS = {code: f"workerpool0-0 ended (exit code {code})" for code in (75, 137, 143)}


def ended(number, code=137, ran_s=120.0, **changed):
    given = {"started": NOW, "ended": NOW + ran_s, "outcome": "preempted", "words": ENDS.get(code, "STOCKOUT")}
    return attempt(number, "spot", **{**given, **changed})


def with_steps(number, **changed):
    return ended(number, ran_s=900.0 * number, **{"steps_lost": 7, "step_from": 40, "step_to": 40, **changed})


def why(*attempts):
    return describe_futile_attempts(ladder(*attempts))


def test_three_jobs_that_did_steps_and_saved_none_are_enough():
    reason = why(with_steps(1), with_steps(2, words=ENDS[75]), with_steps(3))
    assert reason == (
        "3 attempts in a row had machines and saved no step: exit code 137 after 15m 00s, exit code 75 after 30m 00s "
        "and exit code 137 after 45m 00s. Other machines would not help. The program was killed, often for lack "
        "of memory: use machines with more memory, or load less data."
    )
    assert why(with_steps(1), with_steps(2)) is None
    assert why(with_steps(1), with_steps(2, step_to=41), with_steps(3), with_steps(4)) is None, "a step was saved"


@pytest.mark.parametrize(
    ("changed", "fails"),
    [
        ({}, True),
        ({"ran_s": 7200.0}, True),
        ({"code": 0}, False),
        ({"outcome": "moved"}, False),
        ({"started": None}, False),
    ],
    ids=["soon", "after the same time", "Google took the machines", "ended by the launcher", "no machines"],
)
def test_a_script_that_ends_by_the_same_code_soon_or_after_the_same_time_fails(changed, fails):
    five = [ended(number, **{"ran_s": 100.0 * (number + 1), **changed}) for number in range(5)]
    assert bool(why(*five)) == fails and why(*five[:4]) is None


def test_a_script_whose_machines_go_now_and_then_is_not_taken_for_one_that_fails():
    lives = (4000.0, 200.0, 9000.0, 700.0, 15_000.0, 3000.0)
    assert why(*(ended(number, 143, ran_s) for number, ran_s in enumerate(lives))) is None
    assert why(*(ended(number, (75, 137)[number % 2]) for number in range(6))) is None


def test_what_got_no_machines_in_between_does_not_count_and_does_not_help():
    refused = attempt(9, "spot", ended=NOW, outcome="stockout")
    assert why(with_steps(1), refused, with_steps(2), refused, with_steps(3))
