"""The way up a step's ladder, as its launcher wrote it down (`ladder.json`), for people: rungs tried, time, money.

A function of the document alone. What is not as it should be in it is left out: telling is no reason to fail.
"""

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from vgp.base.text.figures import listed, plural, took, usd
from vgp.protocol import file_names
from vgp.protocol.job_steps import moment

NAME = file_names.LADDER
#: The module that a step with a ladder runs.
LAUNCHER = "vgp.launch.capacity"
#: Bytes of a document that is read, and objects of a run's control folders.
_MOST_BYTES, _MOST = 4_000_000, 1000
_ATTEMPT_S = 20.0
FORMAT = 1
#: How many attempts a page shows; the last ones.
MOST = 50
#: Outcome -> words after "1" and after a number above it, of what a person wants counted.
_COUNTED = {
    "preempted": ("preemption", "preemptions"),
    "stockout": ("stockout", "stockouts"),
    "wait_expired": ("wait in vain", "waits in vain"),
    "quota": ("refusal for quota", "refusals for quota"),
    "timeout": ("timeout", "timeouts"),
    "moved": ("move to another rung", "moves to another rung"),
    "lost": ("job lost", "jobs lost"),
}


@dataclass(frozen=True)
class Attempt:
    """One custom job, or a refusal of one."""

    number: int
    rung: str
    region: str
    strategy: str
    #: Resource name of the job; empty where none was made.
    job: str
    #: One of the outcomes; empty while it goes on.
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
        """`120 to 480`; empty where none is known."""
        if self.step_to is None:
            return ""
        return f"{self.step_from or 0:,} to {self.step_to:,}"

    def as_json(self) -> dict[str, Any]:
        names = (
            "number", "rung", "region", "strategy", "job", "outcome", "words", "hours", "usd", "step_from", "step_to",
            "steps_lost",
        )  # fmt: skip
        times = {name: _text(getattr(self, name)) for name in ("began", "ended")}
        return {name: getattr(self, name) for name in names} | times


@dataclass(frozen=True)
class Waiting:
    """The jobs that waited for Spot beside another one: how many, how many got machines, and the time and money of
    those that took over from none."""

    asked: int = 0
    granted: int = 0
    hours: float = 0.0
    #: None where one had machines whose price is not known.
    usd: float | None = 0.0

    @property
    def words(self) -> str:
        got = f" ({self.granted} got machines)" if self.granted else ""
        return f"Spot asked for {plural(self.asked, 'time')} beside them{got}"

    def as_json(self) -> dict[str, Any]:
        return {"asked": self.asked, "granted": self.granted, "hours": self.hours, "usd": self.usd}


@dataclass(frozen=True)
class Way:
    """The way of one step of a run."""

    step: str
    #: The run that climbed it.
    run: str
    deadline: datetime | None
    rungs: tuple[str, ...]
    attempts: tuple[Attempt, ...]
    waiting: Waiting = Waiting()
    #: The days of the prices that are reckoned with, the oldest first; those of a plan without days are not known.
    price_dates: tuple[str, ...] = ()

    @property
    def usd(self) -> float:
        """Of all machines, as far as prices are known."""
        return sum(attempt.usd or 0.0 for attempt in self.attempts) + (self.waiting.usd or 0.0)

    @property
    def is_priced(self) -> bool:
        return self.waiting.usd is not None and all(each.usd is not None for each in self.attempts if each.hours)

    @property
    def steps_lost(self) -> int:
        return sum(attempt.steps_lost for attempt in self.attempts)

    @property
    def job(self) -> str:
        """Resource name of the job of the moment; empty where none runs."""
        return next((each.job for each in reversed(self.attempts) if not each.outcome), "")

    @property
    def words(self) -> str:
        """`4 attempts on 2 of 3 rungs (1 preemption, 1 stockout), 5h 12m of machines, $41.20, 37 steps lost`."""
        if not self.attempts:
            return "no attempt yet"
        tried = dict.fromkeys(attempt.rung for attempt in self.attempts)
        number = max(len(tried), len(self.rungs))
        rungs = plural(number, "rung") if len(tried) == number else f"{len(tried)} of {plural(number, 'rung')}"
        counted = f" ({listed(self._counted(), 'and')})" if list(self._counted()) else ""
        parts = [f"{plural(len(self.attempts), 'attempt')} on {rungs}{counted}"]
        parts += [self.waiting.words] if self.waiting.asked else []
        hours = sum(attempt.hours for attempt in self.attempts) + self.waiting.hours
        parts.append(f"{took(hours * 3600)} of machines")
        parts.append(usd(self.usd) if self.is_priced else f"at least {usd(self.usd)}")
        parts += [f"{plural(self.steps_lost, 'step')} lost"] if self.steps_lost else []
        return ", ".join([*parts, *self._deadline()])

    def _counted(self) -> Iterator[str]:
        outcomes = Counter(attempt.outcome for attempt in self.attempts)
        for outcome, (one, more) in _COUNTED.items():
            if outcomes[outcome]:
                yield f"{outcomes[outcome]} {one if outcomes[outcome] == 1 else more}"

    def _deadline(self) -> Iterator[str]:
        last = self.attempts[-1]
        if self.deadline and last.outcome == "succeeded" and last.ended:
            seconds = (self.deadline - last.ended).total_seconds()
            yield f"{took(abs(seconds))} {'before' if seconds >= 0 else 'after'} its deadline"

    def as_json(self) -> dict[str, Any]:
        """The documented form: docs/explanation/how-capacity-is-chosen.md."""
        return {
            "step": self.step,
            "words": self.words,
            "deadline": _text(self.deadline),
            "rungs": list(self.rungs),
            "usd": round(self.usd, 4) if self.is_priced else None,
            "price_dates": list(self.price_dates),
            "steps_lost": self.steps_lost,
            "job": self.job,
            "attempts": [attempt.as_json() for attempt in self.attempts],
            "waiting": self.waiting.as_json(),
        }


def read(document: Any) -> Way | None:
    """The way that a ladder.json tells; None for what is none."""
    if not isinstance(document, Mapping) or document.get("format") != FORMAT:
        return None
    rungs = {str(rung.get("name", "")): rung for rung in _tables(document.get("rungs"))}
    attempts = tuple(_attempt(each, rungs) for each in _tables(document.get("attempts")))
    step, run = (str(document.get(name, "")) for name in ("step", "run"))
    ordered, waiting = tuple(sorted(attempts, key=_number)), waiting_of(document)
    days = _price_dates([*_tables(document.get("attempts")), *waiting], rungs)
    return Way(step, run, moment(document.get("deadline")), tuple(rungs), ordered, _waiting(waiting), days)


def waiting_of(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The jobs that waited beside attempts; a run of before 2026-11-23 has probes there, which never trained."""
    return _tables(document.get("waiting") or document.get("probes"))


def _price_dates(told: list[Mapping[str, Any]], rungs: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """Of the rungs whose machines were held."""
    held = {str(each.get("rung", "")) for each in told if _amount(each.get("hours"))}
    return tuple(sorted(filter(None, {_day(rungs[name].get("price_date")) for name in held & rungs.keys()})))


def _day(value: Any) -> str:
    """`2026-07-30`; empty for what is no day."""
    try:
        return date.fromisoformat(value).isoformat()
    except (TypeError, ValueError):
        return ""


def _waiting(told: list[Mapping[str, Any]]) -> Waiting:
    hours = [_amount(each.get("hours")) or 0.0 for each in told]
    usd = [_amount(each.get("usd")) for each, held in zip(told, hours, strict=True) if held]
    known = [amount for amount in usd if amount is not None]
    granted = sum(each.get("outcome") == "granted" for each in told)
    return Waiting(len(told), granted, sum(hours), sum(known) if len(known) == len(usd) else None)


def _attempt(told: Mapping[str, Any], rungs: Mapping[str, Mapping[str, Any]]) -> Attempt:
    rung = str(told.get("rung", ""))
    return Attempt(
        number=_whole(told.get("number")) or 0,
        rung=rung,
        region=str(told.get("region") or rungs.get(rung, {}).get("region") or ""),
        strategy=str(rungs.get(rung, {}).get("strategy") or ""),
        job=str(told.get("job") or ""),
        outcome=str(told.get("outcome") or ""),
        words=str(told.get("words") or ""),
        began=moment(told.get("started")) or moment(told.get("created")),
        ended=moment(told.get("ended")),
        hours=_amount(told.get("hours")) or 0.0,
        usd=_amount(told.get("usd")),
        step_from=_whole(told.get("step_from")),
        step_to=_whole(told.get("step_to")),
        steps_lost=_whole(told.get("steps_lost")) or 0,
    )


def _tables(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _amount(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < float("inf") else None


def _number(attempt: Attempt) -> int:
    return attempt.number


def _text(time: datetime | None) -> str | None:
    return time.isoformat().replace("+00:00", "Z") if time else None


# ---- the ladders of a run, in its control folders: ROOT/capacity/RUN/STEP-DIGEST/ladder.json


def has_ladder(spec: Mapping[str, Any]) -> bool:
    """Whether a step of the compiled pipeline has a ladder: else there is nothing to look for."""
    executors = (spec.get("deploymentSpec") or {}).get("executors") or {}
    containers = [each.get("container") or {} for each in executors.values() if isinstance(each, Mapping)]
    words = [word for each in containers for key in ("command", "args") for word in each.get(key) or ()]
    return any(isinstance(word, str) and LAUNCHER in word for word in words)


def client() -> Any:
    """Google's client of Cloud Storage, as the step's account."""
    from google.cloud.storage import Client

    # Else the library's first use of a bucket starts a thread that reads its metadata, for traces that nobody takes.
    os.environ.setdefault("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")
    return Client()


def of_run(client: Any, root: str, run: str) -> tuple[Way, ...]:
    """The ways up, by step. Google's own errors come through.

    Args:
        client: google.cloud.storage.Client.
        root: The root of runs: gs://BUCKET/FOLDER.
        run: Its id.
    """
    bucket, _, folder = root.removeprefix("gs://").partition("/")
    if not root.startswith("gs://") or not run:
        return ()
    prefix = "/".join(filter(None, [folder.strip("/"), "capacity", run])) + "/"
    listed = list(client.list_blobs(bucket, prefix=prefix, max_results=_MOST, timeout=_ATTEMPT_S))
    blobs = [blob for blob in listed if blob.name.endswith(f"/{NAME}") and (blob.size or 0) <= _MOST_BYTES]
    ways = [way for way in map(_document, blobs) if way]
    return tuple(sorted(ways, key=lambda way: way.step))


def _document(blob: Any) -> Way | None:
    from google.api_core.exceptions import NotFound

    try:
        # By its name: a blob of a list is of the generation that was listed, which the launcher may have replaced.
        return read(json.loads(blob.bucket.blob(blob.name).download_as_bytes(timeout=_ATTEMPT_S)))
    except (ValueError, NotFound):
        return None
