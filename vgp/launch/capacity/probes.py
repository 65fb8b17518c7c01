"""Probes: whether Spot machines are there, seen by a small job of them while the training goes on on demand.

A probe is written down before its job is created, as an attempt is, and found again by its token. It ends by itself:
its program has nothing to do, and its job a timeout of minutes. What waits for machines too long is cancelled. There is
never more than one, and none without an attempt beside it.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil

from vgp.base.clock import Clock, parse_time
from vgp.base.text.figures import took
from vgp.launch.capacity.attempt import ERROR_S, SEARCH_S, UNKNOWN_S
from vgp.launch.capacity.jobs import Jobs
from vgp.launch.capacity.journal import Journal
from vgp.launch.capacity.outcome import ENDED, Outcome, outcome, state
from vgp.launch.capacity.patience import reason
from vgp.launch.capacity.policy import PATIENCE_S
from vgp.launch.capacity.situation import held_s, wait_s
from vgp.launch.capacity.step_run import StepRun
from vgp.protocol.capacity.job_service import Json, page
from vgp.protocol.capacity.ladder import Ladder, Probe
from vgp.protocol.capacity.plan import Plan, PlannedRung

#: How long a cancelled probe may take to end: it has nothing to save.
CANCEL_S = 300.0
#: Seconds between two looks where nothing else is waited for.
POLL_S = 5.0


def may_send(probe_s: float, an_hour_s: float, on_demand_s: float, probed_s: float) -> bool:
    """Whether one more probe stays within what all of them may hold machines for: see
    `vgp.machines.placement.dearest`.

    Args:
        probe_s: For how long one may hold machines.
        an_hour_s: For how long all of them may, for each hour on demand that has begun.
        on_demand_s: How long jobs have held machines on demand.
        probed_s: How long probes have held machines.
    """
    return 0 < probe_s <= an_hour_s * ceil(on_demand_s / 3600) - probed_s


@dataclass
class Probes:
    """Sends, follows and ends them; each method leaves the journal so that the next launcher can go on."""

    plan: Plan
    run: StepRun
    jobs: Jobs
    journal: Journal
    clock: Clock
    tell: Callable[[str], None]

    def send(self, rung: PlannedRung) -> None:
        """A probe of a rung: intention, creation; nothing where one goes on, or where all had machines long enough."""
        ladder, now = self.journal.ladder, self.clock.now()
        if ladder.probing or not self._may_send(ladder, now):
            return
        number = len(ladder.probes) + 1
        probe = Probe(
            number=number, rung=rung.name, region=rung.region, token=f"{number}-{uuid.uuid4().hex[:16]}", intended=now
        )
        self.journal.write(probe)
        made = self.jobs.create(rung, probe, self.run.executor_input, self.plan.probe_s)
        if isinstance(made, Outcome):
            self._close(probe, made)
        elif made is not None:
            self._adopt(probe, made)

    def tend(self, ending: str | None = None) -> None:
        """One look at the probe that goes on, if one does; `ending` says why it is to end."""
        probe = self.journal.ladder.probing
        if probe and probe.job is None:
            probe = self._found(probe)
        if probe is None:
            return
        job, now = self.jobs.get(probe), self.clock.now()
        if job is None:
            if now - (probe.created or probe.intended) > UNKNOWN_S:
                self._close(probe, Outcome("lost", "Google does not know its job any more"))
        elif state(job) in ENDED:
            self._ended(probe, job)
        else:
            self._going_on(probe, job, ending)

    def ended(self) -> bool:
        """Looks at the probe that goes on; whether it has ended by that."""
        before = self.journal.ladder.probing
        self.tend()
        return before is not None and self.journal.ladder.probing is None

    def end(self) -> None:
        """No probe goes on any more when this returns."""
        while self.journal.ladder.probing:
            self.tend("cancelled")
            if self.journal.ladder.probing:
                self.clock.sleep(POLL_S)

    def _may_send(self, ladder: Ladder, now: float) -> bool:
        standard = {rung.name for rung in self.plan.rungs if rung.strategy == "standard"}
        on_demand_s = sum(held_s(attempt, now) for attempt in ladder.attempts if attempt.rung in standard)
        probed_s = sum(held_s(probe, now) for probe in ladder.probes)
        return may_send(self.plan.probe_s, self.plan.probes_an_hour_s, on_demand_s, probed_s)

    def _found(self, probe: Probe) -> Probe | None:
        """The probe with its job, which was created without an answer, or by a launcher that was killed."""
        from google.api_core.exceptions import Forbidden

        try:
            found = self.jobs.found(probe)
        except Forbidden as error:
            self._close(probe, Outcome("failed", f"its job cannot be looked for: {reason(error)}"))
            return None
        if found:
            return self._adopt(probe, found[0])
        if self.clock.now() - probe.intended > SEARCH_S:
            self._close(probe, Outcome("lost", "Google did not say that its job was created; there is none"))
        return None

    def _adopt(self, probe: Probe, job: Json) -> Probe:
        adopted = replace(probe, job=job["name"], created=parse_time(job.get("createTime")) or self.clock.now())
        self.journal.write(adopted)
        self.tell(f"probe {probe.number} of {probe.rung}: {page(job['name'], self.plan.project)}")
        return adopted

    def _going_on(self, probe: Probe, job: Json, ending: str | None) -> None:
        now = self.clock.now()
        ending = probe.ending or self._overdue(probe, job, now) or ending
        if ending is None:
            return
        if not probe.ending:
            probe = replace(probe, ending=ending, ending_at=now)
            self.journal.write(probe)
        if now - (probe.ending_at or now) > CANCEL_S:
            self._close(probe, Outcome(ending, f"its job has not ended {took(CANCEL_S)} after its cancellation"), job)
        elif state(job) != "CANCELLING":
            self.jobs.cancel(probe.job or "")

    def _overdue(self, probe: Probe, job: Json, now: float) -> str | None:
        if started := parse_time(job.get("startTime")):
            return "timeout" if now - started > self.plan.probe_s else None
        rung = next((rung for rung in self.plan.rungs if rung.name == probe.rung), None)
        patience_s = min(PATIENCE_S, wait_s(rung)) if rung else 0.0
        return "wait_expired" if now - (probe.created or probe.intended) > patience_s else None

    def _ended(self, probe: Probe, job: Json) -> None:
        told = state(job) != "FAILED" or job.get("error", {}).get("message")
        if not told and self.clock.now() - (parse_time(job.get("endTime")) or 0.0) < ERROR_S:
            return
        how = outcome(job, "spot", self.plan.probe_s, probe.ending)
        if job.get("startTime") and how.kind not in ("preempted", "stockout", "lost"):
            how = Outcome("granted", "it got its machines")
        self._close(probe, how, job)

    def _close(self, probe: Probe, how: Outcome, job: Json | None = None) -> None:
        started = parse_time(job.get("startTime")) if job else None
        ended = (parse_time(job.get("endTime")) if job else None) or self.clock.now()
        hours = max(0.0, ended - started) / 3600 if started else 0.0
        price = next((rung.usd_per_hour for rung in self.plan.rungs if rung.name == probe.rung), None)
        self.journal.write(
            replace(
                probe, started=started, ended=ended, outcome=how.kind, words=how.words, hours=hours,
                usd=None if price is None else hours * price,
            )
        )  # fmt: skip
        self.tell(f"probe {probe.number} of {probe.rung}: {how.kind.replace('_', ' ')}: {how.words}")
