"""The history of a step's ladder (`ladder.json`) for people: rungs, time, cost. Invalid parts are ignored."""

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from vgp.base.text.figures import format_count, format_duration, format_usd, join_words
from vgp.protocol import file_names
from vgp.protocol.job_steps import moment

NAME = file_names.LADDER
#: Module of the command of a step with a ladder.
LAUNCHER = "vgp.launch.capacity"
#: Maximum bytes of a document, and number of objects in a run's control folders.
_MOST_BYTES, _MOST = 4_000_000, 1000
_ATTEMPT_S = 20.0
FORMAT = 1
#: Maximum number of attempts on a page; the last ones are shown.
MOST = 50
#: Outcome -> its singular and plural, for the outcomes that are counted for people.
_COUNTED = {
    "preempted": ("preemption", "preemptions"),
    "stockout": ("stockout", "stockouts"),
    "wait_expired": ("expired wait", "expired waits"),
    "quota": ("quota refusal", "quota refusals"),
    "timeout": ("timeout", "timeouts"),
    "moved": ("move to another rung", "moves to another rung"),
    "lost": ("lost job", "lost jobs"),
}


@dataclass(frozen=True)
class Attempt:
    """One custom job, created or refused."""

    number: int
    rung: str
    region: str
    strategy: str
    #: Resource name of the job; empty if none was created.
    job: str
    #: One of the outcomes; empty while it runs.
    outcome: str
    words: str
    began: datetime | None
    ended: datetime | None
    hours: float
    usd: float | None
    step_from: int | None
    step_to: int | None
    steps_lost: int

    @property
    def state(self) -> str:
        return self.outcome.replace("_", " ") or "running"

    @property
    def steps(self) -> str:
        """Returns the range of steps, such as `120 to 480`; empty if unknown."""
        if self.step_to is None:
            return ""
        return f"{self.step_from or 0:,} to {self.step_to:,}"

    def as_json(self) -> dict[str, Any]:
        names = (
            "number", "rung", "region", "strategy", "job", "outcome", "words", "hours", "usd", "step_from", "step_to",
            "steps_lost",
        )  # fmt: skip
        times = {name: _format_time(getattr(self, name)) for name in ("began", "ended")}
        return {name: getattr(self, name) for name in names} | times


@dataclass(frozen=True)
class Waiting:
    """The jobs that waited for Spot machines while another job ran: their number, the number that got machines, and the
    time and cost of those that got machines but never took over."""

    asked: int = 0
    granted: int = 0
    hours: float = 0.0
    #: None if the price of a machine is unknown.
    usd: float | None = 0.0

    @property
    def words(self) -> str:
        granted = f" ({self.granted} granted)" if self.granted else ""
        return f"{format_count(self.asked, 'Spot request')} in parallel{granted}"

    def as_json(self) -> dict[str, Any]:
        return {"asked": self.asked, "granted": self.granted, "hours": self.hours, "usd": self.usd}


@dataclass(frozen=True)
class LadderView:
    """The ladder history of one step of a run."""

    step: str
    #: Id of the run.
    run: str
    deadline: datetime | None
    rungs: tuple[str, ...]
    attempts: tuple[Attempt, ...]
    waiting: Waiting = Waiting()
    #: Days of the prices in the cost, oldest first; unknown for a plan without days.
    price_dates: tuple[str, ...] = ()

    @property
    def usd(self) -> float:
        """Returns the cost of all machines, without those of unknown price."""
        return sum(attempt.usd or 0.0 for attempt in self.attempts) + (self.waiting.usd or 0.0)

    @property
    def is_priced(self) -> bool:
        return self.waiting.usd is not None and all(
            attempt.usd is not None for attempt in self.attempts if attempt.hours
        )

    @property
    def steps_lost(self) -> int:
        return sum(attempt.steps_lost for attempt in self.attempts)

    @property
    def job(self) -> str:
        """Returns the resource name of the running job, or ""."""
        return next((attempt.job for attempt in reversed(self.attempts) if not attempt.outcome), "")

    @property
    def words(self) -> str:
        """Returns `4 attempts on 2 of 3 rungs (1 preemption, 1 stockout), 5h 12m of machines, $41.20, 37 steps
        lost`."""
        if not self.attempts:
            return "no attempt yet"
        tried = dict.fromkeys(attempt.rung for attempt in self.attempts)
        number = max(len(tried), len(self.rungs))
        rungs = (
            format_count(number, "rung") if len(tried) == number else f"{len(tried)} of {format_count(number, 'rung')}"
        )
        counted = f" ({join_words(self._count_outcomes(), 'and')})" if list(self._count_outcomes()) else ""
        parts = [f"{format_count(len(self.attempts), 'attempt')} on {rungs}{counted}"]
        parts += [self.waiting.words] if self.waiting.asked else []
        hours = sum(attempt.hours for attempt in self.attempts) + self.waiting.hours
        parts.append(f"{format_duration(hours * 3600)} of machines")
        parts.append(format_usd(self.usd) if self.is_priced else f"at least {format_usd(self.usd)}")
        parts += [f"{format_count(self.steps_lost, 'step')} lost"] if self.steps_lost else []
        return ", ".join([*parts, *self._deadline()])

    def _count_outcomes(self) -> Iterator[str]:
        outcomes = Counter(attempt.outcome for attempt in self.attempts)
        for outcome, (one, more) in _COUNTED.items():
            if outcomes[outcome]:
                yield f"{outcomes[outcome]} {one if outcomes[outcome] == 1 else more}"

    def _deadline(self) -> Iterator[str]:
        last = self.attempts[-1]
        if self.deadline and last.outcome == "succeeded" and last.ended:
            seconds = (self.deadline - last.ended).total_seconds()
            yield f"{format_duration(abs(seconds))} {'before' if seconds >= 0 else 'after'} its deadline"

    def as_json(self) -> dict[str, Any]:
        """Returns the documented form: docs/explanation/how-capacity-is-chosen.md."""
        return {
            "step": self.step,
            "words": self.words,
            "deadline": _format_time(self.deadline),
            "rungs": list(self.rungs),
            "usd": round(self.usd, 4) if self.is_priced else None,
            "price_dates": list(self.price_dates),
            "steps_lost": self.steps_lost,
            "job": self.job,
            "attempts": [attempt.as_json() for attempt in self.attempts],
            "waiting": self.waiting.as_json(),
        }


def read(document: Any) -> LadderView | None:
    """Reads the content of a ladder.json; None for another document."""
    if not isinstance(document, Mapping) or document.get("format") != FORMAT:
        return None
    rungs = {str(rung.get("name", "")): rung for rung in _list_tables(document.get("rungs"))}
    attempts = tuple(_read_attempt(attempt, rungs) for attempt in _list_tables(document.get("attempts")))
    step, run = (str(document.get(name, "")) for name in ("step", "run"))
    ordered, waiting = tuple(sorted(attempts, key=_read_number)), waiting_of(document)
    days = _price_dates([*_list_tables(document.get("attempts")), *waiting], rungs)
    return LadderView(step, run, moment(document.get("deadline")), tuple(rungs), ordered, _read_waiting(waiting), days)


def waiting_of(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Returns the jobs that waited beside attempts; runs before 2026-11-23 have probes instead, which never trained."""
    return _list_tables(document.get("waiting") or document.get("probes"))


def _price_dates(jobs: list[Mapping[str, Any]], rungs: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """Returns the price days of the rungs that held machines."""
    held = {str(job.get("rung", "")) for job in jobs if _read_amount(job.get("hours"))}
    return tuple(sorted(filter(None, {_day(rungs[name].get("price_date")) for name in held & rungs.keys()})))


def _day(value: Any) -> str:
    """Returns the day as `2026-07-30`, or "" for anything else."""
    try:
        return date.fromisoformat(value).isoformat()
    except (TypeError, ValueError):
        return ""


def _read_waiting(jobs: list[Mapping[str, Any]]) -> Waiting:
    hours = [_read_amount(job.get("hours")) or 0.0 for job in jobs]
    usd = [_read_amount(job.get("usd")) for job, held in zip(jobs, hours, strict=True) if held]
    known = [amount for amount in usd if amount is not None]
    granted = sum(job.get("outcome") == "granted" for job in jobs)
    return Waiting(len(jobs), granted, sum(hours), sum(known) if len(known) == len(usd) else None)


def _read_attempt(job: Mapping[str, Any], rungs: Mapping[str, Mapping[str, Any]]) -> Attempt:
    rung = str(job.get("rung", ""))
    return Attempt(
        number=_read_whole_number(job.get("number")) or 0,
        rung=rung,
        region=str(job.get("region") or rungs.get(rung, {}).get("region") or ""),
        strategy=str(rungs.get(rung, {}).get("strategy") or ""),
        job=str(job.get("job") or ""),
        outcome=str(job.get("outcome") or ""),
        words=str(job.get("words") or ""),
        began=moment(job.get("started")) or moment(job.get("created")),
        ended=moment(job.get("ended")),
        hours=_read_amount(job.get("hours")) or 0.0,
        usd=_read_amount(job.get("usd")),
        step_from=_read_whole_number(job.get("step_from")),
        step_to=_read_whole_number(job.get("step_to")),
        steps_lost=_read_whole_number(job.get("steps_lost")) or 0,
    )


def _list_tables(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _read_whole_number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _read_amount(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < float("inf") else None


def _read_number(attempt: Attempt) -> int:
    return attempt.number


def _format_time(time: datetime | None) -> str | None:
    return time.isoformat().replace("+00:00", "Z") if time else None


# ---- the ladders of a run, in its control folders: ROOT/capacity/RUN/STEP-DIGEST/ladder.json


def has_ladder(spec: Mapping[str, Any]) -> bool:
    """Whether a step of the compiled pipeline has a ladder."""
    executors = (spec.get("deploymentSpec") or {}).get("executors") or {}
    containers = [item.get("container") or {} for item in executors.values() if isinstance(item, Mapping)]
    words = [word for container in containers for key in ("command", "args") for word in container.get(key) or ()]
    return any(isinstance(word, str) and LAUNCHER in word for word in words)


def client() -> Any:
    """Returns Google's client of Cloud Storage, with the step's account."""
    from google.cloud.storage import Client

    # Otherwise the client starts a thread that reads the bucket's metadata for unused traces.
    os.environ.setdefault("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")
    return Client()


def of_run(client: Any, root: str, run: str) -> tuple[LadderView, ...]:
    """Reads the ladder histories of a run, sorted by step. Raises Google's errors.

    Args:
        client: google.cloud.storage.Client.
        root: The root of runs: gs://BUCKET/FOLDER.
        run: The run's id.
    """
    bucket, _, folder = root.removeprefix("gs://").partition("/")
    if not root.startswith("gs://") or not run:
        return ()
    prefix = "/".join(filter(None, [folder.strip("/"), "capacity", run])) + "/"
    objects = list(client.list_blobs(bucket, prefix=prefix, max_results=_MOST, timeout=_ATTEMPT_S))
    blobs = [blob for blob in objects if blob.name.endswith(f"/{NAME}") and (blob.size or 0) <= _MOST_BYTES]
    ways = [way for way in map(_document, blobs) if way]
    return tuple(sorted(ways, key=lambda way: way.step))


def _document(blob: Any) -> LadderView | None:
    from google.api_core.exceptions import NotFound

    try:
        # A new blob by name, because a listed blob has a generation, which the launcher may have replaced.
        return read(json.loads(blob.bucket.blob(blob.name).download_as_bytes(timeout=_ATTEMPT_S)))
    except (ValueError, NotFound):
        return None
