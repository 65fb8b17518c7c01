"""Calls that outlast an outage: tried again until Google answers, with a line when it stops and when it is back."""

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

from vgp.base import google_api
from vgp.base.clock import Clock
from vgp.base.retry import Failure, Pauses, retry
from vgp.base.text.figures import took
from vgp.base.text.printable import one_line
from vgp.protocol.capacity.folder import Changed

#: Seconds between two tries, the first and the longest; and how long an outage may be.
FIRST_S, LONGEST_S, MOST_S = 2.0, 60.0, 3600.0

Answer = TypeVar("Answer")


class Patience:
    """Repeats what may be sent twice.

    Args:
        clock: Pauses are taken on it.
        tell: Gets a line when Google stops to answer, and one when it is back.
    """

    def __init__(self, clock: Clock, tell: Callable[[str], None], most_s: float = MOST_S) -> None:
        self.clock, self.tell, self.most_s = clock, tell, most_s

    def __call__(
        self, what: str, call: Callable[[], Answer], again: Callable[[Exception], bool] | None = None
    ) -> Answer:
        """What `call` returns; what `again` says is tried again (by default, what `is_passing` says).

        Raises:
            Unreachable: for `most_s` there was no answer.
        """
        began, failures = self.clock.now(), list[Failure]()

        def note(failure: Failure) -> None:
            if failure.lasted_s >= self.most_s:
                gone = f"{what}: no answer for {took(failure.lasted_s)} ({reason(failure.error)})."
                raise Unreachable(gone) from None
            if not failures:
                self.tell(f"{what}: {reason(failure.error)}; trying again for up to {took(self.most_s)}")
            failures.append(failure)

        pauses = Pauses(FIRST_S, LONGEST_S)
        answer = retry(call, pauses, is_transient=again or is_passing, clock=self.clock, on_failure=note)
        if failures:
            self.tell(f"{what}: answered after {took(self.clock.now() - began)}")
        return answer


def is_passing(error: Exception) -> bool:
    """Whether a call may succeed later: Google is busy or down, a connection or token was lost, another was sooner."""
    from google.api_core.exceptions import Unauthorized
    from google.auth.exceptions import GoogleAuthError, TransportError
    from requests.exceptions import JSONDecodeError

    if isinstance(error, GoogleAuthError):
        return isinstance(error, TransportError) or bool(getattr(error, "retryable", False))
    return google_api.is_transient(error) or isinstance(
        error, Unauthorized | JSONDecodeError | ConnectionError | Changed
    )


def message(error: Any) -> str:
    """Google's own words, without what its libraries put around them: method, address, JSON, the codes expected."""
    text = re.sub(r"\A[A-Z]+ https?://\S+: ", "", str(error.message))
    text = re.sub(r": \('Request failed with status code'.*\Z", "", text, flags=re.DOTALL)
    try:
        return str(json.loads(text)["error"]["message"])
    except (ValueError, TypeError, KeyError):
        return text


def reason(error: Exception) -> str:
    """What an error says, on a line."""
    code = getattr(error, "code", None)
    if code and getattr(error, "message", None):
        return f"Google answers {int(code)}: {one_line(message(error), 200)}"
    return f"no connection to Google ({type(error).__name__})"


# ---- what ends a launcher before its job has ended


class Superseded(Exception):
    """A newer launcher of the same step has taken over: this one changes nothing any more."""


class Unreachable(Exception):
    """Google has not answered for longer than is waited."""


class Stopped(BaseException):
    """SIGTERM: the run is cancelled, or this machine goes. No `except Exception` may hold it up."""
