"""The waiting job: it waits for Spot machines while an attempt runs on demand, and then replaces it.

It is entered in the journal before it is created, and found again by its token. It costs nothing until it has its
machines; then the attempt saves and ends, and this job becomes the next attempt. There is never more than one. Two jobs
hold machines at once for at most `HANDOVER_S`, once per started hour on demand.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, inf

from vgp.base.clock import Clock, parse_time
from vgp.base.text.figures import format_duration
from vgp.launch.capacity.attempt import ERROR_S, SEARCH_S, UNKNOWN_S
from vgp.launch.capacity.jobs import Jobs
from vgp.launch.capacity.journal import NO_ATTEMPT, Heartbeat, Journal
from vgp.launch.capacity.outage_retry import reason
from vgp.launch.capacity.outcome import ENDED, Outcome, decide_outcome, state
from vgp.launch.capacity.policy import PATIENCE_S
from vgp.launch.capacity.situation import held_s, last_moment, time_left_s, wait_s
from vgp.launch.capacity.step_run import StepRun
from vgp.protocol.capacity.job_service import Json, page
from vgp.protocol.capacity.ladder import Attempt, Ladder, Waiting
from vgp.protocol.capacity.plan import Plan, PlannedRung

#: How long a cancelled job with nothing to save may take to end, seconds.
CANCEL_S = 300.0
#: Seconds between two polls while the launcher waits only for this job.
POLL_S = 5.0


def may_create(ladder: Ladder, on_demand_s: float) -> bool:
    """Whether another waiting job may be created: at most one per started hour on demand may have got machines."""
    got_machines = sum(1 for job in ladder.waiting if job.started)
    return got_machines < ceil(on_demand_s / 3600)


@dataclass
class WaitingJob:
    """The waiting job of a step. After each method, another launcher can continue from the journal."""

    plan: Plan
    run: StepRun
    jobs: Jobs
    journal: Journal
    heartbeat: Heartbeat
    clock: Clock
    log: Callable[[str], None]

    def set_rung(self, rung: PlannedRung | None) -> None:
        """Creates a job that waits for this rung, or cancels one that waits for another rung; None cancels any."""
        waiting = self.journal.ladder.next
        if waiting and (rung is None or waiting.rung != rung.name):
            self.update("cancelled")
        elif rung and not waiting:
            self._create(rung)

    def _create(self, rung: PlannedRung) -> None:
        ladder, now = self.journal.ladder, self.clock.now()
        if not may_create(ladder, self._on_demand_s(ladder, now)):
            return
        number, token = len(ladder.waiting) + 1, uuid.uuid4().hex[:16]
        waiting = Waiting(
            number=number, rung=rung.name, region=rung.region, token=f"next-{number}-{token}", intended=now,
            outputs=self.run.outputs,
        )  # fmt: skip
        self.heartbeat.expect(waiting.token)
        self.journal.write(waiting)
        job = self.jobs.create(rung, waiting, self.run.executor_input, time_left_s(rung, ladder, now))
        if isinstance(job, Outcome):
            self._close(waiting, job)
        elif job is not None:
            self._adopt(waiting, job)

    def become_attempt(self, step_from: int | None) -> bool:
        """Makes the waiting job the next attempt, after the attempt before has ended; returns whether it did.

        A job without machines becomes the attempt only if the attempt before was ended in favor of its rung.

        One transaction closes the entry and opens the attempt, so no launcher sees a state in between.
        """
        ladder = self.journal.ladder
        waiting, last = ladder.next, ladder.attempts[-1] if ladder.attempts else None
        if waiting is None or waiting.job is None or waiting.ending or waiting.outputs != self.run.outputs:
            return False
        if not waiting.started and (last is None or last.next_rung != waiting.rung):
            return False

        def turn(ladder: Ladder) -> Ladder:
            attempt = Attempt(
                number=len(ladder.attempts) + 1, rung=waiting.rung, region=waiting.region, token=waiting.token,
                intended=waiting.intended, job=waiting.job, created=waiting.created, started=waiting.started,
                outputs=waiting.outputs, step_from=step_from,
            )  # fmt: skip
            words = "it has become an attempt"
            closed = replace(waiting, ended=self.clock.now(), outcome="granted", words=words, usd=0.0)
            return ladder.with_creation(closed).with_creation(attempt)

        self.journal.change(turn)
        self.heartbeat.allow(waiting.token)
        return True

    def update(self, ending: str | None = None) -> None:
        """Polls the waiting job, if there is one, and updates the journal; `ending` is a reason to cancel it."""
        waiting = self.journal.ladder.next
        if waiting and waiting.job is None:
            waiting = self._find(waiting)
        if waiting is None:
            return
        job, now = self.jobs.get(waiting), self.clock.now()
        if job is None:
            if now - (waiting.created or waiting.intended) > UNKNOWN_S:
                self._close(waiting, Outcome("lost", "Google does not know its job anymore"))
        elif state(job) in ENDED:
            self._close_ended(waiting, job)
        else:
            self._update_active(waiting, job, ending)

    def has_changed(self) -> bool:
        """Polls the waiting job; returns whether it has got its machines or ended."""
        before = self.journal.ladder.next
        self.update()
        after = self.journal.ladder.next
        return before is not None and (after is None or after.started != before.started)

    def end(self) -> None:
        """Cancels the waiting job and waits for its end."""
        while self.journal.ladder.next:
            self.update("cancelled")
            if self.journal.ladder.next:
                self.clock.sleep(POLL_S)

    def _on_demand_s(self, ladder: Ladder, now: float) -> float:
        standard = {rung.name for rung in self.plan.rungs if rung.strategy == "standard"}
        return sum(held_s(attempt, now) for attempt in ladder.attempts if attempt.rung in standard)

    def _find(self, waiting: Waiting) -> Waiting | None:
        """Searches for a job whose creation got no answer or whose launcher was killed; closes the entry if there is
        none."""
        from google.api_core.exceptions import Forbidden

        try:
            jobs = self.jobs.find(waiting)
        except Forbidden as error:
            self._close(waiting, Outcome("failed", f"the search for its job was refused: {reason(error)}"))
            return None
        if jobs:
            return self._adopt(waiting, jobs[0])
        if self.clock.now() - waiting.intended > SEARCH_S:
            self._close(waiting, Outcome("lost", "no answer to the creation of its job, and the job does not exist"))
        return None

    def _adopt(self, waiting: Waiting, job: Json) -> Waiting:
        adopted = replace(waiting, job=job["name"], created=parse_time(job.get("createTime")) or self.clock.now())
        self.journal.write(adopted)
        self.log(f"a job waits for {waiting.rung}: {page(job['name'], self.plan.project)}")
        return adopted

    def _update_active(self, waiting: Waiting, job: Json, ending: str | None) -> None:
        now, started = self.clock.now(), parse_time(job.get("startTime"))
        if started and not waiting.started:
            waiting = replace(waiting, started=started)
            self.journal.write(waiting)
        ending = waiting.ending or ending or self._explain_overdue(waiting, now)
        if ending is None:
            return
        if not waiting.ending:
            waiting = replace(waiting, ending=ending, ending_at=now)
            self.journal.write(waiting)
        if now - (waiting.ending_at or now) > CANCEL_S:
            self._close(
                waiting,
                Outcome(ending, f"its job has not ended {format_duration(CANCEL_S)} after its cancellation"),
                job,
            )
        elif state(job) != "CANCELLING":
            self.jobs.cancel(waiting.job or "")

    def _explain_overdue(self, waiting: Waiting, now: float) -> str | None:
        if now > last_moment(self.journal.ladder):
            return "timeout"
        rung = next((rung for rung in self.plan.rungs if rung.name == waiting.rung), None)
        patience_s = min(PATIENCE_S, wait_s(rung)) if rung else 0.0
        late = not waiting.started and now - (waiting.created or waiting.intended) > patience_s
        return "wait_expired" if late else None

    def _close_ended(self, waiting: Waiting, job: Json) -> None:
        is_explained = state(job) != "FAILED" or job.get("error", {}).get("message")
        if not is_explained and self.clock.now() - (parse_time(job.get("endTime")) or 0.0) < ERROR_S:
            return
        self._close(waiting, decide_outcome(job, "spot", inf, waiting.ending), job)

    def _close(self, waiting: Waiting, outcome: Outcome, job: Json | None = None) -> None:
        started = waiting.started or (parse_time(job.get("startTime")) if job else None)
        ended = (parse_time(job.get("endTime")) if job else None) or self.clock.now()
        hours = max(0.0, ended - started) / 3600 if started else 0.0
        price = next((rung.usd_per_hour for rung in self.plan.rungs if rung.name == waiting.rung), None)
        self.journal.write(
            replace(
                waiting, started=started, ended=ended, outcome=outcome.kind, words=outcome.words, hours=hours,
                usd=None if price is None else hours * price,
            )
        )  # fmt: skip
        self.heartbeat.expect(NO_ATTEMPT)
        self.log(f"the job that waited for {waiting.rung}: {outcome.kind.replace('_', ' ')}: {outcome.words}")
