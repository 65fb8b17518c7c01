"""Which run answers for a request, and when another one is started."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from vgp.base.errors import RequestError
from vgp.base.text.times import duration
from vgp.vertex import resource_names

#: After these nothing more happens to a run.
ENDED = ("PIPELINE_STATE_SUCCEEDED", "PIPELINE_STATE_FAILED", "PIPELINE_STATE_CANCELLED")
#: How long a run answers for its request after its end, if nothing else is said, and at most.
WINDOW, LONGEST = timedelta(hours=1), timedelta(days=365)

#: What an open run does to a command: answers it; lets it start another one beside; ends it, followed by nobody.
IfExists = Literal["attach", "new", "fail"]


@dataclass(frozen=True)
class Policy:
    """What stands against another run of a request. A run that goes on answers, unless `if_exists` is `new`."""

    #: How long a run answers after its end; None: as long as Google keeps it.
    window: timedelta | None = WINDOW
    #: Whether a run that failed or was cancelled answers no longer once it has ended.
    retry: bool = False
    if_exists: IfExists = "attach"

    @property
    def begins_anew(self) -> bool:
        """Whether an attempt leaves aside what the one before had pinned."""
        return self.if_exists == "new" and not self.retry

    def answers(self, job: Any, now: datetime) -> bool:
        """Whether the PipelineJob stands for the request, at a time of Google's clock."""
        if self.if_exists == "new":
            return False
        if job.state.name not in ENDED:
            return True
        if self.retry and failed(job):
            return False
        return self.window is None or now - end(job) <= self.window


def failed(job: Any) -> bool:
    """Whether the PipelineJob failed or was cancelled."""
    return job.state.name in ENDED[1:]


def end(job: Any) -> Any:
    """When the PipelineJob ended; of an open one, when it was last heard of."""
    return job.end_time or job.update_time or job.create_time


def chosen(
    *, id: str | None, key: str | None, window: str | None, retry: bool, if_exists: IfExists | None, new: bool
) -> Policy:
    """The policy of a command's options, None where one is not given.

    Raises:
        RequestError: two of them exclude each other, or a value is none.
    """
    another = "--new" if new else "--if-exists new" if if_exists == "new" else ""
    options = {"--id": id, "--key": key, "--window": window, "--retry": retry or None, another: another or None}
    given = [option for option, value in options.items() if value is not None]
    for one, others, why in (
        ("--id", options, "an id is one run for ever."),
        ("--key", ("--window", another), "a key has one run for as long as it exists."),
        (another, ("--window",), "it starts another run without waiting."),
    ):
        for other in others:
            if one in given and other in given and other != one:
                raise RequestError(f"{one} and {other} exclude each other: {why}")
    if new and if_exists not in (None, "new"):
        raise RequestError(
            f"--new and --if-exists {if_exists} exclude each other: --new is the value new, and runs every step."
        )
    if key is not None:
        resource_names.key(key)
    time = WINDOW if window is None else _window(window)
    return Policy(None if key is not None else time, retry, "new" if new else if_exists or "attach")


def _window(text: str) -> timedelta:
    value = duration(text)
    if value is None:
        raise RequestError(f"--window {text}: write a number and its unit, as in 30m, 12h, 7d or 0s.")
    if value > LONGEST:
        raise RequestError(f"--window {text}: at most {LONGEST.days}d. --key TEXT is one run for as long as it exists.")
    return value
