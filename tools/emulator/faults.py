"""Faults between a client and Google: the arguments of `Cloud.fail`."""

from dataclasses import dataclass, field
from typing import Any

from .errors import TYPES, ApiError


@dataclass(frozen=True)
class Fault:
    """A fault of one request; without arguments it changes nothing."""

    #: A delay, an error or a reset in place of the handling of the request.
    slow_s: float = 0
    answer: ApiError | None = None
    reset: bool = False
    #: Whether the request is handled twice, as with a proxy that repeats it; the client gets the second answer.
    repeated: bool = False
    #: A reset or a delay of the answer, after the request was handled.
    lost: bool = False
    late_s: float = 0


def status(
    code: int,
    message: str = "",
    *,
    retry_after: float | None = None,
    reason: str | None = None,
    domain: str = "googleapis.com",
    metadata: dict[str, str] | None = None,
    details: list[dict[str, Any]] | None = None,
) -> Fault:
    """Returns a fault that answers with an HTTP status without handling the request. `retry_after` is in seconds."""
    error_details = list(details or [])
    if reason:
        error_details.append(
            {"@type": TYPES + "ErrorInfo", "reason": reason, "domain": domain, "metadata": metadata or {}}
        )
    headers = {} if retry_after is None else {"Retry-After": f"{retry_after:g}"}
    return Fault(answer=ApiError(code, message or f"fault: {code}", details=error_details, headers=headers))


def reset() -> Fault:
    """Returns a fault that resets the connection (TCP RST) without handling the request."""
    return Fault(reset=True)


def lose_response() -> Fault:
    """Returns a fault that handles the request and then resets the connection."""
    return Fault(lost=True)


def slow(seconds: float) -> Fault:
    """Returns a fault that waits in real time before the request is handled."""
    return Fault(slow_s=seconds)


def late(seconds: float) -> Fault:
    """Returns a fault that handles the request at once and delays the answer in real time."""
    return Fault(late_s=seconds)


def repeat_request() -> Fault:
    """Returns a fault that delivers the request twice."""
    return Fault(repeated=True)


@dataclass
class Planned:
    """The remaining faults of the methods that match `pattern`."""

    pattern: str
    faults: list[Fault] = field(default_factory=list)
    forever: bool = False

    def take(self) -> Fault | None:
        if not self.faults:
            return None
        return self.faults[0] if self.forever else self.faults.pop(0)
