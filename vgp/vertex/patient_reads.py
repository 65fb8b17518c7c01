"""Reads that outlast the network: repeated until Google answers, with a line when it drops and one when it is back."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

from vgp.base.clock import Clock
from vgp.base.text.figures import took
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
        since: datetime | None = None
        wait = FIRST_S
        while True:
            try:
                answer = read()
            except Exception as error:
                if not passing(error):
                    raise
                if since is None:
                    since = self.clock.now()
                    self.tell(f"{_reason(error)}; trying again")
                self.note = f"{_reason(error)} for {took(self._since(since))}; next try in {wait:.0f}s"
                self.until()
                self.clock.pause(wait)
                wait = min(2 * wait, LONGEST_S)
            else:
                self.note = ""
                if since is not None:
                    self.tell(f"the connection is back after {took(self._since(since))}")
                return answer

    def _since(self, moment: datetime) -> float:
        return (self.clock.now() - moment).total_seconds()


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


def _reason(error: Any) -> str:
    from google.api_core import exceptions

    if isinstance(error, exceptions.GoogleAPICallError):
        return f"Google answers {int(error.code)} ({one_line(error.message, 60)})" if error.code else "Google is busy"
    return "no connection to Google"
