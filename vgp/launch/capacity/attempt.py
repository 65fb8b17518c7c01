"""One attempt: intention, creation, following, end. Whatever is killed between two lines here is taken up again.

The output `gcp_resources`, by which the console leads from a step to its job: that of the moment.

https://github.com/kubeflow/pipelines/blob/master/components/google-cloud/google_cloud_pipeline_components/proto/gcp_resources.proto
"""

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vgp.base.clock import Clock, parse_time
from vgp.base.text.figures import took, usd
from vgp.launch.capacity import journal as heartbeat
from vgp.launch.capacity import situation as progress
from vgp.launch.capacity.jobs import Jobs, Sweep
from vgp.launch.capacity.journal import Heartbeat, Journal
from vgp.launch.capacity.outcome import ENDED, Outcome, in_words, outcome, state
from vgp.launch.capacity.patience import Patience, Superseded, reason
from vgp.launch.capacity.situation import Progress, held_s, last_moment, progress_of, time_left_s, wait_s, why_over
from vgp.launch.capacity.step_run import StepRun
from vgp.launch.capacity.step_run import uri as bucket_uri
from vgp.protocol.capacity.folder import ControlFolder, Json
from vgp.protocol.capacity.job_service import page, uri
from vgp.protocol.capacity.ladder import Attempt, Ladder
from vgp.protocol.capacity.plan import HANDOVER_S, Plan, PlannedRung

#: Seconds between two looks at a job, and at the list of jobs.
POLL_S, SEARCH_POLL_S = 20.0, 10.0
#: How long a job is searched for of which nobody knows whether it was created: lists may lag.
SEARCH_S = 90.0
#: How long a job may be unknown, after it was created or later.
UNKNOWN_S = 180.0
#: How long a failed job may lack its error, which comes about a minute after its end.
ERROR_S = 150.0
#: How long a cancelled job may take to end; then it is fenced, and the next one may begin.
CANCEL_S = 900.0


@dataclass(frozen=True)
class End:
    """Why the launcher ends a job: an outcome of the journal, words, and the rung that follows, if that is known."""

    kind: str
    words: str
    next_rung: str | None = None


#: Says why a job is ended before it ends; None lets it go on.
Look = Callable[[Attempt], End | None]


@dataclass
class Attempts:
    """What an attempt takes, one after another; each method leaves the journal so that the next launcher can go on."""

    plan: Plan
    run: StepRun
    jobs: Jobs
    journal: Journal
    heartbeat: Heartbeat
    folder: ControlFolder
    clock: Clock
    patience: Patience
    tell: Callable[[str], None]
    sweep: Sweep
    search_s: float = SEARCH_S

    def start(self, rung: PlannedRung, ladder: Ladder) -> None:
        """Fence, intention, creation: in this order. Where no answer comes, the attempt is left open without a job."""
        self.sweep()
        now, token = self.clock.now(), f"{len(ladder.attempts) + 1}-{uuid.uuid4().hex[:16]}"
        self.heartbeat.allow(token)
        attempt = Attempt(
            number=len(ladder.attempts) + 1, rung=rung.name, region=rung.region, token=token, intended=now,
            outputs=self.run.outputs, step_from=self.saved_step(),
        )  # fmt: skip
        self.journal.write(attempt)
        made = self.jobs.create(rung, attempt, self.run.executor_input, time_left_s(rung, ladder, now))
        if isinstance(made, Outcome):
            self.close(attempt, made)
        elif made is not None:
            self._adopt(attempt, made)

    def find(self, attempt: Attempt) -> None:
        """Looks for the job of an attempt whose creation was not answered or noted: takes it up, or gives it up."""
        from google.api_core.exceptions import Forbidden

        until = self.clock.now() + self.search_s
        while True:
            try:
                found = self.jobs.found(attempt)
            except Forbidden as error:
                return self.close(attempt, Outcome("failed", f"its job cannot be looked for: {reason(error)}"))
            if found:  # if there are more, they are swept away
                return self._adopt(attempt, found[0])
            if self.clock.now() >= until:
                return self.close(
                    attempt, Outcome("lost", "Google did not say that its job was created; there is none")
                )
            self.clock.sleep(SEARCH_POLL_S)

    def _adopt(self, attempt: Attempt, job: Json) -> None:
        """Where a newer launcher is at work it has taken the job up, or given it up before it was there."""
        try:
            created = parse_time(job.get("createTime")) or self.clock.now()
            self.journal.write(replace(attempt, job=job["name"], created=created))
        except Superseded:
            self.sweep.unless_taken_up(job)
            raise

    def follow(self, attempt: Attempt, look: Look) -> None:
        """Until the job has ended, by itself or by what `look` says, or is fenced."""
        self._show(attempt)
        unknown_since, shown = None, ""
        while True:
            self.heartbeat.check()
            job, now = self.jobs.get(attempt), self.clock.now()
            if job is None:
                unknown_since = unknown_since or now
                if now - unknown_since > UNKNOWN_S:
                    return self.close(attempt, Outcome("lost", "Google does not know its job any more"))
            else:
                unknown_since = None
                attempt = self._noted(attempt, job)
                if state(job) != shown:
                    shown = state(job)
                    self.tell(f"attempt {attempt.number}: the job {in_words(shown)}")
                if shown in ENDED:
                    return self._ended(attempt, job)
                attempt = self._going_on(attempt, job, look)
                if attempt.ending_at and now - attempt.ending_at > self._fence_s():
                    return self._fenced(attempt)
            self.clock.sleep(POLL_S)

    def end(self, attempt: Attempt, why: End) -> Attempt:
        """Writes down that the job is to end, and why, and tells it; `follow` sees to it."""
        self.tell(f"attempt {attempt.number} is ended: {why.words}")
        ending = replace(attempt, ending=why.kind, ending_at=self.clock.now(), words=why.words, next_rung=why.next_rung)
        self.journal.write(ending)
        if ending.job:
            self.jobs.cancel(ending.job)
        return ending

    def close(self, attempt: Attempt, how: Outcome, at: float | None = None) -> None:
        """Writes down how an attempt ended; nobody may run then."""
        at = at or self.clock.now()
        known = self.progress()
        here = known if known and known.attempt == attempt.token else None
        hours, rung = held_s(replace(attempt, ended=at), at) / 3600, self.rung(attempt)
        self.heartbeat.allow(heartbeat.NOBODY)
        ladder = self.journal.write(
            replace(
                attempt, ended=at, outcome=how.kind, words=attempt.words if attempt.ending else how.words, hours=hours,
                usd=None if rung.usd_per_hour is None else hours * rung.usd_per_hour,
                step_from=attempt.step_from if here is None or here.from_step is None else here.from_step,
                step_to=here.saved_step if here else attempt.step_from,
                steps_lost=here.steps_unsaved if here and how.kind != "succeeded" else None,
                **({name: getattr(here, name) for name in progress.FIGURES} if here else {}),
            )
        )  # fmt: skip
        lost = f", {here.steps_unsaved} steps lost" if here and how.kind != "succeeded" else ""
        self.tell(
            f"attempt {attempt.number} on {rung.name}: {how.kind.replace('_', ' ')} after {took(hours * 3600)}{lost}; "
            f"{usd(ladder.usd)} so far"
        )

    def progress(self) -> Progress | None:
        """The last that a job told of its progress."""
        document = self.patience("read the progress", lambda: self.folder.read(progress.NAME))
        return progress_of(document.content) if document else None

    def saved_step(self) -> int | None:
        """The step of the newest checkpoint that a job told of."""
        known = self.progress()
        return known.saved_step if known else None

    def rung(self, attempt: Attempt) -> PlannedRung:
        """The attempt's rung; that of an older plan is one without a price."""
        named = (rung for rung in self.plan.rungs if rung.name == attempt.rung)
        return next(named, replace(self.plan.rungs[0], name=attempt.rung, region=attempt.region, usd_per_hour=None))

    def _show(self, attempt: Attempt) -> None:
        """Leads the console and people to the job of the moment."""
        self.sweep.soon()
        self.tell(f"attempt {attempt.number} on {attempt.rung}: {page(attempt.job or '', self.plan.project)}")
        if self.run.gcp_resources:
            path = self.run.gcp_resources
            self.patience("write gcp_resources", lambda: write_gcp_resources(path, attempt.job or ""))

    def _noted(self, attempt: Attempt, job: Json) -> Attempt:
        started = parse_time(job.get("startTime"))
        if started is None or attempt.started is not None:
            return attempt
        running = replace(attempt, started=started)
        self.journal.write(running)
        return running

    def _going_on(self, attempt: Attempt, job: Json, look: Look) -> Attempt:
        """A job that has not ended: left alone, or brought to its end."""
        now = self.clock.now()
        if not attempt.ending:
            self.sweep.if_due()
            if why := self._overdue(attempt, now) or look(attempt):
                attempt = self.end(attempt, why)
        if attempt.ending and state(job) != "CANCELLING":
            self.jobs.cancel(attempt.job or "")
        return attempt

    def _overdue(self, attempt: Attempt, now: float) -> End | None:
        longest = wait_s(self.rung(attempt))
        if attempt.started is None and now - (attempt.created or attempt.intended) > longest:
            return End("wait_expired", f"no machines within {took(longest)}")
        if now > last_moment(self.journal.ladder):
            return End("timeout", why_over(self.journal.ladder))
        return None

    def _ended(self, attempt: Attempt, job: Json) -> None:
        until = self.clock.now() + ERROR_S
        while state(job) == "FAILED" and not job.get("error", {}).get("message") and self.clock.now() < until:
            self.clock.sleep(POLL_S)
            job = self.jobs.get(attempt) or job
        rung = self.rung(attempt)
        allowed = _seconds(job.get("jobSpec", {}).get("scheduling", {}).get("timeout"), rung.timeout_s)
        self.close(attempt, outcome(job, rung.strategy, allowed, attempt.ending), parse_time(job.get("endTime")))

    def _fence_s(self) -> float:
        """How long a cancelled job may take to end: less where another one holds its machines for it."""
        following = self.journal.ladder.next
        return HANDOVER_S - 2 * POLL_S if following and following.started else CANCEL_S

    def _fenced(self, attempt: Attempt) -> None:
        since = took(self._fence_s())
        self.tell(f"attempt {attempt.number}: the job has not ended {since} after its cancellation; fenced")
        self.close(attempt, Outcome(attempt.ending or "moved", "fenced"))


def _seconds(duration: Any, default: float) -> float:
    """Of 3600s, as Google writes durations."""
    try:
        return float(str(duration).removesuffix("s"))
    except ValueError:
        return default


def write_gcp_resources(path: str, job: str) -> None:
    """Names the job of that resource name in place of what was there. Google's own errors come through."""
    text = json.dumps({"resources": [{"resourceType": "CustomJob", "resourceUri": uri(job)}]})
    place = bucket_uri(path)
    if place.startswith("gs://"):
        folder, _, name = place.rpartition("/")
        ControlFolder(folder).put(name, text)
    else:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text, encoding="utf-8")
