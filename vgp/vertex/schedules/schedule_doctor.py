"""`vgp doctor`: diagnoses every schedule of vgp, from one list of schedules and one list of runs for each.

A schedule has a problem if a night failed or was missed after its last good night, or if it differs from its
declaration. A bad night before the last good one is shown, and is no problem.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError
from vgp.base.text.figures import format_count
from vgp.base.text.nearest import did_you_mean
from vgp.base.text.printable import one_line
from vgp.base.text.times import moment, rfc3339
from vgp.settings import Schedule, Settings
from vgp.vertex import resource_names, rest
from vgp.vertex.google_errors import advice, explain_errors
from vgp.vertex.runs import run_search
from vgp.vertex.runs.remote_run import Run
from vgp.vertex.schedules import schedule_fields, schedule_list
from vgp.vertex.schedules.cron import Cron
from vgp.vertex.schedules.scheduled_nights import (
    BAD,
    CANCELLED,
    FAILED,
    MISSED,
    NOTHING_NEW,
    OPEN,
    RAN,
    WAITING,
    Night,
    find_last_good,
    list_nights,
)

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1.types import Schedule as LiveSchedule

#: The most failed runs whose steps are read one by one, if the list of runs has no steps.
_STEP_READS = 3

#: The most bad nights that are shown: after the last good night, and before it.
_SHOWN_BAD, _SHOWN_MADE_GOOD = 5, 3
#: The most characters of an error.
_ERROR = 240
_WORDS = {
    RAN: "ran", NOTHING_NEW: "with nothing new", OPEN: "going on", WAITING: "waiting", FAILED: "failed",
    CANCELLED: "cancelled", MISSED: "missed",
}  # fmt: skip


@dataclass(frozen=True)
class Diagnosis:
    """The diagnosis of one schedule: its state, its nights, and its problems."""

    name: str
    environment: str | None
    #: active, paused, completed, or `not applied`.
    state: str
    cron: Cron
    #: Resource name; empty if there is none.
    schedule: str = ""
    next_run: datetime | None = None
    nights: Sequence[Night] = ()
    #: Problems of the schedule itself, each with its fix.
    problems: Sequence[str] = ()
    #: Warnings for the output.
    notes: Sequence[str] = ()
    settings: Settings = field(repr=False, kw_only=True)

    @property
    def last_good(self) -> Night | None:
        return find_last_good(self.nights)

    @property
    def bad(self) -> list[Night]:
        """Failed and missed nights after the last good one."""
        good = self.last_good
        return [night for night in self.nights if night.kind in BAD and (good is None or night.time > good.time)]

    @property
    def made_good(self) -> list[Night]:
        """Failed and missed nights before the last good one."""
        good = self.last_good
        return [night for night in self.nights if night.kind in BAD and good is not None and night.time < good.time]

    @property
    def ok(self) -> bool:
        return not self.problems and not self.bad

    @property
    def counts(self) -> dict[str, int]:
        return dict(Counter(night.kind for night in self.nights))

    def local(self, time: datetime) -> datetime:
        return time.astimezone(self.cron.zone)

    def remedy(self, night: Night) -> list[str]:
        """Returns the fix for a bad night, as lines."""
        if night.run is None:
            day = f"{self.local(night.time):%Y-%m-%d}"
            return [f"vgp schedule backfill {self.name} --from {day} --to {day}"]
        hints = [line for step in night.failed for line in advice(step.error, self.settings).splitlines()]
        return [*dict.fromkeys(hints), f"vgp show {night.run.id}", f"vgp rerun {night.run.id} --from-failed"]

    def as_json(self) -> JsonObject:
        good = self.last_good
        return {
            "name": self.name,
            "environment": self.environment,
            "ok": self.ok,
            "state": self.state,
            "cron": str(self.cron),
            "schedule": self.schedule or None,
            "next_run": rfc3339(self.next_run),
            "last_good": {"time": rfc3339(good.time), "run": good.run.id} if good and good.run else None,
            "problems": list(self.problems),
            "notes": list(self.notes),
            "counts": self.counts,
            "nights": [self._night_json(night) for night in self.nights],
        }

    def _night_json(self, night: Night) -> JsonObject:
        row = {
            "time": rfc3339(night.time),
            "local": self.local(night.time).isoformat(),
            "kind": night.kind,
            "run": night.run.id if night.run else None,
        }
        if night.kind not in BAD:
            return row
        failed = [{"step": step.name, "error": step.error} for step in night.failed]
        error = night.run.error if night.run else night.why
        return {**row, "failed": failed, "error": error, "made_good": night in self.made_good, "do": self.remedy(night)}


def diagnose_schedules(settings: Settings, only: Sequence[str], since: str) -> list[Diagnosis]:
    """Diagnoses the declared and live schedules of this environment, or those named in `only`.

    Raises:
        RequestError: there is no schedule of a name, or `since` is no time.
    """
    with explain_errors("examine the schedules", settings):
        now = rest.now(
            settings, "aiplatform", f"v1/{resource_names.location(settings)}/schedules", fields="nextPageToken"
        )
        ours = schedule_list.group_by_name(settings, schedule_list.existing_schedules(settings))
    begin, known = run_search.parse_since(since, now), dict.fromkeys([*settings.schedules, *sorted(ours)])
    for name in only:
        if name not in known:
            raise RequestError(f"there is no schedule {name!r}. {did_you_mean(name, known)}")
    return [_diagnose(settings, name, ours.get(name), begin, now) for name in (only or known)]


def _diagnose(
    settings: Settings, name: str, ours: Sequence["LiveSchedule"] | None, since: datetime, now: datetime
) -> Diagnosis:
    declared = settings.schedules.get(name)
    if not ours:
        assert declared
        cron = Cron(declared.cron, declared.time_zone)
        over = declared.end is not None and declared.end <= now
        wrong = [] if over else [f"it is declared, and not on Vertex AI: vgp schedule apply {name}"]
        state = "completed" if over else "not applied"
        return Diagnosis(name, settings.environment, state, cron, problems=wrong, settings=settings)
    schedule, spec = ours[0], schedule_fields.spec(ours[0])
    state = schedule_list.read_state(schedule)
    runs = _read_steps(settings, schedule_list.runs(settings, name, since=since.isoformat(), steps=True))
    return Diagnosis(
        name,
        settings.environment,
        state,
        Cron.parse(schedule.cron),
        schedule.name,
        moment(schedule.next_run_time) if state == "active" else None,
        list_nights(schedule, spec, runs, since, now),
        _list_problems(name, declared, state, ours),
        [] if declared else ["it is declared no longer, and runs on: vgp schedule apply --prune deletes it"],
        settings=settings,
    )


def _list_problems(name: str, declared: Schedule | None, state: str, ours: Sequence["LiveSchedule"]) -> list[str]:
    problems = []
    if declared and state == "paused" and not declared.paused:
        when = moment(ours[0].last_pause_time)
        since = f" since {when:%Y-%m-%d %H:%M} UTC" if when else ""
        problems.append(f"it is paused{since}, and declared active: vgp schedule resume {name} --catch-up")
    if len(ours) > 1:
        problems.append(f"there are {len(ours)} of this name, and each starts runs: vgp schedule apply {name}")
    return problems


def _read_steps(settings: Settings, runs: Sequence[Run]) -> list[Run]:
    """Returns the runs; reads the steps of the newest failed runs if the list of runs has none."""
    without_steps = [run for run in runs if run.state == "failed" and not run.job.job_detail.task_details][:_STEP_READS]
    complete = {run.name: run_search.find(settings, run.id) for run in without_steps}
    return [complete.get(run.name, run) for run in runs]


def render_page(diagnoses: Sequence[Diagnosis], since: str) -> Group:
    """Renders every schedule, those with problems last, next to the prompt, and a summary."""
    ordered = sorted(diagnoses, key=lambda one: not one.ok)
    parts = [line for one in ordered for line in [*_render_schedule(one, since), Text()]]
    return Group(*parts, Text(summarize(diagnoses), "bold"))


def summarize(diagnoses: Sequence[Diagnosis]) -> str:
    """Returns a summary such as `1 of 2 schedules needs you: nightly`."""
    if not diagnoses:
        return "There are no schedules: write [schedules.NAME] into pipelines.toml, or choose --env."
    wrong = [one_line(one.name) for one in diagnoses if not one.ok]
    if not wrong:
        return "1 schedule, and it is fine" if len(diagnoses) == 1 else f"{len(diagnoses)} schedules, all fine"
    return (
        f"{len(wrong)} of {format_count(len(diagnoses), 'schedule')} {'needs' if len(wrong) == 1 else 'need'} you: "
        + (", ".join(wrong))
    )


def _render_schedule(diagnosis: Diagnosis, since: str) -> Iterator[Text]:
    mark = Text("✓", "green") if diagnosis.ok else Text("✗", "bold red")
    where = f" ({one_line(diagnosis.environment)})" if diagnosis.environment else ""
    when = f"  {one_line(diagnosis.cron.expression)} {one_line(diagnosis.cron.time_zone)}"
    yield Text.assemble(
        mark, " ", (one_line(diagnosis.name), "bold"), (where, "dim"), "  ", diagnosis.state, (when, "dim")
    )
    for text in diagnosis.problems:
        yield Text(f"  {one_line(text)}", "red")
    for text in diagnosis.notes:
        yield Text(f"  {one_line(text)}", "yellow")
    if diagnosis.schedule:
        yield from _render_facts(diagnosis, since)
    for night in diagnosis.bad[-_SHOWN_BAD:]:
        yield from _render_night(diagnosis, night)
    yield from _render_hidden_count(len(diagnosis.bad) - _SHOWN_BAD, "of these")
    for night in diagnosis.made_good[-_SHOWN_MADE_GOOD:]:
        yield Text(f"  {_describe_night(diagnosis, night)}; a later night went well", "dim")
    yield from _render_hidden_count(len(diagnosis.made_good) - _SHOWN_MADE_GOOD, "that later nights made good")


def _render_facts(diagnosis: Diagnosis, since: str) -> Iterator[Text]:
    good = diagnosis.last_good
    run = f"  {good.run.id}" if good and good.run else ""
    yield _render_fact("last good", f"{_format_local(diagnosis, good.time)}{run}" if good else f"none since {since}")
    if diagnosis.next_run:
        yield _render_fact("next", _format_local(diagnosis, diagnosis.next_run))
    counts = [f"{count} {_WORDS.get(kind, kind)}" for kind, count in sorted(diagnosis.counts.items(), key=_order)]
    yield _render_fact(
        "nights", f"{len(diagnosis.nights)} since {since}" + (f": {', '.join(counts)}" if counts else "")
    )


def _order(count: tuple[str, int]) -> int:
    return [*_WORDS, count[0]].index(count[0])


def _render_night(diagnosis: Diagnosis, night: Night) -> Iterator[Text]:
    yield Text(f"  {_describe_night(diagnosis, night)}", "red")
    yield from (Text(f"    {one_line(line)}") for line in diagnosis.remedy(night))


def _describe_night(diagnosis: Diagnosis, night: Night) -> str:
    """Returns a line such as `failed  Fri 2026-11-20 02:30 CET  train: CUDA out of memory`."""
    steps = "; ".join(f"{step.name}: {step.error or 'Google gives no reason'}" for step in night.failed)
    why = steps or (night.run.error if night.run else night.why)
    kind, time = _WORDS.get(night.kind, night.kind), _format_local(diagnosis, night.time)
    return f"{kind}  {time}  {one_line(why, _ERROR)}".rstrip()


def _render_fact(name: str, text: str) -> Text:
    return Text.assemble((f"  {name:<10}", "dim"), one_line(text))


def _render_hidden_count(count: int, noun: str) -> Iterator[Text]:
    if count > 0:
        yield Text(f"  and {count} more {noun}: --json has them", "dim")


def _format_local(diagnosis: Diagnosis, time: datetime) -> str:
    return f"{diagnosis.local(time):%a %Y-%m-%d %H:%M %Z}"
