"""What became of a run, as one value: what its exit step writes and sends, and what `show` and `wait` say of it.

A function of the PipelineJob as Vertex AI's REST API gives it, and of nothing else. While the exit step runs, the job
itself is still RUNNING: how its steps ended is then what Vertex AI tells that step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote

from vgp.base.documents.json_text import JsonObject
from vgp.base.text.figures import join_words
from vgp.base.text.printable import one_line, printable
from vgp.protocol.capacity.ladder_view import Way
from vgp.protocol.job_steps import Step, moment, steps_of, table

#: Of the JSON form: raised when a field goes or changes its meaning, not when one is added.
VERSION = 1
ENDED = ("succeeded", "failed", "cancelled")
#: Characters of an error, in words and in JSON.
_WORDS, _MESSAGE = 300, 4000
#: Why a run trained or did not, what it decided, and what came of it: step and output.
_REASON, _DECISION, _RELEASED = ("resolve", "why"), ("decide", "Output"), ("register", "words")
#: What it returns where there is nothing to decide by: no predictions of a script, no test row of a class.
_UNDECIDED = "not decided"


@dataclass(frozen=True)
class Summary:
    """A run that has ended, or is about to: state, steps, and what they come to."""

    #: The run's resource name: projects/NUMBER/locations/REGION/pipelineJobs/ID.
    name: str
    state: str
    error: str = ""
    pipeline: str = ""
    schedule: str = ""
    started: datetime | None = None
    ended: datetime | None = None
    steps: tuple[Step, ...] = ()
    #: Dollars per hour of each step, by its name in the spec, and the day of each price, where it is known.
    prices: Mapping[str, float] = field(default_factory=dict)
    price_days: Mapping[str, str] = field(default_factory=dict)
    #: The ways up its ladders.
    ways: tuple[Way, ...] = ()

    @property
    def run(self) -> str:
        return self.name.rpartition("/")[2]

    @property
    def nothing_new(self) -> bool:
        """Whether every step that can take an earlier result took one: this run learned nothing that was not known."""
        pinned = [step for step in self.steps if step.pinned and step.state != "not triggered"]
        return self.state == "succeeded" and bool(pinned) and all(step.state == "cached" for step in pinned)

    @property
    def since(self) -> str:
        """The run that made the newest of the results that were taken: a step is no older than those before it."""
        return next((step.since for step in reversed(self.steps) if step.since), "")

    @property
    def decision(self) -> str:
        """What the step `decide` returned, promote, candidate, keep or not decided; empty where none did."""
        return self._returned(*_DECISION, 40)

    @property
    def released(self) -> str:
        """What the step `register` did, in one sentence: `registered as version 7, champion since ...`; else empty."""
        return self._returned(*_RELEASED, _WORDS)

    @property
    def reason(self) -> str:
        """Why a run that decides whether to train did so, or did not, in one sentence; empty where every run trains."""
        return self._returned(*_REASON, _WORDS)

    def _returned(self, task: str, key: str, most: int) -> str:
        values = [step.returned.get(key) for step in self.steps if step.task == task]
        return one_line(next((value for value in values if isinstance(value, str)), ""), most)

    @property
    def failed(self) -> list[Step]:
        return [step for step in self.steps if step.state == "failed"]

    @property
    def seconds(self) -> float | None:
        return max(0.0, (self.ended - self.started).total_seconds()) if self.started and self.ended else None

    @property
    def words(self) -> str:
        """The run in one sentence, without its name: `nothing new since training-3f2a: nothing was trained`."""
        if self.state == "failed":
            return f"failed{self._where}"
        if self.state == "cancelled":
            names = [step.name for step in self.steps if step.state in ("cancelled", "cancelling")]
            return f"cancelled in {join_words(names, 'and')}" if names else "cancelled"
        if self.state != "succeeded":
            return self.state
        if self.nothing_new:
            return f"nothing new{f' since {self.since}' if self.since else ''}: nothing was trained"
        return "; ".join(filter(None, [self._trained, self._decided, self.released, self._taken])) or self.state

    @property
    def _where(self) -> str:
        if not self.failed:
            return f": {one_line(self.error, _WORDS)}" if self.error else ""
        first, *others = self.failed
        more = f" (and in {join_words([step.name for step in others], 'and')})" if others else ""
        return f" in {first.name}{more}: {one_line(first.error, _WORDS) or 'Google gives no reason'}"

    @property
    def _trained(self) -> str:
        """Empty for a pipeline that has no step that trains."""
        why = f": {self.reason.removesuffix('.')}" if self.reason else ""
        if any(step.trains and step.state == "succeeded" for step in self.steps):
            return f"trained{why}"
        return f"nothing was trained{why}" if any(step.trains for step in self.steps) else ""

    @property
    def _decided(self) -> str:
        if self.decision == _UNDECIDED:
            return f"{_UNDECIDED}: the report has the reason"
        return f"decision: {self.decision}" if self.decision else ""

    @property
    def _taken(self) -> str:
        by_run: dict[str, list[str]] = {}
        for step in self.steps:
            if step.state == "cached":
                by_run.setdefault(step.since or "an earlier run", []).append(step.name)
        return ", ".join(f"{join_words(names, 'and')} taken from {run}" for run, names in by_run.items())

    def usd(self, step: Step) -> float | None:
        """What the step cost: time x price, or what its attempts say; 0 if it did not run, None if it is not known."""
        if step.seconds is None:
            return 0.0
        climbed = [way for way in self.ways if way.step == step.task]
        if climbed:
            alone = sum(other.task == step.task for other in self.steps) == 1
            return sum(way.usd for way in climbed) if alone and all(way.is_priced for way in climbed) else None
        price = self.prices.get(step.task)
        return None if price is None else price * step.seconds / 3600

    @property
    def total_usd(self) -> float:
        """The sum of the steps that have a price: without those of `unpriced`."""
        return sum(self.usd(step) or 0.0 for step in self.steps)

    @property
    def unpriced(self) -> list[str]:
        return list(dict.fromkeys(step.task for step in self.steps if self.usd(step) is None))

    @property
    def price_dates(self) -> list[str]:
        """The days of the prices of what ran, those of rungs with them, the oldest first."""
        ran = {step.task for step in self.steps if step.seconds is not None} - {way.step for way in self.ways}
        days = {day for task, day in self.price_days.items() if task in ran and day}
        return sorted(days.union(*(way.price_dates for way in self.ways)))

    @property
    def links(self) -> dict[str, str]:
        """Pages of a browser: the run, and its report, which is that of `since` if nothing is new."""
        report = next((step.pages["report"] for step in reversed(self.steps) if "report" in step.pages), "")
        return {key: link for key, link in (("run", run_page(self.name)), ("report", object_page(report))) if link}

    def as_json(self) -> JsonObject:
        """The documented form: docs/how-to/alerts.md."""
        failed = self.failed[0] if self.failed else None
        message = failed.error if failed else self.error
        return {
            "version": VERSION,
            "text": " ".join(filter(None, [f"{self.run}: {self.words}.", self.links.get("run", "")])),
            "run": self.run,
            "name": self.name,
            "pipeline": self.pipeline,
            "schedule": self.schedule.rpartition("/")[2],
            "state": self.state,
            "words": self.words,
            "nothing_new": self.nothing_new,
            "since": self.since,
            "reason": self.reason,
            "decision": self.decision,
            "released": self.released,
            "error": {"step": failed.name if failed else "", "message": printable(message)[:_MESSAGE]}
            if self.state == "failed"
            else None,
            "started": _text(self.started),
            "ended": _text(self.ended),
            "seconds": self.seconds,
            "usd": round(self.total_usd, 4),
            "unpriced": self.unpriced,
            "price_dates": self.price_dates,
            "steps": [self._step(step) for step in self.steps],
            "ladders": [way.as_json() for way in self.ways],
            "links": self.links,
        }

    def _step(self, step: Step) -> JsonObject:
        usd = self.usd(step)
        return {
            "step": step.name,
            "state": step.state,
            "since": step.since,
            "seconds": step.seconds,
            "usd": None if usd is None else round(usd, 4),
        }


def summary_of(
    job: JsonObject,
    prices: Mapping[str, float | Sequence[Any]] | None = None,
    *,
    state: str = "",
    error: str = "",
    ways: tuple[Way, ...] = (),
) -> Summary:
    """The summary of a PipelineJob; `state` and `error` are what its exit step is told while the job still runs.

    `prices` are dollars per hour of each step, alone or with the day of the price: [2.3, "2026-07-30"].
    `ways` are the ways up its ladders, which the job itself does not tell.
    """
    told = str(job.get("state", "")).removeprefix("PIPELINE_STATE_").lower()
    told = told if told in ENDED or not state else state.lower()
    steps = tuple(steps_of(job))
    dated = {task: price if isinstance(price, Sequence) else [price] for task, price in (prices or {}).items()}
    ends = [step.ended for step in steps if step.ended]
    return Summary(
        name=str(job.get("name", "")),
        state=told or "unknown",
        error=str(table(job, "error").get("message", "")) or error,
        pipeline=str(table(table(job, "pipelineSpec"), "pipelineInfo").get("name", "")),
        schedule=str(job.get("scheduleName", "")),
        started=moment(job.get("startTime")) or moment(job.get("createTime")),
        ended=moment(job.get("endTime")) or (max(ends) if ends else None),
        steps=steps,
        prices={task: price[0] for task, price in dated.items()},
        price_days={task: str(price[1]) for task, price in dated.items() if len(price) > 1},
        ways=ways,
    )


def run_page(name: str) -> str:
    """The run's page in the console, from its resource name."""
    parts = name.split("/")
    if len(parts) != 6 or parts[::2] != ["projects", "locations", "pipelineJobs"]:
        return ""
    page = f"vertex-ai/locations/{quote(parts[3])}/pipelines/runs/{quote(parts[5])}"
    return f"https://console.cloud.google.com/{page}?project={quote(parts[1])}"


def object_page(uri: str) -> str:
    """The console's page of an object, gs://BUCKET/NAME, from where it is opened or downloaded."""
    if not uri.startswith("gs://"):
        return ""
    return f"https://console.cloud.google.com/storage/browser/_details/{quote(uri.removeprefix('gs://'))}"


def _text(time: datetime | None) -> str | None:
    return time.isoformat().replace("+00:00", "Z") if time else None
