"""A call is repeated while its errors may pass, with growing pauses, until its tries or its time are used up."""

from collections.abc import Callable

import pytest

from tests.helpers.stopwatch import Stopwatch
from vgp.base.retry import Failure, Pauses, poll, retry


def failing(times: int, error: Exception) -> Callable[[], str]:
    left = [error] * times

    def call() -> str:
        if left:
            raise left.pop()
        return "answer"

    return call


def passes(error: Exception) -> bool:
    return isinstance(error, ConnectionError)


def test_pauses_grow_up_to_the_longest() -> None:
    clock, failures = Stopwatch(), list[Failure]()
    call = failing(5, ConnectionError("lost"))
    assert retry(call, Pauses(1, 4), is_transient=passes, clock=clock, on_failure=failures.append) == "answer"
    assert clock.pauses == [failure.pause_s for failure in failures] == [1, 2, 4, 4, 4]
    assert [failure.lasted_s for failure in failures] == [0, 1, 3, 7, 11]


def test_jitter_takes_a_part_of_each_pause() -> None:
    clock = Stopwatch()
    retry(failing(50, ConnectionError()), Pauses(1, 1, jitter=True), is_transient=passes, clock=clock)
    assert all(0 <= pause <= 1 for pause in clock.pauses) and len(set(clock.pauses)) > 40


@pytest.mark.parametrize(("pauses", "tries"), [(Pauses(1, 4, tries=3), 3), (Pauses(1, 4, deadline_s=7), 4)])
def test_after_the_last_try_the_error_is_raised(pauses: Pauses, tries: int) -> None:
    clock = Stopwatch()
    with pytest.raises(ConnectionError):
        retry(failing(99, ConnectionError()), pauses, is_transient=passes, clock=clock)
    assert len(clock.pauses) == tries - 1


def test_other_errors_are_raised_at_once() -> None:
    clock = Stopwatch()
    with pytest.raises(ValueError):
        retry(failing(1, ValueError()), Pauses(1, 4), is_transient=passes, clock=clock)
    assert clock.pauses == []


def test_a_requested_pause_is_kept_unless_it_ends_after_the_deadline() -> None:
    clock, call = Stopwatch(), failing(2, ConnectionError())
    pauses = Pauses(1, 4, deadline_s=60)
    assert retry(call, pauses, is_transient=passes, requested_s=lambda error: 20, clock=clock) == "answer"
    assert clock.pauses == [20, 20]
    with pytest.raises(ConnectionError):
        retry(failing(1, ConnectionError()), pauses, is_transient=passes, requested_s=lambda error: 61, clock=clock)
    assert clock.pauses == [20, 20]


def test_polling_ends_with_an_answer_or_the_deadline() -> None:
    clock, waits = Stopwatch(), list[float]()
    answers = iter([None, None, "done"])
    assert poll(lambda: next(answers), Pauses(1, 9), clock=clock, on_wait=waits.append) == "done"
    assert waits == [0, 1]
    assert poll(lambda: None, Pauses(1, 9, deadline_s=60), clock=clock) is None
    assert clock.seconds >= 60
