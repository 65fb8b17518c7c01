"""What follows from a situation: prices of work, the net, the slack, and what trying a rung takes of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

# ---- what a choice of a rung depends on, and the choice: values of policy.py


Strategy = Literal["standard", "spot", "flex_start", "reservation"]


@dataclass(frozen=True, kw_only=True)
class Offer:
    """A rung, as far as a choice goes by it; `index` is its place in the sequence that `decide` is given."""

    index: int
    strategy: Strategy
    #: Of all machines of the job together; None where no price is known.
    usd_per_hour: float | None = None
    #: Work of an hour on it; the first rung's is 1.
    speed: float = 1.0
    #: How long the cloud looks for machines before it gives up; None: nobody knows.
    max_wait_s: float | None = None
    #: From the end of another job until this one trains where that stopped, waiting for machines not counted.
    change_over_s: float = 600.0

    @property
    def stays(self) -> bool:
        """Whether its machines are never taken away."""
        return self.strategy != "spot"

    @property
    def is_net(self) -> bool:
        """Whether it is there when all else fails: machines that stay, without a queue."""
        return self.strategy in ("standard", "reservation")


@dataclass(frozen=True, kw_only=True)
class Record:
    """What a rung has shown so far; times in seconds on the clock of `Situation.now_s`, oldest first."""

    #: When a job got no machines: stockout, expired wait, quota, or left while it waited.
    refused_s: tuple[float, ...] = ()
    #: When a job got its machines.
    granted_s: tuple[float, ...] = ()
    #: When machines were taken away.
    preempted_s: tuple[float, ...] = ()
    #: How long jobs have had machines of it, in all.
    held_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Situation:
    """All that a choice depends on; times in seconds on one clock."""

    now_s: float
    deadline_s: float | None
    #: From the newest checkpoint to the end, in seconds on a rung of speed 1; unknown: the whole timeout.
    work_left_s: float
    #: The rung that the present job is on, whether it waits or has machines; None: there is no job.
    on: int | None = None
    #: Whether that job has its machines.
    running: bool = False
    #: When it was created.
    asked_s: float | None = None
    #: One for every offer, in their order; empty: nothing has been asked.
    records: tuple[Record, ...] = ()
    #: Work that is lost at most when machines are taken away, in seconds: the checkpoints' interval.
    at_risk_s: float = 0.0
    #: The rung of the job that waits beside the present one, to follow it.
    next_on: int | None = None
    #: Whether that job has its machines.
    next_running: bool = False
    #: Whether the launcher may ask for machines beside the present job.
    can_ask_beside: bool = True


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What to do now.

    `rung` is where the job belongs: the present one (stay), another (end the present job, which saves, and create one
    there), or None (no job; only where there is none). `beside` is the rung that is asked for machines while the
    present job works: a job waits for them there, and for no others. `why` is a sentence for the log.
    """

    rung: int | None
    look_again_s: float
    why: str
    beside: int | None = None


#: The least and most that is waited after a refusal: with a deadline, and without one, where nothing presses, seconds.
PAUSES_S, PAUSES_WITHOUT_DEADLINE_S = (60.0, 300.0), (120.0, 1800.0)
#: A launcher is late by a call or two: this much is never counted on, seconds.
MARGIN_S = 120.0
#: How much earlier on demand is asked for each time that it has refused, up to three times, seconds.
HARD_TO_GET_S = 1800.0
#: A Spot machine's life before anything is known of it, seconds: as if one had been lost after so long.
PRIOR_LIFE_S = 4 * 3600.0
#: The slack that is kept for change-overs to come, as a share of the remaining work. Between 0.07 and 0.14 the
#: simulation shows little difference (docs/internals/benchmarks.md).
RESERVE = 0.12
#: What work costs by its strategy, on demand = 1, where a ladder's prices are not all known.
USUAL_PRICES: dict[Strategy, float] = {"reservation": 0.0, "spot": 0.4, "flex_start": 0.6, "standard": 1.0}


class Prospect:
    """A situation and its offers, with what follows from both; times in seconds."""

    def __init__(self, situation: Situation, offers: Sequence[Offer], records: Sequence[Record]) -> None:
        self.situation, self.offers, self.records = situation, offers, records
        self.left_s = inf if situation.deadline_s is None else situation.deadline_s - situation.now_s
        self._priced = all(offer.usd_per_hour is not None for offer in offers)
        nets = [offer for offer in offers if offer.is_net] or [offer for offer in offers if offer.stays]
        self._nets = sorted(nets, key=lambda offer: (self.price(offer), offer.index))
        #: How long on demand can still wait, on the rung that finishes first: the safety of every move.
        self.slack_s = max((self.left_s - self.net_s(offer) for offer in nets), default=inf)
        self.net = self._net()

    def _net(self) -> Offer | None:
        """The cheapest rung on demand that finishes in time and has not just refused; else the one to finish first."""
        in_time = [offer for offer in self._nets if self.net_s(offer) <= self.left_s]
        ready = [offer for offer in in_time if not self.open_in_s(offer)]
        late = sorted(self._nets, key=lambda offer: (self.open_in_s(offer) > 0, self.net_s(offer)))
        return next(iter([*ready, *in_time, *late]), None)

    def cheaper(self, than: Offer | None) -> list[Offer]:
        """The rungs whose work costs less, the cheapest first; of no rung: all."""
        rungs = [offer for offer in self.offers if than is None or self.price(offer) < self.price(than)]
        return sorted(rungs, key=lambda offer: (self.price(offer), offer.index))

    def price(self, offer: Offer) -> float:
        """Of the work of an hour at speed 1, in USD; in shares of on demand where a price is not known."""
        if self._priced and offer.usd_per_hour is not None:
            return offer.usd_per_hour / offer.speed
        return USUAL_PRICES[offer.strategy]

    def work_s(self, offer: Offer) -> float:
        """How long the remaining work takes on a rung."""
        return self.situation.work_left_s / offer.speed

    def net_s(self, offer: Offer) -> float:
        """How long it takes to finish on a rung that stays and that nobody is on; more if it has refused before."""
        queue = 0.0 if offer.is_net else offer.max_wait_s or 0.0
        refusals = HARD_TO_GET_S * min(len(self.records[offer.index].refused_s), 3)
        return queue + refusals + offer.change_over_s + self.work_s(offer) + MARGIN_S

    def life_s(self, offer: Offer) -> float:
        """How long its machines are kept on average: what was seen, and one life of `PRIOR_LIFE_S`."""
        record = self.records[offer.index]
        return inf if offer.stays else (record.held_s + PRIOR_LIFE_S) / (len(record.preempted_s) + 1)

    def failures(self, offer: Offer) -> list[float]:
        """When a rung failed since it last was of use: refusals, and machines taken away before they trained."""
        record = self.records[offer.index]
        taken = record.preempted_s[-10:]
        short = {
            at: min((lost for lost in taken if at < lost <= at + offer.change_over_s), default=None)
            for at in record.granted_s[-10:]
        }
        useful = max((at for at, lost in short.items() if lost is None), default=-inf)
        failed = [*record.refused_s[-10:], *(lost for lost in short.values() if lost is not None)]
        return sorted(at for at in failed if at > useful)

    def open_in_s(self, offer: Offer) -> float:
        """How long until a rung that failed is asked again; it doubles with each failure in a row."""
        if not (failed := self.failures(offer)):
            return 0.0
        least, most = PAUSES_S if self.left_s < inf else PAUSES_WITHOUT_DEADLINE_S
        pause = min(least * 2.0 ** (len(failed) - 1), most)
        return max(failed[-1] + pause - self.situation.now_s, 0.0)

    def entry_s(self, offer: Offer) -> float:
        """The slack that trying a rung takes at most: to start, and to lose what is not saved."""
        return offer.change_over_s + (0.0 if offer.stays else self.situation.at_risk_s) + MARGIN_S

    def fits_s(self, offer: Offer) -> float:
        """How long a rung can still be tried so that on demand finishes in time whatever becomes of it; below 0: not.

        One that stays is not taken away, so it must finish in time itself.
        """
        safe = self.slack_s - self.entry_s(offer)
        return min(self.slack_s, self.left_s - self.entry_s(offer) - self.work_s(offer)) if offer.stays else safe

    def reserve_s(self, offer: Offer) -> float:
        """The slack that is not spent on waiting for a rung, for the change-overs to come."""
        return RESERVE * self.work_s(offer)

    def returns(self, on: Offer) -> float:
        """What going back on demand costs, as `gain`."""
        return (on.change_over_s * on.speed + self.situation.at_risk_s / 2) * self.price(on)

    def gain(self, on: Offer, offer: Offer) -> float:
        """What leaving `on` for a Spot rung is expected to save, in USD x 3600 (or shares of on demand)."""
        needed = self.work_s(offer) + offer.change_over_s
        life = min(self.life_s(offer), needed)
        worked = max(life - offer.change_over_s, 0.0) * offer.speed
        start = offer.change_over_s * offer.speed * self.price(offer)
        return worked * (self.price(on) - self.price(offer)) - start - (self.returns(on) if life < needed else 0.0)
