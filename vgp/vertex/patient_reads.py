"""Reads that outlast the network: repeated until Google answers, with a line when it drops and one when it is back."""

from collections.abc import Callable
from typing import TypeVar

from vgp.base.clock import Clock
from vgp.base.retry import Failure, Pauses, retry
from vgp.base.text.figures import format_duration
from vgp.base.text.printable import one_line

#: Seconds between two tries: the first, and the longest.
FIRST_S, LONGEST_S = 2.0, 30.0

Answer = TypeVar("Answer")


class Patience:
    """Call it with a read. `note` says what is wrong while it waits; `tell` gets a line when that changes."""

    def __init__(self, tell: Callable[[str], None], clock: Clock, until: Callable[[], None] = lambda: None) -> None:
        self.tell, self.clock, self.until = tell, clock, until
        self.note = ""

    def __call__(self, read: Callable[[], Answer]) -> Answer:
        """What `read` returns, however long it takes. `until` is called before each wait, and may raise."""
        began = self.clock.now()

        def note(failure: Failure) -> None:
            reason = _reason(failure.error)
            if not self.note:
                self.tell(f"{reason}; trying again")
            self.note = f"{reason} for {format_duration(failure.lasted_s)}; next try in {failure.pause_s:.0f}s"
            self.until()

        answer = retry(read, Pauses(FIRST_S, LONGEST_S), is_transient=passing, clock=self.clock, on_failure=note)
        if self.note:
            self.note = ""
            self.tell(f"the connection is back after {format_duration(self.clock.now() - began)}")
        return answer


def passing(error: BaseException | None) -> bool:
    """Whether the error is of the network or of a server that is busy: the same read may succeed later."""
    import requests
    from google.api_core import exceptions
    from google.auth.exceptions import GoogleAuthError, TransportError
    from google.protobuf.json_format import ParseError

    if isinstance(error, exceptions.RetryError):
        return passing(error.cause)
    if isinstance(error, GoogleAuthError):
        return isinstance(error, TransportError) or bool(getattr(error, "retryable", False))
    if isinstance(error, ParseError):
        # No JSON: a page instead of an answer, as the log-in page of a hotel's network. Other JSON stays as it is.
        return "Failed to load JSON" in str(error)
    lost = (requests.RequestException, ConnectionError, TimeoutError)
    return isinstance(error, (*lost, exceptions.TooManyRequests, exceptions.ServerError))


def _reason(error: Exception) -> str:
    from google.api_core import exceptions

    if isinstance(error, exceptions.GoogleAPICallError):
        return f"Google answers {int(error.code)} ({one_line(error.message, 60)})" if error.code else "Google is busy"
    return "no connection to Google"
