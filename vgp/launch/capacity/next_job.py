"""The job that is to follow: it waits for Spot machines beside an attempt that works on demand.

It is the job of a rung as any other, written down before it is created and found again by its token. It costs nothing
until it has its machines; the attempt beside it then saves and ends, and this job takes its turn. There is never more
than one. Two jobs hold machines at once for `HANDOVER_S` at most, once for each hour on demand that has begun.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, inf

from vgp.base.clock import Clock, parse_time
from vgp.base.text.figures import took
from vgp.launch.capacity.attempt import ERROR_S, SEARCH_S, UNKNOWN_S
from vgp.launch.capacity.jobs import Jobs
from vgp.launch.capacity.journal import NOBODY, Heartbeat, Journal
from vgp.launch.capacity.outcome import ENDED, Outcome, outcome, state
from vgp.launch.capacity.patience import reason
from vgp.launch.capacity.policy import PATIENCE_S
from vgp.launch.capacity.situation import held_s, last_moment, time_left_s, wait_s
from vgp.launch.capacity.step_run import StepRun
from vgp.protocol.capacity.job_service import Json, page
from vgp.protocol.capacity.ladder import Attempt, Ladder, Waiting
from vgp.protocol.capacity.plan import Plan, PlannedRung

#: How long a cancelled job may take to end that has nothing to save.
CANCEL_S = 300.0
#: Seconds between two looks where nothing else is waited for.
POLL_S = 5.0


def may_ask(ladder: Ladder, on_demand_s: float) -> bool:
    """Whether one more job may wait: each hour on demand that has begun pays for one that got machines."""
    got_machines = sum(1 for each in ladder.waiting if each.started)
    return got_machines < ceil(on_demand_s / 3600)


@dataclass
class NextJob:
    """Asks for it, follows and ends it; each method leaves the journal so that the next launcher can go on."""

    plan: Plan
    run: StepRun
    jobs: Jobs
    journal: Journal
    heartbeat: Heartbeat
    clock: Clock
    tell: Callable[[str], None]

    def want(self, rung: PlannedRung | None) -> None:
        """Has a job of this rung wait, and none of another; None: no job is to wait."""
        there = self.journal.ladder.next
        if there and (rung is None or there.rung != rung.name):
            self.tend("cancelled")
        elif rung and not there:
            self._ask(rung)

    def _ask(self, rung: PlannedRung) -> None:
        ladder, now = self.journal.ladder, self.clock.now()
        if not may_ask(ladder, self._on_demand_s(ladder, now)):
            return
        number, token = len(ladder.waiting) + 1, uuid.uuid4().hex[:16]
        waiting = Waiting(
            number=number, rung=rung.name, region=rung.region, token=f"next-{number}-{token}", intended=now,
            outputs=self.run.outputs,
        )  # fmt: skip
        self.heartbeat.expect(waiting.token)
        self.journal.write(waiting)
        made = self.jobs.create(rung, waiting, self.run.executor_input, time_left_s(rung, ladder, now))
        if isinstance(made, Outcome):
            self._close(waiting, made)
        elif made is not None:
            self._adopt(waiting, made)

    def take_turn(self, step_from: int | None) -> bool:
        """Makes an attempt of the job that waits, after the one beside it has ended; whether that could be.

        One that has no machines yet takes its turn only where the training was ended for it.

        One transaction closes the one and opens the other, so that the next launcher finds either state whole.
        """
        ladder = self.journal.ladder
        waiting, last = ladder.next, ladder.attempts[-1] if ladder.attempts else None
        if waiting is None or waiting.job is None or waiting.ending or waiting.outputs != self.run.outputs:
            return False
        if not waiting.started and (last is None or last.next_rung != waiting.rung):
            return False

        def turned(ladder: Ladder) -> Ladder:
            attempt = Attempt(
                number=len(ladder.attempts) + 1, rung=waiting.rung, region=waiting.region, token=waiting.token,
                intended=waiting.intended, job=waiting.job, created=waiting.created, started=waiting.started,
                outputs=waiting.outputs, step_from=step_from,
            )  # fmt: skip
            words = "it has become an attempt"
            closed = replace(waiting, ended=self.clock.now(), outcome="granted", words=words, usd=0.0)
            return ladder.with_creation(closed).with_creation(attempt)

        self.journal.change(turned)
        self.heartbeat.allow(waiting.token)
        return True

    def tend(self, ending: str | None = None) -> None:
        """One look at the job that waits, if one does; `ending` says why it is to end."""
        waiting = self.journal.ladder.next
        if waiting and waiting.job is None:
            waiting = self._found(waiting)
        if waiting is None:
            return
        job, now = self.jobs.get(waiting), self.clock.now()
        if job is None:
            if now - (waiting.created or waiting.intended) > UNKNOWN_S:
                self._close(waiting, Outcome("lost", "Google does not know its job any more"))
        elif state(job) in ENDED:
            self._ended(waiting, job)
        else:
            self._going_on(waiting, job, ending)

    def has_changed(self) -> bool:
        """Looks at the job that waits; whether it has got its machines or ended by that."""
        before = self.journal.ladder.next
        self.tend()
        after = self.journal.ladder.next
        return before is not None and (after is None or after.started != before.started)

    def end(self) -> None:
        """No job waits any more when this returns."""
        while self.journal.ladder.next:
            self.tend("cancelled")
            if self.journal.ladder.next:
                self.clock.sleep(POLL_S)

    def _on_demand_s(self, ladder: Ladder, now: float) -> float:
        standard = {rung.name for rung in self.plan.rungs if rung.strategy == "standard"}
        return sum(held_s(attempt, now) for attempt in ladder.attempts if attempt.rung in standard)

    def _found(self, waiting: Waiting) -> Waiting | None:
        """With its job, which was created without an answer, or by a launcher that was killed."""
        from google.api_core.exceptions import Forbidden

        try:
            found = self.jobs.found(waiting)
        except Forbidden as error:
            self._close(waiting, Outcome("failed", f"its job cannot be looked for: {reason(error)}"))
            return None
        if found:
            return self._adopt(waiting, found[0])
        if self.clock.now() - waiting.intended > SEARCH_S:
            self._close(waiting, Outcome("lost", "Google did not say that its job was created; there is none"))
        return None

    def _adopt(self, waiting: Waiting, job: Json) -> Waiting:
        adopted = replace(waiting, job=job["name"], created=parse_time(job.get("createTime")) or self.clock.now())
        self.journal.write(adopted)
        self.tell(f"a job waits for {waiting.rung}: {page(job['name'], self.plan.project)}")
        return adopted

    def _going_on(self, waiting: Waiting, job: Json, ending: str | None) -> None:
        now, started = self.clock.now(), parse_time(job.get("startTime"))
        if started and not waiting.started:
            waiting = replace(waiting, started=started)
            self.journal.write(waiting)
        ending = waiting.ending or ending or self._overdue(waiting, now)
        if ending is None:
            return
        if not waiting.ending:
            waiting = replace(waiting, ending=ending, ending_at=now)
            self.journal.write(waiting)
        if now - (waiting.ending_at or now) > CANCEL_S:
            self._close(waiting, Outcome(ending, f"its job has not ended {took(CANCEL_S)} after its cancellation"), job)
        elif state(job) != "CANCELLING":
            self.jobs.cancel(waiting.job or "")

    def _overdue(self, waiting: Waiting, now: float) -> str | None:
        if now > last_moment(self.journal.ladder):
            return "timeout"
        rung = next((rung for rung in self.plan.rungs if rung.name == waiting.rung), None)
        patience_s = min(PATIENCE_S, wait_s(rung)) if rung else 0.0
        late = not waiting.started and now - (waiting.created or waiting.intended) > patience_s
        return "wait_expired" if late else None

    def _ended(self, waiting: Waiting, job: Json) -> None:
        is_explained = state(job) != "FAILED" or job.get("error", {}).get("message")
        if not is_explained and self.clock.now() - (parse_time(job.get("endTime")) or 0.0) < ERROR_S:
            return
        self._close(waiting, outcome(job, "spot", inf, waiting.ending), job)

    def _close(self, waiting: Waiting, how: Outcome, job: Json | None = None) -> None:
        started = waiting.started or (parse_time(job.get("startTime")) if job else None)
        ended = (parse_time(job.get("endTime")) if job else None) or self.clock.now()
        hours = max(0.0, ended - started) / 3600 if started else 0.0
        price = next((rung.usd_per_hour for rung in self.plan.rungs if rung.name == waiting.rung), None)
        self.journal.write(
            replace(
                waiting, started=started, ended=ended, outcome=how.kind, words=how.words, hours=hours,
                usd=None if price is None else hours * price,
            )
        )  # fmt: skip
        self.heartbeat.expect(NOBODY)
        self.tell(f"the job that waited for {waiting.rung}: {how.kind.replace('_', ' ')}: {how.words}")
