"""Whether an existing run answers a request, or another one is started; the output of the command."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError
from vgp.base.text.times import parse_duration, rfc3339
from vgp.check.spec.pipeline_spec import list_cached_tasks
from vgp.settings import Settings
from vgp.vertex import resource_names
from vgp.vertex.runs.pipeline_job import ATTEMPT, KEY, PINNED_BY, PINS
from vgp.vertex.runs.remote_run import Run

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1.types import PipelineJob

#: The final states of a run.
ENDED = ("PIPELINE_STATE_SUCCEEDED", "PIPELINE_STATE_FAILED", "PIPELINE_STATE_CANCELLED")
#: How long a run answers its request after its end: the default and the maximum.
WINDOW, LONGEST = timedelta(hours=1), timedelta(days=365)

#: With an open run of the same request, a command attaches to it, starts another run, or fails.
IfExists = Literal["attach", "new", "fail"]

#: Exit code of a command that started nothing, because a run of the same request is open or has just ended.
NOTHING_STARTED = 4
_CACHE_WARNING = (
    "Finished steps come from the cache, by their inputs: if the data behind the same names has changed, the result "
    "may be that of another run. `vgp show` prints its folder."
)


@dataclass(frozen=True)
class Policy:
    """A policy: when an existing run answers a request. An open run does, unless `if_exists` is `new`."""

    #: How long a run answers after its end; None: as long as Google keeps it.
    window: timedelta | None = WINDOW
    #: Whether a run that failed or was cancelled is followed by another attempt at once.
    retry: bool = False
    if_exists: IfExists = "attach"

    @property
    def begins_anew(self) -> bool:
        """Whether an attempt ignores the pins of the attempt before."""
        return self.if_exists == "new" and not self.retry

    def answers(self, job: "PipelineJob", now: datetime) -> bool:
        """Whether the PipelineJob answers the request; `now` is a time on Google's clock."""
        if self.if_exists == "new":
            return False
        if job.state.name not in ENDED:
            return True
        if self.retry and is_failed(job):
            return False
        return self.window is None or now - end_time(job) <= self.window


def is_failed(job: "PipelineJob") -> bool:
    """Whether the PipelineJob failed or was cancelled."""
    return job.state.name in ENDED[1:]


def end_time(job: "PipelineJob") -> datetime:
    """Returns when the PipelineJob ended; for an open one, the time of its last update."""
    moment: datetime = job.end_time or job.update_time or job.create_time
    return moment


def parse_policy(
    *, id: str | None, key: str | None, window: str | None, retry: bool, if_exists: IfExists | None, new: bool
) -> Policy:
    """Returns the policy for a command's options; None is an option that is not set.

    Raises:
        RequestError: two options exclude each other, or a value is invalid.
    """
    another = "--new" if new else "--if-exists new" if if_exists == "new" else ""
    options = {"--id": id, "--key": key, "--window": window, "--retry": retry or None, another: another or None}
    used = [option for option, value in options.items() if value is not None]
    for option, others, why in (
        ("--id", options, "an id belongs to one run."),
        ("--key", ("--window", another), "a key has one run for as long as it exists."),
        (another, ("--window",), "it starts another run without waiting."),
    ):
        for other in others:
            if option in used and other in used and other != option:
                raise RequestError(f"{option} and {other} exclude each other: {why}")
    if new and if_exists not in (None, "new"):
        raise RequestError(
            f"--new and --if-exists {if_exists} exclude each other: --new means --if-exists new, and runs every step."
        )
    if key is not None:
        resource_names.key(key)
    time = WINDOW if window is None else _parse_window(window)
    return Policy(None if key is not None else time, retry, "new" if new else if_exists or "attach")


def _parse_window(text: str) -> timedelta:
    value = parse_duration(text)
    if value is None:
        raise RequestError(f"--window {text}: write a number and its unit, as in 30m, 12h, 7d or 0s.")
    if value > LONGEST:
        raise RequestError(f"--window {text}: at most {LONGEST.days}d. --key TEXT is one run for as long as it exists.")
    return value


@dataclass(frozen=True)
class Started:
    """The result of a command that starts a run: the new run, or the existing one that answers the request."""

    settings: Settings
    run: Run
    #: Whether this command started it.
    fresh: bool
    policy: Policy = field(default_factory=Policy)
    #: For a rerun: the id of the earlier run.
    of: str = ""
    #: For a rerun: whether it reuses finished steps of the earlier run.
    from_failed: bool = False
    #: Whether the caller chose the id.
    by_id: bool = False

    @property
    def attempt(self) -> int | None:
        number = self.run.labels.get(ATTEMPT, "")
        return int(number) if number.isdigit() else None

    def as_json(self) -> JsonObject:
        labels = self.run.labels
        return {
            "id": self.run.id,
            "started": self.fresh,
            "attempt": self.attempt,
            "key": labels.get(KEY),
            "pinned_by": labels.get(PINNED_BY),
            "state": self.run.state,
            "over": self.run.over,
            "ended": rfc3339(self.run.ended),
            "name": self.run.name,
            "url": resource_names.run_link(self.settings, self.run.id),
            "exit_code": 0 if self.fresh else NOTHING_STARTED,
            **({"of": self.of} if self.of else {}),
        }

    def lines(self) -> list[str]:
        """Returns the lines for the terminal; the first states whether a run was started."""
        run, link = self.run, resource_names.run_link(self.settings, self.run.id)
        if self.fresh:
            earlier = f", a rerun of {self.of}" if self.of else ""
            return [f"started {run.id}{earlier}", link, *self._pins_lines()]
        lines = [f"nothing was started: {run.id}, of the same {self._identity()}, {self._state()}", link]
        if not run.over:
            lines.append(f"  Follow it:         vgp wait {run.id}")
        elif run.state != "succeeded":
            rerun = f"vgp rerun {run.id} --from-failed"
            lines.append(f"  Resume it:         {rerun if self.of or self.by_id else 'the same command with --retry'}")
        return [*lines, f"  Start another one: the same command with {self._option_for_another()}"]

    def _pins_lines(self) -> list[str]:
        """Returns a line on the run's pins if it is an attempt or a rerun with pins other than a reader may expect."""
        by = self.run.labels.get(PINNED_BY)
        attempt = f"attempt {self.attempt}" if (self.attempt or 0) > 1 else "it"
        if by is not None:
            steps = "; finished steps come from the cache" if list_cached_tasks(self.run.spec) else ""
            return [f"{attempt} uses the pins of {by or 'the failed run'}{steps}"]
        if self.from_failed:  # without pins, Vertex AI looks up a finished step by its inputs, of any run
            return [_CACHE_WARNING]
        if attempt != "it" and PINS in self.run.spec.parameters and PINS not in self.run.arguments:
            return [f"{attempt} pins the current data"]
        return []

    def _identity(self) -> str:
        key = self.run.labels.get(KEY)
        return f"request and key {key}" if key else "request"

    def _option_for_another(self) -> str:
        if self.by_id:
            return "another --id"
        return "another --key" if self.policy.window is None else "--new"

    def _state(self) -> str:
        run, window = self.run, self.policy.window
        if not run.over:
            return f"is {run.state}"
        if not run.ended:
            return run.state
        when = f"{run.state} at {run.ended:%Y-%m-%d %H:%M} UTC"
        if self.policy.retry and run.state == "succeeded":
            when += ", and --retry applies only to failed and cancelled runs"
        if self.by_id or window is None:
            return when
        return f"{when}; from {run.ended + window:%Y-%m-%d %H:%M} UTC on, the same command starts the next run"
