"""Simulates a job under a policy on a cloud whose supply is unknown, event by event."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from benchmarks.capacity.supply import Supply
from vgp.launch.capacity.policy import Choice, Offer, Record, Situation

#: Whether each rung has machines now; an additional argument of policies that see all supplies.
Sight = tuple[bool, ...] | None
Policy = Callable[[Situation, Sequence[Offer], Sight], Choice]


@dataclass(frozen=True, kw_only=True)
class World:
    """One job and its cloud. With `sees`, the policy knows the supply at any time, as in the paper."""

    offers: tuple[Offer, ...]
    supplies: tuple[Supply, ...]
    work_s: float
    deadline_s: float | None
    checkpoint_s: float = 0.0
    #: Seconds until the cloud refuses a request, and until a launcher learns of an event.
    refusal_s: float = 300.0
    lag_s: float = 0.0
    #: Seconds from the start of a waiting job's machines, which are billed, until the cloud reports that it runs.
    start_s: float = 120.0
    sees: bool = False
    #: The launcher's estimate of the work, as a share of the true work.
    believed: float = 1.0
    can_ask_beside: bool = True
    limit_s: float = math.inf


@dataclass(frozen=True)
class Beside:
    """A job that waits beside another; the launcher learns of its result at `learned_s`."""

    rung: int
    billed_from_s: float
    learned_s: float
    #: Time of the preemption.
    gone_s: float
    granted: bool


@dataclass
class Outcome:
    usd: float = 0.0
    finished_s: float = math.inf
    starts: int = 0
    preemptions: int = 0
    asked_beside: int = 0
    refusals: int = 0
    decisions: int = 0
    #: The log of actions, with times in seconds.
    events: list[tuple[float, str, int | None]] = field(default_factory=list)

    @property
    def change_overs(self) -> int:
        return max(self.starts - 1, 0)


class Simulation:
    def __init__(self, world: World, policy: Policy) -> None:
        self.world, self.policy, self.outcome = world, policy, Outcome()
        self.now = self.done = 0.0
        self.on: int | None = None
        #: Times of the present job: creation, machines, training; and the work done when its training began.
        self.asked = self.granted = self.ready = math.inf
        self.base = 0.0
        self.records = [Record() for _ in world.offers]
        self.beside: Beside | None = None

    def run(self) -> Outcome:
        limit = self.world.limit_s
        while self.done < self.world.work_s - 1e-6 and self.now < limit:
            choice = self.policy(self.situation(), self.world.offers, self.sight())
            self.outcome.decisions += 1
            self.apply(choice)
            self.advance(min(self.now + max(choice.look_again_s, 1.0), limit))
        if self.done >= self.world.work_s - 1e-6:
            self.outcome.finished_s = self.now
        self.end_beside()
        return self.outcome

    def situation(self) -> Situation:
        world, on = self.world, self.on
        records = self.records
        running = on is not None and self.granted <= self.now
        if running and on is not None:
            records = records.copy()
            records[on] = replace(records[on], held_s=records[on].held_s + self.now - self.granted)
        return Situation(
            now_s=self.now,
            deadline_s=world.deadline_s,
            work_left_s=max(world.work_s * world.believed - self.saved(), 1.0),
            on=on,
            running=running,
            asked_s=None if on is None else self.asked,
            records=tuple(records),
            at_risk_s=world.checkpoint_s,
            next_on=self.beside.rung if self.beside else None,
            next_running=self.beside is not None and self.beside.granted and self.beside.learned_s <= self.now,
            can_ask_beside=world.can_ask_beside,
        )

    def sight(self) -> Sight:
        return tuple(supply.at(self.now) for supply in self.world.supplies) if self.world.sees else None

    def saved(self) -> float:
        """Returns the work in the newest checkpoint."""
        every = self.world.checkpoint_s
        if not every or self.on is None or self.now <= self.ready:
            return self.done
        speed = self.world.offers[self.on].speed
        return self.base + math.floor((self.now - self.ready) / every) * every * speed

    def apply(self, choice: Choice) -> None:
        if choice.rung != self.on:
            self.move(choice.rung)
        elif choice.beside is None:
            self.end_beside()
        elif self.beside is None:
            self.beside = self.asked_for(choice.beside)
            self.outcome.asked_beside += 1

    def move(self, rung: int | None) -> None:
        """Moves to another rung; uses the machines of the waiting job if it is on that rung and has them."""
        beside = self.beside
        self.end_beside()
        self.left()
        self.on = rung
        if rung is not None:
            self.asked = self.now
        if beside and rung == beside.rung and beside.granted and beside.learned_s <= self.now:
            self.began(rung)

    def asked_for(self, rung: int) -> Beside:
        """Requests machines of a rung, which come if there are any before the refusal, and may go before their use."""
        world, supply, now = self.world, self.world.supplies[rung], self.now
        got_s = now if supply.at(now) else supply.next_change(now)
        if got_s > now + world.refusal_s:
            refused_s = now + world.refusal_s
            return Beside(rung, refused_s, refused_s + world.lag_s, refused_s, False)
        gone_s = supply.next_change(got_s)
        runs_s = min(got_s + world.start_s, gone_s)
        return Beside(rung, got_s, runs_s + world.lag_s, gone_s, gone_s > runs_s + world.lag_s)

    def bill(self, beside: Beside) -> None:
        held_s = max(min(self.now, beside.gone_s) - beside.billed_from_s, 0.0)
        self.outcome.usd += held_s * (self.world.offers[beside.rung].usd_per_hour or 0.0) / 3600

    def end_beside(self) -> None:
        """Ends the waiting job, and bills its machines."""
        if self.beside:
            self.bill(self.beside)
            self.beside = None

    def left(self) -> None:
        """Ends the present job with all its work saved."""
        if self.on is not None and self.granted <= self.now:
            record = self.records[self.on]
            self.records[self.on] = replace(record, held_s=record.held_s + self.now - self.granted)
        self.on, self.asked, self.granted, self.ready = None, math.inf, math.inf, math.inf

    def advance(self, until: float) -> None:
        """Advances to the next event, or to `until`."""
        world, on = self.world, self.on
        if world.sees:
            until = min(until, *(supply.next_change(self.now) for supply in world.supplies))
        if self.beside:
            until = min(
                until, max(self.beside.learned_s, self.now) if self.beside.learned_s > self.now else self.beside.gone_s
            )
        if on is None:
            self.pass_to(until)
        elif self.granted == math.inf:
            self.wait(on, until)
        else:
            self.train(on, until)
        if self.beside and self.beside.learned_s <= self.now:
            self.beside_told(self.beside)

    def wait(self, on: int, until: float) -> None:
        supply, offer = self.world.supplies[on], self.world.offers[on]
        if supply.at(self.now):
            self.began(on)
            self.train(on, until)
            return
        ends = self.asked + (self.world.refusal_s if offer.max_wait_s is None else offer.max_wait_s)
        self.pass_to(min(until, ends, supply.next_change(self.now)))
        if self.now >= ends and not supply.at(self.now):
            self.refused(on)

    def began(self, on: int) -> None:
        """Starts the job of a rung that has its machines."""
        self.granted, self.ready = self.now, self.now + self.world.offers[on].change_over_s
        self.base = self.done
        self.records[on] = replace(self.records[on], granted_s=(*self.records[on].granted_s, self.now))
        self.outcome.starts += 1

    def refused(self, on: int) -> None:
        self.records[on] = replace(self.records[on], refused_s=(*self.records[on].refused_s, self.now))
        self.outcome.refusals += 1
        self.left()
        self.pass_to(self.now + self.world.lag_s)

    def train(self, on: int, until: float) -> None:
        offer = self.world.offers[on]
        ends = max(self.ready, self.now) + (self.world.work_s - self.done) / offer.speed
        gone = math.inf if offer.stays else self.world.supplies[on].next_change(self.now)
        until = min(until, ends, gone)
        self.outcome.usd += (until - self.now) * (offer.usd_per_hour or 0.0) / 3600
        self.done += max(until - max(self.ready, self.now), 0.0) * offer.speed
        self.now = until
        if until == gone and until < ends:
            self.preempted(on)

    def preempted(self, on: int) -> None:
        self.done = self.saved()
        self.left()
        record = self.records[on]
        self.records[on] = replace(record, preempted_s=(*record.preempted_s, self.now))
        self.outcome.preemptions += 1
        self.pass_to(self.now + self.world.lag_s)

    def beside_told(self, beside: Beside) -> None:
        if beside.granted and beside.gone_s > self.now:
            return
        record = self.records[beside.rung]
        self.records[beside.rung] = replace(record, refused_s=(*record.refused_s, self.now))
        self.end_beside()

    def pass_to(self, until: float) -> None:
        self.now = max(until, self.now)


def simulate(world: World, policy: Policy) -> Outcome:
    """Runs the job to its end and returns the outcome."""
    return Simulation(world, policy).run()
