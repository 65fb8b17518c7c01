"""The input and output of a choice, and the figures derived from a situation: price of work, net, slack."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

# ---- the input and output of policy.py


Strategy = Literal["standard", "spot", "flex_start", "reservation"]


@dataclass(frozen=True, kw_only=True)
class Offer:
    """A rung with the properties that a choice depends on; `index` is its position in the sequence for `decide`."""

    index: int
    strategy: Strategy
    #: The price of all machines of the job; None if unknown.
    usd_per_hour: float | None = None
    #: Work per hour, relative to the first rung.
    speed: float = 1.0
    #: How long the cloud searches for machines before it gives up; None if unknown.
    max_wait_s: float | None = None
    #: From the end of another job until this one trains from there, without the wait for machines.
    change_over_s: float = 600.0

    @property
    def stays(self) -> bool:
        """Whether its machines are never preempted."""
        return self.strategy != "spot"

    @property
    def is_net(self) -> bool:
        """Whether it can be a fallback: its machines are not preempted and have no queue."""
        return self.strategy in ("standard", "reservation")


@dataclass(frozen=True, kw_only=True)
class Record:
    """The history of a rung; times in seconds on the clock of `Situation.now_s`, oldest first."""

    #: When a job got no machines: stockout, expired wait, quota, or ended while it waited.
    refused_s: tuple[float, ...] = ()
    #: When a job got its machines.
    granted_s: tuple[float, ...] = ()
    #: When machines were preempted.
    preempted_s: tuple[float, ...] = ()
    #: Total time that jobs had machines of this rung.
    held_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Situation:
    """The input of a choice; times in seconds on one clock."""

    now_s: float
    deadline_s: float | None
    #: From the newest checkpoint to the end, in seconds on a rung of speed 1; the whole timeout if unknown.
    work_left_s: float
    #: The rung of the current job, with or without machines; None if there is no job.
    on: int | None = None
    #: Whether that job has its machines.
    running: bool = False
    #: When it was created.
    asked_s: float | None = None
    #: One for each offer, in their order; empty if no rung has been asked.
    records: tuple[Record, ...] = ()
    #: The most work that a preemption can lose, in seconds: the interval of the checkpoints.
    at_risk_s: float = 0.0
    #: The rung of the waiting job, which is to replace the current one.
    next_on: int | None = None
    #: Whether that job has its machines.
    next_running: bool = False
    #: Whether the launcher may create a waiting job.
    can_ask_beside: bool = True


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The next action.

    `rung` is the rung of the job: the current one (stay), another one (end the current job, which saves a checkpoint,
    and create a job there), or None (create no job; only if there is none). `beside` is the rung for which a job waits
    while the current job works; None cancels a waiting job. `why` is a sentence for the log.
    """

    rung: int | None
    look_again_s: float
    why: str
    beside: int | None = None


#: The shortest and longest pause after a refusal, with and without a deadline, seconds.
PAUSES_S, PAUSES_WITHOUT_DEADLINE_S = (60.0, 300.0), (120.0, 1800.0)
#: Time kept in reserve because calls delay the launcher, seconds.
MARGIN_S = 120.0
#: How much earlier to ask for on demand after each refusal, up to three, seconds.
HARD_TO_GET_S = 1800.0
#: The prior for the life of a Spot machine, seconds: counts as one preemption after this time.
PRIOR_LIFE_S = 4 * 3600.0
#: The slack reserved for later change-overs, as a share of the remaining work. Between 0.07 and 0.14 the
#: simulation shows little difference (docs/internals/benchmarks.md).
RESERVE = 0.12
#: Price of work by strategy (on demand = 1), used if a price of the ladder is unknown.
USUAL_PRICES: dict[Strategy, float] = {"reservation": 0.0, "spot": 0.4, "flex_start": 0.6, "standard": 1.0}


class Prospect:
    """A situation and its offers, with the figures derived from them; times in seconds."""

    def __init__(self, situation: Situation, offers: Sequence[Offer], records: Sequence[Record]) -> None:
        self.situation, self.offers, self.records = situation, offers, records
        self.left_s = inf if situation.deadline_s is None else situation.deadline_s - situation.now_s
        self._priced = all(offer.usd_per_hour is not None for offer in offers)
        nets = [offer for offer in offers if offer.is_net] or [offer for offer in offers if offer.stays]
        self._nets = sorted(nets, key=lambda offer: (self.price(offer), offer.index))
        #: How long on demand can still wait, on the rung that finishes first.
        self.slack_s = max((self.left_s - self.net_s(offer) for offer in nets), default=inf)
        self.net = self._net()

    def _net(self) -> Offer | None:
        """Returns the cheapest fallback rung that finishes in time and has not just refused, else the first to
        finish."""
        in_time = [offer for offer in self._nets if self.net_s(offer) <= self.left_s]
        ready = [offer for offer in in_time if not self.open_in_s(offer)]
        late = sorted(self._nets, key=lambda offer: (self.open_in_s(offer) > 0, self.net_s(offer)))
        return next(iter([*ready, *in_time, *late]), None)

    def cheaper(self, than: Offer | None) -> list[Offer]:
        """Returns the rungs with a lower price of work than `than`, cheapest first; all rungs for None."""
        rungs = [offer for offer in self.offers if than is None or self.price(offer) < self.price(than)]
        return sorted(rungs, key=lambda offer: (self.price(offer), offer.index))

    def price(self, offer: Offer) -> float:
        """Returns the price of an hour of work at speed 1, in USD, or relative to on demand if a price is unknown."""
        if self._priced and offer.usd_per_hour is not None:
            return offer.usd_per_hour / offer.speed
        return USUAL_PRICES[offer.strategy]

    def work_s(self, offer: Offer) -> float:
        """Returns how long the remaining work takes on a rung."""
        return self.situation.work_left_s / offer.speed

    def net_s(self, offer: Offer) -> float:
        """Returns how long it takes to start and finish on a rung without preemption; more after refusals."""
        queue = 0.0 if offer.is_net else offer.max_wait_s or 0.0
        refusals = HARD_TO_GET_S * min(len(self.records[offer.index].refused_s), 3)
        return queue + refusals + offer.change_over_s + self.work_s(offer) + MARGIN_S

    def life_s(self, offer: Offer) -> float:
        """Returns the expected time until a preemption, from the history and a prior of `PRIOR_LIFE_S`."""
        record = self.records[offer.index]
        return inf if offer.stays else (record.held_s + PRIOR_LIFE_S) / (len(record.preempted_s) + 1)

    def failures(self, offer: Offer) -> list[float]:
        """Returns when a rung failed after its last use: refusals, and preemptions before the training began."""
        record = self.records[offer.index]
        preempted = record.preempted_s[-10:]
        #: For each grant, when the machines were preempted before the training began, or None.
        losses = {
            at: min((lost for lost in preempted if at < lost <= at + offer.change_over_s), default=None)
            for at in record.granted_s[-10:]
        }
        last_use = max((at for at, lost in losses.items() if lost is None), default=-inf)
        failures = [*record.refused_s[-10:], *(lost for lost in losses.values() if lost is not None)]
        return sorted(at for at in failures if at > last_use)

    def open_in_s(self, offer: Offer) -> float:
        """Returns how long until a rung that failed may be asked again; doubles with each failure in a row."""
        if not (failures := self.failures(offer)):
            return 0.0
        least, most = PAUSES_S if self.left_s < inf else PAUSES_WITHOUT_DEADLINE_S
        pause = min(least * 2.0 ** (len(failures) - 1), most)
        return max(failures[-1] + pause - self.situation.now_s, 0.0)

    def entry_s(self, offer: Offer) -> float:
        """Returns the most slack that trying a rung can take: to start, and to lose unsaved work."""
        return offer.change_over_s + (0.0 if offer.stays else self.situation.at_risk_s) + MARGIN_S

    def fits_s(self, offer: Offer) -> float:
        """Returns how long a rung can still be tried with on demand finishing in time if it fails; below 0: too late.

        A rung without preemption must finish in time itself.
        """
        safe = self.slack_s - self.entry_s(offer)
        return min(self.slack_s, self.left_s - self.entry_s(offer) - self.work_s(offer)) if offer.stays else safe

    def reserve_s(self, offer: Offer) -> float:
        """Returns the slack that waiting for a rung must leave for later change-overs."""
        return RESERVE * self.work_s(offer)

    def return_cost(self, on: Offer) -> float:
        """Returns the cost of going back to on demand, in the unit of `gain`."""
        return (on.change_over_s * on.speed + self.situation.at_risk_s / 2) * self.price(on)

    def gain(self, on: Offer, offer: Offer) -> float:
        """Returns the expected saving of leaving `on` for a Spot rung, in USD x 3600 (or relative to on demand)."""
        needed = self.work_s(offer) + offer.change_over_s
        life = min(self.life_s(offer), needed)
        worked = max(life - offer.change_over_s, 0.0) * offer.speed
        start = offer.change_over_s * offer.speed * self.price(offer)
        return worked * (self.price(on) - self.price(offer)) - start - (self.return_cost(on) if life < needed else 0.0)
