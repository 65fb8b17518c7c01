"""A live custom job: queued, provisioned, running, preempted, retried, ended.

Google documents this behaviour on https://cloud.google.com/vertex-ai/docs/training/understanding-training-service:

- A job stays QUEUED while the project's quota is used up.
- A stockout is retried up to three times. After a preemption of Spot machines the job is retried up to six times, and
  then fails as a stockout (.../use-spot-vms). An internal error is retried twice.
- A program that ends with a "common error" ends the job; exit codes that could be transient are retried up to three
  times. After any other error the program restarts on its machine, under its host name, up to five times, and then the
  whole job restarts, up to three times. The page classifies few exit codes, and calls every exception of a user's
  program common. So the job ends here, unless a test sets `Region.is_common`.
- A machine that is lost or maintained is replaced by one with the same host name, up to five times;
  `restart_job_on_worker_restart` restarts all programs. `disable_retries` ends the job instead, and overrides it.
- The job ends with its primary replica's exit code 0; all others are shut down.
- A Flex-start job expires after `max_wait_duration` (0: never; default: a day).

https://cloud.google.com/compute/docs/instances/spot#preemption-process: SIGTERM, and SIGKILL 30 s later. Not
documented, so decided by the seed: whether a program that ends within these 30 s counts as preempted or by its exit
code, and the time from a state to its error ("about one minute after a job ends").
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from . import job_errors
from .capacity import STRATEGIES, Place
from .job_errors import JobError
from .machines import Machine
from .messages import new, set_time
from .web_access import fill_web_access

if TYPE_CHECKING:
    from .region import Region

QUEUED, PENDING, RUNNING, SUCCEEDED, FAILED, CANCELLING, CANCELLED, EXPIRED = 1, 2, 3, 4, 5, 6, 7, 9
#: The most retries by Vertex AI, by cause.
STOCKOUTS, PREEMPTIONS, TRANSIENT, RESTARTS, INTERNAL = 3, 6, 3, 5, 2
DAY_S = 86_400
WEEK_S = 7 * DAY_S


@dataclass
class Spell:
    """A time during which the job had machines, which is billed."""

    began: datetime
    ended: datetime | None = None
    #: preempted, lost, maintained, succeeded, failed, cancelled, timeout.
    why: str = ""


@dataclass
class WorkingJob:
    message: Any
    created: datetime
    region: "Region"
    state: int = QUEUED
    machines: list[Machine] = field(default_factory=list)
    spells: list[Spell] = field(default_factory=list)
    started: datetime | None = None
    ended: datetime | None = None
    error: JobError | None = None
    #: Time of the next request for machines.
    asks: datetime | None = None
    #: Reason of the SIGTERM to the programs, and the time of their SIGKILL.
    ending: tuple[str, datetime] | None = None
    #: Time at which the capacity of its machines ends.
    preempted: datetime | None = None
    counts: dict[str, int] = field(default_factory=dict)

    # ---- the request

    @property
    def place(self) -> Place:
        machine = self.message.job_spec.worker_pool_specs[0].machine_spec.machine_type
        strategy = STRATEGIES[self.message.job_spec.scheduling.strategy]
        affinity = self.message.job_spec.worker_pool_specs[0].machine_spec.reservation_affinity
        if affinity.reservation_affinity_type == 3:  # SPECIFIC_RESERVATION
            strategy = "reservation"
        return Place(self.message.name.split("/")[3], machine, strategy)

    @property
    def tries_again(self) -> bool:
        return not self.message.job_spec.scheduling.disable_retries

    @property
    def over(self) -> bool:
        return self.state in (SUCCEEDED, FAILED, CANCELLED, EXPIRED)

    def may(self, what: str, most: int) -> bool:
        """Whether Vertex AI retries after this cause; counts the retry."""
        self.counts[what] = self.counts.get(what, 0) + 1
        return self.tries_again and self.counts[what] <= most

    # ---- events

    def settle(self, now: datetime) -> None:
        """Carries out everything that is due."""
        while not self.over and self._step(now):
            pass

    def cancel(self, now: datetime) -> None:
        if self.machines and self.state == RUNNING:
            self.state = CANCELLING
            self._terminate("cancelled", now)
        elif self.state != CANCELLING:
            self._end(now, CANCELLED, job_errors.cancellation_error())

    def lose(self, name: str, now: datetime, *, noticed: bool = True) -> None:
        """Removes one of its machines without a notice.

        Args:
            noticed: Whether Vertex AI reacts to the loss; if not, only the other machines can.
        """
        machine = next(machine for machine in self.machines if machine.name == name)
        machine.vanished = not noticed
        machine.end()
        if noticed:
            self._replace(name, "lost", now)

    def take(self, now: datetime) -> None:
        """Removes its Spot machines at once, because Google's notice is best effort."""
        self._stop("preempted", now)
        self._end(now, FAILED, job_errors.stockout(self.place.region))

    def _step(self, now: datetime) -> bool:
        if self.ending:
            return self._finish(now)
        if self.state == RUNNING:
            return self._work(now)
        if self.state == QUEUED:
            return self._queue(now)
        return self._provision(now)

    def _queue(self, now: datetime) -> bool:
        if not self.region.has_quota(self):
            return False
        self.state, self.asks = PENDING, now + timedelta(seconds=self.region.provisioning_s)
        return True

    def _provision(self, now: datetime) -> bool:
        assert self.asks
        if now < self.asks:
            return False
        if refused := self.region.refusal(self.message):
            return self._end(now, FAILED, refused)
        if self.region.has_capacity(self.place, now):
            return self._start(now)
        if self.place.strategy == "flex_start":
            waits = self.message.job_spec.scheduling
            limit_s = waits.max_wait_duration.ToSeconds() if waits.HasField("max_wait_duration") else DAY_S
            if limit_s and now >= self.created + timedelta(seconds=limit_s):
                return self._end(now, EXPIRED, None)
            return False
        if self.may("stockout", STOCKOUTS):
            return self._again(now)
        return self._end(now, FAILED, job_errors.stockout(self.place.region))

    def _again(self, now: datetime) -> bool:
        self.state, self.asks = PENDING, now + timedelta(seconds=self.region.pause_s)
        return True

    def _start(self, now: datetime) -> bool:
        self.machines = self.machines or self.region.machines.of(self.message)
        for machine in self.machines:
            machine.start()
        self.state, self.started = RUNNING, self.started or now
        self.spells.append(Spell(now))
        self.preempted = self.region.capacity_ends(self.place, now) if self.place.strategy == "spot" else None
        return True

    def _work(self, now: datetime) -> bool:
        codes = {machine: machine.code for machine in self.machines}
        if codes[self.machines[0]] == 0:
            self._stop("succeeded", now)
            return self._end(now, SUCCEEDED, None)
        for machine, code in codes.items():
            if code:
                return self._fail(machine.name, code, now)
        limit_s = self.message.job_spec.scheduling.timeout.ToSeconds() or WEEK_S
        if now >= self.spells[-1].began + timedelta(seconds=limit_s):
            return self._terminate("timeout", now)
        if self.preempted and now >= self.preempted:
            return self._terminate("preempted", now)
        return False

    def _terminate(self, why: str, now: datetime) -> bool:
        """Sends SIGTERM to every program; SIGKILL follows later."""
        for machine in self.machines:
            machine.terminate()
        self.ending = (why, now + timedelta(seconds=self.region.notice_s))
        return True

    def _finish(self, now: datetime) -> bool:
        assert self.ending
        why, last = self.ending
        codes = [machine.code for machine in self.machines]
        if now < last and None in codes:
            return False
        self.ending = None
        self._stop(why, now)
        if codes[0] == 0:
            return self._end(now, SUCCEEDED, None)
        if why == "cancelled":
            return self._end(now, CANCELLED, job_errors.cancellation_error())
        if why == "timeout":
            return self._end(now, CANCELLED, job_errors.cancellation_error())
        failed = next(((m.name, code) for m, code in zip(self.machines, codes, strict=True) if code), None)
        if self.may("preempted", PREEMPTIONS):
            return self._again(now)
        if failed and failed[1] < 128 and self.region.tells_exit_codes():
            return self._end(now, FAILED, self._exit_error(*failed))
        return self._end(now, FAILED, job_errors.stockout(self.place.region))

    def _fail(self, name: str, code: int, now: datetime) -> bool:
        passing = not self.region.is_common(code)
        if passing and self.may(f"failed {name}", RESTARTS):
            self._restart(name, "failed", now)
            return False
        self._stop("failed", now)
        if (passing or code in job_errors.TRANSIENT) and self.may("transient", TRANSIENT):
            return self._again(now)
        return self._end(now, FAILED, self._exit_error(name, code))

    def _exit_error(self, name: str, code: int) -> JobError:
        return job_errors.exit_error(name, code, self.message.name.split("/")[1], self.message.name.rpartition("/")[2])

    def _replace(self, name: str, why: str, now: datetime) -> None:
        """Replaces a lost machine by one with its host name."""
        if not self.may(f"{why} {name}", RESTARTS):
            self._stop(why, now)
            self._end(now, FAILED, job_errors.internal())
        else:
            self._restart(name, why, now)

    def _restart(self, name: str, why: str, now: datetime) -> None:
        """Restarts the program of one machine, or those of all if the job requests that."""
        if self.message.job_spec.scheduling.restart_job_on_worker_restart:
            self._stop(why, now)
            self._start(now)
            return
        machine = next(machine for machine in self.machines if machine.name == name)
        machine.end()
        self.region.log(self, machine)
        machine.start()

    def _stop(self, why: str, now: datetime) -> None:
        for machine in self.machines:
            machine.end()
            self.region.log(self, machine)
        self.spells[-1].ended, self.spells[-1].why = now, why

    def _end(self, now: datetime, state: int, error: JobError | None) -> bool:
        self.state, self.error, self.ended = state, error, now
        return True

    # ---- output

    def render(self, now: datetime) -> Any:
        """Returns the job at this time; its error may appear after its state."""
        message = new("CustomJob")
        message.CopyFrom(self.message)
        message.state = self.state
        fill_web_access(message)
        set_time(message, "create_time", self.created)
        set_time(message, "start_time", self.started)
        set_time(message, "end_time", self.ended)
        set_time(message, "update_time", self.ended or self.started or self.created)
        if self.error and self.ended and now >= self.ended + timedelta(seconds=self.region.error_late_s):
            message.error.code, message.error.message = self.error.code, self.error.message
        return message

    def hours(self, now: datetime) -> float:
        """Returns the billed hours with machines."""
        return sum(((spell.ended or now) - spell.began).total_seconds() for spell in self.spells) / 3600
