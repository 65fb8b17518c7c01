"""The content of `ladder.json`: the attempts of a step and its waiting jobs; times are seconds since 1970."""

from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, ClassVar, Self

from vgp.base import clock
from vgp.protocol.capacity.control_folder import Json

FORMAT = 1
_TIMES = ("intended", "created", "started", "ended", "ending_at")


@dataclass(frozen=True, kw_only=True)
class Creation:
    """The creation of one custom job, from the intention to its end."""

    #: Label of the job that holds the token.
    LABEL: ClassVar[str] = "training-attempt"

    number: int
    rung: str
    region: str
    #: Unique token.
    token: str
    intended: float
    #: Resource name of the job, once known.
    job: str | None = None
    created: float | None = None
    #: Time at which all machines were running.
    started: float | None = None
    ended: float | None = None
    #: None while the job is open.
    outcome: str | None = None
    words: str = ""
    hours: float = 0.0
    usd: float | None = None
    #: Why and when the launcher ends the job, written before the job is cancelled.
    ending: str | None = None
    ending_at: float | None = None
    #: Digest of the output paths in the job's request.
    outputs: str = ""


@dataclass(frozen=True, kw_only=True)
class Attempt(Creation):
    """A job that does the work, permitted by its token in the heartbeat. Outcomes: succeeded, stockout, preempted,
    wait_expired, quota, timeout, user_error, cancelled, moved, lost, failed."""

    step_from: int | None = None
    step_to: int | None = None
    steps_lost: int | None = None
    #: The job's own measurements (progress.py), for estimates after its end.
    seconds_per_step: float | None = None
    start_s: float | None = None
    checkpoint_every_s: float | None = None
    save_s: float | None = None
    #: The rung to which the work moved.
    next_rung: str | None = None


@dataclass(frozen=True, kw_only=True)
class Waiting(Creation):
    """A job that waits for machines while an attempt runs. Outcomes: granted, when it became an attempt with this token
    and job, or those of an attempt that got no machines."""


@dataclass(frozen=True, kw_only=True)
class Ladder:
    """The attempts and waiting jobs of a step so far."""

    run: str
    step: str
    began: float
    deadline: float | None
    rungs: list[Json]
    attempts: tuple[Attempt, ...] = ()
    #: At most one waiting job is open, and only while an attempt is open.
    waiting: tuple[Waiting, ...] = ()
    #: Number of launchers so far, and the id of the last one.
    term: int = 0
    launcher: str = ""
    format: int = field(default=FORMAT)

    @property
    def open(self) -> Attempt | None:
        """Returns the open attempt, or None."""
        return next((attempt for attempt in self.attempts if attempt.outcome is None), None)

    @property
    def next(self) -> Waiting | None:
        """Returns the open waiting job, or None."""
        return next((job for job in self.waiting if job.outcome is None), None)

    @property
    def usd(self) -> float:
        """Returns the cost of all jobs so far, without jobs of unknown price."""
        return sum(job.usd or 0.0 for job in (*self.attempts, *self.waiting))

    def with_creation(self, new: Creation) -> Self:
        """Returns a copy with an attempt or waiting job added or updated."""
        if isinstance(new, Waiting):
            return replace(self, waiting=_with(self.waiting, new))
        return replace(self, attempts=_with(self.attempts, new))

    def to_json(self) -> Json:
        """Returns the document, with times in RFC 3339."""
        document = asdict(self)
        document |= {name: clock.format_time(document[name]) for name in ("began", "deadline")}
        for kind in ("attempts", "waiting"):
            jobs = [job | {name: clock.format_time(job[name]) for name in _TIMES} for job in document[kind]]
            document[kind] = jobs
        return document

    @classmethod
    def from_json(cls, content: Json) -> Self:
        """Parses the document of `to_json`, ignoring keys of later versions.

        Raises:
            ValueError: the document has another format.
        """
        if content.get("format") != FORMAT:
            raise ValueError(f"ladder.json has format {content.get('format')!r}; this launcher reads {FORMAT}.")
        known = _pick(cls, content) | {name: clock.parse_time(content.get(name)) for name in ("began", "deadline")}
        attempts = tuple(Attempt(**_pick(Attempt, job) | _parse_times(job)) for job in content.get("attempts", []))
        waiting = tuple(Waiting(**_pick(Waiting, job) | _parse_times(job)) for job in content.get("waiting", []))
        return cls(**known | {"attempts": attempts, "waiting": waiting})


def _with(before: tuple[Any, ...], new: Creation) -> tuple[Any, ...]:
    others = [job for job in before if job.token != new.token]
    return tuple(sorted([*others, new], key=lambda job: job.number))


def _pick(kind: Any, content: Json) -> Json:
    names = {item.name for item in fields(kind)}
    return {key: value for key, value in content.items() if key in names}


def _parse_times(content: Json) -> Json:
    return {name: clock.parse_time(content.get(name)) for name in _TIMES}
