"""Retries after transient errors, and polling until there is an answer, with growing pauses.

    retry(call, Pauses(first_s=0.5, longest_s=15, deadline_s=120), is_transient=google_api.is_transient)
    poll(lambda: job if job.done() else None, Pauses(1, 10))

Calls of Google's clients take Google's `Retry` instead: `google_api.retry_policy`.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

from vgp.base.clock import Clock

Result = TypeVar("Result")


@dataclass(frozen=True)
class Pauses:
    """The growing pauses between tries, up to a longest."""

    first_s: float
    longest_s: float
    factor: float = 2.0
    #: Seconds after the first try without a further try; None = no deadline.
    deadline_s: float | None = None
    #: Maximum number of tries; None = no limit.
    tries: int | None = None
    #: Whether to randomise each pause, so that competing processes do not retry at the same time.
    jitter: bool = False

    def __iter__(self) -> Iterator[float]:
        """Yields the pause in seconds after each try, infinitely."""
        pause_s = self.first_s
        while True:
            yield random.uniform(0, pause_s) if self.jitter else pause_s
            pause_s = min(self.factor * pause_s, self.longest_s)

    def are_over(self, tries: int, lasted_s: float) -> bool:
        """Whether `tries` tries or `lasted_s` seconds are the maximum."""
        late = self.deadline_s is not None and lasted_s >= self.deadline_s
        return late or (self.tries is not None and tries >= self.tries)


@dataclass(frozen=True)
class Failure:
    """A failed try that will be retried."""

    error: Exception
    #: Seconds since the first try began.
    lasted_s: float
    #: Seconds until the next try.
    pause_s: float


def retry(
    call: Callable[[], Result],
    pauses: Pauses,
    *,
    is_transient: Callable[[Exception], bool],
    requested_s: Callable[[Exception], float] = lambda error: 0.0,
    clock: Clock | None = None,
    on_failure: Callable[[Failure], None] = lambda failure: None,
) -> Result:
    """Returns the result of `call`, retried after errors that `is_transient` accepts.

    Args:
        requested_s: Returns the shortest pause that the server requests with an error (`Retry-After`). The error is
            raised at once if that pause ends after the deadline.
        on_failure: Called before each pause; may raise to stop retrying.

    Raises:
        Exception: the first error that is not transient, or the last error after the maximum of tries or time.
    """
    clock = clock or Clock()
    began = clock.now()
    for number, pause_s in zip(count(1), pauses, strict=False):
        try:
            return call()
        except Exception as error:
            lasted_s = clock.now() - began
            least_s = requested_s(error)
            if not is_transient(error) or pauses.are_over(number, lasted_s + least_s):
                raise
            pause_s = max(pause_s, least_s)
            on_failure(Failure(error, lasted_s, pause_s))
        clock.sleep(pause_s)
    raise AssertionError("pauses have no end")


def poll(
    look: Callable[[], Result | None],
    pauses: Pauses,
    *,
    clock: Clock | None = None,
    on_wait: Callable[[float], None] = lambda lasted_s: None,
) -> Result | None:
    """Returns the first answer of `look` that is not None, or None after the maximum of tries or time.

    Args:
        on_wait: Called before each pause with the seconds since the first look.
    """
    clock = clock or Clock()
    began = clock.now()
    for number, pause_s in zip(count(1), pauses, strict=False):
        if (answer := look()) is not None:
            return answer
        lasted_s = clock.now() - began
        if pauses.are_over(number, lasted_s):
            return None
        on_wait(lasted_s)
        clock.sleep(pause_s)
    raise AssertionError("pauses have no end")
