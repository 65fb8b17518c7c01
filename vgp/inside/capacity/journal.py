"""`ladder.json`: every attempt at a step's work, written by its launcher alone, before and after each thing it does.

An attempt is written down before its job is created. Its token is a label of the job, and no second job is ever created
for it: a creation of which nobody knows whether it succeeded is searched for, and if nothing is found, the next one
has a token of its own. So the job that appears later is known to be nobody's.

Each start of a launcher is a term. One that finds a later term than its own has been replaced and changes nothing.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from typing import Any, Self

from vgp.inside.capacity import clock
from vgp.inside.capacity.errors import Superseded
from vgp.inside.capacity.folder import Changed, ControlFolder, Json
from vgp.inside.capacity.patience import Patience

NAME = "ladder.json"
FORMAT = 1
_TIMES = ("intended", "created", "started", "ended", "ending_at")


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One custom job at most, from the intention to the end. Times are seconds since 1970."""

    number: int
    rung: str
    region: str
    #: The label `training-attempt` of its job, and what the heartbeat says may run.
    token: str
    intended: float
    #: Digest of where the step's outputs belong, as the job was told.
    outputs: str
    #: Resource name of the job, once known.
    job: str | None = None
    created: float | None = None
    #: When all machines ran.
    started: float | None = None
    ended: float | None = None
    #: succeeded stockout preempted wait_expired quota timeout user_error cancelled moved lost failed; None: it goes on.
    outcome: str | None = None
    words: str = ""
    hours: float = 0.0
    usd: float | None = None
    step_from: int | None = None
    step_to: int | None = None
    steps_lost: int | None = None
    #: What its job measured of itself (progress.py), for the time after it.
    seconds_per_step: float | None = None
    start_s: float | None = None
    checkpoint_every_s: float | None = None
    save_s: float | None = None
    #: Why the launcher itself ends the job, and since when; told before the job is.
    ending: str | None = None
    ending_at: float | None = None
    #: The rung that it was ended for.
    next_rung: str | None = None


@dataclass(frozen=True, kw_only=True)
class Ladder:
    """The way so far. Times are seconds since 1970."""

    run: str
    step: str
    began: float
    deadline: float | None
    rungs: list[Json]
    attempts: tuple[Attempt, ...] = ()
    #: How many launchers there have been, and which one is the last.
    term: int = 0
    launcher: str = ""
    format: int = field(default=FORMAT)

    @property
    def open(self) -> Attempt | None:
        """The attempt that goes on."""
        return next((attempt for attempt in self.attempts if attempt.outcome is None), None)

    @property
    def usd(self) -> float:
        """What the attempts have cost so far, as far as prices are known."""
        return sum(attempt.usd or 0.0 for attempt in self.attempts)

    def with_attempt(self, attempt: Attempt) -> Self:
        """The same with one more attempt, or with a newer state of it."""
        others = [each for each in self.attempts if each.token != attempt.token]
        return replace(self, attempts=tuple(sorted([*others, attempt], key=lambda each: each.number)))

    def to_json(self) -> Json:
        """Times as texts, for readers of any kind."""
        whole = asdict(self)
        whole |= {name: clock.written(whole[name]) for name in ("began", "deadline")}
        whole["attempts"] = [each | {name: clock.written(each[name]) for name in _TIMES} for each in whole["attempts"]]
        return whole

    @classmethod
    def from_json(cls, content: Json) -> Self:
        """The ladder of `to_json`; keys of a later version are dropped.

        Raises:
            ValueError: it is of another format, or none.
        """
        if content.get("format") != FORMAT:
            raise ValueError(f"{NAME} has format {content.get('format')!r}; this launcher reads {FORMAT}.")
        known = _known(cls, content) | {name: clock.read(content.get(name)) for name in ("began", "deadline")}
        attempts = tuple(Attempt(**_known(Attempt, each) | _times(each)) for each in content.get("attempts", []))
        return cls(**known | {"attempts": attempts})


def _known(kind: Any, content: Json) -> Json:
    names = {each.name for each in fields(kind)}
    return {key: value for key, value in content.items() if key in names}


def _times(content: Json) -> Json:
    return {name: clock.read(content.get(name)) for name in _TIMES}


class Journal:
    """Reads and changes the ladder; every change is a compare-and-swap that holds in this launcher's term alone.

    Args:
        launcher: A name for this launcher that no other has.
    """

    def __init__(self, folder: ControlFolder, patience: Patience, launcher: str) -> None:
        self.folder, self.patience, self.launcher = folder, patience, launcher
        self.term = 0
        #: As it was last read or written.
        self.ladder: Ladder

    def begin(self, first: Ladder) -> Ladder:
        """The ladder at the beginning of a term of this launcher; `first` where there is none yet."""

        def taken_over(ladder: Ladder) -> Ladder:
            if ladder.launcher == self.launcher:
                return ladder
            return replace(ladder, term=ladder.term + 1, launcher=self.launcher)

        ladder = self._swap(lambda there: taken_over(there or first))
        self.term = ladder.term
        return ladder

    def change(self, alter: Callable[[Ladder], Ladder]) -> Ladder:
        """The ladder with a change; `alter` may be called again with what is there then.

        Raises:
            Superseded: a newer launcher is at work.
        """

        def altered(there: Ladder | None) -> Ladder:
            if there is None or there.launcher != self.launcher:
                raise Superseded("another launcher of this step has taken over.")
            return alter(there)

        return self._swap(altered)

    def read(self) -> Ladder:
        """The ladder as it is. Raises as `change`."""
        return self.change(lambda ladder: ladder)

    def write(self, attempt: Attempt) -> Ladder:
        """The ladder with this state of an attempt that goes on. Raises as `change`."""
        return self.change(lambda ladder: ladder.with_attempt(attempt))

    def _swap(self, alter: Callable[[Ladder | None], Ladder]) -> Ladder:
        while True:
            there = self.patience("read the ladder", lambda: self.folder.read(NAME))
            before = Ladder.from_json(there.content) if there else None
            after = alter(before)
            if after == before:
                self.ladder = after
                return after
            content = after.to_json()
            write = partial(self.folder.write, NAME, content, there.generation if there else 0)
            try:
                self.patience("write the ladder", write)
            except Changed:
                continue
            self.ladder = Ladder.from_json(content)
            return self.ladder
