"""What `ladder.json` holds: every attempt at a step's work, as values; times are seconds since 1970."""

from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, ClassVar, Self

from vgp.base import clock
from vgp.protocol.capacity.folder import Json

FORMAT = 1
_TIMES = ("intended", "created", "started", "ended", "ending_at")


@dataclass(frozen=True, kw_only=True)
class Creation:
    """One custom job at most, from the intention to the end."""

    #: The label of its job that has its token.
    LABEL: ClassVar[str] = "training-attempt"

    number: int
    rung: str
    region: str
    #: No other creation has it.
    token: str
    intended: float
    #: Resource name of the job, once known.
    job: str | None = None
    created: float | None = None
    #: When all machines ran.
    started: float | None = None
    ended: float | None = None
    #: None: it goes on.
    outcome: str | None = None
    words: str = ""
    hours: float = 0.0
    usd: float | None = None
    #: Why the launcher itself ends the job, and since when; told before the job is.
    ending: str | None = None
    ending_at: float | None = None
    #: Digest of where the step's outputs belong, as the job was told.
    outputs: str = ""


@dataclass(frozen=True, kw_only=True)
class Attempt(Creation):
    """One that works. Its outcome: succeeded stockout preempted wait_expired quota timeout user_error cancelled moved
    lost failed. The heartbeat says by its token that it may run."""

    step_from: int | None = None
    step_to: int | None = None
    steps_lost: int | None = None
    #: What its job measured of itself (progress.py), for the time after it.
    seconds_per_step: float | None = None
    start_s: float | None = None
    checkpoint_every_s: float | None = None
    save_s: float | None = None
    #: The rung that it was ended for.
    next_rung: str | None = None


@dataclass(frozen=True, kw_only=True)
class Waiting(Creation):
    """One that waits for machines beside an attempt. Its outcome: granted, when it has become an attempt with the same
    token and job, or as of an attempt that got none."""


@dataclass(frozen=True, kw_only=True)
class Ladder:
    """The way so far."""

    run: str
    step: str
    began: float
    deadline: float | None
    rungs: list[Json]
    attempts: tuple[Attempt, ...] = ()
    #: Never more than one that goes on, and only beside an attempt.
    waiting: tuple[Waiting, ...] = ()
    #: How many launchers there have been, and which one is the last.
    term: int = 0
    launcher: str = ""
    format: int = field(default=FORMAT)

    @property
    def open(self) -> Attempt | None:
        """The attempt that goes on."""
        return next((attempt for attempt in self.attempts if attempt.outcome is None), None)

    @property
    def next(self) -> Waiting | None:
        """The job that waits to follow the attempt that goes on."""
        return next((each for each in self.waiting if each.outcome is None), None)

    @property
    def usd(self) -> float:
        """What all jobs have cost so far, as far as prices are known."""
        return sum(each.usd or 0.0 for each in (*self.attempts, *self.waiting))

    def with_creation(self, new: Creation) -> Self:
        """The same with one more attempt or waiting job, or with a newer state of it."""
        if isinstance(new, Waiting):
            return replace(self, waiting=_with(self.waiting, new))
        return replace(self, attempts=_with(self.attempts, new))

    def to_json(self) -> Json:
        """Times as texts, for readers of any kind."""
        whole = asdict(self)
        whole |= {name: clock.format_time(whole[name]) for name in ("began", "deadline")}
        for kind in ("attempts", "waiting"):
            whole[kind] = [each | {name: clock.format_time(each[name]) for name in _TIMES} for each in whole[kind]]
        return whole

    @classmethod
    def from_json(cls, content: Json) -> Self:
        """The ladder of `to_json`; keys of a later version are dropped.

        Raises:
            ValueError: it is of another format, or none.
        """
        if content.get("format") != FORMAT:
            raise ValueError(f"ladder.json has format {content.get('format')!r}; this launcher reads {FORMAT}.")
        known = _known(cls, content) | {name: clock.parse_time(content.get(name)) for name in ("began", "deadline")}
        attempts = tuple(Attempt(**_known(Attempt, each) | _times(each)) for each in content.get("attempts", []))
        waiting = tuple(Waiting(**_known(Waiting, each) | _times(each)) for each in content.get("waiting", []))
        return cls(**known | {"attempts": attempts, "waiting": waiting})


def _with(before: tuple[Any, ...], new: Creation) -> tuple[Any, ...]:
    others = [each for each in before if each.token != new.token]
    return tuple(sorted([*others, new], key=lambda each: each.number))


def _known(kind: Any, content: Json) -> Json:
    names = {each.name for each in fields(kind)}
    return {key: value for key, value in content.items() if key in names}


def _times(content: Json) -> Json:
    return {name: clock.parse_time(content.get(name)) for name in _TIMES}
