"""One attempt: journal entry, creation of the job, watching, end.

The launcher may be killed between any two lines here; the next launcher continues from the journal.

The output `gcp_resources` makes the console link from the step to its current job.

https://github.com/kubeflow/pipelines/blob/master/components/google-cloud/google_cloud_pipeline_components/proto/gcp_resources.proto
"""

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vgp.base.clock import Clock, parse_time
from vgp.base.text.figures import format_duration, format_usd
from vgp.launch.capacity.jobs import Jobs, Sweep
from vgp.launch.capacity.journal import NO_ATTEMPT, Heartbeat, Journal
from vgp.launch.capacity.outage_retry import Patience, Superseded, reason
from vgp.launch.capacity.outcome import ENDED, Outcome, decide_outcome, describe_state, state
from vgp.launch.capacity.situation import (
    FIGURES,
    Progress,
    held_s,
    last_moment,
    parse_progress,
    reason_for_last_moment,
    time_left_s,
    wait_s,
)
from vgp.launch.capacity.situation import NAME as PROGRESS_NAME
from vgp.launch.capacity.step_run import StepRun
from vgp.launch.capacity.step_run import uri as bucket_uri
from vgp.protocol.capacity.control_folder import ControlFolder, Json
from vgp.protocol.capacity.job_service import page, uri
from vgp.protocol.capacity.ladder import Attempt, Ladder
from vgp.protocol.capacity.plan import HANDOVER_S, Plan, PlannedRung

#: Seconds between two polls of a job, and of the list of jobs.
POLL_S, SEARCH_POLL_S = 20.0, 10.0
#: How long to search for a job whose creation got no answer: lists may lag, seconds.
SEARCH_S = 90.0
#: How long Google may not know a job before it counts as lost, seconds.
UNKNOWN_S = 180.0
#: How long to wait for the error of a failed job, which comes about a minute after its end, seconds.
ERROR_S = 150.0
#: How long a cancelled job may take to end before it is fenced off and the next one may begin, seconds.
CANCEL_S = 900.0


@dataclass(frozen=True)
class End:
    """The reason why the launcher ends a job: the outcome for the journal, a message, and the next rung if known."""

    kind: str
    words: str
    next_rung: str | None = None


#: Returns the reason to end a running job early, or None to let it run.
ReasonToEnd = Callable[[Attempt], End | None]


@dataclass
class Attempts:
    """The actions of an attempt. After each of them, another launcher can continue from the journal."""

    plan: Plan
    run: StepRun
    jobs: Jobs
    journal: Journal
    heartbeat: Heartbeat
    folder: ControlFolder
    clock: Clock
    patience: Patience
    log: Callable[[str], None]
    sweep: Sweep
    search_s: float = SEARCH_S

    def start(self, rung: PlannedRung, ladder: Ladder) -> None:
        """Fences off other jobs, writes the journal entry, then creates the job. Without an answer, the entry has no
        job."""
        self.sweep()
        now, token = self.clock.now(), f"{len(ladder.attempts) + 1}-{uuid.uuid4().hex[:16]}"
        self.heartbeat.allow(token)
        attempt = Attempt(
            number=len(ladder.attempts) + 1, rung=rung.name, region=rung.region, token=token, intended=now,
            outputs=self.run.outputs, step_from=self.saved_step(),
        )  # fmt: skip
        self.journal.write(attempt)
        job = self.jobs.create(rung, attempt, self.run.executor_input, time_left_s(rung, ladder, now))
        if isinstance(job, Outcome):
            self.close(attempt, job)
        elif job is not None:
            self._adopt(attempt, job)

    def find(self, attempt: Attempt) -> None:
        """Searches for the job of an attempt whose creation got no answer; closes the attempt if there is none."""
        from google.api_core.exceptions import Forbidden

        until = self.clock.now() + self.search_s
        while True:
            try:
                jobs = self.jobs.find(attempt)
            except Forbidden as error:
                return self.close(attempt, Outcome("failed", f"the search for its job was refused: {reason(error)}"))
            if jobs:  # the sweep cancels any others
                return self._adopt(attempt, jobs[0])
            if self.clock.now() >= until:
                return self.close(
                    attempt, Outcome("lost", "no answer to the creation of its job, and the job does not exist")
                )
            self.clock.sleep(SEARCH_POLL_S)

    def _adopt(self, attempt: Attempt, job: Json) -> None:
        """Writes the job into the journal. If a newer launcher has replaced this one, cancels a job that it does not
        know."""
        try:
            created = parse_time(job.get("createTime")) or self.clock.now()
            self.journal.write(replace(attempt, job=job["name"], created=created))
        except Superseded:
            self.sweep.cancel_if_unknown(job)
            raise

    def follow(self, attempt: Attempt, reason_to_end: ReasonToEnd) -> None:
        """Watches the job until it has ended, by itself or because of `reason_to_end`, or is fenced off."""
        self._show(attempt)
        unknown_since, last_state = None, ""
        while True:
            self.heartbeat.check()
            job, now = self.jobs.get(attempt), self.clock.now()
            if job is None:
                unknown_since = unknown_since or now
                if now - unknown_since > UNKNOWN_S:
                    return self.close(attempt, Outcome("lost", "Google does not know its job anymore"))
            else:
                unknown_since = None
                attempt = self._note_start(attempt, job)
                if state(job) != last_state:
                    last_state = state(job)
                    self.log(f"attempt {attempt.number}: the job {describe_state(last_state)}")
                if last_state in ENDED:
                    return self._close_ended(attempt, job)
                attempt = self._end_if_due(attempt, job, reason_to_end)
                if attempt.ending_at and now - attempt.ending_at > self._fence_s():
                    return self._fence_off(attempt)
            self.clock.sleep(POLL_S)

    def end(self, attempt: Attempt, why: End) -> Attempt:
        """Writes the reason into the journal, logs it, and cancels the job; `follow` waits for its end."""
        self.log(f"attempt {attempt.number}: ending the job: {why.words}")
        ending = replace(attempt, ending=why.kind, ending_at=self.clock.now(), words=why.words, next_rung=why.next_rung)
        self.journal.write(ending)
        if ending.job:
            self.jobs.cancel(ending.job)
        return ending

    def close(self, attempt: Attempt, outcome: Outcome, at: float | None = None) -> None:
        """Writes the end of an attempt into the journal and logs it; until the next one, no job may run."""
        at = at or self.clock.now()
        progress = self.progress()
        own = progress if progress and progress.attempt == attempt.token else None
        hours, rung = held_s(replace(attempt, ended=at), at) / 3600, self.rung(attempt)
        self.heartbeat.allow(NO_ATTEMPT)
        ladder = self.journal.write(
            replace(
                attempt, ended=at, outcome=outcome.kind, hours=hours,
                words=attempt.words if attempt.ending else outcome.words,
                usd=None if rung.usd_per_hour is None else hours * rung.usd_per_hour,
                step_from=attempt.step_from if own is None or own.from_step is None else own.from_step,
                step_to=own.saved_step if own else attempt.step_from,
                steps_lost=own.steps_unsaved if own and outcome.kind != "succeeded" else None,
                **({name: getattr(own, name) for name in FIGURES} if own else {}),
            )
        )  # fmt: skip
        lost = f", {own.steps_unsaved} steps lost" if own and outcome.kind != "succeeded" else ""
        self.log(
            f"attempt {attempt.number} on {rung.name}: {outcome.kind.replace('_', ' ')} after "
            f"{format_duration(hours * 3600)}{lost}; "
            f"{format_usd(ladder.usd)} so far"
        )

    def progress(self) -> Progress | None:
        """Returns the last progress that a job wrote, or None."""
        document = self.patience("read the progress", lambda: self.folder.read(PROGRESS_NAME))
        return parse_progress(document.content) if document else None

    def saved_step(self) -> int | None:
        """Returns the training step of the newest checkpoint in the progress, or None."""
        progress = self.progress()
        return progress.saved_step if progress else None

    def rung(self, attempt: Attempt) -> PlannedRung:
        """Returns the rung of the attempt; a rung without a price if the plan does not have it anymore."""
        rungs = (rung for rung in self.plan.rungs if rung.name == attempt.rung)
        return next(rungs, replace(self.plan.rungs[0], name=attempt.rung, region=attempt.region, usd_per_hour=None))

    def _show(self, attempt: Attempt) -> None:
        """Logs the address of the current job and writes it to `gcp_resources`."""
        self.sweep.schedule()
        self.log(f"attempt {attempt.number} on {attempt.rung}: {page(attempt.job or '', self.plan.project)}")
        if self.run.gcp_resources:
            path = self.run.gcp_resources
            self.patience("write gcp_resources", lambda: write_gcp_resources(path, attempt.job or ""))

    def _note_start(self, attempt: Attempt, job: Json) -> Attempt:
        started = parse_time(job.get("startTime"))
        if started is None or attempt.started is not None:
            return attempt
        running = replace(attempt, started=started)
        self.journal.write(running)
        return running

    def _end_if_due(self, attempt: Attempt, job: Json, reason_to_end: ReasonToEnd) -> Attempt:
        """Ends a running job that is overdue or has a `reason_to_end`; repeats the cancellation of an ending job."""
        now = self.clock.now()
        if not attempt.ending:
            self.sweep.sweep_if_due()
            if why := self._end_if_overdue(attempt, now) or reason_to_end(attempt):
                attempt = self.end(attempt, why)
        if attempt.ending and state(job) != "CANCELLING":
            self.jobs.cancel(attempt.job or "")
        return attempt

    def _end_if_overdue(self, attempt: Attempt, now: float) -> End | None:
        longest = wait_s(self.rung(attempt))
        if attempt.started is None and now - (attempt.created or attempt.intended) > longest:
            return End("wait_expired", f"no machines within {format_duration(longest)}")
        if now > last_moment(self.journal.ladder):
            return End("timeout", reason_for_last_moment(self.journal.ladder))
        return None

    def _close_ended(self, attempt: Attempt, job: Json) -> None:
        until = self.clock.now() + ERROR_S
        while state(job) == "FAILED" and not job.get("error", {}).get("message") and self.clock.now() < until:
            self.clock.sleep(POLL_S)
            job = self.jobs.get(attempt) or job
        rung = self.rung(attempt)
        allowed = _seconds(job.get("jobSpec", {}).get("scheduling", {}).get("timeout"), rung.timeout_s)
        self.close(attempt, decide_outcome(job, rung.strategy, allowed, attempt.ending), parse_time(job.get("endTime")))

    def _fence_s(self) -> float:
        """Returns how long a cancelled job may take to end; shorter when the next job already has its machines."""
        following = self.journal.ladder.next
        return HANDOVER_S - 2 * POLL_S if following and following.started else CANCEL_S

    def _fence_off(self, attempt: Attempt) -> None:
        limit = format_duration(self._fence_s())
        self.log(f"attempt {attempt.number}: the job has not ended {limit} after its cancellation; fenced off")
        self.close(attempt, Outcome(attempt.ending or "moved", "fenced"))


def _seconds(duration: Any, default: float) -> float:
    """Returns the seconds of a duration such as `3600s`, or `default`."""
    try:
        return float(str(duration).removesuffix("s"))
    except ValueError:
        return default


def write_gcp_resources(path: str, job: str) -> None:
    """Writes the resource name of a job to the file `path`. Raises Google's errors."""
    text = json.dumps({"resources": [{"resourceType": "CustomJob", "resourceUri": uri(job)}]})
    target = bucket_uri(path)
    if target.startswith("gs://"):
        folder, _, name = target.rpartition("/")
        ControlFolder(folder).put(name, text)
    else:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text, encoding="utf-8")
