"""The summary of a run, which its exit step writes and sends, and `vgp show` and `vgp wait` print.

It is computed from the PipelineJob in Vertex AI's REST API. While the exit step runs, the job is still RUNNING, so the
exit step passes the state and the error that Vertex AI gives it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote

from vgp.base.documents.json_text import JsonObject
from vgp.base.text.figures import join_words
from vgp.base.text.printable import one_line, printable
from vgp.protocol.capacity.ladder_view import LadderView
from vgp.protocol.job_steps import Step, moment, steps_of, table

#: Version of the JSON form, incremented when a field is removed or changes its meaning, not when one is added.
VERSION = 1
ENDED = ("succeeded", "failed", "cancelled")
#: Maximum characters of a sentence and of an error in JSON.
_WORDS, _MESSAGE = 300, 4000
#: Step and output with the reason to train or not, with the decision, and with the result of the registration.
_REASON, _DECISION, _RELEASED = ("resolve", "why"), ("decide", "Output"), ("register", "words")
#: The decision without enough data, such as a script without predictions or a class without test rows.
_UNDECIDED = "not decided"


@dataclass(frozen=True)
class Summary:
    """The state, steps, results and cost of a run that has ended or runs its exit step."""

    #: The run's resource name: projects/NUMBER/locations/REGION/pipelineJobs/ID.
    name: str
    state: str
    error: str = ""
    pipeline: str = ""
    schedule: str = ""
    started: datetime | None = None
    ended: datetime | None = None
    steps: tuple[Step, ...] = ()
    #: Dollars per hour of each step, and the day of that price if known, by the step's name in the spec.
    prices: Mapping[str, float] = field(default_factory=dict)
    price_days: Mapping[str, str] = field(default_factory=dict)
    #: The histories of its capacity ladders.
    ways: tuple[LadderView, ...] = ()

    @property
    def run(self) -> str:
        return self.name.rpartition("/")[2]

    @property
    def nothing_new(self) -> bool:
        """Whether every step that can have a cache hit had one, so that the run computed nothing new."""
        pinned = [step for step in self.steps if step.pinned and step.state != "not triggered"]
        return self.state == "succeeded" and bool(pinned) and all(step.state == "cached" for step in pinned)

    @property
    def since(self) -> str:
        """Returns the run that computed the newest cached results, which are those of the last cached step."""
        return next((step.since for step in reversed(self.steps) if step.since), "")

    @property
    def decision(self) -> str:
        """Returns the result of the step `decide`: promote, candidate, keep or not decided; "" without one."""
        return self._output(*_DECISION, 40)

    @property
    def released(self) -> str:
        """Returns the result of the step `register`, such as `registered as version 7, champion since ...`, or ""."""
        return self._output(*_RELEASED, _WORDS)

    @property
    def reason(self) -> str:
        """Returns the reason why the run trained or did not; "" for a workflow that always trains."""
        return self._output(*_REASON, _WORDS)

    def _output(self, task: str, key: str, most: int) -> str:
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
        """Returns the run in one sentence without its name: `nothing new since training-3f2a: nothing was trained`."""
        if self.state == "failed":
            return f"failed{self._failure}"
        if self.state == "cancelled":
            names = [step.name for step in self.steps if step.state in ("cancelled", "cancelling")]
            return f"cancelled in {join_words(names, 'and')}" if names else "cancelled"
        if self.state != "succeeded":
            return self.state
        if self.nothing_new:
            return f"nothing new{f' since {self.since}' if self.since else ''}: nothing was trained"
        return (
            "; ".join(filter(None, [self._training, self._decision_words, self.released, self._describe_cache_hits]))
            or self.state
        )

    @property
    def _failure(self) -> str:
        if not self.failed:
            return f": {one_line(self.error, _WORDS)}" if self.error else ""
        first, *others = self.failed
        more = f" (and in {join_words([step.name for step in others], 'and')})" if others else ""
        return f" in {first.name}{more}: {one_line(first.error, _WORDS) or 'Google gives no reason'}"

    @property
    def _training(self) -> str:
        """Returns whether the run trained, and why; "" for a pipeline that never trains."""
        why = f": {self.reason.removesuffix('.')}" if self.reason else ""
        if any(step.trains and step.state == "succeeded" for step in self.steps):
            return f"trained{why}"
        return f"nothing was trained{why}" if any(step.trains for step in self.steps) else ""

    @property
    def _decision_words(self) -> str:
        if self.decision == _UNDECIDED:
            return f"{_UNDECIDED}: the report has the reason"
        return f"decision: {self.decision}" if self.decision else ""

    @property
    def _describe_cache_hits(self) -> str:
        by_run: dict[str, list[str]] = {}
        for step in self.steps:
            if step.state == "cached":
                by_run.setdefault(step.since or "an earlier run", []).append(step.name)
        return ", ".join(f"{join_words(names, 'and')} taken from {run}" for run, names in by_run.items())

    def usd(self, step: Step) -> float | None:
        """Returns the cost of a step: time x price, or the sum over its ladder's attempts; 0 if it did not run, None if
        unknown."""
        if step.seconds is None:
            return 0.0
        ladders = [way for way in self.ways if way.step == step.task]
        if ladders:
            is_only = sum(other.task == step.task for other in self.steps) == 1
            return sum(way.usd for way in ladders) if is_only and all(way.is_priced for way in ladders) else None
        price = self.prices.get(step.task)
        return None if price is None else price * step.seconds / 3600

    @property
    def total_usd(self) -> float:
        """Returns the cost of all steps except those of `unpriced`."""
        return sum(self.usd(step) or 0.0 for step in self.steps)

    @property
    def unpriced(self) -> list[str]:
        """Returns the names of the steps whose cost is unknown."""
        return list(dict.fromkeys(step.task for step in self.steps if self.usd(step) is None))

    @property
    def price_dates(self) -> list[str]:
        """Returns the days of the prices of all steps and rungs that ran, oldest first."""
        ran = {step.task for step in self.steps if step.seconds is not None} - {way.step for way in self.ways}
        days = {day for task, day in self.price_days.items() if task in ran and day}
        return sorted(days.union(*(way.price_dates for way in self.ways)))

    @property
    def links(self) -> dict[str, str]:
        """Returns the URLs of the run's page and of its report, which for cached steps is the report of `since`."""
        report = next((step.pages["report"] for step in reversed(self.steps) if "report" in step.pages), "")
        return {key: link for key, link in (("run", run_page(self.name)), ("report", object_page(report))) if link}

    def as_json(self) -> JsonObject:
        """Returns the form that docs/how-to/alerts.md documents."""
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
            "started": _format_time(self.started),
            "ended": _format_time(self.ended),
            "seconds": self.seconds,
            "usd": round(self.total_usd, 4),
            "unpriced": self.unpriced,
            "price_dates": self.price_dates,
            "steps": [self._step_json(step) for step in self.steps],
            "ladders": [way.as_json() for way in self.ways],
            "links": self.links,
        }

    def _step_json(self, step: Step) -> JsonObject:
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
    ways: tuple[LadderView, ...] = (),
) -> Summary:
    """Returns the summary of a PipelineJob.

    Args:
        prices: By step, dollars per hour, alone or with the day of the price: [2.3, "2026-07-30"].
        state: The state that Vertex AI gives the exit step; used while the job has not ended.
        error: The error that Vertex AI gives the exit step; used if the job has none.
        ways: The histories of its capacity ladders, which the job does not contain.
    """
    job_state = str(job.get("state", "")).removeprefix("PIPELINE_STATE_").lower()
    job_state = job_state if job_state in ENDED or not state else state.lower()
    steps = tuple(steps_of(job))
    dated = {task: price if isinstance(price, Sequence) else [price] for task, price in (prices or {}).items()}
    ends = [step.ended for step in steps if step.ended]
    return Summary(
        name=str(job.get("name", "")),
        state=job_state or "unknown",
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
    """Returns the URL of the run's page in the console; "" if `name` is not the resource name of a run."""
    parts = name.split("/")
    if len(parts) != 6 or parts[::2] != ["projects", "locations", "pipelineJobs"]:
        return ""
    page = f"vertex-ai/locations/{quote(parts[3])}/pipelines/runs/{quote(parts[5])}"
    return f"https://console.cloud.google.com/{page}?project={quote(parts[1])}"


def object_page(uri: str) -> str:
    """Returns the URL of the console's page of gs://BUCKET/NAME, from which you open or download the object."""
    if not uri.startswith("gs://"):
        return ""
    return f"https://console.cloud.google.com/storage/browser/_details/{quote(uri.removeprefix('gs://'))}"


def _format_time(time: datetime | None) -> str | None:
    return time.isoformat().replace("+00:00", "Z") if time else None
