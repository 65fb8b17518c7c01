"""The launcher's main loop: reads the journal and takes the next action, until the step ends."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from vgp.base.clock import Clock, parse_time
from vgp.base.text.figures import format_count, format_duration, format_usd
from vgp.launch.capacity.attempt import POLL_S, Attempts, End
from vgp.launch.capacity.jobs import Jobs, Sweep
from vgp.launch.capacity.journal import HEARTBEAT_NAME as HEARTBEAT
from vgp.launch.capacity.journal import NO_ATTEMPT, Heartbeat, Journal
from vgp.launch.capacity.outage_retry import Patience, Superseded
from vgp.launch.capacity.policy import Choice, decide
from vgp.launch.capacity.situation import build_situation, is_silent, make_offers, open_rungs
from vgp.launch.capacity.step_run import StepRun
from vgp.launch.capacity.verdict import Verdict, decide_verdict, read_log_tail
from vgp.launch.capacity.waiting_job import WaitingJob
from vgp.protocol.capacity.control_folder import ControlFolder
from vgp.protocol.capacity.ladder import Attempt, Ladder
from vgp.protocol.capacity.plan import Plan, PlannedRung

#: How long to search for a job when the run is cancelled, seconds.
CANCEL_SEARCH_S = 20.0
#: A heartbeat this much later than the start of a launcher without a term shows that it was replaced, seconds. The
#: margin allows for clocks that differ.
REPLACED_S = 120.0


class Climb:
    """The work of one launcher.

    Args:
        session: A `requests` session with credentials.
        launcher: A unique name of this process.
        log: Logs a line.
    """

    def __init__(
        self, plan: Plan, run: StepRun, session: Any, launcher: str, clock: Clock, log: Callable[[str], None]
    ) -> None:
        self.plan, self.run, self.session, self.clock, self.log = plan, run, session, clock, log
        self.uri = run.control_folder(plan.step)
        self.patience = Patience(clock, log)
        self.folder = ControlFolder(self.uri)
        self.journal = Journal(self.folder, self.patience, launcher)
        self._next_choice_at = 0.0

    def start(self) -> Verdict:
        """Runs the step and returns its verdict. Raises Superseded, Unreachable and Google's errors."""
        return self._run_step(self.journal.begin(self._new_ladder()))

    def resume(self, again: bool, since: float) -> Verdict:
        """Continues after an interruption, like `start`; takes the arguments of `cancel`."""
        return self._run_step(self._resume_term(again, since))

    def _run_step(self, ladder: Ladder) -> Verdict:
        self.log(
            f"{self.uri}: {format_count(len(self.plan.rungs), 'rung')}: {', '.join(r.name for r in self.plan.rungs)}"
        )
        if ladder.attempts:
            self.log(f"resuming after {format_count(len(ladder.attempts), 'attempt')}, {format_usd(ladder.usd)} so far")
        heartbeat = self._heartbeat(ladder)
        try:
            heartbeat.start(ladder.open.token if ladder.open else NO_ATTEMPT)
            return self._run_attempts(self._open_attempts(heartbeat))
        finally:
            heartbeat.stop()

    def cancel(self, why: str, again: bool, since: float) -> Verdict:
        """Cancels the job, waits for its end, and writes the reason into the journal.

        A launcher that was replaced leaves the newer launcher and its job alone: then Vertex AI has ended a container
        that it had lost, not the run.

        Args:
            why: The reason, from `reason_to_end`.
            again: Whether this launcher had a term before.
            since: When this launcher was started.
        """
        try:
            ladder = self._resume_term(again, since)
            heartbeat = self._heartbeat(ladder)
            has_job = ladder.open and ladder.open.job
            try:
                heartbeat.start(ladder.open.token if ladder.open and has_job else NO_ATTEMPT)
                self._cancel(replace(self._open_attempts(heartbeat), search_s=CANCEL_SEARCH_S), why)
            finally:
                heartbeat.stop()
        except Superseded as error:
            return Verdict(143, f"this launcher ends; {error}")
        return Verdict(143, f"{why}, and no job of {self.plan.step} is running")

    def _resume_term(self, again: bool, since: float) -> Ladder:
        return self.journal.begin(self._new_ladder(), again or self._was_replaced(since))

    def _was_replaced(self, since: float) -> bool:
        """Whether another launcher wrote a heartbeat long after the start of this one.

        Vertex AI starts a launcher only after it has lost the one before, whose last heartbeat is then older.
        """
        heartbeat = self.patience("read the heartbeat", lambda: self.folder.read(HEARTBEAT))
        at = parse_time(heartbeat.content.get("at")) if heartbeat else None
        return at is not None and at > since + REPLACED_S

    def _cancel(self, attempts: Attempts, why: str) -> None:
        ladder = self.journal.read()
        if ladder.open and ladder.open.job is None:
            attempts.find(ladder.open)
        attempt = self.journal.read().open
        if attempt:
            if attempt.ending != "cancelled":
                attempt = attempts.end(attempt, End("cancelled", why))
            attempts.follow(attempt, lambda attempt: None)
        self._choose_waiting_job(attempts).end()
        attempts.sweep()

    def _run_attempts(self, attempts: Attempts) -> Verdict:
        next_job = self._choose_waiting_job(attempts)
        while True:
            ladder = self.journal.read()
            attempt = ladder.open
            if attempt is None:
                verdict = self._find_verdict()
                if not verdict and next_job.become_attempt(attempts.saved_step()):
                    continue
                next_job.end()
                if verdict:
                    attempts.sweep()
                    return verdict
                self._start_or_wait(attempts, self.journal.ladder)
            elif attempt.job is None:
                attempts.find(attempt)
            else:
                if attempt.outputs != self.run.outputs and not attempt.ending:
                    words = "Vertex AI has restarted this step with other output paths"
                    attempt = attempts.end(attempt, End("moved", words, attempt.rung))
                self._next_choice_at = 0.0
                attempts.follow(attempt, lambda attempt: self._reason_to_end(attempts, next_job, attempt))

    def _start_or_wait(self, attempts: Attempts, ladder: Ladder) -> None:
        """Starts the next attempt, or waits until the policy is to choose again."""
        last = ladder.attempts[-1] if ladder.attempts else None
        # Two creations without an answer in a row: the region may be down.
        silent = len(ladder.attempts) > 1 and all(map(is_silent, ladder.attempts[-2:]))
        again = last and (last.outputs != self.run.outputs or (last.outcome == "lost" and not silent))
        name = last.rung if last and again else last.next_rung if last else None
        for rung in open_rungs(self.plan, ladder, self.clock.now()):
            if rung.name == name:
                return attempts.start(rung, ladder)
        rungs, choice = self._choose(attempts, ladder)
        if choice.rung is not None:
            self.log(f"next: {rungs[choice.rung].name}: {choice.why}")
            return attempts.start(rungs[choice.rung], ladder)
        self.log(f"waiting {format_duration(choice.look_again_s)}: {choice.why}")
        until = self.clock.now() + choice.look_again_s
        while (left_s := until - self.clock.now()) > 0:
            attempts.heartbeat.check()
            self.clock.sleep(min(left_s, POLL_S))

    def _reason_to_end(self, attempts: Attempts, next_job: WaitingJob, attempt: Attempt) -> End | None:
        """Returns the reason to end a running job for a better rung, or None. Calls the policy when a choice is due."""
        if next_job.has_changed():
            self._next_choice_at = 0.0
        now = self.clock.now()
        if now < self._next_choice_at:
            return None
        rungs, choice = self._choose(attempts, self.journal.read())
        self._next_choice_at = now + choice.look_again_s
        if choice.rung is None or rungs[choice.rung].name == attempt.rung:
            before = self.journal.ladder.waiting
            next_job.set_rung(None if choice.beside is None else rungs[choice.beside])
            if len(self.journal.ladder.waiting) > len(before):
                attempts.sweep.schedule()
            return None
        name = rungs[choice.rung].name
        return End("moved", f"moving to {name}: {choice.why}", name)

    def _choose(self, attempts: Attempts, ladder: Ladder) -> tuple[list[PlannedRung], Choice]:
        now = self.clock.now()
        rungs = open_rungs(self.plan, ladder, now)
        progress = attempts.progress()
        situation = build_situation(self.plan, ladder, rungs, progress, now)
        return rungs, decide(situation, make_offers(rungs, ladder, progress))

    def _find_verdict(self) -> Verdict | None:
        ladder, now = self.journal.ladder, self.clock.now()
        read_log = partial(read_log_tail, self.session, self.plan.project)
        return decide_verdict(self.plan, ladder, self.run.outputs, now, read_log)

    def _new_ladder(self) -> Ladder:
        now = self.clock.now()
        names = ("name", "region", "strategy", "usd_per_hour", "price_date")
        return Ladder(
            run=self.run.run,
            step=self.plan.step,
            began=now,
            deadline=None if self.plan.deadline_s is None else now + self.plan.deadline_s,
            rungs=[{name: getattr(rung, name) for name in names} for rung in self.plan.rungs],
        )

    def _heartbeat(self, ladder: Ladder) -> Heartbeat:
        """Returns a heartbeat with its own storage client, because another thread uses it."""
        heartbeat = Heartbeat(
            ControlFolder(self.uri), self.clock, self.log, self.journal.term, self.plan.heartbeat_s, self.plan.orphan_s
        )
        heartbeat.next = ladder.next.token if ladder.next else NO_ATTEMPT
        return heartbeat

    def _open_attempts(self, heartbeat: Heartbeat) -> Attempts:
        jobs = Jobs(self.session, self.plan.project, self.uri, self.patience)
        sweep = Sweep(jobs, self.journal, self.clock, self.log)
        return Attempts(
            self.plan, self.run, jobs, self.journal, heartbeat, self.folder, self.clock, self.patience, self.log, sweep
        )  # fmt: skip

    def _choose_waiting_job(self, attempts: Attempts) -> WaitingJob:
        return WaitingJob(self.plan, self.run, attempts.jobs, self.journal, attempts.heartbeat, self.clock, self.log)
