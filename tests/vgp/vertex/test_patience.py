"""A read is repeated until Google answers, with a word when that begins and ends; a refusal is passed on at once."""

from typing import Any

import pytest
import requests
from google.api_core import exceptions
from google.auth.exceptions import RefreshError, TransportError

from tests.helpers.stopwatch import Stopwatch
from vgp.vertex.patient_reads import LONGEST_S, Patience, is_transient


def failing(*errors: BaseException) -> Any:
    left = list(errors)

    def read() -> str:
        if left:
            raise left.pop(0)
        return "answer"

    return read


def test_it_outlasts_an_hour_without_network_and_reports_it_twice() -> None:
    clock, lines = Stopwatch(), list[str]()
    patience = Patience(lines.append, clock)
    assert patience(failing(*[requests.ConnectionError()] * 124)) == "answer"
    assert sum(clock.pauses) > 3600 and max(clock.pauses) == LONGEST_S
    assert lines == ["no connection to Google; retrying", "the connection is back after 1h 00m"]
    assert patience.note == ""


def test_the_note_states_how_long_and_until_when() -> None:
    clock, notes = Stopwatch(), list[str]()
    patience = Patience(lambda _: None, clock, stop=lambda: notes.append(patience.note))
    patience(failing(*[exceptions.ServiceUnavailable("[red]down\n")] * 2))
    assert notes == [
        "Google answers 503 ([red]down) for 0s; next try in 2s",
        "Google answers 503 ([red]down) for 2s; next try in 4s",
    ]


def test_a_refusal_is_passed_on_at_once() -> None:
    clock = Stopwatch()
    with pytest.raises(exceptions.Forbidden):
        Patience(lambda _: None, clock)(failing(exceptions.Forbidden("no")))
    assert clock.pauses == []


def test_waiting_can_be_given_up() -> None:
    def over() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Patience(lambda _: None, Stopwatch(), stop=over)(failing(TransportError("x")))


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (TransportError("no route"), True),
        (RefreshError("busy", retryable=True), True),
        (RefreshError("revoked"), False),
        (exceptions.TooManyRequests("slow down"), True),
        (exceptions.RetryError("late", cause=exceptions.BadGateway("x")), True),
        (exceptions.RetryError("late", cause=exceptions.NotFound("x")), False),
        (exceptions.NotFound("x"), False),
        (requests.Timeout(), True),
        (ConnectionResetError(), True),
        (ValueError("ours"), False),
    ],
    ids=repr,
)
def test_what_may_pass_by_itself(error: Exception, passes: bool) -> None:
    assert is_transient(error) is passes
