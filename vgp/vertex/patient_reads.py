"""Reads that are retried until Google answers, with a line when the connection is lost and one when it is back."""

from collections.abc import Callable
from typing import TypeVar

from vgp.base.clock import Clock
from vgp.base.retry import Failure, Pauses, retry
from vgp.base.text.figures import format_duration
from vgp.base.text.printable import one_line

#: The first and the longest pause between two tries, seconds.
FIRST_S, LONGEST_S = 2.0, 30.0

Answer = TypeVar("Answer")


class Patience:
    """A function that retries reads. While it waits, `note` holds the reason and the time of the next try.

    Args:
        log: Logs a line when the connection is lost, and one when it is back.
        stop: Called before each pause; ends the retries by raising an exception.
    """

    def __init__(self, log: Callable[[str], None], clock: Clock, stop: Callable[[], None] = lambda: None) -> None:
        self.log, self.clock, self.stop = log, clock, stop
        self.note = ""

    def __call__(self, read: Callable[[], Answer]) -> Answer:
        """Calls `read` until it succeeds, and returns its result. Raises errors that a retry would not fix."""
        began = self.clock.now()

        def note_failure(failure: Failure) -> None:
            reason = _format_reason(failure.error)
            if not self.note:
                self.log(f"{reason}; retrying")
            self.note = f"{reason} for {format_duration(failure.lasted_s)}; next try in {failure.pause_s:.0f}s"
            self.stop()

        pauses = Pauses(FIRST_S, LONGEST_S)
        answer = retry(read, pauses, is_transient=is_transient, clock=self.clock, on_failure=note_failure)
        if self.note:
            self.note = ""
            self.log(f"the connection is back after {format_duration(self.clock.now() - began)}")
        return answer


def is_transient(error: BaseException | None) -> bool:
    """Whether a retry may succeed, because the network was lost or Google's service is busy."""
    import requests
    from google.api_core import exceptions
    from google.auth.exceptions import GoogleAuthError, TransportError
    from google.protobuf.json_format import ParseError

    if isinstance(error, exceptions.RetryError):
        return is_transient(error.cause)
    if isinstance(error, GoogleAuthError):
        return isinstance(error, TransportError) or bool(getattr(error, "retryable", False))
    if isinstance(error, ParseError):
        # The answer was no JSON, for example the log-in page of a public network.
        return "Failed to load JSON" in str(error)
    network = (requests.RequestException, ConnectionError, TimeoutError)
    return isinstance(error, (*network, exceptions.TooManyRequests, exceptions.ServerError))


def _format_reason(error: Exception) -> str:
    from google.api_core import exceptions

    if isinstance(error, exceptions.GoogleAPICallError):
        return f"Google answers {int(error.code)} ({one_line(error.message, 60)})" if error.code else "Google is busy"
    return "no connection to Google"
