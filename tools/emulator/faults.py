"""What may go wrong between a client and Google: the arguments of `Cloud.fail`."""

from dataclasses import dataclass, field
from typing import Any

from .errors import TYPES, ApiError


@dataclass(frozen=True)
class Fault:
    """Meets one request. By itself it does nothing."""

    #: Before the request is handled.
    slow_s: float = 0
    answer: ApiError | None = None
    reset: bool = False
    #: Once more, as by a proxy on the way; the second answer is the one that arrives.
    repeated: bool = False
    #: After it was handled.
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
    """The request is not handled, but answered with this HTTP status. `retry_after` is in seconds."""
    told = list(details or [])
    if reason:
        told.append({"@type": TYPES + "ErrorInfo", "reason": reason, "domain": domain, "metadata": metadata or {}})
    headers = {} if retry_after is None else {"Retry-After": f"{retry_after:g}"}
    return Fault(answer=ApiError(code, message or f"told to answer {code}", details=told, headers=headers))


def reset() -> Fault:
    """The connection is reset (TCP RST), and the request not handled."""
    return Fault(reset=True)


def lost_response() -> Fault:
    """The request is handled, and then the connection is reset."""
    return Fault(lost=True)


def slow(seconds: float) -> Fault:
    """The request waits in real time, and is then handled."""
    return Fault(slow_s=seconds)


def late(seconds: float) -> Fault:
    """The request is handled at once, and answered in real time later."""
    return Fault(late_s=seconds)


def repeated() -> Fault:
    """The request arrives twice."""
    return Fault(repeated=True)


@dataclass
class Planned:
    """Faults still to come for the methods that match `pattern`."""

    pattern: str
    faults: list[Fault] = field(default_factory=list)
    forever: bool = False

    def take(self) -> Fault | None:
        if not self.faults:
            return None
        return self.faults[0] if self.forever else self.faults.pop(0)
