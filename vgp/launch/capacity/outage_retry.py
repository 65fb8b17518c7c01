"""Calls that are retried through an outage of Google, and the exceptions that end a launcher early."""

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

from vgp.base import google_api
from vgp.base.clock import Clock
from vgp.base.retry import Failure, Pauses, retry
from vgp.base.text.figures import format_duration
from vgp.base.text.printable import one_line
from vgp.protocol.capacity.control_folder import Changed

#: The first and the longest pause between two tries, and the longest outage, seconds.
FIRST_S, LONGEST_S, MOST_S = 2.0, 60.0, 3600.0

Answer = TypeVar("Answer")


class Patience:
    """A retry of calls that are safe to repeat.

    Args:
        clock: The clock for the pauses.
        log: Logs a line when Google stops answering, and one when it answers again.
    """

    def __init__(self, clock: Clock, log: Callable[[str], None], most_s: float = MOST_S) -> None:
        self.clock, self.log, self.most_s = clock, log, most_s

    def __call__(
        self, action: str, call: Callable[[], Answer], retries: Callable[[Exception], bool] | None = None
    ) -> Answer:
        """Calls `call` and returns its result.

        Args:
            action: The action, for messages, as in "read the ladder".
            retries: Whether an error is retried; default: `is_transient`.

        Raises:
            Unreachable: No answer for `most_s` seconds.
        """
        began, failures = self.clock.now(), list[Failure]()

        def note_failure(failure: Failure) -> None:
            if failure.lasted_s >= self.most_s:
                outage = f"no answer for {format_duration(failure.lasted_s)} ({reason(failure.error)})"
                raise Unreachable(f"{action}: {outage}.") from None
            if not failures:
                self.log(f"{action}: {reason(failure.error)}; retrying for up to {format_duration(self.most_s)}")
            failures.append(failure)

        pauses = Pauses(FIRST_S, LONGEST_S)
        answer = retry(call, pauses, is_transient=retries or is_transient, clock=self.clock, on_failure=note_failure)
        if failures:
            self.log(f"{action}: answered after {format_duration(self.clock.now() - began)}")
        return answer


def is_transient(error: Exception) -> bool:
    """Whether a retry may succeed: Google is busy or down, a connection or token was lost, another write came first."""
    from google.api_core.exceptions import Unauthorized
    from google.auth.exceptions import GoogleAuthError, TransportError
    from requests.exceptions import JSONDecodeError

    if isinstance(error, GoogleAuthError):
        return isinstance(error, TransportError) or bool(getattr(error, "retryable", False))
    return google_api.is_transient(error) or isinstance(
        error, Unauthorized | JSONDecodeError | ConnectionError | Changed
    )


def message(error: Any) -> str:
    """Returns Google's message without what its libraries add: method, address, JSON, expected codes."""
    text = re.sub(r"\A[A-Z]+ https?://\S+: ", "", str(error.message))
    text = re.sub(r": \('Request failed with status code'.*\Z", "", text, flags=re.DOTALL)
    try:
        return str(json.loads(text)["error"]["message"])
    except (ValueError, TypeError, KeyError):
        return text


def reason(error: Exception) -> str:
    """Returns the message of an error on one line."""
    code = getattr(error, "code", None)
    if code and getattr(error, "message", None):
        return f"Google answers {int(code)}: {one_line(message(error), 200)}"
    return f"no connection to Google ({type(error).__name__})"


# ---- exceptions that end a launcher before its job has ended


class Superseded(Exception):
    """A newer launcher of this step has taken over; this launcher must change nothing."""


class Unreachable(Exception):
    """An outage of Google that is longer than the launcher waits."""


class Stopped(BaseException):
    """A SIGTERM: the run is cancelled, or this machine shuts down. A BaseException, so no `except Exception` catches
    it."""
