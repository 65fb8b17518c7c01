"""Calls that are repeated: after an error that may pass, or until there is an answer, with growing pauses on a clock.

    retry(call, Pauses(first_s=0.5, longest_s=15, deadline_s=120), is_transient=google_api.is_transient)
    poll(lambda: job if job.done() else None, Pauses(1, 10))

What goes into a call of Google's clients is their own kind of retry: `google_api.patient`.
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
    """The pauses between tries: each longer than the one before, up to a longest."""

    first_s: float
    longest_s: float
    factor: float = 2.0
    #: Seconds from the first try on after which none is made any more; None = no end.
    deadline_s: float | None = None
    #: How many tries there are at most; None = no limit.
    tries: int | None = None
    #: Whether each pause is a random part of its length, so that rivals do not meet again at the next try.
    jitter: bool = False

    def __iter__(self) -> Iterator[float]:
        """Yields the pause after each try, without end."""
        pause_s = self.first_s
        while True:
            yield random.uniform(0, pause_s) if self.jitter else pause_s
            pause_s = min(self.factor * pause_s, self.longest_s)

    def are_over(self, tries: int, lasted_s: float) -> bool:
        """Whether no further try is made after so many tries and seconds."""
        late = self.deadline_s is not None and lasted_s >= self.deadline_s
        return late or (self.tries is not None and tries >= self.tries)


@dataclass(frozen=True)
class Failure:
    """A failed try, after which there will be another."""

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
    clock: Clock | None = None,
    on_failure: Callable[[Failure], None] = lambda failure: None,
) -> Result:
    """Returns what `call` returns, repeated while it fails with errors that `is_transient` accepts.

    Args:
        on_failure: Called before each pause; may raise to give up.

    Raises:
        Exception: the first error that is not transient, or the last one once the pauses are over.
    """
    clock = clock or Clock()
    began = clock.now()
    for number, pause_s in zip(count(1), pauses, strict=False):
        try:
            return call()
        except Exception as error:
            lasted_s = clock.now() - began
            if not is_transient(error) or pauses.are_over(number, lasted_s):
                raise
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
    """Returns the first answer of `look` that is not None, or None once the pauses are over.

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
